"""The argument `widths` of a run: what it can be, how it is refused, and the same from C."""

from __future__ import annotations

import ctypes
import dataclasses

import numpy as np
import pytest

import runtime_programs as programs
from numc.runtime import Program
from numc.runtime.abi import WidthRange, decode_abi, encode_abi
from numc.runtime.library import ErrorText, RunOptions, Tensor, Width, library
from numc.runtime.widths import choose
from numc.support.errors import NumcError

RANGES = (
    WidthRange("conv1", "a", (3, 3), (2, 4)),
    WidthRange("conv1", "b", (3, 3), (2, 4)),
    WidthRange("conv2", "a", (2, 8), (1, 23)),
    WidthRange("conv2", "product", (2, 8), (3, 3)),
)
WIDEST = [(3, 4), (3, 4), (8, 23), (8, 3)]


@pytest.fixture(scope="module")
def program() -> Program:
    """A program that says of itself that it has widths to choose."""
    contents = programs.add()
    return Program(dataclasses.replace(contents, abi=dataclasses.replace(contents.abi, widths=RANGES)))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, WIDEST),
        ({}, WIDEST),
        ({"conv1": 2}, [(3, 2), (3, 2), *WIDEST[2:]]),
        ({"conv1": (3, 3), "conv2": {"a": [5, 2], "product": 4}}, [(3, 3), (3, 3), (5, 2), (4, 3)]),
        ({"*": {"a": (3, 3)}, "conv2": {"a": (4, 1)}}, [(3, 3), (3, 4), (4, 1), (8, 3)]),
        ({"conv2": {"a": (4, 1)}, "*": {"a": (3, 3)}}, [(3, 3), (3, 4), (3, 3), (8, 3)]),
    ],
)
def test_what_a_run_chooses(given, found):
    assert choose(RANGES, given) == found


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (3, "layer 'conv2', a: got 3, want a pair: exponent bits and significand bits"),
        ({"conv1": 5}, "layer 'conv1', a: got 5 significand bits, want 2 to 4"),
        ({"conv1": {"b": 1}}, "layer 'conv1', b: got 1 significand bits, want 2 to 4"),
        ({"conv1": (2, 3)}, "layer 'conv1', a: got 2 exponent bits, want 3"),
        ({"conv2": (9, 3)}, "layer 'conv2', a: got 9 exponent bits, want 2 to 8"),
        ({"conv1": True}, "layer 'conv1', a: got True, want a number, a pair"),
        ({"conv1": 2.0}, "layer 'conv1', a: got 2.0, want a number, a pair"),
        ({"conv1": (1, 2, 3)}, "layer 'conv1', a: got (1, 2, 3), want a number, a pair"),
        ({"conv1": "e3m2"}, "layer 'conv1', a: got e3m2, want a number, a pair"),
        (
            {"conv3": 2},
            "layer 'conv3' has none to choose (did you mean 'conv2' or 'conv1'?): those that have are 'conv1', 'conv2'",
        ),
        ({"conv1": {"c": 2}}, "layer 'conv1': operand c has none to choose: want a, b"),
        ({1: 2}, "got 1, want the name of a layer"),
    ],
)
def test_what_is_refused(program, given, error):
    with pytest.raises(NumcError) as caught:
        program(np.zeros((1, 4), np.float32), widths=given)
    assert str(caught.value).startswith(f"widths: {error}")


def test_a_program_without_open_widths():
    with pytest.raises(NumcError) as caught:
        Program(programs.add())(np.zeros((1, 4), np.float32), widths=3)
    assert str(caught.value) == (
        "widths: this program has none to choose: compile it with open ones, such as bfp(16,3,2..4)"
    )


def test_a_file_and_its_damage(program):
    contents = program.contents
    data = encode_abi(contents.abi, contents.weights)
    assert decode_abi(data)[0].widths == program.widths == RANGES
    for end, text in ((b"\x18\0\0\0", "widths of layer 'conv2'"), (b"\x02\0\0\0", "widths of layer 'conv2'")):
        pointers = (ctypes.c_void_p * 1)(contents.weights[0].ctypes.data)
        error, damaged = ErrorText(), data[:-4] + end
        made = library().numc_program_from_parts(
            None, damaged, len(damaged), contents.code, len(contents.code), pointers, 1, error.reference()
        )
        assert not made
        assert text in error.take()


class _Range(ctypes.Structure):
    _fields_ = (("layer", ctypes.c_char_p), ("operand", ctypes.c_char_p), ("limits", ctypes.c_int32 * 4))


def test_from_c(program):
    """The block of arguments of numc_run_with, and its errors."""
    c, handle = library(), program._handle
    found = _Range()
    assert c.numc_width_count(handle) == 4
    assert c.numc_width_at(handle, 2, ctypes.byref(found)) == 0
    assert (found.layer, found.operand, list(found.limits)) == (b"conv2", b"a", [2, 8, 1, 23])
    assert c.numc_width_at(handle, 4, ctypes.byref(found)) == c.numc_width_at(handle, -1, ctypes.byref(found)) == -1
    x = np.zeros((1, 4), np.float32)
    given, taken = (Tensor * 1)(), (Tensor * 1)()
    given[0].data, given[0].rank, given[0].dims[:2] = x.ctypes.data, 2, [1, 4]

    def error_of(size: int, widths: list[tuple[int, int]]) -> str:
        options = RunOptions(size, 1, 0, 0, (Width * 4)(*(Width(*each) for each in widths)))
        error = ErrorText()
        code = c.numc_run_with(handle, given, taken, ctypes.byref(options), error.reference())
        if code == 0:
            c.numc_tensor_release(ctypes.byref(taken[0]))
        return "" if code == 0 else error.take()

    size = ctypes.sizeof(RunOptions)
    assert error_of(size, WIDEST) == ""
    assert error_of(size, [(3, 5), *WIDEST[1:]]) == "widths: layer 'conv1', a: got 5 significand bits, want 2 to 4"
    assert error_of(size, [*WIDEST[:2], (1, 2), WIDEST[3]]) == (
        "widths: layer 'conv2', a: got 1 exponent bits, want 2 to 8"
    )
    assert error_of(8, WIDEST) == f"numc_run_options: size is 8, want {size}"
