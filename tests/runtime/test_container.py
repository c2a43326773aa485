"""The program file: whole or an error of one line, whatever happened to it."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import runtime_programs as programs
from numc.runtime import (
    Contents,
    Input,
    Program,
    TensorSpec,
    Weight,
    cpu_features,
    feature_names,
    load,
    pack_ir,
    read_program,
    write_program,
)
from numc.runtime.abi import Abi, encode_abi
from numc.runtime.library import ErrorText, library
from numc.support.errors import CompilerBug, NumcError, escaped


@pytest.fixture(scope="module", params=[programs.add, programs.add_packed], ids=lambda made: made.__name__)
def contents(request) -> Contents:
    return request.param()


@pytest.fixture(scope="module")
def whole(tmp_path_factory, contents) -> bytes:
    path = tmp_path_factory.mktemp("container") / "add.numc"
    write_program(path, contents)
    return programs.Quiet(path.read_bytes())


def load_bytes(data: bytes) -> str:
    """Load a container through C from memory; the error text, or the empty string."""
    error = ErrorText()
    handle = library().numc_program_load_memory(data, len(data), error.reference())
    if not handle:
        return error.take()
    library().numc_program_free(handle)
    return ""


def read_bytes(data: bytes, folder) -> str:
    """Read a container through Python; the error text, or the empty string. No other exception may come."""
    path = folder / "changed.numc"
    path.write_bytes(data)
    try:
        read_program(path)
    except NumcError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("changed")


def test_round_trip(tmp_path):
    contents = programs.add()
    weights = (np.arange(4, dtype=np.float32), np.zeros((0, 3), np.int64), np.array(True), np.arange(9, dtype=np.int8))
    named = [Weight(f"w{i}", w.dtype.name, w.shape) for i, w in enumerate(weights)]
    arguments = (named[0], Input("größe", "uint8", (None, 2, 0)), *named[1:])
    abi = dataclasses.replace(contents.abi, arguments=arguments)
    manifest = programs.manifest(contents.code, failures={"1": "ü"})
    contents = dataclasses.replace(contents, abi=abi, weights=weights, manifest=manifest, packed_ir=pack_ir("x" * 9999))
    write_program(tmp_path / "p.numc", contents)
    back = read_program(tmp_path / "p.numc")
    assert (back.abi, back.code, back.manifest, back.ir) == (abi, contents.code, manifest, "x" * 9999)
    for got, want in zip(back.weights, weights, strict=True):
        np.testing.assert_array_equal(got, want, strict=True)
        assert not got.flags.writeable or got.size == 0
        assert got.ctypes.data % 64 == 0 or got.size == 0
    assert load_bytes((tmp_path / "p.numc").read_bytes()) == ""
    assert os.listdir(tmp_path) == ["p.numc"]


def test_same_program_same_bytes(tmp_path, contents, whole):
    write_program(tmp_path / "p.numc", contents)
    assert (tmp_path / "p.numc").read_bytes() == whole


def test_the_layout_is_the_documented_one(whole):
    assert programs.file_of(programs.sections_of(whole)) == whole


@settings(max_examples=400, derandomize=True)
@given(data=st.data())
def test_a_changed_byte_is_found_or_harmless(whole, folder, data):
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[at] ^= data.draw(st.integers(1, 255))
    text = load_bytes(bytes(changed))
    assert "\n" not in text
    header = at < 64 + 48 * 5
    assert bool(text) == (header or _inside(whole, at, ("abi", "code"))), (at, text)
    text = read_bytes(bytes(changed), folder)
    assert bool(text) == (header or _inside(whole, at, ("abi", "code", "manifest", "ir"))), (at, text)
    assert "\n" not in text


def _inside(whole: bytes, at: int, names: tuple[str, ...]) -> bool:
    """Whether byte `at` lies in one of the named sections."""
    sections = programs.sections_of(whole)
    places = {name: whole.index(data) for name, data in sections.items()}
    return any(at in range(places[name], places[name] + len(sections[name])) for name in names)


@settings(max_examples=300, derandomize=True)
@given(data=st.data())
def test_a_damaged_section_with_a_right_checksum_never_crashes(whole, folder, data):
    """What is left is the checks of the parsers themselves. Code is left out: it would be executed."""
    sections = programs.sections_of(whole)
    name = data.draw(st.sampled_from(("abi", "abi", "manifest", "ir", "weights")))
    changed = bytearray(sections[name])
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    keep = data.draw(st.sampled_from((len(changed), len(changed) // 2, 0)))
    file = programs.file_of({**sections, name: bytes(changed[:keep])})
    assert "\n" not in load_bytes(file)
    assert "\n" not in read_bytes(file, folder)


def test_a_line_end_in_a_name_stays_out_of_the_message(whole, folder):
    sections = programs.sections_of(whole)
    file = programs.file_of({**sections, "abi": sections["abi"].replace(b"bias", b"\nias"), "weights": b""})
    assert read_bytes(file, folder).endswith("damaged program file (weight '\\nias' is not in it)")
    assert load_bytes(file).endswith("damaged program file (weight '?ias' is not in it)")


def test_a_packed_weight(tmp_path):
    x = np.ones((2, 4), np.float32)
    contents = programs.add_packed()
    write_program(tmp_path / "p.numc", contents)
    read = read_program(tmp_path / "p.numc")
    assert read.abi == contents.abi
    assert read.abi.weights[0].nbytes == 16
    assert read.weights[0].nbytes == 5
    programs_ = [Program(contents), Program(read), load(tmp_path / "p.numc")]
    for program in programs_:
        np.testing.assert_array_equal(program(x), x + np.arange(4, dtype=np.float32))


@pytest.mark.parametrize(
    ("at", "value", "text"),
    [
        (0, 5, "weight 'bias' is packed in an encoding that this runtime does not know"),
        (0, 4, "weight 'bias' is packed in no format"),
        (1, 9, "weight 'bias' is packed in no format"),
        (2, 24, "weight 'bias' is packed in no format"),
        (2, 6, "weight 'bias' is not packed in the bytes that its shape takes"),
        (5, 4, "weight 'bias' is packed in no format"),
        (0, 1, "weight 'bias' is packed in no format"),
        (6, 9, "weight 'bias' is packed in no format"),
        (14, 3, "weight 'bias' is packed in no order"),
        (14, 1, "weight 'bias' is packed in no panels"),
        (15, 0, "weight 'bias' is packed without values"),
        (22, 255, "weight 'bias' is packed with impossible sizes"),
        (31, 5, "weight 'bias' is not packed in the bytes that its shape takes"),
    ],
)
def test_a_damaged_packed_weight(tmp_path, at, value, text):
    """Damage that the checksums do not show, in the record behind the name."""
    write_program(tmp_path / "p.numc", programs.add_packed())
    sections = programs.sections_of((tmp_path / "p.numc").read_bytes())
    abi = bytearray(sections["abi"])
    abi[abi.index(b"bias") + 4 + at] = value
    file = programs.file_of({**sections, "abi": bytes(abi)})
    assert load_bytes(file) == f"damaged program file ({text})"
    assert "\n" not in read_bytes(file, tmp_path)


@pytest.mark.parametrize("keep", [0, 3, 8, 20, 63, 64, 100, 400, -4097, -1])
def test_truncated(whole, keep, tmp_path):
    cut = whole[:keep]
    path = tmp_path / "cut.numc"
    path.write_bytes(cut)
    for attempt in (load, read_program):
        with pytest.raises(NumcError, match="^'.*cut.numc': (damaged program file|not a numc program file)") as caught:
            attempt(path)
        assert "\n" not in str(caught.value)
    assert load_bytes(cut)


def test_foreign_files(tmp_path, whole):
    sections = programs.sections_of(whole)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("hello " * 100)
    (tmp_path / "crlf").write_bytes(whole.replace(b"\r\n", b"\n"))
    (tmp_path / "older").write_bytes(programs.file_of(sections, version=1))
    (tmp_path / "abi").write_bytes(programs.file_of({**sections, "abi": b"\1" + sections["abi"][1:]}))
    (tmp_path / "part").write_bytes(programs.file_of({k: v for k, v in sections.items() if k != "ir"}))
    for name, text in {
        "missing": "No such file or directory",
        "no\0name": "no file has such a name: name another one",
        "": "not a file",
        "pipe": "not a file",
        "text": "not a numc program file",
        "crlf": "damaged program file (header; was it transferred as text, or cut off?)",
        "older": "program file of version 1, this numc reads version 7: compile it again",
        "abi": "damaged program file (abi section of version 1, this numc reads version 5)",
        "part": "damaged program file (no section ir)",
    }.items():
        with pytest.raises(NumcError) as caught:
            load(tmp_path / name)
        assert str(caught.value) == escaped(f"'{tmp_path / name}': {text}")
    error = ErrorText()
    assert not library().numc_program_load(os.fsencode(tmp_path / "pipe"), error.reference())
    assert error.take() == f"'{tmp_path}/pipe': not a file"
    older = "program file of version 1, this runtime reads version 7: compile it again"
    assert load_bytes((tmp_path / "older").read_bytes()) == older
    older = "abi section of version 1, this runtime reads version 5: compile it again"
    assert load_bytes((tmp_path / "abi").read_bytes()) == older


def test_missing_cpu_feature(tmp_path):
    absent = sorted(set(feature_names()) - cpu_features())
    if not absent:
        pytest.skip("this CPU has every feature that numc knows")
    contents = programs.add()
    abi = dataclasses.replace(contents.abi, features=frozenset({absent[0], "avx"}), target="new-machine")
    contents = dataclasses.replace(contents, abi=abi)
    text = f"compiled for target 'new-machine', this CPU lacks {absent[0]}: recompile with --target"
    with pytest.raises(NumcError) as caught:
        Program(contents)
    assert str(caught.value) == f"program: {text}"
    write_program(tmp_path / "p.numc", contents)
    with pytest.raises(NumcError) as caught:
        load(tmp_path / "p.numc")
    assert str(caught.value) == f"'{tmp_path}/p.numc': {text}"
    assert read_program(tmp_path / "p.numc").abi == abi  # looking at it works anywhere


def test_feature_of_a_newer_runtime():
    abi = bytearray(library_abi())
    abi[11] |= 0x80  # bit 63
    error = ErrorText()
    code = programs.add().code
    weights = np.zeros(4, np.float32)
    pointers = (np.ctypeslib.ctypes.c_void_p * 1)(weights.ctypes.data)
    handle = library().numc_program_from_parts(
        None, bytes(abi), len(abi), code, len(code), pointers, 1, error.reference()
    )
    assert not handle
    assert "this CPU lacks feature 63 (unknown to this runtime): recompile" in error.take()


def library_abi() -> bytes:
    contents = programs.add()
    return encode_abi(contents.abi, contents.weights)


@pytest.mark.parametrize("updates", [{0: 1}, {0: 9}, {9: 0}, {1: 0}])
def test_a_result_takes_the_memory_of_no_input_but_one_of_its_type(updates):
    """float32[2,3] and float32[3,2] are inputs; so are the results."""
    values = {"a": (2, 3), "b": (3, 2)}
    abi = Abi(
        entry="numc_entry",
        arguments=tuple(Input(name, "float32", shape) for name, shape in values.items()),
        results=tuple(TensorSpec(name, "float32", shape) for name, shape in values.items()),
        updates=updates,
    )
    with pytest.raises(NumcError, match="a result cannot take the memory of an input"):
        Program(Contents(abi, programs.add().code, (), {}))


def test_writing_refuses_what_does_not_fit(tmp_path):
    good = programs.add()

    def with_abi(**changes):
        return dataclasses.replace(good, abi=dataclasses.replace(good.abi, **changes))

    x = good.abi.arguments[0]
    bias = np.zeros(5, np.float32)
    cases = [
        (with_abi(features=frozenset({"avx512b"})), "CPU feature 'avx512b' is unknown (did you mean"),
        (with_abi(results=(TensorSpec("y", "float4", ()),)), "'y': dtype float4 is unknown: want float32"),
        (with_abi(results=(TensorSpec("y", "int8", (1,) * 17),)), "'y': rank 17, at most 16 is supported"),
        (with_abi(arguments=(x,)), "program: got 1 weights, want 0"),
        (dataclasses.replace(good, weights=(bias,)), "weight 'bias': got float32[5], want float32[4]"),
        (dataclasses.replace(programs.add_packed(), weights=(bias,)), "weight 'bias': got float32[5], want uint8[5]"),
    ]
    for contents, text in cases:
        with pytest.raises(NumcError) as caught:
            write_program(tmp_path / "p.numc", contents)
        assert str(caught.value).startswith(text)
    assert os.listdir(tmp_path) == []


def test_no_such_folder(tmp_path):
    path = tmp_path / "no" / "p.numc"
    with pytest.raises(NumcError) as caught:
        write_program(path, programs.add())
    assert str(caught.value) == f"{path}: cannot write: No such file or directory"


def test_full_disk_keeps_the_old_file(tmp_path):
    """A limit on the file size stands for the full disk: the write fails in the middle, as ENOSPC does."""
    path = tmp_path / "p.numc"
    path.write_bytes(b"old")
    script = f"""
