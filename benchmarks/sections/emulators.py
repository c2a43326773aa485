"""Other ways to emulate an arithmetic, timed beside numc on one thread, per multiply-add."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from apytypes import APyFloatAccumulatorContext, APyFloatArray, QuantizationMode, reset_thread_pool

import numc
from benchmarks.measure import Call, in_turns
from benchmarks.peers import native
from numc.numerics.grammar import parse_fma

Row = dict[str, Any]
F32Array = native.F32Array
TARGET = 1024  # times are extrapolated to products of this size by the number of multiply-adds


@dataclass(frozen=True)
class Emulator:
    """A way to multiply two matrices of `size`, which the operator `fma` of numc defines; "" if none does.

    exact: gives the bits of that operator, which is checked.
    """

    name: str
    fma: str
    size: int
    multiply: Callable[[F32Array, F32Array], F32Array]
    exact: bool = True


def apytypes(a: F32Array, b: F32Array) -> F32Array:
    """Run APyTypes, which rounds products and sums to bf16."""
    x, y = (APyFloatArray.from_array(v, exp_bits=8, man_bits=7) for v in (a, b))
    with APyFloatAccumulatorContext(exp_bits=8, man_bits=7, quantization=QuantizationMode.TIES_EVEN):
        return np.asarray((x @ y).to_numpy(), np.float32)


def fake_bf16(a: F32Array, b: F32Array) -> F32Array:
    """Round the operands with elementwise torch operations, then call sgemm: the accumulator stays binary32."""
    return (_significant(torch.from_numpy(a), 8) @ _significant(torch.from_numpy(b), 8)).numpy()


def fake_mxfp8(a: F32Array, b: F32Array) -> F32Array:
    """Do the same for MXFP8 (E5M2), where blocks of 32 along k share a scale."""
    x, y = _mx(torch.from_numpy(a)), _mx(torch.from_numpy(b).T).T
    return (x @ y).numpy()


def _significant(x: torch.Tensor, bits: int) -> torch.Tensor:
    mantissa, exponent = torch.frexp(x)
    return torch.ldexp(torch.round(mantissa * 2.0**bits) * 2.0**-bits, exponent)


def _mx(x: torch.Tensor, block: int = 32, emax: int = 15, emin: int = -14, bits: int = 3) -> torch.Tensor:
    """Quantise and dequantise rows in blocks by OCP MX 1.0: the largest magnitude of a block gives the scale."""
    blocks = x.unflatten(-1, (-1, block))
    shared = torch.floor(torch.log2(blocks.abs().amax(-1, keepdim=True).clamp_min(2.0**-126))) - emax
    scaled = blocks * torch.exp2(-shared)
    exponent = torch.floor(torch.log2(scaled.abs().clamp_min(2.0**emin)))
    quantum = torch.exp2(exponent - (bits - 1))
    largest = 2.0**emax * (2 - 2.0 ** (1 - bits))
    return ((torch.round(scaled / quantum) * quantum).clamp(-largest, largest) * torch.exp2(shared)).flatten(-2)


def torch_loop(a: F32Array, b: F32Array) -> F32Array:
    """Loop over k with torch operations and round each partial sum through torch.bfloat16."""
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    out = torch.zeros(a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        out = torch.addcmul(out, x[:, k : k + 1], y[k : k + 1]).bfloat16().float()
    return out.numpy()


def loop(fma: str) -> Callable[[F32Array, F32Array], F32Array]:
    """Run the C++ loop for an operator of one format."""
    fmt = parse_fma(fma).acc.format
    return lambda a, b: native.naive_matmul(a, b, fmt)


def definition(a: F32Array, b: F32Array) -> F32Array:
    """Run numc.reference, the definition of the bits in exact integers of Python."""
    zero = np.zeros((a.shape[0], b.shape[1]), np.float32)
    return np.asarray(numc.reference.matmul(a, b, zero, "bf16_1_1"), np.float32)


EMULATORS = (
    Emulator("numc.reference (exact integers, Python)", "bf16_1_1", 12, definition),
    Emulator("APyTypes", "mac(bf16)", 128, apytypes),
    Emulator("C++ loop per output", "bf16_1_1", 256, loop("bf16_1_1")),
    Emulator("C++ loop per output", "fmac(e6m9)", 256, loop("fmac(e6m9)")),
    Emulator("C++ loop, vectorised by the compiler", "bf16_1_1", 1024, native.vectorised_matmul_bf16),
    Emulator("torch operations, loop over k", "bf16_1_1", 1024, torch_loop),
    Emulator("torch fake quantisation, bf16", "mp", 1024, fake_bf16, exact=False),
    Emulator("torch fake quantisation, MXFP8", "", 1024, fake_mxfp8, exact=False),
)


def emulators(seconds: float, quick: bool) -> list[Row]:
    """Time each emulator, in turns with numc at 1024^3 under the operator that it emulates."""
    torch.set_num_threads(1)
    reset_thread_pool(1)
    rng = np.random.default_rng(0)
    big = [rng.standard_normal((TARGET, TARGET)).astype(np.float32) for _ in range(2)]
    rows = []
    for emulator in EMULATORS:
        size, fma = min(emulator.size, 128) if quick else emulator.size, emulator.fma
        operands = str(parse_fma(fma).a) if fma else "bf16"
        a, b = (numc.round(rng.standard_normal((size, size)).astype(np.float32), operands) for _ in range(2))
        if emulator.exact and not np.array_equal(emulator.multiply(a, b), numc.matmul(a, b, fma=fma)):
            raise AssertionError(f"{emulator.name} and numc differ under {fma}")
        calls: dict[str, Call] = {"theirs": lambda: emulator.multiply(a, b)}  # noqa: B023
        if fma:
            calls["numc"] = lambda: numc.matmul(*big, fma=fma, threads=1)  # noqa: B023
        timings = in_turns(calls, seconds=seconds, rounds=2)
        each = timings["theirs"].best / size**3
        row: Row = {"emulator": emulator.name, "operator": fma or "MXFP8 operands", "exact": emulator.exact}
        row |= {"size": size, "ns_per_fma": each * 1e9, "seconds_1024": each * TARGET**3}
        if fma:
            ours = timings["numc"].best
            row |= {"numc_seconds_1024": ours, "ratio": each * TARGET**3 / ours}
        rows.append(row)
    return rows
