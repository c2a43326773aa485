"""examples/dynamic_precision in tiny sizes: tables, sweeps, pictures, resumption; and the page's tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from example_scripts import example, refused
from numc.studies.uncertainty.paired import of_differences

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "dynamic-precision.md"
LOW = "fmac(e8m4) with update=fp32 norm=fp32"


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    with example(ROOT / "examples" / "dynamic_precision") as module:
        yield module


def options(folder: Path) -> list[str]:
    given = ["--quick", "--network", "resnet", "--low", "magnified", "--seeds", "1"]
    return [*given, "--results", str(folder / "results.jsonl")]


@pytest.mark.slow
def test_tables_pictures_and_resumption(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main([*options(tmp_path), "--plot", str(tmp_path / "sweep.svg")]) == 0
    said = capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    of = {row["arithmetic"]: row["outcome"] for row in rows}
    assert len(of) == len(rows) == 3 + 2 + 8  # fp32, mp and low; from mp and from fp32; other blocks and thresholds
    dynamic = of[f"dynamic: mp; {LOW}; block 15; threshold x 1"]
    share = dynamic["measured"]["low"]
    # Twelve steps; the average exists after six of them, and after the seventh the low arithmetic can begin.
    assert 0 < share == pytest.approx(5 / 12 * of[LOW]["measured"]["low"])
    assert of["fp32"]["measured"]["low"] == of["mp"]["measured"]["low"] == 0
    # The first seven steps are those of mp, to the bit, and the eighth starts from the same weights.
    assert dynamic["losses"][:7] == of["mp"]["losses"][:7]
    assert dynamic["losses"][8:] != of["mp"]["losses"][8:]
    (line,) = (line for line in said.splitlines() if line.startswith("| ResNet, magnified | top-1 (%) | 1"))
    assert f"| {dynamic['quality'] - of['fp32']['quality']:+.2f} | {100 * share:.4g} % |" in line
    assert "| ResNet-50 | published: 96.4 % | 1.3717 | 1.3764 | 1.38 | 1.39 |" in said
    assert (tmp_path / "sweep-resnet.svg").read_text().startswith("<?xml")

    def no_training(*_: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(run.Trainer, "run", no_training)
    assert run.main(options(tmp_path)) == 0
    assert capsys.readouterr().out == said

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run.Trainer, "run", stop)
    assert run.main([*options(tmp_path), "--seeds", "2"]) == 130
    assert capsys.readouterr().err.endswith("results.jsonl: the same command goes on\n")


def test_the_network_learns_to_copy_and_to_reverse(run: ModuleType) -> None:
    torch.set_num_threads(1)
    task = run.Copying(letters=4, length=3, features=16, batch=32, steps=150)
    (tokens, letters) = task.held_out()[0]
    text, wanted = tokens[:, 1:4].numpy(), letters.numpy().reshape(-1, 3)
    assert np.array_equal(wanted, np.where(tokens[:, :1] == 1, text[:, ::-1], text))
    assert np.array_equal(tokens[:, 5:], wanted[:, :-1])
    assert 0 < run.Trainer(task, lambda function: function).run(seed=0).quality < 0.5 < np.log(4)


@pytest.mark.parametrize(
    ("missing", "given", "message"),
    [
        ("sklearn", [], "pip install scikit-learn, or --network seq2seq"),
        ("matplotlib", ["--plot", "x.png"], "--plot needs matplotlib, which is not installed: pip install matplotlib"),
        ("", ["--plot", "sweep.pdf"], "got sweep.pdf, want the name of a .png or .svg file in a folder that exists"),
        ("", ["--results", str(PAGE)], "dynamic-precision.md:1: not a result; take another file with --results"),
    ],
)
def test_bad_input_is_one_line(
    run: ModuleType,
    missing: str,
    given: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert message in refused(run, [*options(tmp_path), *given], missing, monkeypatch, capsys)


def test_page_has_the_tables_of_its_results(run: ModuleType) -> None:
    page = PAGE.read_text()
    results = run.Results(PAGE.with_suffix("") / "results.jsonl", run.Outcome)
    seeds = range(run.SEEDS)
    lows = list(run.LOWS)
    for table in (run.tables.qualities, run.tables.orders, run.tables.speed_ups):
        assert table(results, run.FULL, lows, seeds) in page
    sweeps = run.tables.sweeps(results, run.FULL, seeds)
    assert sweeps in page
    qualities = run.tables.qualities(results, run.FULL, lows, seeds).splitlines()
    shown = {row.split("|")[1].strip() for row in qualities if "**" in row}
    assert shown == {"ResNet, magnified", "seq2seq, magnified"}
    swept = {name: [r for r in sweeps.splitlines() if r.startswith(f"| {name}")] for name in ("ResNet", "seq2seq")}
    assert {name: "".join(mine).count("**") // 2 for name, mine in swept.items()} == {"ResNet": 9, "seq2seq": 1}
    minutes = sum(r.outcome.cpu_seconds for r in results.all) / 60
    assert f"They took {minutes:.0f} minutes of CPU time" in page


def test_the_page_says_what_the_rule_brings_back(run: ModuleType) -> None:
    page = " ".join(PAGE.read_text().split())
    results = run.Results(PAGE.with_suffix("") / "results.jsonl", run.Outcome)
    images, low = run.FULL[0], run.LOWS["magnified"]
    (dynamic,) = (one.name for one in run.settings.of_tables([low]) if one.name.startswith("dynamic: mp"))
    mine, base = ([o.quality for o in results.runs(images, name, range(run.SEEDS))] for name in (dynamic, low))
    against = of_differences(mine, base)
    assert f"it is {-against.mean:.2f} points below *low* ({against.low:+.2f} to {against.high:+.2f})" in page
    assert f"better in {sum(a > b for a, b in zip(mine, base, strict=True))} of {run.SEEDS} seeds" in page
    assert against.visible == pytest.approx(0.5, abs=0.05), "half a point could have been seen"
