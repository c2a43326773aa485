"""numc.diff: programs of one model side by side."""

from __future__ import annotations

import json

import numpy as np
import pytest

import numc
from numc.frontends.imported import Imported
from numc.studies.diff import diff
from small_models import LOOP, THREE, data

# Two products of halves of one matrix, which become one product if their operators are the same.
HALVES = """
func.func @main(%x: tensor<3x4xf32>, %w: tensor<4x6xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3x3xf32>) -> tensor<3x3xf32>
  %u = tensor.extract_slice %w[0, 0] [4, 3] [1, 1] : tensor<4x6xf32> to tensor<4x3xf32>
  %v = tensor.extract_slice %w[0, 3] [4, 3] [1, 1] : tensor<4x6xf32> to tensor<4x3xf32>
  %a = linalg.matmul ins(%x, %u : tensor<3x4xf32>, tensor<4x3xf32>) outs(%f : tensor<3x3xf32>) -> tensor<3x3xf32> loc("gates")
  %b = linalg.matmul ins(%x, %v : tensor<3x4xf32>, tensor<4x3xf32>) outs(%f : tensor<3x3xf32>) -> tensor<3x3xf32> loc("gates")
  return %a, %b : tensor<3x3xf32>, tensor<3x3xf32>
}
"""  # noqa: E501


def program(text: str = THREE, policy: str = "default fp32") -> numc.Program:
    return numc.compile(Imported(mlir=text), policy=policy)


@pytest.fixture(scope="module")
def fp32() -> numc.Program:
    return program()


@pytest.fixture(scope="module")
def mp() -> numc.Program:
    return program(policy="default fma = mp")


@pytest.mark.parametrize("threads", [1, 3])
def test_the_first_difference_is_that_of_the_layers(fp32: numc.Program, mp: numc.Program, threads: int) -> None:
    x, u, v, w = data().values()
    layers = [x @ u]
    seen: list[tuple[int, int]] = []
    found = numc.diff(fp32, mp, data(), threads=threads, progress=lambda *done: seen.append(done))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert [(d.positions, d.name, d.fma_a, d.fma_b, d.executions) for d in found.layers] == [
        ((n,), name, "fp32", "mp", 1) for n, name in enumerate(("first", "second", "third"))
    ]
    layers.append(numc.matmul(layers[0], v, fma="fp32"))
    others = [layers[0], numc.matmul(layers[0], v, fma="mp")]
    layers.append(numc.matmul(layers[1], w, fma="fp32"))
    others.append(numc.matmul(others[1], w, fma="mp"))
    for layer, a, b in zip(found.layers, layers, others, strict=True):
        assert layer.difference.differ == (a != b).sum()
        assert layer.difference.largest == np.abs(a.astype(np.float64) - b).max()
        error, norm = ((x.astype(np.float64) ** 2).sum() for x in (b - a.astype(np.float64), a))
        assert layer.difference.relative == pytest.approx(error / norm, rel=1e-12)
    assert found.first is found.layers[1]
    first = found.first.difference.first
    assert first is not None
    index = tuple(int(n) for n in np.argwhere(layers[1] != others[1])[0])
    assert first.index == (0, *index)
    assert (np.float32(first.a), np.float32(first.b)) == (layers[1][index], others[1][index])
    assert found.outputs[0].difference is not None
    assert found.outputs[0].difference.relative == found.layers[2].difference.relative
    assert not found.same
    assert json.loads(json.dumps(found.to_json()))["first"] == "second"


def test_equal_programs_and_one_program_twice(fp32: numc.Program) -> None:
    for other in (fp32, program()):
        found = numc.diff(fp32, other, data())
        assert found.same
        assert found.first is None
        assert [layer.difference.differ for layer in found.layers] == [0, 0, 0]


def test_products_that_only_one_program_merges() -> None:
    rng = np.random.default_rng(0)
    given = {"arg0": rng.standard_normal((3, 4)), "arg1": rng.standard_normal((4, 6))}
    given = {name: array.astype(np.float32) for name, array in given.items()}
    merged, apart = program(HALVES), program(HALVES, "default fp32; layer 1 fma = mp")
    assert numc.diff(merged, program(HALVES, "default mp"), given).layers[0].positions == (0, 1)
    assert [len(p.manifest["contractions"]) for p in (merged, apart)] == [1, 2]
    found = numc.diff(merged, apart, given)
    assert (found.layers, found.apart) == ((), ("gates",))
    assert [o.difference.differ > 0 for o in found.outputs if o.difference] == [False, True]
    assert not found.same


