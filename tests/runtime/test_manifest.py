"""The manifest and the IR of a program file: what is not as the compiler writes it is one line."""

from __future__ import annotations

import dataclasses
import json
import zlib

import numpy as np
import pytest

import runtime_programs as programs
from numc.cli import main
from numc.numerics.policy.table import COLUMNS
from numc.passes.explicit.fmas import FmaRow
from numc.passes.kernels.packing.layout import Layout
from numc.passes.kernels.tasks.plane import Plane
from numc.passes.plan.contraction_rows import ContractionRow
from numc.passes.vector.mark_parts import Part
from numc.runtime import load, read_program, write_program
from numc.runtime.manifest import SCHEMA, decode_manifest
from numc.support.errors import NumcError

LAYOUT = dict(dataclasses.asdict(Layout("rows", 8, 4, 1, 256)))
PLANE = dict(
    dataclasses.asdict(Plane(sizes=(3, 3), inner=(1, 1), low=(1, 1), strides=(1, 1), lanes=((1, 1),), taps=(0,)))
)
ROW = dataclasses.asdict(
    ContractionRow(id=0, fma="mp", passes=1, name="conv", swap=False, packed="rows", layout=None, plane=None)
)
CONTRACTION = json.loads(json.dumps(ROW | {"layout": LAYOUT, "plane": PLANE}))
TEXTS = ("layer", "kind", "role", "shape", "ops", "rule")
LAYER = dict.fromkeys(COLUMNS, None) | dict.fromkeys(TEXTS, "") | {"swapped": False}
FMAS = dataclasses.asdict(FmaRow("forward", "mp", True, 12))
FULL = programs.manifest(b"", contractions=[CONTRACTION], layers=[LAYER], failures={"1": "ü\n"}, fmas=[FMAS])


def text_of(manifest: dict[str, object]) -> bytes:
    return json.dumps(manifest).encode()


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("manifest") / "add.numc"
    write_program(path, programs.add())
    return programs.Quiet(path.read_bytes())


def test_the_schema_is_what_the_compiler_writes():
    assert decode_manifest(text_of(FULL)) == FULL
    decode_manifest(text_of(FULL | {"fmas": None}))
    assert list(SCHEMA["parts"][0]) == [field.name for field in dataclasses.fields(Part)]
    assert list(SCHEMA["fmas"][0][0]) == [field.name for field in dataclasses.fields(FmaRow)]
    for change in ({"layout": None}, {"plane": None}, {"packed": ""}):
        decode_manifest(text_of(FULL | {"contractions": [CONTRACTION | change]}))
    for schema, kind in ((SCHEMA["contractions"][0], ContractionRow), (SCHEMA["contractions"][0]["layout"][0], Layout),
                         (SCHEMA["contractions"][0]["plane"][0], Plane)):  # fmt: skip
        assert list(schema) == [field.name for field in dataclasses.fields(kind)]
    assert list(SCHEMA["layers"][0]) == list(COLUMNS)


def _contraction(**changes: object) -> bytes:
    return text_of(FULL | {"contractions": [CONTRACTION | changes]})


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "manifest: not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"\xff", "manifest: not JSON: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b"{1: 2}", "manifest: not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b"[" * 100_000, "manifest: not JSON: nested too deeply"),
        (b'{"a": NaN}', "manifest: not JSON: NaN is not a number of JSON"),
        (b"9" * 5000, "manifest: not JSON: a number of more than 18 digits"),
        (b"[]", "manifest: got a list, want an object"),
        (b"null", "manifest: got null, want an object"),
        (text_of({k: v for k, v in FULL.items() if k != "layers"}), "manifest: there is no 'layers'"),
        (text_of(FULL | {"x" * 99: 1}), f"manifest: unknown key '{'x' * 39}"),
        (text_of(FULL | {"statistics": 1}), "manifest.statistics: got a whole number, want true or false"),
        (text_of(FULL | {"failures": {"1": None}}), "manifest.failures['1']: got null, want a text"),
        (text_of(FULL | {"sources": ["a", "\ud800"]}), "manifest.sources[1]: a text that is not Unicode"),
        (text_of(FULL | {"versions": {"\udfff": "1"}}), "manifest.versions: a text that is not Unicode"),
        (
            text_of(FULL | {"fmas": [FMAS | {"count": -1}]}),
            "manifest.fmas[0].count: got -1, want 0 to 9223372036854775807",
        ),
        (_contraction(id=-1), "manifest.contractions[0].id: got -1, want 0 to 9223372036854775807"),
        (_contraction(id=1.5), "manifest.contractions[0].id: got a fraction, want a whole number"),
        (_contraction(id=True), "manifest.contractions[0].id: got true or false, want a whole number"),
        (_contraction(packed="row"), "manifest.contractions[0].packed: got 'row', want '', 'lanes', 'rows'"),
        (_contraction(layout={}), "manifest.contractions[0].layout: there is no 'alone'"),
        (
            _contraction(layout=LAYOUT | {"width": 0}),
            "manifest.contractions[0].layout.width: got 0, want 1 to 64",
        ),
        (
            _contraction(plane=PLANE | {"taps": [None]}),
            "manifest.contractions[0].plane.taps[0]: got null, want a whole number",
        ),
    ],
)
def test_another_manifest_is_one_line(whole, tmp_path, data, text):
    path = tmp_path / "p.numc"
    path.write_bytes(programs.file_of({**programs.sections_of(whole), "manifest": data}))
    with pytest.raises(NumcError) as caught:
        load(path)
    assert str(caught.value) == f"'{path}': damaged program file ({text})"


@pytest.mark.parametrize(
    "command",
    [
        ("run", "--random-input", "0"),
        ("run", "--stats", "all"),
        ("verify",),
        ("diff", "GOOD", "--data", "x.npy"),
    ],
)
def test_every_command_says_that_a_manifest_is_another_programs(whole, tmp_path, capsys, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((1, 4), np.float32))
    (tmp_path / "GOOD").write_bytes(whole)
    (tmp_path / "p.numc").write_bytes(programs.file_of({**programs.sections_of(whole), "manifest": text_of(FULL)}))
    assert main([command[0], "p.numc", *command[1:]]) == 2
    assert capsys.readouterr().err == (
        "numc: error: 'p.numc': damaged program file (manifest: it describes other code)\n"
    )


@pytest.mark.parametrize(
    ("packed", "text"),
    [
        (zlib.compress(bytes(300 << 20), 1), "program: its IR is longer than 256 MiB: the file is damaged"),
        (zlib.compress(b"module")[:-1], "program: its IR ends early: the file is damaged"),
        (b"module", "program: its IR is damaged (Error -3 while decompressing data: incorrect header check)"),
        (zlib.compress(b"\xff"), "program: its IR is damaged ('utf-8' codec can't decode byte 0xff in position 0: "),
    ],
)
def test_the_ir_is_expanded_on_demand_and_bounded(whole, tmp_path, packed, text):
    path = tmp_path / "p.numc"
    path.write_bytes(programs.file_of({**programs.sections_of(whole), "ir": packed}))
    contents = read_program(path)
    np.testing.assert_array_equal(load(path)(np.zeros((1, 4), np.float32)), [[0, 1, 2, 3]])
    with pytest.raises(NumcError) as caught:
        _ = contents.ir
    assert str(caught.value).startswith(text)
