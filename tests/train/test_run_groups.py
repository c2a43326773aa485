"""Runs of several seeds as a group: what their folders keep, the table with intervals, the mean in a band."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from html_pages import Page
from numc.studies.uncertainty.paired import of_differences
from numc.support.errors import NumcError
from numc.support.versions import own_version
from numc.train import RunFolder, report
from numc.train.runs import charts
from numc.train.runs.groups import over_seeds
from trainings import made_up_run

SETTINGS = {"batch": 128, "rate": 0.002, "data": "MNIST"}


def trained(folder: Path, group: str, seed: int, better: float = 0.0, steps: int = 4) -> Path:
    run = RunFolder(folder / f"{group}-{seed}", group=group, seed=seed, configuration=SETTINGS)
    noise = np.random.default_rng(seed).standard_normal(steps)  # that of the seed, in all groups
    for step in range(steps):
        run.record(step, loss=2 - step / 10 + noise[step] - better, top1=0.5 + noise[step] / 100 + better)
    return Path(run)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [
        trained(folder, group, seed, 0.05 * seed * (group == "own")) for group in ("fp32", "own") for seed in range(4)
    ]


def test_a_folder_keeps_where_a_run_comes_from(folders: list[Path]) -> None:
    kept = json.loads((folders[1] / "run.json").read_text())
    assert (kept["group"], kept["seed"], kept["configuration"]) == ("fp32", 1, SETTINGS)
    assert kept["versions"]["numc"] == own_version()
    assert {"torch", "numpy", "Python", "machine"} <= kept["versions"].keys()
    (run,) = report(folders[1]).runs
    assert run.seconds is not None
    assert 0 <= run.seconds < 600
    again = RunFolder(folders[1], group="fp32", seed=1, configuration=SETTINGS)
    before = [record.seconds for record in report(again).runs[0].records]
    again.record(3, loss=1.0, top1=0.5)
    (run,) = report(again).runs
    assert [record.seconds for record in run.records][:3] == before[:3]
    assert run.records[3].seconds >= before[2], "a run that goes on has taken what it took before, too"
    trained(folders[1].parent, "fp32", 1)


def test_the_table_has_paired_differences_and_their_intervals(folders: list[Path]) -> None:
    found = report(*folders)
    values = {path.name: report(path).as_json()["runs"][0]["metrics"]["top1"][-1][1] for path in folders}
    mine, base = ([values[f"{group}-{seed}"] for seed in range(4)] for group in ("own", "fp32"))
    rows = {(row.group, row.metric): row for row in found.groups()}
    assert rows.keys() == {(group, metric) for group in ("fp32", "own") for metric in ("loss", "top1")}
    row = rows["own", "top1"]
    assert (row.seeds, row.difference) == (4, of_differences(mine, base))
    assert rows["fp32", "top1"].difference is None
    assert row.difference.mean == pytest.approx(0.075)
    mean, difference, visible = row.cells
    assert re.fullmatch(r"0\.\d+ ± 0\.\d+", mean)
    assert difference == "+0.075 (-0.0277 to +0.178)"
    assert visible == f"{row.difference.visible:.2g}"
    assert found.as_json()["groups"][3]["difference"]["low"] == pytest.approx(row.difference.low)
    assert found.notes[-1:] != ["group 'own' has one run: no interval and no band"]


def test_a_group_is_a_mean_in_a_band(folders: list[Path]) -> None:
    curves = [[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)], [(0.0, 2.0), (1.0, float("nan")), (2.0, 4.0), (3.0, 1.0)]]
    assert over_seeds(curves) == [(0.0, 1.5, 1.0, 2.0), (2.0, 4.5, 4.0, 5.0)]
    alone = made_up_run(folders[0].parent / "alone", steps=12, every=5)
    runs = report(*folders, alone).runs
    loss = charts.loss(runs)
    assert loss is not None
    assert [series.label for series in loss.series] == ["fp32", "own", "alone"]
    assert [series.colour for series in loss.series] == ["c0", "c1", "c2"]
    for series, number in zip(loss.series[:2], (0, 4), strict=True):
        its = np.array([charts.loss_of(run) for run in runs[number : number + 4]])[:, :, 1]
        np.testing.assert_allclose([y for _, y in series.points], its.mean(0))
        np.testing.assert_allclose([low for _, low, _ in series.area], its.min(0))
        np.testing.assert_allclose([high for _, _, high in series.area], its.max(0))
    assert loss.series[2].area == ()


def test_the_page(folders: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    report(*folders).write_report(tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    page = Page(text)
    page.check_alone(text)
    shown = "".join(page.texts)
    for part in (
        "minus fp32",
        "could have been seen",
        "(4 runs)",
        "with batch 128, rate 0.002, data MNIST.",
        "+0.075 (-0.0277 to +0.178)",
        f"numc {own_version()}",
    ):
        assert part in shown, part
    areas = [d for tag, d in page.tags if tag == "polygon" and "area" in d.get("class", "")]
    assert len(areas) >= 4, "two groups, loss and top1"


def test_what_is_refused_or_noted(tmp_path: Path) -> None:
    first = trained(tmp_path / "a", "own", 0)
    alone = report(first)
    assert "group 'own' has one run: no interval and no band" in alone.notes
    assert alone.groups()[1].cells[1:] == ("-", "-")
    twice = trained(tmp_path / "b" / "x", "own", 0)
    other = RunFolder(tmp_path / "c", group="own", seed=1, configuration={**SETTINGS, "batch": 64})
    other.record(0, loss=1)
    old = trained(tmp_path / "d", "own", 2)
    kept = json.loads((old / "run.json").read_text())
    (old / "run.json").write_text(json.dumps({**kept, "versions": {**kept["versions"], "numc": "0.0.9"}}))
    assert any(
        note.startswith("the runs have several versions of numc: ") and "0.0.9 in own-2" in note
        for note in report(first, old).notes
    )
    later = trained(tmp_path / "e", "own", 3)
    (later / "run.json").write_text(json.dumps({**kept, "format": 2}))
    for call, text in (
        (lambda: report(first, twice), "own-0: seed 0 of group 'own', as is own-0: leave one out"),
        (lambda: report(first, other), "c: 'batch' is 64, and 128 in own-0, which is of group 'own', too: want groups"),
        (
            lambda: report(later),
            "run.json: not the origin of a run (format 2): want what this version of RunFolder writes",
        ),
        (lambda: RunFolder(tmp_path / "f", seed=1), "seed and configuration are of runs of a group: name it, as in"),
        (lambda: RunFolder(tmp_path / "f", group="x", seed=-1), "seed: got -1, want a whole number from 0"),
        (
            lambda: RunFolder(tmp_path / "f", group="x", configuration={"a": [1]}),
            "configuration: got 'a': [1], want numbers or",
        ),
        (
            lambda: RunFolder(first, group="own", seed=5),
            "run.json: of another run (group 'own', seed 0), not of group 'own', seed 5",
        ),
    ):
        with pytest.raises(NumcError, match=re.escape(text)):
            call()
    (first / "run.json").unlink()
    (first / "run.json").mkdir()
    with pytest.raises(NumcError, match=re.escape("run.json: cannot read: Is a directory: leave this run out")):
        report(first)
