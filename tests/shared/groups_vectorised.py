"""Contractions of formats with groups in numpy: a second implementation that shares no method with numc's.

Everything is binary64, where sums of a group are exact; exponents come from frexp, groups from padding with zeros.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from numc.numerics.groups import GroupConversion
from numc.numerics.kinds import Bfp, Int, Mx
from numc.numerics.operators import Fma

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]


def matmul(op: Fma, a: F32, b: F32, c: F32) -> F32:
    """Return (M,K) times (K,N) from `c` (M,N) under an operator whose operands have groups."""
    assert op.groups is not None
    to_a, to_b = op.groups
    with np.errstate(all="ignore"):
        if isinstance(op.group, Int):
            return _integers(a, b, c, to_a, to_b)
        assert isinstance(op.group, Bfp | Mx)
        left, right = _groups(a, to_a), _groups(np.ascontiguousarray(b.T), to_b)
        total = c.copy()
        for g in range(left.shape[1]):
            x, y = left[:, g], right[:, g]
            if isinstance(op.group, Bfp):
                part = np.stack([(row * y).sum(axis=1) for row in x]) if len(x) else np.zeros(c.shape)
            else:
                part = np.zeros(c.shape)
                for k in range(x.shape[1]):
                    part = _to_24_bits(part + x[:, k, None] * y[None, :, k])
            total = (total + part.astype(np.float32)).astype(np.float32)
        return total


def _to_24_bits(x: F64) -> F64:
    significand, exponent = np.frexp(x)
    return np.asarray(np.ldexp(np.rint(np.ldexp(significand, 24)), exponent - 24))


def _round(x: F64, rounding: str) -> F64:
    down, up = np.floor(x), np.ceil(x)
    nearest_away = np.copysign(np.floor(np.abs(x) + 0.5), x)
    odd = np.where(down == up, x, np.where(np.fmod(down, 2) == 0, up, down))
    every = {"rne": np.rint(x), "rtz": np.trunc(x), "rna": nearest_away, "rup": up, "rdn": down, "odd": odd}
    return np.asarray(every[rounding])


def _groups(x: F32, to: GroupConversion) -> F64:
    """Rows cut into converted groups, (rows, groups, size), zeros behind the last one."""
    fmt = to.format
    assert isinstance(fmt, Bfp | Mx)
    count = math.ceil(x.shape[1] / fmt.group)
    values = np.zeros((len(x), count * fmt.group))
    values[:, : x.shape[1]] = x
    values = values.reshape(len(x), count, fmt.group)
    largest = np.abs(values).max(axis=2, initial=0, keepdims=True)
    exponent = (np.frexp(largest)[1] - 1).astype(np.int64)
    if isinstance(fmt, Bfp):
        finite = np.abs(x[np.isfinite(x)].astype(np.float64))
        top = int(np.frexp(finite.max())[1]) - 1 if finite.any() else 0
        exponent = np.maximum(np.where(largest > 0, exponent, top), top - (2**fmt.exponent_bits - 1))
        quantum = exponent - (fmt.magnitude_bits - 1)
        units = np.clip(_round(np.ldexp(values, -quantum), to.rounding), -fmt.largest, fmt.largest)
        result = np.ldexp(units, quantum)
    else:
        scale = np.maximum(np.where(largest > 0, exponent, -999) - fmt.emax, -127)
        scaled = np.ldexp(values, -scale)
        own = np.frexp(scaled)[1].astype(np.int64) - 1
        least = fmt.emin if fmt.exponent_bits else 0
        quantum = np.maximum(own if fmt.exponent_bits else 0, least) - fmt.significand_bits
        units = np.ldexp(_round(np.ldexp(scaled, -quantum), to.rounding), quantum)
        result = np.ldexp(np.clip(units, -float(fmt.largest), float(fmt.largest)), scale)
    return np.where(np.isfinite(largest), result, np.nan)


def _integers(a: F32, b: F32, c: F32, to_a: GroupConversion, to_b: GroupConversion) -> F32:
    if a.shape[1] == 0:
        return c.copy()
    (x, sx), (y, sy) = (_by_channels(v, to) for v, to in ((a, to_a), (np.ascontiguousarray(b.T), to_b)))
    total = (x @ y.T).astype(np.float32)
    product, factor = total.astype(np.float64), (sx[:, None] * sy[None, :]).astype(np.float32).astype(np.float64)
    exact = product * factor  # 48 bits
    high = exact + c
    # The sum rounded to odd does not spoil the rounding to binary32.
    back = high - exact
    error = (exact - (high - back)) + (c - back)
    bits = high.view(np.int64)
    odd = np.where(
        np.isfinite(high) & (error != 0) & (bits & 1 == 0), bits + np.where((error > 0) == (high > 0), 1, -1), bits
    )
    return odd.view(np.float64).astype(np.float32)


def _by_channels(x: F32, to: GroupConversion) -> tuple[npt.NDArray[np.int64], F32]:
    """Integers, and a scale for each row."""
    if not to.channel:
        integers, scale = _quotients(x, to)
        return integers, np.full(len(x), scale)
    rows = [_quotients(row, to) for row in x]
    integers = np.array([row for row, _ in rows], np.int64).reshape(x.shape)
    return integers, np.array([scale for _, scale in rows], np.float32)


def _quotients(x: F32, to: GroupConversion) -> tuple[npt.NDArray[np.int64], np.float32]:
    fmt = to.format
    assert isinstance(fmt, Int)
    largest = np.abs(x).max(initial=np.float32(0))
    if not np.isfinite(largest):
        return np.zeros(x.shape, np.int64), np.float32(np.nan)
    if largest == 0:
        return np.zeros(x.shape, np.int64), np.float32(0)
    scale = max(largest / np.float32(fmt.largest), np.float32(2.0**-149))
    return np.clip(_round((x / scale).astype(np.float64), to.rounding), -fmt.largest, fmt.largest).astype(
        np.int64
    ), scale
