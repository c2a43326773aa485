"""The report of trainings: the numbers of the files, the page in a browser, and runs that were killed."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import numc
from html_pages import CHROMIUM, FAULTS, Page, laid_out
from numc.frontends.imported import Imported
from numc.support.errors import NumcError
from numc.train import DenormalMonitor, DynamicPrecision, EpochStatistics, RunFolder, report
from numc.train.recipes.decision import Decision
from numc.train.runs import charts, number_charts
from numc.train.runs.folder import Record
from numc.train.runs.read import COUNTS, KINDS
from numc.train.runs.thin import boxes, means, stretches, thin, unbroken
from trainings import HIGH, LAYERS, LOW, made_up_run

SECTIONS = ("summary", "notes", "loss", "shares", "swamping", "denormals", "exponents", "decisions")
MATMUL = """func.func @main(%a: tensor<8x4xf32>, %b: tensor<4x2xf32>, %c: tensor<8x2xf32>) -> tensor<8x2xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<8x4xf32>, tensor<4x2xf32>) outs(%c : tensor<8x2xf32>)
    -> tensor<8x2xf32> loc("product")
  return %r : tensor<8x2xf32>
}"""
# The first acceptance vector of dynamic precision: MP for steps 0 to 6, 13 and 17.
LOSSES = (3.0, 2.8, 2.6, 2.4, 2.2, 2.0, 2.0, 1.8, 1.8, 1.8, 1.8, 1.8, 1.8, 1.5, 1.5, 1.5, 1.5, 1.5)


def test_a_training_is_reported_as_it_was(tmp_path: Path) -> None:
    """A recipe, statistics and a monitor of denormals write into one folder."""
    product = numc.compile(Imported(mlir=MATMUL), fma="fmac(e6m9)", statistics=True)
    run = RunFolder(tmp_path / "runs" / "acceptance")
    recipe = DynamicPrecision("mp", "bf16_1_1", monitor=1, block=3, threshold=0.06, log=run.decisions)
    statistics = EpochStatistics(1, every=5, what="swamping,exponents,fmas", file=run.statistics)
    monitor = DenormalMonitor(every=4, file=run.denormals)
    rng = np.random.default_rng(0)
    for step, loss in enumerate(LOSSES):
        a = np.ldexp(rng.standard_normal((8, 4)), -25 - step).astype(np.float32)
        inputs = (a, np.ones((4, 2), np.float32), np.ones((8, 2), np.float32))
        for each in (statistics, monitor):
            each.epoch(step // 9)
        with recipe, statistics:
            product(*inputs)
        with monitor:
            product(*inputs)
        recipe.update(loss)
        if step % 9 == 8:
            run.record(
                step, epoch=step // 9, fmas={("forward", "fmac(e4m3fn)"): 10, ("wgrad", "bf16_1_1"): 30}, top1=step / 20
            )
    found = report(run)
    assert found.notes == []
    (only,) = json.loads(json.dumps(found.as_json(), allow_nan=False))["runs"]
    assert only["name"] == "acceptance"
    assert only["loss"] == [list(pair) for pair in enumerate(LOSSES)]
    used = [(s["first"], s["last"], s["used"]) for s in only["stretches"]]
    assert used == [(0, 6, "mp"), (7, 12, "bf16_1_1"), (13, 13, "mp"), (14, 16, "bf16_1_1"), (17, 17, "mp")]
    assert only["step_shares"] == {"mp": 0.5, "bf16_1_1": 0.5}
    assert only["fma_shares"] == {"of": "of all steps", "shares": {"fmac(e4m3fn)": 0.25, "bf16_1_1": 0.75}}
    assert only["metrics"] == {"top1": [[8, 0.4], [17, 0.85]]}
    assert only["values"]["ema"][4] == [9, pytest.approx(1.958025, abs=1e-6)]
    assert [d["step"] for d in only["decisions"]] == [d.step for d in recipe.history if d.reason]
    # Step 6 is where the average has fallen enough, step 12 where it has not.
    assert {6, 12} <= {d["step"] for d in only["decisions"]}
    for one in only["swamping"]:
        epoch = statistics.epochs()[one["epoch"]]
        assert one["all"][7] == epoch.without_swamping(7)
        assert one["nonzero"][9] == epoch.without_swamping(9, nonzero=True)
    assert [one["epoch"] for one in only["swamping"]] == [0, 1]
    for count in COUNTS:
        peaks = {(p["layer"], p["tensor"]): (p["fraction"], p["epoch"], p["step"]) for p in only["denormals"][count]}
        assert peaks == {key: (p.fraction, p.epoch, p.step) for key, p in monitor.maxima(count).items()}
    assert max(p["fraction"] for p in only["denormals"]["rounded_subnormals"]) > 0.1
    steps = {one["step"]: one["kinds"]["activations"] for one in only["exponents"]}
    assert list(steps) == [0, 5, 10, 15]
    assert steps[15]["largest"] < steps[0]["largest"]
    # The same numbers are in the charts.
    (first, *_) = number_charts.swamping(found.runs, nonzero=False)
    assert [line.label for line in first.charts[0].series] == ["epoch 0", "epoch 1"]
    assert first.charts[0].series[1].points[7] == (7.0, 100 * statistics.epochs()[1].without_swamping(7))
    (activations, *_) = number_charts.denormals(found.runs, "rounded_subnormals")
    curve = monitor.curve("product", "a")
    assert activations.series[0].points == tuple((step, pytest.approx(100 * y)) for step, y in curve.items())


def test_thin_curves_keep_the_ends_and_the_peaks_of_every_part() -> None:
    rng = random.Random(1)
    points = [(float(x), rng.gauss(0, 1)) for x in range(50_001)]
    points[777] = (777.0, 99.0)
    found = thin(points, 100)
    assert len(found) <= 400
    assert set(found) <= set(points)
    assert found == sorted(found)
    for part in range(100):  # 500 steps each, and the last point
        own = [p for p in points if 500 * part <= p[0] < 500 * (part + 1)]
        kept = [p for p in found if 500 * part <= p[0] < 500 * (part + 1)]
        assert kept[0] == own[0]
        for choose in (min, max):
            assert choose(y for _, y in kept) == choose(y for _, y in own)
    assert thin(points[:400], 100) == points[:400]
    assert means(points[:1000], 10)[7][0] == pytest.approx(749.5, abs=1)
    assert math.fsum(y for _, y in means(points[:1000], 10)) == pytest.approx(
        math.fsum(y for _, y in points[:1000]) / 100, abs=0.2
    )
    nan, inf = math.nan, math.inf
    lines, breaks = unbroken([(0, nan), (1, 1.0), (2, 2.0), (3, inf), (4, nan), (5, 3.0)])
    assert lines == [[(1, 1.0), (2, 2.0)], [(5, 3.0)]]
    assert [x for x, _ in breaks] == [0, 3]


def test_strips_show_the_share_of_every_arithmetic() -> None:
    names = ("high", "low", "other")
    rng = random.Random(2)
    lengths = [(rng.randrange(1, 40), names[n % 3]) for n in range(3000)]
    steps = itertools.count()
    decisions = [Decision(next(steps), name) for length, name in lengths for _ in range(length)]
    found = stretches(decisions)
    assert [(last - first + 1, used) for first, last, used in found] == lengths
    for given in (found, found[:50]):
        total = Counter[str]()
        for first, last, name in given:
            total[name] += last - first + 1
        drawn = boxes(given, names, bins=100)
        assert sum(map(len, drawn.values())) <= 300
        for name in names:
            area = sum((x1 - x0) * (y1 - y0) for x0, x1, y0, y1 in drawn[name])
            assert area == pytest.approx(total[name])


def test_files_of_a_killed_run_and_damaged_ones_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "killed")
    whole = report(run).as_json()["runs"][0]
    decisions, statistics = run.decisions.read_text(), run.statistics.read_text()
    run.decisions.write_text(decisions[:-40])
    lines = statistics.splitlines()
    run.statistics.write_text("\n".join([lines[0], '{"epoch": 0}', *lines[1:-1], lines[-1][:70]]))
    run.metrics.write_bytes(b"\xff\xfe\n" + run.metrics.read_bytes())
    run.denormals.mkdir()
    found = report(run)
    assert found.notes == [
        "killed/decisions.jsonl: the last line is incomplete and left out: the run was stopped while it wrote",
        "killed/metrics.jsonl: line 1 is left out: not a record of metrics (Expecting value: line 1 column 1 (char 0))"
        ": want what RunFolder.record writes",
        "killed/statistics.jsonl: 2 lines, the first of them 2, are left out: not the statistics of a step ('step'): "
        "want what EpochStatistics writes",
        "killed/denormals.jsonl: cannot read: Is a directory",
    ]
    (one,) = found.as_json()["runs"]
    assert one["loss"] == whole["loss"][:-1]
    assert one["metrics"] == whole["metrics"]
    assert [e["step"] for e in one["exponents"]] == [0, 10, 20, 30, 40]
    pytest.importorskip("jinja2")
    found.write_report(tmp_path / "x.html")
    shown = "".join(Page((tmp_path / "x.html").read_text()).texts)
    for note in found.notes:
        assert note in shown
    # Whatever is missing, there is a page.
    for name in ("decisions", "statistics", "metrics"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.jsonl").write_bytes(getattr(run, name).read_bytes())
        alone = report(tmp_path / name)
        # Each other file, and the damage of its own; statistics have the denormals too.
        assert len(alone.notes) == (3 if name == "statistics" else 4)
        alone.write_report(tmp_path / "x.html")
    assert "decisions.jsonl: not there: nothing is known of the decisions" in "".join(alone.notes)
    with pytest.raises(NumcError, match="not a decision of a recipe"):
        Decision.from_json('{"step": 0, "used": "", "next": "", "reason": "", "hex": {"loss": "0x1p9999"}}')
    # No byte that is wrong ends in a traceback.
    rng, texts = random.Random(3), {"decisions": decisions, "statistics": statistics}
    texts["metrics"] = run.metrics.read_bytes().partition(b"\n")[2].decode()
    run.denormals.rmdir()
    for _ in range(12):
        for name, text in texts.items():
            for _ in range(6):
                at = rng.randrange(len(text))
                text = text[:at] + rng.choice('0919-".e{}[],naN\n') + text[at + 1 :]
            getattr(run, name).write_text(text)
        damaged = report(run)
        json.dumps(damaged.as_json(), allow_nan=False)
        damaged.write_report(tmp_path / "x.html")


def test_a_loss_that_is_not_finite_is_marked(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "nan")
    losses = [2.0, 1.0, math.nan, math.inf, 1.5]
    run.decisions.write_text("".join(json.dumps(Decision(n, "mp", {"loss": y}, "mp").to_json()) + "\n"
                                     for n, y in enumerate(losses)))  # fmt: skip
    found = report(run)
    chart = charts.loss(found.runs)
    assert chart is not None
    assert [one.points for one in chart.series] == [((0, 2.0), (1, 1.0)), ((4, 1.5),), chart.series[2].points]
    assert chart.series[2].told == ("nan, from step 2 on: the loss is nan",)
    assert chart.series[2].marks == (0,)
    (fact, *_) = found.summary()["nan"]
    assert (fact.answer, fact.bad) == ("1.5", True)
    assert fact.text.endswith("In 2 steps it is not finite.")
    assert found.as_json()["runs"][0]["loss"][2:4] == [[2, "nan"], [3, "inf"]]


def test_records_of_a_run_that_goes_on(tmp_path: Path) -> None:
    import torch

    def steps() -> list[tuple[int, float]]:
        rows = [Record.from_json(line) for line in run.metrics.read_text().splitlines()]
        return [(row.step, row.metrics["loss"]) for row in rows]

    run = RunFolder(tmp_path / "run")
    for step in (1, 3, 3, 5):
        run.record(step, loss=torch.tensor([step / 2]), epoch=step)
    assert steps() == [(1, 0.5), (3, 1.5), (3, 1.5), (5, 2.5)]
    with open(run.metrics, "a") as file:
        file.write('{"step": 6, "epo')  # killed
    run = RunFolder(tmp_path / "run")
    run.record(5, loss=np.float32(7))
    run.record(6, loss=math.nan)
    assert [step for step, _ in steps()] == [1, 3, 3, 5, 6]
    assert steps()[3] == (5, 7.0)
    assert math.isnan(steps()[4][1])
    run.record(2, loss=1)  # back to a checkpoint
    assert steps() == [(1, 0.5), (2, 1.0)]
    row = Record(3, 1, {"x": math.inf}, {("update", "fp32"): 3})
    assert Record.from_json(json.dumps(row.to_json(), allow_nan=False)) == row
    run.metrics.write_text("{}\n")
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for call, text in (
        (
            lambda: RunFolder(tmp_path / "run").record(9),
            f"{run.metrics}: line 1: not a record of metrics ('step'): want",
        ),
        (lambda: RunFolder(tmp_path / "file"), "file: cannot be made: File exists: name another folder for the run"),
        (lambda: run.record(-1), "step: got -1, want a whole number from 0"),
        (lambda: run.record(1, epoch=1.5), "epoch: got 1.5, want a whole number from 0"),
        (lambda: run.record(1, top1="0.9"), "metric 'top1': got '0.9', want a number"),
        (lambda: run.record(1, top1=torch.ones(2)), "metric 'top1': got tensor([1., 1.]), want a number"),
        (lambda: run.record(1, fmas={"mp": 3}), "fmas: got {'mp': 3}, want the `fmas` of a recipe"),
        (report, "report: got no run, want at least one folder of a training, see numc.train.RunFolder"),
        (lambda: report(tmp_path / "none"), "none: there is no such folder: want the folder of a training, see"),
        (lambda: report(tmp_path / "file"), "file: is a file: want the folder of a training, see"),
        (
            lambda: report(tmp_path / "empty"),
            "empty: no training: it has none of decisions.jsonl, statistics.jsonl, denormals.jsonl, metrics.jsonl, the",
        ),
        (lambda: report(tmp_path / "run", tmp_path / "run", tmp_path / "run"), "run: given twice: name each run once"),
    ):
        with pytest.raises(NumcError, match=re.escape(text)):
            call()


def test_the_page_shows_several_runs_and_refers_to_nothing_outside(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    made_up_run(tmp_path / "one")
    made_up_run(tmp_path / "two <i>", steps=90, block=1, seed=1)
    (tmp_path / "other").mkdir()
    made_up_run(tmp_path / "other" / "one", steps=30).metrics.unlink()
    RunFolder(tmp_path / "one").record(59, fmas={("forward", "fmac(e4m3fn)"): 10}, top1=0.5)
    found = report(tmp_path / "one", tmp_path / "two <i>", tmp_path / "other" / "one")
    assert [run.name for run in found.runs] == ["one", "two <i>", str(tmp_path / "other" / "one")]
    in_notebook = found._repr_html_()
    assert "<i>" not in in_notebook
    assert "two <i>" in "".join(Page(in_notebook).texts)
    found.write_report(tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    page = Page(text)
    page.check_alone(text)
    assert [d["id"] for _, d in page.tags if d.get("id") in SECTIONS] == list(SECTIONS)
    shown = "".join(page.texts)
    assert shown.count("e4m3fn is the E4M3 of OCP, NVIDIA, PyTorch, up to 448; the one like IEEE-754 (240) is ") == 1
    # What is said of a name is its text, not markup.
    for part in ("two <i>", "stem/<conv>/wgrad", "the average <b>fell</b>", HIGH, LOW, "epoch 2", *KINDS.values()):
        assert part in shown, part
    assert text.count('<span class="mono">two &lt;i&gt;</span></li>') == 4  # in each legend
    options = [d["value"] for tag, d in page.tags if tag == "option"]
    # All, three roles and six contractions; of all additions or not; three counts; six layers.
    assert len(options) == 1 + 3 + 3 * len(LAYERS) + 2 + len(COUNTS) + 3 * len(LAYERS)
    charts_of = Counter(d["data-layer"] for _, d in page.tags if "data-layer" in d)
    assert set(charts_of.values()) == {2}
    pytest.importorskip("matplotlib")
    written = report(tmp_path / "two <i>").write_plots(tmp_path / "plots")
    names = {path.stem for path in written}
    assert {
        "loss",
        "top1",
        "val_loss",
        "decided-from-drop",
        "swamping-two-i-all-contractions",
        "exponents-two-i",
    } <= names
    assert len(names) * 2 == len(written)


@pytest.mark.slow
def test_a_run_of_100_000_steps_is_a_small_page_without_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    made_up_run(tmp_path / "long", steps=100_000, every=1000)
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from numc.cli import main\n"
        "sys.exit(main(['report', 'long', '-o', 'x.html']))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split("\t")[:2] == ["run", "loss"]
    assert (tmp_path / "x.html").stat().st_size < 1_500_000
    page = Page((tmp_path / "x.html").read_text())
    lines = [d["points"] for tag, d in page.tags if tag == "polyline" and d["class"].startswith("line")]
    assert max(len(points.split()) for points in lines) <= 1600
    assert "14,285" in "".join(page.texts)  # changes of the arithmetic


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the PATH")
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser_nothing_overflows_and_choices_choose(tmp_path: Path, width: int) -> None:
    pytest.importorskip("jinja2")
    names = ["one", "a-run-of-a-long-name-without-any-place-to-break-it"]
    for seed, name in enumerate(names):
        made_up_run(tmp_path / name, seed=seed, steps=60 + 60 * seed)
    report(*(tmp_path / name for name in names[: 1 if width == 390 else 2])).write_report(tmp_path / "x.html")
    look = (
        f"[{FAULTS}, "
        "[['layer', 2], ['of', 1], ['count', 2], ['which', 3]].map(([id, n]) => {"
        "  const of = () => [...inner.querySelectorAll(`[data-${id}]`)]"
        "    .filter(e => e.getBoundingClientRect().height > 0).map(e => e.getAttribute(`data-${id}`));"
        "  const before = of(); inner.getElementById(id).value = n; return [before, of()]; })]"
    )
    seen = [laid_out(tmp_path / "x.html", tmp_path, width, scheme, look) for scheme in (0, 1)]
    assert [one[:2] for one in seen] == [[width, []]] * 2
    assert seen[0][2] != seen[1][2]
    assert seen[0][3] == [[], [[["0"], [str(n)]] for n in (2, 1, 2, 3)]]
