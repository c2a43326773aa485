"""Statistics, tables and the pages that are made of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import numc
from benchmarks.__main__ import PAGES
from benchmarks.measure import in_turns, ratio, summary
from benchmarks.peers import native
from benchmarks.report.render import render
from benchmarks.report.report import (
    activations,
    bars,
    generation,
    models,
    scaling,
    slowdowns,
    statistics,
    steps,
    streams,
    switch,
    training,
)
from benchmarks.report.tables import Table, against, duration, markdown, number, pivot, short
from numc.numerics.grammar import parse_fma

ROOT = Path(__file__).resolve().parents[2]


def test_calls_take_turns() -> None:
    order: list[str] = []
    timings = in_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, seconds=0, rounds=4)
    turns = [name for n, name in enumerate(order) if n == 0 or order[n - 1] != name]
    assert turns == ["a", "b"] * (len(turns) // 2)
    assert len(turns) == 2 * (4 + 1)  # the first turn finds out how often a sample repeats the call
    assert timings["a"].rounds == timings["b"].rounds == 4


def test_summary_and_ratio() -> None:
    timings = {"ours": summary([4.0, 3.0, 9.0]), "theirs": summary([2.0, 1.5])}
    assert (timings["ours"].best, timings["ours"].median) == (3.0, 4.0)
    assert ratio(timings, "ours", "theirs") == 2.0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.00"),
        (0.0333, "0.0333"),
        (0.5, "0.500"),
        (9.996, "10.0"),
        (12.34, "12.3"),
        (123.4, "123"),
        (4321.0, "4321"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_cells() -> None:
    assert (against(1.2, 1.3), against(1.4, 1.3), against(9.0, None)) == ("1.20", "1.40 ✗", "9.00")
    assert (duration(2.5), duration(0.0025), duration(2.5e-6), duration(None)) == ("2.50 s", "2.50 ms", "2.50 µs", "")
    assert short("fma(a=bf16,acc=bf16x2,datapath=exact)") == "exact `bf16_1_2`"
    assert short("fmac(e6m9)") == "`fmac(e6m9)`"


def test_pivot_leaves_holes_empty() -> None:
    rows = [{"case": "x", "op": "a", "v": 1}, {"case": "x", "op": "b", "v": 2}, {"case": "y", "op": "b", "v": 3}]
    table = pivot(rows, ("case",), "op", lambda r: str(r["v"]))
    assert table == Table(("case", "a", "b"), (("x", "1", "2"), ("y", "", "3")))
    assert markdown(table).splitlines() == [
        "| case | a | b |",
        "| --- | ---: | ---: |",
        "| x | 1 | 2 |",
        "| y |  | 3 |",
    ]


def test_streams_are_beside_what_is_published() -> None:
    row = {"model": "LSTM", "operations": 9, "seconds_2": 0.01, "measured": 1.5}
    for n, threads in enumerate((2, 16, 64)):
        row |= {
            f"idle_{threads}": 0.1 * n,
            f"speedup_{threads}": 1 + n,
            f"memory_{threads}": n,
            f"limited_{threads}": 2,
        }
    table = streams([row])
    first, published = table.rows
    assert first == ("LSTM", "9", "10.0 ms", "1.50", "0%", "1.00", "10%", "2.00", "20%", "3.00", "+200%", "2.00")
    assert published == ("TrainBF, two GPUs", "", "", "1.13, 1.29", "47%", *[""] * 5, "+65%, +74%", "")
    assert len(table.columns) == len(first) == len(published)


def test_scaling_has_a_column_for_each_number_of_threads() -> None:
    row = {"model": "LSTM", "batch": 8, "seconds": 0.01, "measured": 1.9}
    table = scaling([row | {f"simulated_{threads}": float(threads) / 2 for threads in (2, 16, 64)}])
    assert table.rows == (("LSTM", "8", "10.0 ms", "1.90", "1.00", "8.00", "32.0"),)
    assert table.columns[-1] == "64 threads, simulated"


def test_activations_stand_beside_those_of_torch() -> None:
    row = {"model": "m", "eager_mib": 100.0, "must": 0.65}
    table = activations(
        [row | {"operator": name, "mib": 100 * r, "ratio": r} for name, r in (("mp", 0.6), ("bf16", 0.7))]
    )
    assert table == Table(("model", "eager torch", "`mp`", "`bf16`"), (("m", "100", "60.0 (0.600)", "70.0 (0.700 ✗)"),))


def test_bars_count_what_is_met() -> None:
    rows = [
        {"operator": "fp32", "shape": "s", "slowdown": 1.0, "must": 1.3},
        {"operator": "mp", "shape": "s", "slowdown": 2.6, "must": 1.3},
        {"operator": "torch bf16", "shape": "s", "slowdown": 9.0, "must": None},
    ]
    speed = [{"operator": "fp32", "speedup": 1.85, "must": 1.85}, {"operator": "mp", "speedup": 1.0, "must": 2.0}]
    table = bars({"gemm": {"rows": rows}, "threads": {"rows": speed}})
    assert table.rows == (("gemm", "2", "1", "`mp`, s", "2.00"), ("threads", "2", "1", "`mp`", "2.00"))


def test_slowdowns_stand_beside_those_of_one_row() -> None:
    lstm = {"model": "LSTM, 32 steps", "threads": 1, "operator": "bf16_1_1", "ratio": 1.5}
    others = [lstm | {key: value, "ratio": 9} for key, value in (("threads", 2), ("operator", "mp"))]
    table = slowdowns({"models": {"rows": [*others, lstm]}})
    found = {row[0]: row[5:] for row in table.rows}
    assert found["LSTM"] == ("29", "LSTM, 32 steps over the faster peer", "1.50")
    assert found["SGEMM"] == ("39", "not measured", "")


def test_unknown_block_and_unmeasured_section() -> None:
    page = "a\n<!-- benchmarks: gemm -->\nold\n<!-- end -->\nb"
    assert render(page, {"sections": {}}) == "a\n<!-- benchmarks: gemm -->\nNot measured.\n<!-- end -->\nb"
    with pytest.raises(KeyError, match="nothing"):
        render(page.replace("gemm", "nothing"), {"sections": {}})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_says_what_the_results_say(page: Path) -> None:
    """No figure of the page was typed: rendering the committed results changes nothing."""
    results = json.loads((ROOT / "benchmarks/results.json").read_text())
    assert render(page.read_text(), results) == page.read_text()


@pytest.mark.parametrize("fma", ["bf16_1_1", "fmac(e6m9)", "fmac(fp8_e5m2)"])
def test_the_loop_in_cpp_agrees_with_numc(fma: str) -> None:
    rng = np.random.default_rng(3)
    operator = parse_fma(fma)
    a, b = (numc.round(rng.standard_normal((33, 33)).astype(np.float32), str(operator.a)) for _ in range(2))
    expected = numc.matmul(a, b, fma=fma)
    assert np.array_equal(native.naive_matmul(a, b, operator.acc.format), expected)
    if fma == "bf16_1_1":
        assert np.array_equal(native.vectorised_matmul_bf16(a, b), expected)


def test_tables_of_training() -> None:
    step = {"seconds": 0.5, "eager_seconds": 0.4, "inductor_seconds": 0.5, "must": 2, "aim": 1.2, "alone": 0.6}
    ratios = {("A, 2", "fp32"): 1.0, ("A, 2", "mp"): 1.5, ("B", "fp32"): 2.25, ("B", "mp"): 1.5}
    rows = [step | {"model": m, "operator": o, "ratio": ratio} for (m, o), ratio in ratios.items()]
    rows.append({"plain_seconds": 1e-6, "same_seconds": 2e-6, "other_seconds": 2e-3, "switch_must": 1e-3})
    assert training(rows).rows[1:3] == (
        ("B", "2.25 ✗", "1.50", "0.600", "400 ms", "500 ms"),
        ("geometric mean", "1.50 ✗", "1.50 ✗", "0.600", "", ""),
    )
    model = {"model": "A", "operator": "fp32", "threads": 1, "must": 1.25}
    model |= {"onnxruntime_seconds": 1.0, "inductor_seconds": 2.0}
    found = models([model | {"ratio": 1.5}, model | {"model": "B", "ratio": 6.0}])
    assert found.rows[0] == ("A", "1", "1.50 ✗", "1.00 s", "2.00 s")
    assert found.rows[2] == ("geometric mean", "1", "3.00", "", "")
    row = {"model": "gpt2", "operator": "fp32", "numc_tokens": 80.0, "eager_tokens": 100.0, "ratio": 1.25, "must": 1}
    assert generation([row]).rows[0] == ("gpt2", "`fp32`", "80.0", "100", "1.25 ✗", "1.00")
    assert [row[1] for row in switch(rows).rows] == ["1.00 µs", "2.00 µs", "2.00 ms ✗"]
    row = {"model": "lstm", "operator": "fp32", "cold_seconds": 61.0, "warm_seconds": 2.0, "seconds_must": 60}
    row |= {"mib": 130.0, "cold_mib": 200.0, "eager_mib": 100.0, "ratio": 1.3, "must": 1, "time": 0.9}
    cost = {"operator": "mp", "plain": 1.0, "observed": 4.0, "share": 0.03, "aim": 0.02, "kib": 99.0}
    assert statistics([cost]).rows[0] == ("`mp`", "1.00 s", "4.00 s", "3.00% ✗", "2%", "99.0")
    assert steps([row]).rows[0] == ("lstm", "`fp32`", "130", "100", "1.30 ✗", "2.00", "0.900", "61.0 ✗", "2.00")
