"""Sums of elements whose accumulator has another format than what they add: ``ops=F(sums=G)``."""

from __future__ import annotations

import numpy as np
import pytest

import arithmetic_vectorised as reference
import numc
from numc.compiler.programs.compile import compile
from numc.frontends.imported import Imported
from numc.numerics.grammar import parse_conversion
from numc.numerics.policy.layer import Layer
from numc.numerics.policy.ops import parse_ops
from numc.numerics.policy.text import parse_policy
from numc.support.errors import NumcError

torch = pytest.importorskip("torch")

OPS = [
    ("bf16", "fp32"),
    ("e4m3fn", "e8m12"),
    ("bf16:rtz", "tf32"),
    ("fp32", "bf16"),
    ("e6m9n", "bf16x2"),
    ("e3m4", "e5m10:odd"),
]
LAYERS = [Layer(name="", kinds=(kind,)) for kind in ("sum", "mean", "exp")]


def text_of(each: tuple[str, str]) -> str:
    return "{}(sums={})".format(*each)


def total(x: np.ndarray, start: np.ndarray, ops: str, sums: str) -> np.ndarray:
    """The sum along the first axis, term by term, by the definition."""
    to, within = parse_conversion(ops), parse_conversion(sums)
    running = reference.round(start, within)
    for term in reference.round(x, to):
        running = reference.round((running + term).astype(np.float32), within)
    return reference.round(running, to)


@pytest.mark.parametrize("each", OPS, ids=text_of)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_sum_is_rounded_once_behind_its_accumulator(each: tuple[str, str], axis: int) -> None:
    maps = {0: "(b, c)", 1: "(a, c)", 2: "(a, b)"}
    kinds = ", ".join('"reduction"' if n == axis else '"parallel"' for n in range(3))
    mlir = f"""
#in = affine_map<(a, b, c) -> (a, b, c)>
#out = affine_map<(a, b, c) -> {maps[axis]}>
func.func @main(%x: tensor<?x?x?xf32>, %start: tensor<?x?xf32>) -> tensor<?x?xf32> {{
  %r = linalg.generic {{indexing_maps = [#in, #out], iterator_types = [{kinds}]}}
      ins(%x : tensor<?x?x?xf32>) outs(%start : tensor<?x?xf32>) {{
  ^bb0(%v: f32, %sum: f32):
    %next = arith.addf %v, %sum : f32
    linalg.yield %next : f32
  }} -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}}"""
    rng = np.random.default_rng(axis)
    x = (rng.standard_normal((37, 41, 43)) * np.exp2(rng.integers(-9, 6, (37, 41, 43)))).astype(np.float32)
    start = rng.standard_normal(x.sum(axis).shape).astype(np.float32)
    got = np.asarray(compile(Imported(mlir=mlir), ops=text_of(each))(x, start))
    want = total(np.moveaxis(x, axis, 0), start, *each)
    assert (mismatch := reference.first_mismatch(got, want)) is None, mismatch


def test_the_model_of_an_ordinary_mistake() -> None:
    """4096 ones are 256 where every partial sum is a bfloat16."""

    class Sums(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            pooled = torch.nn.functional.adaptive_avg_pool2d(x, 1)
            return x.sum((2, 3)), x.mean((2, 3)), pooled, torch.softmax(x.flatten(1), 1)

    ones = torch.ones(2, 3, 64, 64)
    got = {ops: numc.compile(Sums(), (ones,), ops=ops)(ones) for ops in ("bf16", "bf16(sums=fp32)")}
    values = [[float(np.asarray(each).flat[0]) for each in found.values()] for found in got.values()]
    assert values == [
        [256, 2**-4, 2**-4, 2**-8],
        [4096, 1, 1, float(reference.round(np.float32(1 / 12288), parse_conversion("bf16")))],
    ]


def test_gradients_of_biases_take_it() -> None:
    """The sum over a batch, in a compiled training step."""
    layer = torch.nn.Linear(4, 3)
    steps = {}
    for ops in ("bf16", "bf16(sums=fp32)"):
        layer.zero_grad()
        torch.compiler.reset()
        compiled = torch.compile(layer, backend=numc.backend("fp32", ops=ops))
        compiled(torch.ones(4096, 4)).sum().backward()
        steps[ops] = layer.bias.grad.clone()
    assert steps["bf16"].tolist() == [256.0] * 3
    assert steps["bf16(sums=fp32)"].tolist() == [4096.0] * 3


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("bf16", "bf16"),
        (" bf16 ( sums = fp32 ) ", "bf16(sums=fp32)"),
        ("bf16(sums=e8m7)", "bf16"),
        ("1/6/9/n(sums=fp32)", "e6m9n(sums=fp32)"),
        ("bf16:sr8(sums=fp32:rtz)", "bf16:sr8(sums=fp32:rtz)"),
        ("fixed(8,4)(sums=fixed(14,8))", "fixed(8,4)(sums=fixed(14,8))"),
    ],
)
def test_texts(text: str, canonical: str) -> None:
    assert str(parse_ops(text)) == canonical
    assert str(parse_ops(canonical)) == canonical
    policy = parse_policy(
        f"format narrow = bf16\ndefault fp32\nop sum ops = {text}; op mean {text}; op exp ops = narrow(sums=fp32)"
    )
    said = [str(decision.ops) for decision in policy.decide(LAYERS)]
    assert said == [canonical, canonical, "bf16(sums=fp32)"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("bf16(sum=fp32)", "format 'bf16(sum=fp32)': got 'sum' (did you mean 'sums'?): want F or F(sums=G)"),
        ("bf16(sums=)", "format '': cannot read it from its end"),
        ("bf16(sums=mxfp8)", "a format with groups is for the operands of an FMA operator"),
        ("mxfp8(sums=fp32)", "a format with groups is for the operands of an FMA operator"),
        ("bf17(sums=fp32)", "unknown format 'bf17'"),
    ],
)
def test_bad_texts(text: str, error: str) -> None:
    with pytest.raises(NumcError) as caught:
        parse_ops(text)
    assert error in str(caught.value)