import resource, signal, sys
import numpy as np
from numc.support.errors import NumcError
from numc.runtime import Abi, Contents, Weight, write_program
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
weight = np.zeros(1_000_000, np.float32)
abi = Abi(entry="f", arguments=(Weight("w", "float32", weight.shape),), results=())
try:
    write_program({str(path)!r}, Contents(abi, b"", (weight,), {{}}))
except NumcError as error:
    sys.exit(str(error))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    reason = os.strerror(errno.EFBIG)
    assert done.stderr.strip() == f"{path}: cannot write: {reason}"
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["p.numc"]


def test_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_program(tmp_path / "p.numc", programs.add())
    assert os.listdir(tmp_path) == []


def test_permissions_are_those_of_any_output_file(tmp_path):
    write_program(tmp_path / "p.numc", programs.add())
    (tmp_path / "other").touch()
    assert (tmp_path / "p.numc").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_broken_code_from_the_compiler_is_a_bug():
    with pytest.raises(
        CompilerBug, match="^object code: not an ELF file; this is a fault of numc: report it .*`numc doctor`$"
    ):
        Program(dataclasses.replace(programs.add(), code=b"nothing"))


def test_missing_entry():
    contents = programs.add()
    with pytest.raises(NumcError, match="no function other in its code"):
        Program(dataclasses.replace(contents, abi=dataclasses.replace(contents.abi, entry="other")))


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 5])
@pytest.mark.parametrize("section", ["abi", "manifest"])
def test_a_changed_byte_with_right_checksums_raises_nothing_else(whole, tmp_path, section, step):
    sections, path = programs.sections_of(whole), tmp_path / "p.numc"
    data = sections[section]
    tried = 0
    for at in range(0, len(data), 1 if section == "abi" else step):
        for value in {8, 255, data[at] ^ 1}:
            changed = data[:at] + bytes([value]) + data[at + 1 :]
            path.write_bytes(programs.file_of({**sections, section: changed}))
            tried += 1
            with contextlib.suppress(NumcError):
                load(path)
    assert tried > 200
