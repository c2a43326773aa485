"""numc.bisect: the layers that have to be in fp32."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import pytest

import numc
from numc.frontends.imported import Imported
from numc.studies.bisect import Bisection, Interrupted, Try
from small_models import THREE, data


def search(**options: object) -> Bisection:
    return numc.bisect(Imported(mlir=THREE), data(), **{"fma": "mp", "tolerance": 0, **options})


def error(policy: str, measure: str = "relative") -> Any:
    """The error of a policy, computed apart."""
    x, r = (numc.compile(Imported(mlir=THREE), policy=p)(data()) for p in (policy, "default fp32"))
    squares = (x.astype(np.float64) - r) ** 2
    return pytest.approx(squares.mean() if measure == "mse" else squares.sum() / (r.astype(np.float64) ** 2).sum())


@pytest.mark.all
def test_the_layers_that_matter_and_the_policy_that_says_so() -> None:
    tries: list[Try] = []
    found = search(progress=tries.append)
    assert found.layers is not None
    assert [(k.position, k.name, k.shape, k.fma) for k in found.layers] == [
        (1, "second", "? x 4 x 4", "mp"),
        (2, "third", "? x 3 x 4", "mp"),
    ]
    assert found.policy == "default fma = mp, ops = fp32\nlayer 1, 2 fma = fp32  # second, third\n"
    assert error(found.policy) == 0
    assert found.error == found.every == 0
    assert found.start == error("default fma = mp")
    for kept, other in zip(found.layers, (2, 1), strict=True):
        assert kept.without == error(f"default fma = mp; layer {other} fp32")
        assert kept.without > 0
    assert [t.number for t in tries] == list(range(1, found.tries + 1))
    assert [(t.size, t.best) for t in tries[:2]] == [(0, None), (3, 3)]
    assert tries[-1].best == 2
    assert json.loads(json.dumps(found.to_json()))["layers"][0]["name"] == "second"


@pytest.mark.all
def test_a_tolerance_that_needs_less() -> None:
    both = search()
    assert both.layers is not None
    largest = min(kept.without for kept in both.layers)
    found = search(tolerance=largest)
    assert found.layers is not None
    assert len(found.layers) == 1
    assert found.error <= largest < found.layers[0].without


def test_nothing_is_needed() -> None:
    found = search(tolerance=1)
    assert (found.layers, found.policy, found.tries) == ((), "default fma = mp, ops = fp32\n", 1)


@pytest.mark.all
def test_contractions_are_not_enough() -> None:
    """Between the products is an addition, and --ops is what is wrong."""
    add = """%m = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%b : tensor<?x4xf32>) outs(%e : tensor<?x4xf32>) {
  ^bb0(%p: f32, %q: f32):
    %s = arith.addf %p, %p : f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  %o = tensor.empty"""  # noqa: E501
    text = THREE.replace("%o = tensor.empty", add).replace("ins(%b, %w", "ins(%m, %w")
    text = "#id = affine_map<(i, j) -> (i, j)>" + text
    found = numc.bisect(Imported(mlir=text), data(), fma="mp", ops="bf16", tolerance=1e-9)
    assert found.layers is None
    assert found.tries == 2
    assert min(found.start, found.every) > 1e-9
    nothing = numc.bisect(Imported(mlir=text), data(), ops="bf16", tolerance=1e-9)
    assert (nothing.layers, nothing.tries, nothing.candidates) == (None, 1, 0)
    assert nothing.every == nothing.start == found.every


def test_batches_do_not_matter() -> None:
    """Where no scale is that of a whole tensor, and nothing is drawn."""
    whole, cut = search(), search(batch=2)
    assert (cut.policy, cut.tries) == (whole.policy, whole.tries)
    assert cut.start == pytest.approx(whole.start)


@pytest.mark.slow
def test_every_batch_draws_on() -> None:
    """Two batches of equal samples get noise of their own, the second one that of the next seed."""
    given = {**data(4), "arg0": np.ones((4, 4), np.float32)}
    found = numc.bisect(
        Imported(mlir=THREE), given, fma="fma(a=fp32,acc=e6m9:sr8)", tolerance=0, batch=2, seed=2**64 - 1
    )
    exact = numc.compile(Imported(mlir=THREE))(given)
    program = numc.compile(Imported(mlir=THREE), fma="fma(a=fp32,acc=e6m9:sr8)")
    halves = [program({**given, "arg0": given["arg0"][:2]}, seed=seed) for seed in (2**64 - 1, 0)]
    assert not np.array_equal(*halves)
    squares = (np.concatenate(halves).astype(np.float64) - exact) ** 2
    assert found.start == pytest.approx(squares.sum() / (exact.astype(np.float64) ** 2).sum())


def test_mean_squared_error() -> None:
    found = search(metric="mse", tolerance=1e-12)
    assert found.start == error("default fma = mp", "mse")
    assert found.error <= 1e-12 < found.start


@pytest.mark.slow
def test_lost_accuracy() -> None:
    """The labels are what fp32 says, e4m2 loses some of them."""
    labels = numc.compile(Imported(mlir=THREE))(data(200)).argmax(-1)
    given = {"fma": "fma(a=e4m2,acc=fp32)", "metric": "top1", "labels": labels}
    found = numc.bisect(Imported(mlir=THREE), data(200), tolerance=0.01, **given)
    without = numc.compile(Imported(mlir=THREE), fma="fma(a=e4m2,acc=fp32)")(data(200))
    assert found.start == pytest.approx((without.argmax(-1) != labels).mean())
    assert found.layers
    assert all(kept.without > 0.01 >= found.error for kept in found.layers)


@pytest.mark.all
def test_outputs_that_are_not_a_number_are_wrong() -> None:
    found = numc.bisect(
        Imported(mlir=THREE), {**data(), "arg3": np.full((4, 3), 1e6, np.float32)}, policy="layer 2 fma = fmac(e5m2)",
        tolerance=0.5,
    )  # fmt: skip
    assert not found.start <= 0.5  # infinities, or NaN
    assert found.layers is not None
    assert [kept.position for kept in found.layers] == [2]


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_ctrl_c_tells_what_is_enough_so_far(after: int) -> None:
    def stop(last: Try) -> None:
        if last.number == after:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match=f"interrupted after {after} tries") as raised:
        search(progress=stop)
    assert raised.value.tries == after
    if after == 1:
        assert (raised.value.best, raised.value.policy) == (None, "")
    else:
        assert raised.value.best is not None
        assert {1, 2} <= set(raised.value.best)
        assert error(raised.value.policy) == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tolerance": -1}, "tolerance: got -1, want a number of at least 0"),
        ({"tolerance": float("nan")}, "tolerance: got nan, want a number of at least 0"),
        (
            {"metric": "top1", "tolerance": 2},
            "tolerance: got 2, but top1 is a share from 0 to 1, and every result is "
            "within that: want at most 1, such as 0.01",
        ),
        ({"metric": "mes"}, "metric 'mes': no such metric (did you mean 'mse'?): want relative, mse, top1"),
        ({"metric": "top1"}, "metric 'top1': needs labels that are class numbers, got none: give --labels FILE"),
        ({"batch": 0}, "batch: got 0, want at least 1"),
        ({"seed": -1}, "seed: got -1, want a whole number from 0 to 18446744073709551615"),
        ({"labels": [1]}, "metric 'relative': needs no labels, leave them out"),
        (
            {"metric": "top1", "labels": np.zeros(4, np.int64)},
            "labels: got 4 of shape [4], want class numbers of shape [5] for 5 samples",
        ),
        ({"metric": "top1", "labels": np.full(5, 3)}, "labels: class numbers from 3 to 3, want 0 to 2"),
        (
            {"policy": "layer 7 mp", "fma": "fp32"},
            "policy:1: layer 7 matches nothing: the model has contractions 0 to 2",
        ),
    ],
)
def test_bad_input(options: dict[str, object], text: str) -> None:
    with pytest.raises(numc.NumcError) as raised:
        search(**options)
    assert str(raised.value) == text


def test_data_that_does_not_fit() -> None:
    for name, value, text in (
        ("arg0", np.zeros((5, 3), np.float32), "data 'arg0': got float32[5,3], want float32[?,4]"),
        ("arg2", np.full((4, 4), np.inf, np.float32),
         "data 'arg2': has an infinity at [0, 0], 16 values in all that are not finite: remove them"),
    ):  # fmt: skip
        with pytest.raises(numc.NumcError) as raised:
            numc.bisect(Imported(mlir=THREE), {**data(), name: value}, fma="mp", tolerance=0)
        assert str(raised.value) == text
    given = data()
    del given["arg3"]
    with pytest.raises(numc.NumcError, match="data: no array 'arg3': it has 'arg0', 'arg1', 'arg2', the model takes"):
        numc.bisect(Imported(mlir=THREE), given, fma="mp", tolerance=0)


@pytest.mark.slow
def test_a_model_in_memory() -> None:
    """The layers are those of its file."""
    name = "examples/digits/mlp.onnx"
    model = onnx.load(name)
    (given,) = model.graph.input
    sizes = [dim.dim_value or 4 for dim in given.type.tensor_type.shape.dim]
    x = {given.name: np.random.default_rng(0).standard_normal(sizes).astype(np.float32)}
    found, of_file = (numc.bisect(source, x, fma="bf16_1_1", tolerance=1e-8).to_json() for source in (model, name))
    assert found == of_file


def test_what_is_no_model() -> None:
    with pytest.raises(numc.NumcError, match=r"cannot bisect a int: want a file name .* or an onnx.ModelProto"):
        numc.bisect(3, data(), tolerance=0)
