"""examples/fast in tiny sizes: tables, pictures, resumption; and the page's tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from example_scripts import example, refused
from numc.studies.uncertainty.paired import Interval, of_differences, of_mean

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "fast.md"


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    with example(ROOT / "examples" / "fast") as module:
        yield module


@pytest.mark.slow
def test_tables_pictures_and_resumption(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--quick", "--results", str(tmp_path / "r.jsonl"), "--json", str(tmp_path / "r.json"), "--target", "5"]
    assert run.main([*given, "--plot", str(tmp_path / "plots")]) == 0
    said = capsys.readouterr().out
    assert "| published: ResNet-18, top-1 (%) | 68.60 | -5.50 | -0.08 |" in said
    found = json.loads((tmp_path / "r.json").read_text())["runs"]
    assert list(found) == ["FP32", "LowBFP", "FAST"]
    results = run.Results(tmp_path / "r.jsonl", run.Outcome)
    fast, low = (results.find(run.QUICK, name, 0) for name in ("FAST", "LowBFP"))
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"figure-19.png", "figures-6-7.png"}
    # Three contractions with weights, all narrow: three passes each. In the last step no width of the last layer is 2.
    assert all(len(bits) == run.QUICK.steps and set(bits) <= {2, 4} for bits in fast.bits.values())
    assert {bits[-1] for name, bits in fast.bits.items() if name.startswith("model.6 ")} == {4}
    layers = {name.rsplit(" ", 1)[0] for name in fast.bits}
    chunks = {layer: np.array([fast.bits[f"{layer} {kind}"] for kind in "WAG"]) // 2 for layer in layers}
    passes = sum((w * a + g * w + a * g).mean() for w, a, g in chunks.values())
    assert fast.passes == pytest.approx(passes)
    # The array takes as long for the widths that FAST chooses as for LowBFP where all are narrow, and longer after it.
    assert fast.seconds[-1] > low.seconds[-1] > 0
    assert len(fast.validations) == len(fast.seconds) == 2

    monkeypatch.setattr(run.Runner, "run", None)
    assert run.main(given) == 0
    assert capsys.readouterr().out == said


@pytest.mark.slow
def test_figure_20_is_that_of_fixed_widths(run: ModuleType) -> None:
    """A cell is trained with a width that is chosen at run time: the bits are those of the fixed format."""
    import numc

    trainer = run.Runner(run.QUICK).trainer
    chosen = trainer.run(1, recipe=run.settings.recipe(run.settings.cell(16, 3), 20, ()))
    assert chosen.losses == trainer.run(1, recipe=numc.train.Static("midbfp")).losses
    torch._dynamo.reset()


def test_bad_input_is_one_line(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--quick", "--results", str(tmp_path / "r.jsonl"), "--plot", str(tmp_path)]
    assert "--plot needs matplotlib" in refused(run, given, "matplotlib", monkeypatch, capsys)


def test_the_page_shows_the_stored_results(run: ModuleType) -> None:
    page = PAGE.read_text()
    results = run.Results(ROOT / "docs" / "fast" / "results.jsonl", run.Outcome)
    names = [name for names in run.STUDIES.values() for name in names]
    runs = {name: results.runs(run.FULL, name, range(run.SEEDS)) for name in names}
    assert all(table in page for table in run.tables.all_of(runs, 80))


def test_the_words_of_the_page_are_those_of_the_results(run: ModuleType) -> None:
    results = run.Results(ROOT / "docs" / "fast" / "results.jsonl", run.Outcome)
    names = run.STUDIES["table 2"]
    runs = {name: results.runs(run.FULL, name, range(run.SEEDS)) for name in names}
    lost = {name: of_mean(run.tables.differences(runs, name)) for name in names if name != run.settings.BASE}
    shown = {name for name, interval in lost.items() if interval.high < 0}
    assert shown == {"LowBFP", "MSFP12", "MidBFP", "HighBFP", "FAST"}
    assert [round(lost[name].mean, 1) for name in ("HighBFP", "FAST")] == [-0.8, -1.7]
    assert all(abs(lost[name].mean + 3) < 0.3 for name in ("MSFP12", "MidBFP"))
    assert lost["LowBFP"].mean < lost["MidBFP"].mean < lost["FAST"].mean < lost["HighBFP"].mean
    assert {name: round(lost[name].visible, 1) for name in ("bf16", "MP", "INT12", "HFP8")} == {
        **dict.fromkeys(("bf16", "MP", "INT12"), 0.2),
        "HFP8": 0.7,
    }
    assert lost["INT8"].low > -0.205
    minutes = sum(result.outcome.cpu_seconds for result in results.all) / 60
    assert f"they took {minutes:.0f} minutes of CPU time" in PAGE.read_text()


def test_the_words_about_figures_10_and_20_are_those_of_the_results(run: ModuleType) -> None:
    page = " ".join(PAGE.read_text().split())
    results = run.Results(ROOT / "docs" / "fast" / "results.jsonl", run.Outcome)

    def against(name: str, other: str) -> Interval:
        mine, base = ([o.quality for o in results.runs(run.FULL, which, range(run.SEEDS))] for which in (name, other))
        return of_differences(mine, base)

    steps = against("first half of the steps", "second half of the steps")
    layers = against("second half of the layers", "first half of the layers")
    for part, worse in ((steps, "better than in the second"), (layers, "worse than in the last five")):
        assert part.low > 0
        assert f"{part.mean:.1f} points {worse} ({part.low:.1f} to {part.high:.1f}" in page
    narrow, wide = ([against(f"g = {g}, m = {m + 1}", f"g = {g}, m = {m}") for g in (8, 16, 32)] for m in (3, 4))
    assert f"from 3 to 4 bits by {min(x.mean for x in narrow):.1f} to {max(x.mean for x in narrow):.1f} points" in page
    assert all(x.low > 0 for x in (*narrow, *wide[1:]))
    assert not wide[0].excludes_zero
    assert f"from 4 to 5 bits by {wide[1].mean:.1f} and {wide[2].mean:.1f} points" in page
    groups = [against(f"g = 32, m = {m}", f"g = 8, m = {m}") for m in (2, 3, 4, 5)]
    assert [x.excludes_zero for x in groups] == [True, True, True, False]
    assert "groups of 32 lose {:.1f}, {:.1f} and {:.1f} points more".format(*(-x.mean for x in groups[:3])) in page
