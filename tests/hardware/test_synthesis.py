"""Areas after synthesis: the table that comes with numc, Yosys where it is, and the commands that show them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

import numc
from numc.hardware import synthesis
from numc.hardware.areas import table
from numc.numerics.grammar import parse_fma
from numc.support.errors import NumcError
from tools.proofs.names import named_operators

CNN = Path(__file__).parents[2] / "examples" / "digits" / "cnn.onnx"
needs_yosys = pytest.mark.skipif(
    shutil.which("yosys") is None or not Path(synthesis.LIBRARY).exists(), reason="no yosys or no library of cells here"
)


def test_the_table_counts_accumulators():
    rows = table()
    for text, row in rows.items():
        assert str(parse_fma(text)) == text
        assert row.total == row.products + row.adder + row.accumulator + row.conversion
        assert min(row.products, row.adder, row.accumulator) > 0, text
    narrow, wide = (rows[str(parse_fma(text))] for text in ("fmac(e4m3,datapath=exact)", "fma(a=e4m3,acc=fp32)"))
    assert narrow.products == wide.products
    assert narrow.accumulator < wide.accumulator
    assert narrow.total < wide.total < rows["fp32"].total


def test_the_page_has_the_table():
    rows, found = table(), {}
    page = Path(__file__).parents[2] / "docs" / "hardware.md"
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 10 and cells[0].startswith("`"):
            found[str(parse_fma(cells[0].strip("`")))] = cells[1:]
    assert len(found) >= 40
    named = {str(parse_fma(text)) for text in named_operators()}
    assert f"has {len(named & rows.keys())} of the {len(named)} named operators" in page.read_text(encoding="utf-8")
    for text in found:
        row = rows[text]
        parts = (row.taken, row.products, row.adder, row.accumulator, row.conversion, row.gates)
        iso = f"{rows['fp32'].total / row.gates:.3g}"
        assert found[text] == [*map(str, parts), iso, str(row.levels), f"{row.picoseconds / 1000:.1f}"], text


@pytest.mark.slow
@needs_yosys
@pytest.mark.parametrize("text", ["fmac(e4m3,datapath=exact)", "bf16_1_1"])
def test_the_table_is_what_yosys_finds(text):
    op = parse_fma(text)
    assert synthesis.synthesized(op) == table()[str(op)]


def test_the_commands_say_by_which_table(numc_run):
    found = numc_run("cost", CNN, "--fma", "bf16_1_1", "--synthesize")
    assert found.status == 0, found.err
    head, *rows = [line.split("\t") for line in found.out.splitlines()]
    row, known = dict(zip(head, rows[0], strict=True)), table()["bf16_1_1"]
    assert (row["products"], row["adder"]) == (str(known.products), str(known.adder))
    assert (row["accumulator"], row["register bits"], row["gates"]) == (str(known.accumulator), "16", str(known.gates))
    assert "gates: hardware/areas.json: yosys 0.23, cells of OSU 0.18 um, in NAND2 gates" in found.err
    told = json.loads(numc_run("cost", CNN, "--fma", "bf16_1_1", "--synthesize", "--json").out)["synthesis"]
    assert told["gates"] == known.gates
    assert told["operators"]["bf16_1_1"]["total"] == known.total
    assert numc_run("list", "areas").out.splitlines()[1].split("\t")[0] == "fp32"
    assert numc.cost(str(CNN), fma="bf16_1_1").gates == known.gates
    assert "no circuit" in numc_run("cost", CNN, "--fma", "amx_bf16", "--synthesize").error


def test_tools_that_are_missing_or_too_old(monkeypatch):
    op = parse_fma("fmac(e3m1)")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(NumcError, match=r"yosys is not on this machine, .* install it \(apt install yosys\)"):
        synthesis.synthesized(op)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout="Yosys 0.9 (git)"))
    with pytest.raises(NumcError, match=r"Yosys 0\.9 is too old, want 0\.23 and more"):
        synthesis.synthesized(op)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout="Yosys 0.23 (git)"))
    monkeypatch.setattr(synthesis, "LIBRARY", "/nowhere.lib")
    with pytest.raises(NumcError, match=r"/nowhere\.lib is not on this machine, .* install qflow-tech-osu018"):
        synthesis.synthesized(op)


def test_yosys_that_fails_or_takes_too_long(monkeypatch):
    monkeypatch.setattr(synthesis, "check_tools", lambda: None)
    failed = SimpleNamespace(stdout="", stderr="ERROR: no such cell\n", returncode=1)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(NumcError, match=r"yosys failed for 'fma\(a=e3m1,acc=e3m1\)': ERROR: no such cell"):
        synthesis.synthesized(parse_fma("fmac(e3m1)"))

    def late(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("yosys", 1)

    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(
        NumcError, match=r"yosys takes more than 1800 seconds for 'fma\(a=e2m2,acc=e2m2\)': want a smaller"
    ):
        synthesis.synthesized(parse_fma("fmac(e2m2)"))