def test_a_layer_in_a_loop() -> None:
    """The first square is exact in bfloat16, the second one is not."""
    x = np.random.default_rng(0).integers(-15, 16, (6, 6)).astype(np.float32)
    found = numc.diff(program(LOOP), program(LOOP, "default fma = mp"), {"arg0": x})
    (layer,) = found.layers
    assert (layer.name, layer.executions, layer.difference.elements) == ("square", 3, 3 * 36)
    first = layer.difference.first
    assert first is not None
    assert first.execution == 1
    assert " of execution 1: " in str(first)


def test_a_product_that_no_kernel_computes_is_named() -> None:
    text = """
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>, %c: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %y = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<2x3xf32>, tensor<3x2xf32>) outs(%c : tensor<2x2xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.mulf %p, %q : f32
    %r = arith.addf %o, %t : f32
    %s = arith.maximumf %r, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x2xf32> loc("odd")
  return %y : tensor<2x2xf32>
}"""
    made = program(text)
    given = {spec.name: np.ones([size or 0 for size in spec.shape], np.float32) for spec in made.inputs}
    found = numc.diff(made, made, given)
    assert (found.layers, found.apart, found.same) == ((), ("odd",), True)


def test_layers_that_draw_random_bits(fp32: numc.Program) -> None:
    drawing = program(policy="layer 2 fma = fmac(e8m9:sr8)")
    one, same, other = (numc.diff(fp32, drawing, data(), seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    assert [layer.difference.differ > 0 for layer in one.layers] == [False, False, True]
    assert numc.diff(drawing, drawing, data()).same


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (
            ("third", "last"),
            "not two programs of one model: the first has layer 2 'third' (? x 3 x 4), the second 'last' (? x 3 x 4)",
        ),
        (
            ("%w: tensor<4x3xf32>", "%w: tensor<4x3xf32>, %z: tensor<1xf32>"),
            "not two programs of one model: the first has 4 inputs, the second 5",
        ),
    ],
)
def test_other_models(fp32: numc.Program, change: tuple[str, str], error: str) -> None:
    with pytest.raises(numc.NumcError) as raised:
        numc.diff(fp32, program(THREE.replace(*change)), data())
    assert str(raised.value) == error


def test_other_sizes(fp32: numc.Program) -> None:
    text = THREE.replace("4x3x", "4x2x").replace("?x3x", "?x2x")
    with pytest.raises(numc.NumcError) as raised:
        diff(fp32, program(text), data())
    assert str(raised.value) == (
        "not two programs of one model: the first has the input 'arg3' (float32[4,3]), the second 'arg3' (float32[4,2])"
    )


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        (
            "arg1",
            np.full((4, 4), np.nan, np.float32),
            "data 'arg1': has NaN at [0, 0], 16 values in all that are not finite: remove them",
        ),
        ("arg0", np.zeros((0, 4), np.float32), "data 'arg0': is empty (float32[0,4]): want at least one sample"),
        ("arg0", np.zeros((1, 5), np.float32), "input 'arg0': got float32[1,5], want float32[?,4]"),
    ],
)
def test_data_that_does_not_fit(fp32: numc.Program, name: str, value: np.ndarray, error: str) -> None:
    with pytest.raises(numc.NumcError) as raised:
        numc.diff(fp32, fp32, {**data(), name: value})
    assert str(raised.value) == error


@pytest.mark.parametrize(
    ("inputs", "error"),
    [
        ([], "inputs: got no run, want the arrays of at least 1"),
        ([data(), 1], "inputs: got int, want arrays by name of"),
    ],
)
def test_runs_that_are_none(fp32: numc.Program, inputs: object, error: str) -> None:
    with pytest.raises(numc.NumcError, match=error):
        numc.diff(fp32, fp32, inputs)


def test_several_runs_are_counted_together(fp32: numc.Program, mp: numc.Program) -> None:
    """Runs of one and of four samples, and one of all five."""
    one = numc.diff(fp32, mp, data())
    part = {name: value for name, value in data().items() if name != "arg0"}
    x = data()["arg0"]
    found = numc.diff(fp32, mp, [{**part, "arg0": x[:1]}, {**part, "arg0": x[1:]}])
    assert [layer.executions for layer in found.layers] == [2, 2, 2]
    for a, b in zip((*one.layers, *one.outputs), (*found.layers, *found.outputs), strict=True):
        assert a.difference is not None
        assert b.difference is not None
        assert (a.difference.elements, a.difference.differ) == (b.difference.elements, b.difference.differ)
        assert a.difference.largest == b.difference.largest
    assert numc.diff(fp32, mp, [data()]) == one


def test_a_model_is_no_program(tmp_path) -> None:
    (tmp_path / "three.mlir").write_text(THREE)
    with pytest.raises(numc.NumcError, match=r"three.mlir: is a model: compile it \(numc compile "):
        numc.diff(tmp_path / "three.mlir", tmp_path / "three.mlir", data())
