"""Results of contractions inside a running program are the bits that it computes with, in the order of the model."""

from __future__ import annotations

import numpy as np
import pytest

import numc
from numc.frontends.imported import Imported
from numc.studies.observe.layer_outputs import LayerOutput, layer_outputs, tap
from small_models import LOOP

# Two products of which the second has what is transposed: A supplies the lanes of the vectors there.
TEXT = """
#mk = affine_map<(b, m, n, k) -> (b, m, k)>
#kn = affine_map<(b, m, n, k) -> (b, k, n)>
#nm = affine_map<(b, m, n, k) -> (b, n, m)>
func.func @main(%a: tensor<2x?x5xf32>, %b: tensor<2x5x7xf32>, %c: tensor<2x7x40xf32>) -> (tensor<2x?x7xf32>, tensor<2x40x?xf32>) {
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %a, %c1 : tensor<2x?x5xf32>
  %e = tensor.empty(%m) : tensor<2x?x7xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x?x7xf32>) -> tensor<2x?x7xf32>
  %x = linalg.batch_matmul ins(%a, %b : tensor<2x?x5xf32>, tensor<2x5x7xf32>) outs(%f : tensor<2x?x7xf32>) -> tensor<2x?x7xf32> loc("first")
  %u = tensor.empty(%m) : tensor<2x40x?xf32>
  %g = linalg.fill ins(%zero : f32) outs(%u : tensor<2x40x?xf32>) -> tensor<2x40x?xf32>
  %y = linalg.generic {indexing_maps = [#mk, #kn, #nm], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %c : tensor<2x?x7xf32>, tensor<2x7x40xf32>) outs(%g : tensor<2x40x?xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.mulf %p, %q : f32
    %r = arith.addf %o, %t : f32
    linalg.yield %r : f32
  } -> tensor<2x40x?xf32> loc("second")
  return %x, %y : tensor<2x?x7xf32>, tensor<2x40x?xf32>
}
"""  # noqa: E501


def program(text: str, fma: str) -> numc.Program:
    return numc.compile(Imported(mlir=text), fma=fma)


def arrays(rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rows)
    shapes = ((2, rows, 5), (2, 5, 7), (2, 7, 40))
    return {f"arg{n}": rng.standard_normal(shape).astype(np.float32) for n, shape in enumerate(shapes)}


def square() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32) / 2


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(np.uint32)


@pytest.mark.parametrize(
    ("fma", "rows", "threads"), [("fp32", 3, 1), ("bf16_2_2{3}", 70, 2), ("fmac(bf16,chunk=2)", 3, 1), ("int8", 70, 2)]
)
def test_layers_are_what_the_outputs_are(fma: str, rows: int, threads: int) -> None:
    found: list[LayerOutput] = []
    outputs = tap(program(TEXT, fma), arrays(rows), found.append, threads=threads)
    assert [(layer.position, layer.execution, layer.name) for layer in found] == [(0, 0, "first"), (1, 0, "second")]
    for layer, output in zip(found, (outputs["result0"], outputs["result1"].transpose(0, 2, 1)), strict=True):
        np.testing.assert_array_equal(bits(layer.values), bits(output))


def test_a_loop_gives_every_execution() -> None:
    layers = list(layer_outputs(program(LOOP, "bf16_1_1"), {"arg0": square()}))
    assert [(layer.position, layer.execution, layer.name) for layer in layers] == [(0, n, "square") for n in range(3)]
    x = square()
    for layer in layers:
        x = numc.matmul(x, x, fma="bf16_1_1")
        np.testing.assert_array_equal(bits(layer.values[0]), bits(x))


def test_one_program_twice_side_by_side() -> None:
    made = program(LOOP, "fp32")
    one, two = layer_outputs(made, {"arg0": square()}), layer_outputs(made, {"arg0": square() * 2})
    for n, (a, b) in enumerate(zip(one, two, strict=True)):
        assert (a.execution, b.execution) == (n, n)
        np.testing.assert_array_equal(a.values * 4 ** (2**n), b.values)


def test_the_outputs_come_last() -> None:
    made, given = program(TEXT, "fp32"), arrays(3)

    def run():
        outputs.update((yield from layer_outputs(made, given)))

    outputs: dict[str, np.ndarray] = {}
    assert len(list(run())) == 2
    for name, value in made(given).items():
        np.testing.assert_array_equal(outputs[name], value)


def test_leaving_early_ends_the_run() -> None:
    made = program(LOOP, "fp32")
    for layer in layer_outputs(made, {"arg0": square()}):
        assert layer.execution == 0
        break
    assert len(list(layer_outputs(made, {"arg0": square()}))) == 3


def test_wrong_inputs_are_an_error() -> None:
    with pytest.raises(numc.NumcError, match="missing 'arg0'"):
        next(layer_outputs(program(LOOP, "fp32"), {}))
