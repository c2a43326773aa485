"""Matrix units of accelerators beside torch's sgemm and a model of single instructions; units written as functions."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
import torch

import numc
from benchmarks.cases import GEMM_SHAPES, UNITS
from benchmarks.measure import in_turns, ratio
from benchmarks.sections.gemm import Row, against_sgemm, matmul, operands
from numc.numerics.defined.loading import define_from

_DEFINITIONS = Path(__file__).resolve().parents[2] / "tests" / "data" / "own_operators.py"
#: By the name of a definition, the operator of numc that it is, and the limit of the ratio of their times, if any.
SAME: Mapping[str, tuple[str, float | None]] = MappingProxyType({
    "own_1_1": ("bf16_1_1", 1.5), "own_twice": ("bf16_1_1", None), "own_fused": ("ampere_bf16", 1.5),
})  # fmt: skip
_SMALL = 32  # rows and columns of what the model multiplies, with as many steps of k


def units(seconds: float, quick: bool) -> list[Row]:
    """Time units at two squares on one thread, on operands in their formats, and the model of some of them."""
    torch.set_num_threads(1)
    rows: list[Row] = []
    for shape in GEMM_SHAPES[:1] if quick else GEMM_SHAPES[:2]:
        for name, bar in UNITS.items():
            unit = numc.units[name]
            a, b = (numc.round(x, str(to)) for x, to in zip(operands(*shape), (unit.a, unit.b), strict=True))
            row = {"shape": "x".join(map(str, shape)), "unit": name, "datapath": unit.datapath.name}
            row |= against_sgemm(matmul(a, b, name), a, b, seconds)
            rows.append({**row, "ns": row["seconds"] / np.prod(shape) * 1e9, "must": bar.must, "aim": bar.aim})
            rows[-1]["model_ns"] = _model(name, seconds)
    return rows


def own(seconds: float, quick: bool) -> list[Row]:
    """Time functions and the operators that compute the same, at two squares on one thread."""
    torch.set_num_threads(1)
    define_from(str(_DEFINITIONS))
    rows: list[Row] = []
    for shape in GEMM_SHAPES[:1] if quick else GEMM_SHAPES[:2]:
        a, b = operands(*shape)
        for name, (built_in, must) in SAME.items():
            timings = in_turns({"own": matmul(a, b, name), "numc": matmul(a, b, built_in)}, seconds=seconds)
            rows.append({
                "shape": "x".join(map(str, shape)), "operator": name, "built_in": built_in, "must": must,
                "seconds": timings["own"].best, "built_in_seconds": timings["numc"].best,
                "ratio": ratio(timings, "own", "numc"),
            })  # fmt: skip
    return rows


def _model(name: str, seconds: float) -> float | None:
    """Nanoseconds of a multiply-add of MMA-Sim, for those of its instructions that are listed here."""
    sys.modules.setdefault("mmasim.arithmetic.fma", ModuleType("mmasim.arithmetic.fma"))  # is compiled when imported
    from mmasim import amd, nv_ptx

    known: dict[str, Any] = {
        "ampere_bf16": lambda: nv_ptx.MMA("Ampere", "m16n8k16.f32.bf16.bf16.f32"),
        "hopper_bf16": lambda: nv_ptx.WGMMA("Hopper", "m64n8k16.f32.bf16.bf16"),
        "cdna2_bf16_1k": lambda: amd.MFMA("CDNA2", "f32_32x32x8bf16_1k"),
        "cdna3_bf16": lambda: amd.MFMA("CDNA3", "f32_32x32x8_bf16"),
    }
    if name not in known:
        return None
    a, b, c = (torch.from_numpy(x) for x in (*operands(_SMALL, _SMALL, _SMALL), np.zeros((_SMALL, _SMALL), np.float32)))
    model, (x, y) = known[name](), (a.bfloat16(), b.bfloat16())
    timing = in_turns({"model": lambda: model.dpa(x[:, None], y.T[None], c)}, seconds=seconds)["model"]
    return timing.best / _SMALL**3 * 1e9
