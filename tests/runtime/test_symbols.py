"""Sizes that the model calls by one name: the runtime compares them, for Python and for C."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import runtime_programs as programs
from numc.compiler.programs.compile import compile
from numc.frontends.imported import Argument, Imported
from numc.runtime import Program, SizeSymbol, load
from numc.runtime.library import ErrorText, Tensor, library
from numc.support.errors import NumcError

ADD = """
func.func @main(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = linalg.add ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%a : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}"""


@pytest.fixture(scope="module")
def program() -> Program:
    arguments = tuple(Argument(n, "float32", (-1, -1), ("batch", "width")) for n in ("a", "b"))
    outputs = (Argument("y", "float32", (-1, -1)),)
    return compile(Imported(mlir=ADD, inputs=arguments, outputs=outputs, ranges={"width": (2, 4)}))


def c_error(program: Program, *arrays: np.ndarray) -> tuple[int, str]:
    """The status of numc_run and its text."""
    given, taken, error = (Tensor * len(arrays))(), Tensor(), ErrorText()
    for slot, array in zip(given, arrays, strict=True):
        slot.data, slot.rank, slot.dims[: array.ndim] = array.ctypes.data, array.ndim, array.shape
    status = library().numc_run(program._handle, given, np.ctypeslib.ctypes.byref(taken), 0, error.reference())
    return status, error.take()


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ((3, 2), (2, 2), "input 'b': size 'batch' is 2, but input 'a' has 3: want the same in both"),
        ((3, 0), (3, 0), "input 'a': size 'width' is 0, want 2 to 4"),
        ((0, 2), (2, 2), "input 'b': size 'batch' is 2, but input 'a' has 0: want the same in both"),
        ((3, 2), (3, 3), "input 'b': size 'width' is 3, but input 'a' has 2: want the same in both"),
        ((3, 1), (3, 1), "input 'a': size 'width' is 1, want 2 to 4"),
        ((3, 4), (3, 5), "input 'b': size 'width' is 5, want 2 to 4"),
    ],
)
def test_sizes_of_one_name_must_agree_and_fit(program, tmp_path, a, b, text):
    program.save(tmp_path / "p.numc")
    for each in (program, load(tmp_path / "p.numc")):
        one = np.ones((3, 2), np.float32)
        np.testing.assert_array_equal(each(one, one), 2 * one)
        arrays = [np.ones(shape, np.float32) for shape in (a, b)]
        with pytest.raises(NumcError) as caught:
            each(*arrays)
        assert str(caught.value) == text
        assert c_error(each, *arrays) == (-1, text)


def test_a_size_may_be_zero(program):
    nothing = np.ones((0, 2), np.float32)
    assert program(nothing, nothing).shape == (0, 2)


@pytest.mark.parametrize("place", [(1, 0), (0, 2)])
def test_a_size_of_no_input_is_refused(place):
    contents = programs.add()
    abi = dataclasses.replace(contents.abi, symbols=(SizeSymbol("n", 1, 9, ((0, 0), place)),))
    with pytest.raises(NumcError, match=r"^program: damaged program file \(size 'n' is of no input\)$"):
        Program(dataclasses.replace(contents, abi=abi))
