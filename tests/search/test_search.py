"""numc.search: what it finds, what it keeps, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import numc
from html_pages import Page
from numc.frontends.imported import Imported
from numc.runtime.abi import Input, TensorSpec
from numc.studies.search import evaluation
from numc.studies.search.evaluation import identity, task
from numc.studies.search.groups import Group
from numc.studies.search.journal import NAME
from numc.studies.search.options import checked_errors
from numc.studies.search.search import Interrupted
from numc.studies.search.splits import splits
from numc.studies.sensitivity.records import Part, SensitivityData
from search_evaluations import accuracy
from small_models import THREE, data

MODEL = Imported(mlir=THREE)
SPACE = "e=3..5 m=1..7"


def by_function(**options: Any) -> numc.Search:
    """A search over three layers in which nothing is compiled."""
    return numc.search(MODEL, **{"tolerance": 0.01, "evaluate": accuracy, "space": SPACE, **options})


@pytest.mark.all
def test_the_policy_is_ready_and_its_metric_is_that_of_compiling_it() -> None:
    given = data(40)
    found = numc.search(MODEL, given, tolerance=1e-3, space="e=8 m=4..5")
    assert found.samples == {"search": 20, "report": 20}
    program, fp32 = (numc.compile(MODEL, policy=policy) for policy in (found.policy, "default fp32"))
    rows = numc.explain(MODEL, policy=found.policy).layers
    assert [row["fma"] for row in program.manifest["layers"]] == [row["fma"] for row in rows]
    for split, first in (("search", 0), ("report", 1)):
        x, r = (p({**given, "arg0": given["arg0"][first::2]}).astype(np.float64) for p in (program, fp32))
        cosine = (x * r).sum() / np.sqrt((x * x).sum() * (r * r).sum())
        assert getattr(found.rows[-1], split) == pytest.approx(cosine, abs=1e-12)
        assert getattr(found.rows[0], split) == 1
    assert found.best is not None
    assert 1 - found.rows[-1].search == found.best.worse <= 1e-3
    again = numc.search(MODEL, given, tolerance=1e-3, space="e=8 m=4..5", report_data=data(6))
    assert again.samples == {"search": 40, "report": 6}
    costs = [numc.cost(MODEL, policy=policy).total()["bytes"] for policy in ("default fp32", found.policy)]
    assert [found.rows[0].cost, found.rows[-1].cost] == costs


@pytest.mark.all
def test_one_program_for_all_widths_gives_the_bits_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """In layers whose name their bias has, too, which is of another kind."""
    compiled: set[str] = set()
    contents = evaluation.contents
    monkeypatch.setattr(evaluation, "contents", lambda m, how: compiled.add(str(how.policy)) or contents(m, how))
    digits = Path(__file__).parents[2] / "examples" / "digits"
    images = np.load(digits / "heldout.npz")["images"]
    found = numc.search(
        digits / "mlp.onnx", {"x": images}, tolerance=0.1, by="kind", space="e=4..5 m=2", sampler="greedy"
    )
    assert compiled == {"default fp32\n", "op matmul fma = fmacs(e4..5m2)\n"}
    assert len(found.trials) == 2
    for split, first in (("search", 0), ("report", 1)):
        x, r = (
            numc.compile(digits / "mlp.onnx", policy=policy)(images[first::2]).astype(np.float64)
            for policy in (found.policy, "default fp32")
        )
        cosine = (x * r).sum() / np.sqrt((x * x).sum() * (r * r).sum())
        assert getattr(found.rows[-1], split) == pytest.approx(cosine, abs=1e-13)
        assert cosine < 1 - 1e-4


def test_what_is_found_and_that_equal_bits_are_evaluated_once() -> None:
    asked: list[str] = []

    def evaluate(policy: str, split: str) -> float:
        asked.append(f"{split} {policy}")
        return accuracy(policy, split)

    found = by_function(evaluate=evaluate)
    assert found.policy == "".join(
        f"layer {name:8} fma = fmacs(e4m{m})\n" for name, m in (('"first"', 3), ('"second"', 3), ('"third"', 2))
    )
    assert [row.name for row in found.rows] == ["fp32", "uniform", "search"]
    assert len(asked) == len(set(asked)) == len(found.trials) + 1 + 3  # fp32, and three rows on the report split
    assert found.shares == {"first": 16 / 44, "second": 16 / 44, "third": 12 / 44}
    front = found.front()
    assert [t.cost for t in front] == sorted(t.cost for t in front)
    assert [t.worse for t in front] == sorted((t.worse for t in front), reverse=True)
    assert found.steps()[-1] == found.best in found.trials
    in_notebook = found._repr_html_()
    assert all(text in in_notebook for text in ("uniform", found.settings["objective"], "fma = fmacs(e4m2)"))

    asked.clear()  # the operators compute the same bits under three names
    same = by_function(evaluate=evaluate, space=None, operators=["mp", "fma(a=bf16,acc=fp32)", "fma(a=e8m7,acc=fp32)"])
    assert len(asked) == 2 * 2  # fp32 and one set of bits, on both splits
    assert {trial.value for trial in same.trials} == {1.0}


@pytest.mark.parametrize("by", ["kind", "role", "model"])
def test_layers_share_a_choice(by: str) -> None:
    found = by_function(by=by)
    rule = {"kind": "op matmul", "role": "role forward", "model": "default"}[by]
    assert re.fullmatch(rf"{rule} fma = fmacs\(e4m\d\)\n", found.policy)


def test_a_failed_evaluation_ends_no_search_and_nothing_found_is_no_policy() -> None:
    def evaluate(policy: str, split: str) -> float:
        if "e4m3" in policy:
            raise ValueError("too\nmuch")
        return accuracy(policy, split)

    found = by_function(evaluate=evaluate)
    failed = {trial.number for trial in found.trials if trial.error}
    assert {(found.trials[n].error, found.trials[n].holds) for n in failed} == {("ValueError: too", False)}
    assert failed == {n for n, t in enumerate(found.trials) if {"e": "4", "m": "3"} in found.values(t).values()}
    assert found.best is not None
    nothing = by_function(evaluate=lambda policy, split: float(policy == "default fp32\n"))
    assert (nothing.best, nothing.policy, [row.name for row in nothing.rows]) == (None, "", ["fp32"])


def test_what_is_interrupted_goes_on_to_the_same_result(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / NAME).touch()  # what a process leaves that is killed at once
    whole = by_function(folder=tmp_path / "whole", resume=True)
    asked: list[str] = []

    def evaluate(policy: str, split: str) -> float:
        if len(asked) == 5:
            raise KeyboardInterrupt
        asked.append(policy)
        return accuracy(policy, split)

    evaluate.__module__, evaluate.__qualname__ = accuracy.__module__, accuracy.__qualname__  # as after an edit
    with pytest.raises(Interrupted) as stopped:
        by_function(evaluate=evaluate, folder=tmp_path / "part")
    assert stopped.value.folder == tmp_path / "part"
    with open(tmp_path / "part" / NAME, "a") as file:
        file.write('{"key": "sear')  # what a killed process leaves
    asked[:] = [""] * 6
    again = by_function(evaluate=evaluate, folder=tmp_path / "part", resume=True)
    assert again.as_json() == whole.as_json()
    assert len(asked) - 6 == len(whole.trials) + 1 + 3 - 5
    for name in ("best.policy", "search.json", "report.html"):
        assert (tmp_path / "part" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert json.loads((tmp_path / "part" / "search.json").read_text()) == whole.as_json()
    page = Page((tmp_path / "part" / "report.html").read_text())
    assert {"http", "src", "@import"}.isdisjoint(" ".join(page.texts).split())
    assert f"{len(whole.front())} candidates on the front" in page.texts
    lines = [json.loads(line) for line in (tmp_path / "part" / NAME).read_text().splitlines()]
    assert len(lines) == 1 + len(whole.trials) + 1 + 3


def test_the_page_of_a_search_follows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jinja2")
    monkeypatch.setattr("numc.studies.search.search._EVERY", 0.0)
    seen: list[str] = []

    def watched(count: int, best: Any, fp32: float | None) -> None:
        seen.append((tmp_path / "found" / "report.html").read_text(encoding="utf-8"))

    found = by_function(folder=tmp_path / "found", progress=watched)
    for text in seen:
        Page(text).check_alone(text, scripts=1)
        assert 'data-written="' in text
        assert re.search(r"\d+ candidates? so far\. <span>This page loads itself again", text)
        assert "report split" not in text
    assert 1 < len(set(seen)) <= len(found.trials)
    assert "data-written" not in (tmp_path / "found" / "report.html").read_text(encoding="utf-8")


def test_the_page_of_a_search_that_is_stopped_stays_as_it_is(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    page = tmp_path / "found" / "report.html"

    def stop(count: int, best: Any, fp32: float | None) -> None:
        assert 'data-written="' in page.read_text(encoding="utf-8")
        raise KeyboardInterrupt

    with pytest.raises(Interrupted) as stopped:
        by_function(folder=tmp_path / "found", progress=stop)
    text = page.read_text(encoding="utf-8")
    Page(text).check_alone(text)
    assert re.search(f"{stopped.value.trials} candidates? so far. <span>The work was stopped before its end.", text)
    assert "data-written" not in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": -0.01}, "tolerance: got -0.01, which fp32 itself misses: want a number of at least 0"),
        ({"tolerance": "1"}, "tolerance: got '1', want a number of at least 0"),
        ({"space": "e=8..2"}, "space 'e=8..2': nothing is from 8 to 2: want the lower end first"),
        ({"space": "e=2..9 m=3"}, "space: 'fma = fmacs(e9m3)': format 'e9m3': 9 exponent bits, want"),
        ({"space": "e=a m=3"}, "space 'e=a': want LOW..HIGH or N,N,... of whole numbers"),
        ({"space": "e 3"}, "space 'e': want NAME=LOW..HIGH or NAME=N,N,..., such as 'e=2..8 m=1..23'"),
        ({"space": " "}, "space ' ': is empty: want widths such as 'e=2..8 m=1..23'"),
        ({"space": "e=4 e=5"}, "space 'e=5': 'e' is given twice: name every width once"),
        ({"space": "fma=4"}, "space 'fma=4': 'fma' is the name of operators: name every width once"),
        ({"space": "a=1..99 b=1..99", "settings": "e{a}m{b}"}, "space: has 9801 choices for one layer, want at most"),
        ({"space": "e=4"}, "settings 'fma = fmacs(e{e}m{m})': {m} is not in the space: it has ['e']"),
        ({"settings": "ops = e{e}m3"}, "settings 'ops = e{e}m3': have no {m}, which the space has: use it there"),
        ({"operators": ["fp32"]}, "search: the space is one of widths or of operators: leave one of them out"),
        ({"space": None, "operators": ["bf17_1_1"]}, "space: 'fma = bf17_1_1': unknown FMA operator 'bf17_1_1'"),
        ({"by": "layers"}, "by 'layers': unknown (did you mean 'layer'?): want layer, kind, role, model"),
        ({"only": ["frist"]}, "only 'frist': no such layer (did you mean 'first'?): the model has first, second"),
        ({"objective": "byte"}, "objective 'byte': unknown (did you mean 'bytes'?): want gates, bytes, area, passes"),
        ({"objective": "latency"}, "objective 'latency': is the cost on a machine: give one (`numc list machines`)"),
        ({"objective": "passes"}, "objective 'passes': 'first' computes in fma(a=e5m7,acc=fp32), which has none"),
        ({"objective": "energy", "machine": "thesis"}, "objective 'energy': machine 'thesis' has no published power"),
        ({"evaluate": None, "training": True}, "training: is about a function that evaluates by training: give one"),
        ({"sampler": "tpee"}, "sampler 'tpee': unknown (did you mean 'tpe'?): want procedure, greedy, tpe, nsga2"),
        ({"order": 3}, "order: got int, want errors by the names of what is searched"),
        ({"order": {}}, "order: is for the sampler greedy, but the sampler is procedure: leave one of them out"),
        ({"order": {"first": 1}, "sampler": "greedy"}, "order: 'second': want a number as its error, got errors of fi"),
        ({"order": {"first": "1"}, "sampler": "greedy"}, "order: 'first': want a number as its error, got errors of "),
        ({"order": {}, "sampler": "greedy"}, "order: 'first': want a number as its error, got errors of nothing"),
        ({"resume": True}, "resume: goes on with the search in a folder: name it"),
        ({"evaluate": None}, "search: needs data, or a function that evaluates a policy"),
        ({"metric": "top1"}, "search: a function that evaluates has its own data and metric: leave"),
        ({"evaluate": "accuracy"}, "evaluate 'accuracy': want MODULE:FUNCTION, such as my_study:accuracy"),
        ({"evaluate": "no_such:f"}, "evaluate 'no_such:f': cannot import it: No module named 'no_such'"),
        ({"evaluate": "search_evaluations:acuracy"}, "evaluate 'search_evaluations:acuracy': search_evaluations has"),
        ({"evaluate": 3}, "evaluate: got int, want a function"),
        ({"evaluate": lambda policy, split: 1, "workers": 1}, "evaluate: workers cannot import "),
        ({"evaluate": lambda policy, split: float("nan")}, "search: the metric is nan in fp32 itself: no arithmetic"),
        ({"evaluate": lambda policy, split: 1 / 0}, "ZeroDivisionError: division by zero"),
        ({"workers": 1, "scheduler": "tcp://x:1"}, "search: workers are processes of this machine, a scheduler has"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(numc.NumcError) as error:
        by_function(**options)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_errors_of_layers_order_greedy_and_are_kept_with_the_search() -> None:
    """The rows of a sensitivity have them by name; a contraction of the backward pass has that of its module."""
    rows = tuple(Part("layer", name, "", 0.3, error, {}) for name, error in (("first", 0.4), ("second", 0.2)))
    of = SensitivityData(model="m", fma="mp", samples=1, metrics=(), fp32={}, parts=rows).errors("layer")
    assert of == {"first": 0.4, "second": 0.2}
    plain, ordered = by_function(sampler="greedy"), by_function(sampler="greedy", order={**of, "third": 0.1})
    assert [choice["m"] for choice in ordered.values(ordered.best).values()] == ["3", "2", "3"]
    assert [choice["m"] for choice in plain.values(plain.best).values()] == ["2", "3", "3"], "all lose the same"
    assert len(ordered.trials) < len(plain.trials)
    assert ordered.settings["order"] == {**of, "third": 0.1}
    among = [Group(name, "") for name in ("first", "second/dgrad", "second")]
    assert checked_errors(of, "greedy", among) == (0.4, 0.2, 0.2)


def test_bad_data_is_one_line() -> None:
    for given, options, message in (
        (data(1), {}, "data: 1 samples, of which the model takes 1 at once: want enough for a search"),
        (data(4), {"metric": "top"}, "unknown metric 'top' (did you mean 'top5' or 'top1'?)"),
        (data(4), {"output": "y"}, "output 'y': no such output"),
        (data(24), {"metric": "top1", "labels": np.arange(24) % 3, "tolerance": 2}, "tolerance: got 2, but top1 is a "),
    ):  # fmt: skip
        with pytest.raises(numc.NumcError) as error:
            numc.search(MODEL, given, **{"tolerance": 0.1, **options})
        assert str(error.value).startswith(message)
    empty = Imported(mlir="func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n  return %x : tensor<?xf32>\n}\n")
    with pytest.raises(numc.NumcError, match="search: the model has no contractions, and so no choice"):
        numc.search(empty, evaluate=accuracy, tolerance=0.1)


def test_every_other_batch_is_reported_where_the_model_fixes_it() -> None:
    inputs = [Input("x", "float32", (2, 3)), Input("w", "float32", (3,))]
    x, w = np.arange(36, dtype=np.float32).reshape(12, 3), np.zeros(3, np.float32)
    found = splits(({"x": x, "w": w}, np.arange(12) % 3), None, inputs, TensorSpec("y", "float32", (2, 3)), {}, 64)
    for split, samples in (("search", [0, 1, 4, 5, 8, 9]), ("report", [2, 3, 6, 7, 10, 11])):
        assert found[split].labels.tolist() == [n % 3 for n in samples]
        assert (found[split].inputs["x"] == x[samples]).all()
        assert found[split].inputs["w"].shape == (3,)
        assert found[split].steps == ((0, 2), (2, 4), (4, 6))


def test_bad_folders_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jinja2")
    one = {"space": "e=8 m=6..7", "by": "model"}
    by_function(folder=tmp_path / "one", **one)
    path = tmp_path / "one" / NAME
    with pytest.raises(numc.NumcError, match="a/b: cannot be made: No such file or directory: name another folder"):
        by_function(folder=tmp_path / "a" / "b", **one)

    def refused(**options: Any) -> str:
        with pytest.raises(numc.NumcError) as error:
            by_function(**{"folder": tmp_path / "one", **one, **options})
        return str(error.value)

    assert refused() == f"{path}: a search is here already: go on with --resume, or name another folder"
    other = refused(evaluate=lambda policy, split: 1.0, resume=True)
    words = "has another model, data, metric or numc (Imported, evaluate, numc "
    assert other.startswith(f"{path}: {words}")
    assert refused(folder=tmp_path / "two", resume=True) == (
        f"{tmp_path / 'two'}: there is no {NAME} to go on with: name the folder of a search"
    )
    assert refused(folder=path / "x") == f"{path / 'x'}: cannot be made: Not a directory: name another folder"
    path.write_text("{}\n")
    assert refused(resume=True) == f"{path}: not the results of numc search: name another folder"

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        three = tmp_path / "three"
        assert refused(folder=three) == f"{three / NAME}: cannot write: No space left on device"
    monkeypatch.setattr("numc.studies.search.extra.find_spec", lambda package: None)
    for options, what in (
        ({"sampler": "tpe"}, "optuna, for the samplers tpe and nsga2"),
        ({"workers": 2}, "distributed, for workers"),
    ):
        assert refused(folder=None, evaluate="search_evaluations:accuracy", **options) == (
            f"search: {what}, is not installed: pip install 'numc[search]'"
        )


def test_a_worker_with_another_numc_refuses() -> None:
    with pytest.raises(numc.NumcError) as error:
        task({}, "default fp32", "search", "0.0.9 (abc)")
    wanted = rf"worker \S+:\d+ has numc {re.escape(identity())}, the search has numc 0\.0\.9 \(abc\): install the same"
    assert re.match(wanted, str(error.value))
