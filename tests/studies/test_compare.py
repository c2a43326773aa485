"""numc.compare: metrics by hand, data in batches, results that are kept, and what is wrong with input."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import numc
from numc.hardware.areas import table
from numc.runtime.abi import Input, TensorSpec
from numc.studies import compare as module
from numc.studies.comparison import Comparison
from numc.studies.data import check_data
from numc.studies.metrics import METRICS, SquaredError, Sums, check_metrics
from numc.studies.observe.layer_outputs import layer_outputs
from numc.studies.results import BREAKS
from numc.studies.shares import Share
from numc.studies.store import Store
from numc.support.errors import NumcError

MODELS = Path(__file__).parents[2] / "examples" / "models"
DIGITS = MODELS.parent / "digits"
MLP = DIGITS / "mlp.onnx"
FMAS = ("fp32", "bf16_1_1", "fmac(e4m3)")
OUTPUT = TensorSpec("y", "float32", (None, 3))
X = Input("x", "float32", (None, 2))


@pytest.fixture(scope="module")
def digits() -> dict[str, Any]:
    held = np.load(DIGITS / "heldout.npz")
    return {"data": {"x": held["images"][:50]}, "labels": held["labels"][:50]}


@pytest.fixture(scope="module")
def found(digits: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, Path]:
    kept = tmp_path_factory.mktemp("compare") / "kept.json"
    comparison = numc.compare(MLP, **digits, fmas=FMAS, policies={"mixed": "default fmac(e4m3); layer 0 fp32"},
                              metrics=tuple(METRICS), batch=20, results=kept, statistics=False)  # fmt: skip
    return comparison, kept


def test_metrics_by_hand() -> None:
    x = np.array([[1, 2, 3], [4, 4, 0]], np.float32)
    r = np.array([[1, 1, 3], [4, 0, 0]], np.float32)
    sums = Sums(("top1", "mse", "cosine", "perplexity"))
    for row in (0, 1):  # in two batches
        sums.add(x[row : row + 1], r[row : row + 1], np.array([[2, 1][row]]))
    values = sums.values()
    assert values["top1"] == 0.5  # of equal outputs, the first is the answer
    assert values["mse"] == 17 / 6
    assert values["cosine"] == pytest.approx((1 + 2 + 9 + 16) / math.sqrt((1 + 4 + 9 + 32) * (1 + 1 + 9 + 16)))
    first = math.log(math.exp(1) + math.exp(2) + math.exp(3)) - 3
    second = math.log(2 * math.exp(4) + 1) - 4
    assert values["perplexity"] == pytest.approx(math.exp((first + second) / 2))
    assert sums.error.relative == 17 / (1 + 1 + 9 + 16)


def test_shares_are_counted_sample_by_sample() -> None:
    right, wrong = [0, 1, 0], [1, 0, 0]
    sums = Sums(("top1", "perplexity"))
    for mine, of_fp32 in ((right, right), (right, wrong), (wrong, right), (wrong, right), (wrong, wrong)):
        sums.add(*(np.array([x], np.float32) for x in (mine, of_fp32)), np.array([1]))
    sums.add(np.array([right], np.float32), np.array([wrong], np.float32), np.array([-100]))  # which is not counted
    assert sums.shares() == {"top1": Share(hits=2, count=5, gained=1, lost=2)}
    share = sums.shares()["top1"]
    assert share.difference == -0.2
    assert share.chance == 1.0, "one against two is no evidence"
    assert share.text == "5.27 to 85.34%"


def test_top5_and_values_as_labels() -> None:
    sums = Sums(("top5",))
    sums.add(np.arange(14, dtype=np.float32).reshape(2, 7), np.zeros((2, 7), np.float32), np.array([2, 1]))
    assert sums.values() == {"top5": 0.5}
    nan = Sums(("top1",))
    nan.add(np.full((1, 3), np.nan, np.float32), np.zeros((1, 3), np.float32), np.array([0]))
    assert nan.values() == {"top1": 0.0}
    against = Sums(("mse", "cosine"))
    against.add(np.ones((1, 3), np.float32), np.zeros((1, 3), np.float32), np.array([[1.0, 1, 3]]))
    assert against.values()["mse"] == pytest.approx(4 / 3)
    assert against.error.relative == math.inf  # against fp32, which is all zero


def test_relative_error_of_special_values() -> None:
    def error(x: list[float], r: list[float]) -> float:
        sums = SquaredError()
        sums.add(np.array(x, np.float32), np.array(r, np.float32))
        return sums.relative

    assert error([1, 2], [1, 4]) == 4 / 17
    assert error([0, math.inf], [0, math.inf]) == 0
    assert error([math.inf], [1]) == math.inf
    assert math.isnan(error([math.nan, 1], [1, 1]))
    sums = Sums(("mse",))
    sums.add(np.array([1, math.inf], np.float32), np.array([4, math.inf], np.float32), None)
    assert sums.values() == {"mse": 4.5}


def test_data_is_cut_into_batches() -> None:
    inputs = (X, Input("scale", "float32", (2,)), Input("t", "int64", (3, None)))
    given = {"x": np.zeros((5, 2), np.float32), "scale": np.ones(2, np.float32), "t": np.arange(15).reshape(3, 5)}
    data = check_data(given, np.array([0, 1, 2, 1, 0]), inputs, OUTPUT, {"x": ("n", ""), "t": ("", "n")}, 2)
    batches = list(data)
    assert [labels.tolist() for _, labels in batches] == [[0, 1], [2, 1], [0]]
    assert [b["x"].shape for b, _ in batches] == [(2, 2), (2, 2), (1, 2)]
    assert batches[1][0]["t"].tolist() == [[2, 3], [7, 8], [12, 13]]
    assert all(b["scale"] is data.inputs["scale"] for b, _ in batches)
    assert data.samples == 5
    fixed = (Input("x", "float32", (2, 2)),)
    data = check_data({"x": np.zeros((6, 2), np.float32)}, None, fixed, OUTPUT, {}, 64)
    assert (data.steps, data.fixed) == (((0, 2), (2, 4), (4, 6)), 2)
    data = check_data({"x": np.zeros((2, 2), np.float32)}, None, fixed, OUTPUT, {}, 64)
    assert (data.steps, data.fixed) == (((0, 2),), 2)


@pytest.mark.parametrize(
    ("given", "labels", "says"),
    [
        ({"y": 0}, None, "data: no array 'x': it has 'y', the model takes 'x' (float32[?,2])"),
        ({}, None, "data: no array 'x': it has nothing, the model takes 'x' (float32[?,2])"),
        ({"x": np.zeros((2, 2))}, None, "data 'x': got float64[2,2], want float32[?,2]"),
        ({"x": np.zeros((2, 3), np.float32)}, None, "data 'x': got float32[2,3], want float32[?,2]"),
        ({"x": np.zeros((0, 2), np.float32)}, None,
         "data 'x': is empty (float32[0,2]): want at least one sample"),
        ({"x": np.array([[1, 2], [3, np.nan], [np.inf, 0]], np.float32)}, None,
         "data 'x': has NaN at [1, 1], 2 values in all that are not finite: remove them"),
        ({"x": np.zeros((2, 2), np.float32)}, np.array([1, 2, 0]),
         "labels: got 3 of shape [3], want class numbers of shape [2] for 2 samples"),
        ({"x": np.zeros((2, 2), np.float32)}, np.array([1.0, 2.0]),
         "labels: got 2 of shape [2], want values of shape [2, 3] for 2 samples"),
        ({"x": np.zeros((2, 2), np.float32)}, np.array([1, 3]), "labels: class numbers from 1 to 3, want 0 to 2"),
        ({"x": np.zeros((1, 2), np.float32)}, np.array([[1, 2, np.nan]]),
         "labels: have NaN or an infinity: want finite values"),
        ({"x": np.zeros((1, 2), np.float32)}, np.array(["a"]), "labels: got str32[1]: want class numbers or values"),
    ],
)  # fmt: skip
def test_data_that_does_not_fit(given: dict[str, Any], labels: Any, says: str) -> None:
    with pytest.raises(NumcError) as error:
        check_data(given, labels, (X,), OUTPUT, {}, 64)
    assert str(error.value) == says


def test_samples_that_do_not_fit() -> None:
    fixed = (Input("x", "float32", (2, 2)), Input("y", "float32", (2,)))
    given = {"x": np.zeros((5, 2), np.float32), "y": np.zeros(4, np.float32)}
    with pytest.raises(NumcError, match="data 'x': 5 samples, but the model takes 2 at a time: give a multiple of 2"):
        check_data(given, None, fixed, OUTPUT, {}, 64)
    given["x"] = np.zeros((8, 2), np.float32)
    with pytest.raises(NumcError, match="data 'y': 4 samples, but 'x' has 8: want as many"):
        check_data(given, None, fixed, OUTPUT, {}, 64)


def test_metrics_that_do_not_fit() -> None:
    classes, values = np.array([1]), np.array([[1.0, 2, 3]])
    assert check_metrics((), classes, OUTPUT) == ("top1",)
    assert check_metrics((), values, OUTPUT) == check_metrics((), None, OUTPUT) == ("cosine",)
    for name, labels, says in (
        (
            "cosin",
            None,
            "unknown metric 'cosin' (did you mean 'cosine'?): want top1, top5, mse, cosine, perplex",
        ),
        ("top1", None, "metric 'top1': needs labels that are class numbers, got none: give --labels FILE"),
        ("perplexity", values, "metric 'perplexity': needs labels that are class numbers, got values: "),
        ("top5", classes, "metric 'top5': the output has 3 classes: every label is among five"),
    ):
        with pytest.raises(NumcError) as error:
            check_metrics((name,), labels, OUTPUT)
        assert str(error.value).startswith(says)


@pytest.mark.all
def test_results_are_those_of_the_programs(found: tuple[Comparison, Path], digits: dict[str, Any]) -> None:
    comparison, _ = found
    assert [r.name for r in comparison.results] == ["fp32", "bf16_1_1", "fmac(e4m3)", "mixed"]
    reference = numc.compile(MLP, pack_weights=True)(digits["data"])
    for result in comparison.results:
        given = {"policy": result.policy} if result.name == "mixed" else {"fma": result.name}
        program = numc.compile(MLP, **given, pack_weights=True)  # from the cache
        outputs = program(digits["data"]).astype(np.float64)
        assert result.metrics["top1"] == np.mean(outputs.argmax(1) == digits["labels"])
        assert result.error == pytest.approx(((outputs - reference) ** 2).sum() / (reference.astype(float) ** 2).sum())
        assert result.metrics["mse"] == pytest.approx(((outputs - reference) ** 2).mean())
        assert result.fmas == sum(
            row["n"] * row["k"] for row in program.manifest["layers"] if row["position"] is not None
        )
        assert result.time > 0
        assert len(result.layers) == 3
    bf16 = comparison["bf16_1_1"]
    pair = (numc.compile(MLP, fma=fma, pack_weights=True) for fma in ("bf16_1_1", "fp32"))
    both = zip(*(layer_outputs(program, digits["data"]) for program in pair), strict=True)
    for x, r in both:  # all at once, in no batches
        wide = r.values.astype(np.float64)
        assert bf16.layers[x.position].name == x.name
        assert bf16.layers[x.position].error == pytest.approx(((x.values - wide) ** 2).sum() / (wide**2).sum())
    assert (bf16.area, bf16.iso_area) == (64, 9)
    assert bf16.gates == table()[bf16.operators[0]].gates
    assert comparison["fmac(e4m3)"].breaks.error > BREAKS
    assert bf16.breaks is None
    assert comparison["mixed"].layers[0].error == 0 < comparison["mixed"].layers[1].error
    assert comparison["fmac(e4m3)"].packed < bf16.packed < comparison["fp32"].packed
    assert comparison.samples == 50
    assert comparison.batch == 20


@pytest.mark.all
@pytest.mark.parametrize(
    ("fmas", "says"),
    [
        ({"": "mp"}, "fmas: got '': 'mp', want texts of operators by names that are texts"),
        ({"mine": 3}, "fmas: got 'mine': 3, want texts of operators by names that are texts"),
        ({"mp": "bf16_1_1"}, "fmas: 'mp' is the name of an operator, want a name of your own for 'bf16_1_1'"),
        ({"hopper_e4m3": "mp"}, "fmas: 'hopper_e4m3' is the name of an operator, want a name of your own for 'mp'"),
    ],
)
def test_names_of_operators_that_are_none(fmas: Any, says: str) -> None:
    with pytest.raises(NumcError) as error:
        numc.compare(MLP, np.zeros((2, 64), np.float32), fmas=fmas)
    assert str(error.value) == says


@pytest.mark.slow
def test_statistics_are_of_all_data(digits: dict[str, Any], tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    found = numc.compare(MLP, **digits, fmas=("bf16_1_1", "int8"), batch=20, results=kept)
    program = numc.compile(MLP, fma="bf16_1_1", statistics=True, pack_weights=True)
    with numc.collect_stats(("swamping", "exponents")) as collected:
        program(digits["data"])  # in one batch
    mine = found["bf16_1_1"].statistics
    for row, whole in zip(mine.rows, collected.statistics.rows, strict=True):
        assert (row.layer, row.fmas, row.executions) == (whole.layer, whole.fmas, 3)
        assert row.swamping == whole.swamping
        assert row.tensors["a"].exponents == whole.tensors["a"].exponents
    assert sum(row.fmas for row in mine.rows) == 50 * found["bf16_1_1"].fmas
    assert "not counted" in found["int8"].statistics.rows[0].note
    again = numc.compare(MLP, **digits, fmas=("bf16_1_1",), batch=20, results=kept)
    assert again["bf16_1_1"].statistics == mine
    with pytest.raises(NumcError, match="sample '2': want 1 or a fraction 1/n"):
        numc.compare(MLP, **digits, fmas=(), sample="2")


@pytest.mark.all
def test_layers_that_only_one_program_has() -> None:
    """Products of one operand with parts of a weight, the gates of an LSTM, are one where their operators are."""
    lstm = MODELS / "lstm.npz"
    with np.load(lstm) as given:
        found = numc.compare(lstm.with_suffix(".onnx"), given["input"], fmas=(), policies={"one": "layer 0 mp"},
                             statistics=False)  # fmt: skip
    (apart,) = found["one"].apart
    assert [(layer.position, layer.name == apart) for layer in found["fp32"].layers] == [
        (0, True), (1, True), (2, False), (3, False), (4, False)
    ]  # fmt: skip
    assert [layer.position for layer in found["one"].layers] == [2, 3, 4]
    assert all(0 < layer.error < 1e-5 for layer in found["one"].layers)


def test_fp32_is_checked_with_onnxruntime(found: tuple[Comparison, Path]) -> None:
    pytest.importorskip("onnxruntime")
    peer = found[0].onnxruntime
    assert peer.holds
    assert peer.error < 1e-10
    assert peer.largest < 1e-3
    assert peer.note == ""


def test_json_gives_the_comparison_back(found: tuple[Comparison, Path]) -> None:
    from comparisons import made_up

    for comparison in (found[0], made_up()):  # the second has infinities and statistics
        text = comparison.to_json()
        assert Comparison.from_json(text) == comparison
        json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    with pytest.raises(NumcError, match="not the JSON of a comparison: want what Comparison.to_json wrote"):
        Comparison.from_json('{"results": 1}')


@pytest.mark.all
def test_finished_results_are_not_computed_again(
    found: tuple[Comparison, Path], digits: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison, kept = found
    mine = tmp_path / "kept.json"
    mine.write_bytes(kept.read_bytes())
    ran: list[str] = []
    run = module._Work.run

    def counted(self: Any, number: int, *rest: Any) -> Any:
        ran.append(self.columns[number].name)
        return run(self, number, *rest)

    monkeypatch.setattr(module._Work, "run", counted)
    given: dict[str, Any] = {"metrics": tuple(METRICS), "batch": 20, "results": mine, "statistics": False}
    again = numc.compare(MLP, **digits, fmas=FMAS, **given)
    assert ran == []
    assert again.results == comparison.results[:3]
    # The preset is another arithmetic than the operator of its name, the last two are operators that were there.
    more = numc.compare(
        MLP, **digits, fmas=("bf16_1_1", "mp", " mp"), policies=["mp", "default fma = bf16_1_1, ops = fp32"], **given
    )
    assert ran == ["mp", "policy mp"]
    assert [r.name for r in more.results] == ["fp32", "bf16_1_1", "mp", "policy mp"]
    # Other data, or other metrics, are other results.
    half = {"data": {"x": digits["data"]["x"][:20]}, "labels": digits["labels"][:20]}
    numc.compare(MLP, **half, fmas=(), **given)
    numc.compare(MLP, **digits, fmas=(), **{**given, "metrics": ("top1",)})
    assert ran == ["mp", "policy mp", "fp32", "fp32"]


@pytest.mark.all
def test_an_interrupt_leaves_what_is_finished(
    digits: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept.json"

    def stop(what: str, done: float) -> None:
        if what == "bf16_1_1: timing":
            raise KeyboardInterrupt

    with pytest.raises(module.Interrupted) as stopped:
        numc.compare(MLP, **digits, fmas=FMAS, results=kept, statistics=False, progress=stop)
    assert (stopped.value.finished, stopped.value.total, stopped.value.path) == (1, 3, kept)
    assert [result["name"] for result in json.loads(kept.read_text())["results"].values()] == ["fp32"]
    said: list[tuple[str, float]] = []
    numc.compare(MLP, **digits, fmas=FMAS[:2], results=kept, statistics=False, progress=lambda *a: said.append(a))
    assert {what.partition(":")[0] for what, _ in said} == {"bf16_1_1"}
    assert [done for _, done in said] == sorted(done for _, done in said)


def test_results_files_of_something_else(
    found: tuple[Comparison, Path], digits: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(NumcError) as error:
        numc.compare(DIGITS / "cnn.onnx", **digits, fmas=(), results=found[1])
    assert str(error.value) == (f"{found[1]}: results of another model ({MLP}): name another file, or remove this one")
    other = tmp_path / "other.json"
    for text in ("{}", "nothing", '{"kind": "numc compare 1"}'):
        other.write_text(text)
        with pytest.raises(NumcError) as error:
            Store(other, "model", "0")
        assert str(error.value) == f"{other}: not results of numc compare: name another file, or remove this one"
    with pytest.raises(NumcError, match="cannot read: Is a directory: name another file"):
        Store(tmp_path, "model", "0")


def test_what_else_is_wrong_is_said_before_anything_is_compiled(
    digits: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "contents", lambda *a: pytest.fail("compiled"))
    for given, says in (
        (
            {"policies": ['layer "conv" fma = mp']},
            'policy 1: policy:1: layer "conv" matches nothing in this model: its layers are',
        ),
        ({"policies": {"mine": 'layer "conv" fma = mp'}}, 'mine: policy:1: layer "conv" matches nothing'),
        ({"policies": ["x/a.policy", "y/a.policy"]}, "policy 'a': there are two of this name: rename a file"),
        (
            {"fmas": ("bf16_1_4",)},
            "unknown FMA operator 'bf16_1_4' (did you mean 'bf16_1_3', 'bf16_1_2' or 'bf16_1_1'?)",
        ),
        ({"output": "logit"}, "output 'logit': no such output (did you mean 'logits'?): the model has 'logits'"),
        ({"batch": 0}, "batch: got 0, want at least 1"),
        ({"metrics": ("top2",)}, "unknown metric 'top2' (did you mean 'top5' or 'top1'?)"),
        (
            {"example_inputs": 1},
            f"{MLP}: example_inputs and dynamic_shapes are for PyTorch modules, files have their inputs",
        ),
    ):
        with pytest.raises(NumcError) as error:
            numc.compare(MLP, **digits, **{"fmas": (), **given})
        assert str(error.value).startswith(says), str(error.value)


def test_a_comparison_inside_a_block_of_statistics(digits: dict[str, Any]) -> None:
    given = digits["data"]["x"][:20]
    with numc.collect_stats("exponents") as alone:
        numc.compile(MLP)(given)
    with numc.collect_stats("exponents") as around:
        inside = numc.compare(MLP, given, fmas=(), batch=20)["fp32"].statistics
    assert inside is not None
    assert len(alone.statistics.rows) > 1
    for row in alone.statistics.rows:
        (own,) = (r for r in inside.rows if r.layer == row.layer)
        assert own.tensors["result"].exponents == row.tensors["result"].exponents
        every = [r for r in around.statistics.rows if r.layer == row.layer]
        assert len(every) == 2  # with and without kernels that count
        for other in every:
            sums = [other.executions * n for n in row.tensors["result"].exponents.counts]
            assert list(other.tensors["result"].exponents.counts) == sums
    with numc.collect_stats("swamping"), pytest.raises(NumcError) as error:
        numc.compare(MLP, given, fmas=())
    assert str(error.value) == (
        "compare: a block of collect_stats around it counts swamping: leave swamping out of the block, or compare "
        "outside of it"
    )


@pytest.mark.all
def test_modules_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)).eval()
    x = torch.randn(12, 6)
    batch = torch.export.Dim("batch")
    found = numc.compare(model, x, example_inputs=(x,), dynamic_shapes=({0: batch},), fmas=("mp",), batch=4,
                         statistics=False)  # fmt: skip
    assert found.model == "Sequential"
    assert (found.samples, found.batch, found.metrics, found.labels) == (12, 4, ("cosine",), "")
    assert found["fp32"].metrics["cosine"] == pytest.approx(1.0)
    assert 0 < found["mp"].error < 1e-3
    assert found.onnxruntime is None
    with pytest.raises(NumcError, match="cannot compare a int: want a file name, an onnx.ModelProto, a torch."):
        numc.compare(3, x)
    with pytest.raises(
        NumcError, match="Sequential: shapes and values are for files: example_inputs and dynamic_shapes say"
    ):
        numc.compare(model, x, example_inputs=(x,), shapes={"x": (1, 6)})
