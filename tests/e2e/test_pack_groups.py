"""Weights of formats with groups in codes, with --pack-weights: not one bit of a result is another one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from numc.compiler.options import Options
from numc.compiler.programs.build import build
from numc.frontends.imported import Argument, Imported
from numc.runtime import Contents, Program
from targets_here import runnable
from tiers import one_in

MATMUL = """
func.func @main(%x: tensor<ROWSxDEPTHxf32>, %w: tensor<DEPTHxLANESxf32>) -> tensor<ROWSxLANESxf32> {
  %z = arith.constant 0.0 : f32
  SIZE
  %e = tensor.empty(N) : tensor<ROWSxLANESxf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<ROWSxLANESxf32>) -> tensor<ROWSxLANESxf32>
  %y = linalg.matmul ins(%x, %w : tensor<ROWSxDEPTHxf32>, tensor<DEPTHxLANESxf32>)
    outs(%f : tensor<ROWSxLANESxf32>) -> tensor<ROWSxLANESxf32>
  return %y : tensor<ROWSxLANESxf32>
}
"""
SIZE = "%c0 = arith.constant 0 : index\n  %n = tensor.dim %x, %c0 : tensor<ROWSxDEPTHxf32>"

#: Operators with weights in every kind of elements and scales: found by their list, as integers, by their fields.
OPERATORS = {
    **{f"fma(a=bf16,b={b},acc=fp32)": b for b in (
        "mxfp4_e2m1", "mx(e2m1fn,5,ceil)", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4",
        "mx(int4,128,scale=fp16)", "mx(int3,20,scale=bf16)", "mx(nf4,64,scale=fp32)", "mx(e4m3fnuz,48,scale=fp32)",
        "int4", "int8", "int12",
    )},
    "fma(a=bf16,b=int8:channel,acc=fp32)": "int8",
    "fma(a=e5m2,b=mxfp4,acc=e6m9n)": "mxfp4_e2m1",
    "fma(a=bf16,b=nvfp4,acc=bf16,datapath=exact)": "nvfp4",
    "fma(a=bf16,b=mx(e2m1fn,64),acc=fp32,datapath=fused(l=16,bits=25,round=rtz))": "mx(e2m1fn,64)",
    "mxfp8": "mxfp8_e4m3",
    "fma(a=nvfp4,b=nvfp4,acc=fp32)": "nvfp4",
    "blackwell_mxfp8": "mxfp8_e4m3",
    "blackwell_mxfp4": "mxfp4_e2m1",
    "blackwell_nvfp4": "nvfp4",
}  # fmt: skip
TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "host"]
SIZES = [(1, 70, 300), (3, 161, 33), (40, 64, 21), (None, 300, 40)]


def matmul(rows: int | None, depth: int, lanes: int, weight: np.ndarray) -> Imported:
    free = "?" if rows is None else str(rows)
    text = MATMUL.replace("SIZE", SIZE if rows is None else "").replace("(N)", "(%n)" if rows is None else "()")
    text = text.replace("ROWS", free).replace("DEPTH", str(depth)).replace("LANES", str(lanes))
    fixed = -1 if rows is None else rows
    return Imported(
        text, (Argument("x", "float32", (fixed, depth)),), (Argument("y", "float32", (fixed, lanes)),),
        {1: ("w", weight)},
    )  # fmt: skip


def weights(depth: int, lanes: int) -> np.ndarray:
    """Numbers of all sizes, and groups of zeros, of subnormal numbers, and with an infinity or a NaN."""
    rng = np.random.default_rng(1)
    w = (rng.standard_normal((depth, lanes)) * 2.0 ** rng.integers(-20, 20, (1, lanes))).astype(np.float32)
    w[:, 3] = 0
    w[:, 5] *= np.float32(1e-41)
    w[7, 9], w[8, 9], w[40:, 11], w[:, 13] = 3e38, -3.3e38, -0.0, -1e-30
    return w


def special(w: np.ndarray) -> np.ndarray:
    """The same with numbers that are not finite."""
    found = w.copy()
    found[2, 4], found[60, 1], found[9, 2] = np.inf, -np.inf, np.nan
    return found


def held(contents: Contents) -> str:
    return str(contents.manifest["weights"][-1]["held"])


def compare(plain: Contents, short: Contents, x: np.ndarray) -> None:
    results = [Program(contents)(x, threads=threads) for contents, threads in ((plain, 1), (short, 1), (short, 2))]
    want, *found = (np.where(np.isnan(y), np.float32(np.nan), y).tobytes() for y in results)
    assert found == [want, want]


@pytest.mark.parametrize(
    ("fma", "target", "sizes"),
    one_in(199, product(OPERATORS, TARGETS, SIZES)),
    ids=str,
)
def test_codes_are_the_numbers(fma: str, target: str, sizes: tuple[int | None, int, int]) -> None:
    """Of few rows micro-kernels read codes, of others tasks expand them; scales are behind the codes of each block."""
    rows, depth, lanes = sizes
    w = weights(depth, lanes)
    x = np.random.default_rng(2).standard_normal((rows or 19, depth)).astype(np.float32)
    for values in (w, special(w)):
        source = matmul(rows, depth, lanes, values)
        plain = build(source, Options(fma=fma, target=runnable(target)))
        short = build(source, Options(fma=fma, target=target, pack_weights=True))
        assert held(plain).startswith(("float32", "words"))
        if held(plain) == "float32":
            behind = "" if fma in ("int8",) else " with the scales of groups"
            assert held(short) == f"codes of {OPERATORS[fma]}{behind}"
        compare(plain, short, x)
