"""``numc --define``: operators and formats of users on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import small_models
from definitions import OWN_OPERATORS, undone
from numc.cli import main

DEFINED = ["--define", str(OWN_OPERATORS)]


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "m.mlir").write_text(small_models.LOOP)
    return str(tmp_path / "m.mlir")


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with undone():
        status = main(arguments)
    said = capsys.readouterr()
    return status, said.out, said.err


def test_a_model_is_compiled_run_and_verified(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = str(tmp_path / "m.numc")
    assert run([*DEFINED, "compile", model, "--fma", "mitchell", "-o", program], capsys)[0] == 0
    # The program has its code: only the definition is not there.
    assert run(["run", program, "--random-input", "0", "--output", str(tmp_path / "y.npz")], capsys)[0] == 0
    status, _, said = run(["verify", program], capsys)
    assert status == 2
    assert "datapath 'mitchell#" in said
    assert "definitions of users have to be imported: numc --define FILE.py" in said
    status, out, _ = run([*DEFINED, "verify", program, "--json"], capsys)
    assert status == 0
    assert json.loads(out)


def test_lists_have_what_is_defined(capsys: pytest.CaptureFixture[str]) -> None:
    for what, name in (("fmas", "mitchell"), ("datapaths", "own_fused"), ("formats", "lns8")):
        status, out, _ = run([*DEFINED, "list", what], capsys)
        assert status == 0
        assert f"\n{name}\t" in out, what
        assert f"\n{name}\t" not in run(["list", what], capsys)[1]


def test_near_names_have_what_is_defined(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, said = run([*DEFINED, "compile", model, "--fma", "mitchel"], capsys)
    assert status == 2
    assert "unknown FMA operator 'mitchel' (did you mean 'mitchell'?)" in said


def test_a_file_that_fails_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.py").write_text("nothing")
    status, _, said = run(["--define", str(tmp_path / "own.py"), "list", "fmas"], capsys)
    assert status == 2
    assert "line 1: NameError: name 'nothing' is not defined" in said
    assert "Traceback" not in said
