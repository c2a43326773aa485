"""Matrix units of accelerators: products beside torch's sgemm, and beside a model of single instructions."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import torch

import numc
from benchmarks.cases import GEMM_SHAPES, UNITS
from benchmarks.measure import in_turns
from benchmarks.sections.gemm import Row, against_sgemm, matmul, operands

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
