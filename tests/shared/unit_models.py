"""The models of matrix units' instructions (PyPI: mmasim), and operands for them."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

F32 = npt.NDArray[np.float32]

# An instruction of each: the architecture, then its name in the assembly language.
_SHAPES = {"volta": "m8n8k4", "turing": "m16n8k8", "ampere": "m16n8k16", "ada": "m16n8k16"}
_16 = {"fp16": "f16", "bf16": "bf16", "tf32": "tf32"}


def instruction(unit: str) -> Any:
    """The model of a unit's instruction."""
    nvidia, amd = _models()
    name, *operands = unit.removesuffix("_into_fp16").split("_")
    result = "f16" if unit.endswith("_into_fp16") else "f32"
    a, b = operands * 2 if len(operands) == 1 else operands
    a, b = _16.get(a, a), _16.get(b, b)
    match name:
        case "cdna1":
            return amd.MFMA("CDNA1", {"f16": "f32_32x32x8f16", "bf16": "f32_32x32x4bf16"}[a])
        case "cdna2":
            form = {"f16": "f32_32x32x8f16", "bf16": "f32_32x32x4bf16", "bf16 1k": "f32_32x32x8bf16_1k"}
            return amd.MFMA("CDNA2", form[a if len(operands) == 1 else f"{a} {b}"])
        case "cdna3":
            form = {"f16": "f32_32x32x8_f16", "bf16": "f32_32x32x8_bf16", "xf32": "f32_32x32x4_xf32"}
            return amd.MFMA("CDNA3", form.get(a) or f"f32_32x32x16_{a}_{b}")
        case "hopper":
            k = {"tf32": 8, "f16": 16, "bf16": 16}.get(a, 32)
            return nvidia.WGMMA("Hopper", f"m64n8k{k}.{result}.{a}.{b}")
        case "blackwell":
            k, kind = {"tf32": (8, "tf32"), "f16": (16, "f16"), "bf16": (16, "f16")}.get(a, (32, "f8f6f4"))
            return nvidia.TCGen05MMA("Blackwell", f"m64n8k{k}.kind::{kind}.{result}.{a}.{b}")
    shape = _SHAPES[name] if a != "tf32" else "m16n8k8"
    architecture = {"ada": "Ada Lovelace"}.get(name, name.capitalize())
    return nvidia.MMA(architecture, f"{shape}.{result}.{a}.{b}.{result}")


def _models() -> tuple[Any, Any]:
    """Those of NVIDIA and of AMD, without an emulation of FMAs, which is compiled when imported."""
    sys.modules.setdefault("mmasim.arithmetic.fma", ModuleType("mmasim.arithmetic.fma"))
    return pytest.importorskip("mmasim.nv_ptx"), pytest.importorskip("mmasim.amd")


# Blackwell's formats of blocks with scales, by the names in those of units.
SCALED = {"mxfp8": "e4m3", "mxfp8_e5m2": "e5m2", "mxfp6": "e2m3", "mxfp6_e3m2": "e3m2", "mxfp4": "e2m1"}


def scaled_instruction(unit: str) -> Any:
    """The model of an instruction that takes the scales of blocks."""
    nvidia, _ = _models()
    name = unit.removeprefix("blackwell_")
    form = {
        "mxfp4": "k64.kind::mxf4.block32.f32.e2m1.e2m1.ue8m0",
        "mxfp4_block16": "k64.kind::mxf4nvf4.block16.f32.e2m1.e2m1.ue8m0",
        "nvfp4": "k64.kind::mxf4nvf4.block16.f32.e2m1.e2m1.ue4m3",
        "mxfp4_f8f6f4": "k32.kind::mxf8f6f4.block32.f32.e2m1.e2m1.ue8m0",
    }.get(name)
    if form is None:
        a, b = next((x, y) for x in SCALED for y in SCALED if name == (x if x == y else f"{x}_{y}"))
        form = f"k32.kind::mxf8f6f4.block32.f32.{SCALED[a]}.{SCALED[b]}.ue8m0"
    return nvidia.TCGen05MMABlockScale("Blackwell", f"m128n8{form}")


def in_torch(x: F32, of: Any, kind: str) -> Any:
    """Numbers as the model takes them: those of fewer than eight bits are codes in bytes."""
    import torch

    if of != torch.uint8:
        return torch.tensor(x).to(of)
    return torch.tensor(codes(x, kind))


def codes(x: F32, kind: str) -> npt.NDArray[np.uint8]:
    """Codes of e3m2, e2m3 and e2m1 as the registers of a unit have them: those of four bits begin at the third one."""
    exponent, significand = int(kind[1]), int(kind[3])
    bias = 2 ** (exponent - 1) - 1
    e = np.maximum(np.frexp(np.abs(x))[1] - 1, 1 - bias)
    s = np.round(np.abs(x) * 2.0 ** (significand - e)).astype(np.int64)
    field = np.where(s >= 2**significand, e + bias, 0)
    code = field << significand | s & (2**significand - 1) | np.signbit(x) << (exponent + significand)
    return (code << (2 if kind == "e2m1" else 0)).astype(np.uint8)


def operands(shape: tuple[int, int, int], data: str, seed: int) -> tuple[F32, F32, F32]:
    """Operands and accumulators of one kind of data."""
    rng = np.random.default_rng(seed)
    m, depth, n = shape
    spread = {"normal": 0, "wide": 12, "subnormal": 3}.get(data, 4)
    shift = {"subnormal": -16 if seed % 2 else -128}.get(data, 0)
    found = []
    for size in ((m, depth), (depth, n), (m, n)):
        x = np.ldexp(rng.standard_normal(size), rng.integers(-spread, spread + 1, size)).astype(np.float32)
        if data == "subnormal" and rng.random() < 0.7:
            x = np.ldexp(x, shift)
        if data in ("zeros", "infinite"):
            x[rng.random(size) < 0.3] = 0
            x[rng.random(size) < 0.2] = -0.0
        if data == "infinite":
            places = rng.integers(max(x.size, 1), size=max(x.size // 200, min(x.size, 1)))
            x.flat[places] = rng.choice(np.float32([np.inf, -np.inf, np.nan, 3e38, -1e38, 6e4]), len(places))
        found.append(x)
    a, b, c = found
    if data == "cancelling":
        a[:, 1::2], b[1::2] = a[:, : depth // 2 * 2 : 2], -b[: depth // 2 * 2 : 2] * np.float32(1 + 2**-5)
    return a, b, c


DATA = ("normal", "wide", "cancelling", "subnormal", "zeros", "infinite")
