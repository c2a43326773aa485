"""Multiply-adds outside of reductions, in a program: one step of the operator, as the reference has it."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest

import numc
from numc.frontends.imported import Imported
from numc.numerics import reference
from targets_here import HERE

F32Array = npt.NDArray[np.float32]
MIN = 2.0**-126


def operands() -> tuple[F32Array, F32Array, F32Array]:
    """Numbers of every kind, and sums around the least normal number, in bits."""
    special = [0.0, -0.0, 1.0, -1.5, MIN, -MIN, MIN / 2, 2.0**-149, -(2.0**-140), 3.4e38, np.inf, -np.inf, np.nan]
    rows = list(itertools.product(special, special, special))
    small, near = 2.0**-75, np.float32(MIN)
    for steps, sign in itertools.product(range(-3, 4), (1, -1)):  # c is MIN and some quanta, the product some of them
        c = near + steps * np.float32(2.0**-149)
        rows += [(sign * small * f, 2.0**e, c) for e in range(-79, -70) for f in (1.0, 1.0078125, 1.9921875)]
    rng = np.random.default_rng(0)
    numbers = np.ldexp(rng.standard_normal((400, 3)), rng.integers(-80, -45, (400, 3)))
    numbers[:, 2] = np.ldexp(rng.standard_normal(400), rng.integers(-150, -120, 400))
    with np.errstate(under="ignore"):
        a, b, c = np.array([*rows, *numbers.tolist()]).astype(np.float32).T
    return tuple(map(np.ascontiguousarray, (a, b, c)))


def program(fma: str, target: str, size: int) -> numc.Program:
    """Elementwise a * b + c."""
    kind, identity = f"tensor<{size}xf32>", "affine_map<(d0) -> (d0)>"
    return numc.compile(
        Imported(f"""
func.func @main(%a: {kind}, %b: {kind}, %c: {kind}) -> {kind} {{
  %e = tensor.empty() : {kind}
  %r = linalg.generic {{indexing_maps = [{", ".join([identity] * 4)}], iterator_types = ["parallel"]}}
      ins(%a, %b, %c : {kind}, {kind}, {kind}) outs(%e : {kind}) {{
  ^bb0(%x: f32, %y: f32, %z: f32, %o: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %p, %z : f32
    linalg.yield %s : f32
  }} -> {kind}
  return %r : {kind}
}}"""),
        fma=fma,
        target=target,
    )


def check(fma: str, target: str) -> None:
    a, b, c = operands()
    found, wanted = program(fma, target, a.size)(a, b, c), reference.fma(a, b, c, fma)
    differs = (found.view(np.uint32) != wanted.view(np.uint32)) & ~(np.isnan(found) & np.isnan(wanted))
    if differs.any():
        n = int(differs.argmax())
        values = " ".join(f"{x[n].view(np.uint32):#010x}" for x in (a, b, c, found, wanted))
        raise AssertionError(
            f"{fma} on {target}: {differs.sum()} of {a.size} differ, first a b c found wanted {values}"
        )


@pytest.mark.parametrize("fma", ["amx_bf16", "avx512_bf16"])
@pytest.mark.parametrize(
    "target", [pytest.param(t, marks=[] if t in (HERE[0], HERE[-1]) else [pytest.mark.slow]) for t in HERE]
)
def test_instructions_flush(fma: str, target: str) -> None:
    check(fma, target)


@pytest.mark.slow
@pytest.mark.parametrize("fma", list(numc.fmas))
def test_named_operators(fma: str) -> None:
    check(fma, HERE[-1])
