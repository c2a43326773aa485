"""The RTL of named operators is compared with compiled kernels in Verilator, and what was found is recorded."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from numc.numerics.grammar import parse_fma
from numc.support.errors import NumcError
from tools.proofs import comparison
from tools.proofs.__main__ import PAIRS, RESULTS, main, recorded
from tools.proofs.comparison import compared, compared_pairs, fingerprint
from tools.proofs.names import named_operators, small_operators
from verilated import needs_verilator

NAMES, SMALL = named_operators(), small_operators()


def stale(names: list[str]) -> list[str]:
    """The operators whose RTL is another one than that which was compared."""
    rows = recorded(RESULTS) | recorded(PAIRS)
    return [name for name in names if rows[str(parse_fma(name))].rtl != fingerprint(parse_fma(name))]


def test_every_named_operator_was_compared_in_a_million_steps():
    rows = recorded(RESULTS)
    assert len(NAMES) > 150
    for name in NAMES:
        row = rows[str(parse_fma(name))]
        assert (row.wrong_steps, row.wrong_sums) == (0, 0), row
        assert row.steps >= 10**6, row
        assert row.sums * row.steps_of_a_sum >= 10**6, row
    assert len(rows) == len(NAMES)
    steps = sum(row.steps + row.sums * row.steps_of_a_sum for row in rows.values())
    page = (Path(__file__).parents[2] / "docs" / "hardware.md").read_text(encoding="utf-8")
    assert f"{len(rows)} operators were compared in {round(steps / 1e6)} million steps, none of them wrong" in page


def test_small_formats_were_compared_in_all_pairs_of_operands():
    rows = recorded(PAIRS)
    assert len(rows) == len(SMALL) == 43
    for name in SMALL:
        op = parse_fma(name)
        row = rows[str(op)]
        assert not row.wrong_steps, row
        assert row.steps >= 2 ** (op.a.format.bits + op.b.format.bits), row


def test_some_rows_are_not_stale():
    assert not stale([*NAMES[::12], *SMALL[::6]]), "python -m tools.proofs compares these again"


@pytest.mark.all
def test_no_row_is_stale():
    assert not stale([*NAMES, *SMALL]), "python -m tools.proofs compares these again"


def test_a_fingerprint_is_that_of_the_circuit(monkeypatch):
    op, texts = parse_fma("fmac(e2m1)"), []
    monkeypatch.setattr(comparison, "rtl", lambda _: texts[-1])
    found = []
    for text in ("wire [3:0] up = a + 4'h3;  // up", "wire [3:0] low = a + 4'h3;", "wire [3:0] up = a + 4'h7;"):
        texts.append(text)
        found.append(fingerprint(op))
    assert found[0] == found[1] != found[2]


@needs_verilator
@pytest.mark.parametrize("text", ["hfp8_bwd", "turing_int4"])
def test_units_beside_compiled_kernels(text, tmp_path):
    row = compared(parse_fma(text), 3000, tmp_path / "unit")
    assert (row.wrong_steps, row.wrong_sums) == (0, 0)
    assert min(row.steps, row.sums) > 40


@needs_verilator
@pytest.mark.parametrize("text", ["fma(a=fp6_e3m2,acc=fp6_e3m2)", "fma(a=nf4,acc=fp32)"])
def test_all_pairs_of_operands(text, tmp_path):
    op = parse_fma(text)
    row = compared_pairs(op, 1, tmp_path / "unit")
    assert (row.wrong_steps, row.steps) == (0, 1 << 2 * op.a.format.bits)


@needs_verilator
@pytest.mark.all
def test_a_broken_bit_of_rounding_is_counted(monkeypatch, tmp_path):
    rtl = comparison.rtl
    ups = [line.partition("//")[0] for line in rtl(parse_fma("mp")).splitlines() if '"rne": half & (rest' in line]
    up = next(code for code in reversed(ups) if " & " in code)
    monkeypatch.setattr(comparison, "rtl", lambda op: rtl(op).replace(up, up.replace(" & ", " | ")))
    row = compared(parse_fma("mp"), 3000, tmp_path / "unit")
    assert row.wrong_steps > 300
    assert row.wrong_sums > 10


@pytest.mark.slow
@needs_verilator
def test_the_command_records_what_it_finds(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("tools.proofs.__main__.RESULTS", tmp_path / "results.json")
    assert main(["--count", "1000", "lowbfp"]) == 0
    (row,) = recorded(tmp_path / "results.json").values()
    assert row == replace(row, operator=str(parse_fma("lowbfp")), rtl=fingerprint(parse_fma("lowbfp")), wrong_steps=0)
    assert "steps=1024" in capsys.readouterr().out


def test_verilator_that_is_missing_or_too_old(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "g++" else tool)
    with pytest.raises(NumcError, match=r"g\+\+ is not on this machine, which runs RTL: install it"):
        main([])
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    with pytest.raises(NumcError, match=r"verilator is not on this machine, .*\(apt install verilator\)"):
        main([])
    monkeypatch.setattr(shutil, "which", lambda tool: tool)
    for told, error in (
        ("Verilator 4.038 2020", r"Verilator 4\.038 is too old, want 5\.0"),
        ("", "of no version is too"),
    ):
        monkeypatch.setattr(subprocess, "run", lambda *_, told=told, **__: SimpleNamespace(stdout=told))
        with pytest.raises(NumcError, match=error):
            main([])


@pytest.mark.slow
@needs_verilator
@pytest.mark.parametrize("name", NAMES)
def test_a_million_steps_and_a_million_in_sums(name, tmp_path):
    row = compared(parse_fma(name), 10**6, tmp_path / "unit", seed=1)
    assert (row.wrong_steps, row.wrong_sums) == (0, 0)
