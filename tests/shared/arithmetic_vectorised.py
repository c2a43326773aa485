"""A second implementation of the arithmetic, in numpy, quick enough for 10^7 operands.

It shares no code and no method with `numc.reference`: that one counts quanta in integers, this one rounds in
binary64, where a product of two binary32 numbers is exact and a sum rounded to odd cannot spoil a later rounding
(Boldo and Melquiond, 2008). `test_reference.py` shows that the two agree; tests of generated code use this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import groups_vectorised
from numc.numerics.formats import RECORDS, ROUNDINGS, Conversion, Record
from numc.numerics.grammar import parse_conversion, parse_fma
from numc.numerics.operators import Fma

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
_BLOCK = 1 << 16  # binary64 temporaries of this many elements stay in the cache


def round(x: npt.ArrayLike, to: Conversion | str) -> F32:
    """Return float32 `x` rounded to a format."""
    to = parse_conversion(to) if isinstance(to, str) else to
    return _blocked(lambda x: _to_f32(_round(x.astype(np.float64), to)), x)


def fma(a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike, fma: Fma | str) -> F32:
    """Return one step of an operator on float32 arrays that broadcast; a chunk only means something in a matmul."""
    op = parse_fma(fma) if isinstance(fma, str) else fma
    op = op.step

    def block(a: F32, b: F32, c: F32) -> F32:
        return _contract(op, [_parts(a, op.a)], [_parts(b, op.b)], round(c, op.acc))

    return _blocked(block, a, b, c)


def matmul(a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike | None = None, fma: Fma | str = "fp32") -> F32:
    """Return (M,K) times (K,N) from `c`, which broadcasts; none is +0."""
    op = parse_fma(fma) if isinstance(fma, str) else fma
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    shape = (a.shape[0], b.shape[1])
    start = np.broadcast_to(np.asarray(0 if c is None else c, np.float32), shape)
    if op.groups:
        return groups_vectorised.matmul(op, a, b, start)
    left = [_parts(a[:, k : k + 1], op.a) for k in range(a.shape[1])]
    right = [_parts(b[k : k + 1, :], op.b) for k in range(a.shape[1])]
    with np.errstate(all="ignore"):
        return _contract(op, left, right, round(start, op.acc))


def _blocked(function: Callable[..., F32], *operands: npt.ArrayLike) -> F32:
    arrays = np.broadcast_arrays(*(np.asarray(x, np.float32) for x in operands))
    shape = arrays[0].shape
    flat = [x.reshape(-1) for x in arrays]
    result = np.empty(flat[0].shape, np.float32)
    with np.errstate(all="ignore"):
        for i in range(0, len(result), _BLOCK):
            result[i : i + _BLOCK] = function(*(x[i : i + _BLOCK] for x in flat))
    return result.reshape(shape)


# --- rounding ------------------------------------------------------------


def _to_f32(x: F64) -> F32:
    return x.astype(np.float32)


def _power(exponent: npt.NDArray[np.int64]) -> F64:
    """2 ** exponent, for exponents of normal binary64 numbers."""
    return ((exponent + 1023) << 52).view(np.float64)


def _exponent(x: F64) -> npt.NDArray[np.int64]:
    return (x.view(np.int64) >> 52 & 0x7FF) - 1023


def _round(x: F64, to: Conversion) -> F64:
    """Round binary64 numbers (exact, or rounded to odd) once to a format."""
    fmt = to.format
    if fmt.parts > 1:
        return _round_compound(x, fmt)
    bias = 2 ** (fmt.exponent_bits - 1) - 1
    smallest = 2.0 ** (1 - bias)
    magnitude = np.abs(x)
    negative = np.signbit(x)
    quantum = _power(np.maximum(_exponent(magnitude), 1 - bias) - fmt.significand_bits)
    units = magnitude / quantum
    whole = np.floor(units)
    rest = units - whole
    if to.rounding == "rne":
        whole = np.rint(units)
    elif to.rounding == "rna":
        whole += rest >= 0.5
    elif to.rounding == "odd":
        whole += (rest > 0) & (np.fmod(whole, 2) == 0)
    elif to.rounding == "rup":
        whole += (rest > 0) & ~negative
    elif to.rounding == "rdn":
        whole += (rest > 0) & negative
    result = whole * quantum
    if not fmt.subnormals:
        result = np.where(magnitude < smallest, 0.0, result)
    largest = _largest(fmt)
    if fmt.finite:
        beyond: Any = np.nan if to.overflow == "nan" else largest
        result = np.where((result > largest) | np.isinf(x), beyond, result)
    else:
        beyond = {
            "rne": np.inf,
            "rna": np.inf,
            "rup": np.where(negative, largest, np.inf),
            "rdn": np.where(negative, np.inf, largest),
        }.get(to.rounding, largest)
        result = np.where(np.isinf(x), np.inf, np.where(result > largest, beyond, result))
    return np.copysign(np.where(np.isnan(x), np.nan, result), x)


def _largest(fmt: Record) -> float:
    """The largest finite value, read off the list of codes: the last one before the infinity or the NaN."""
    codes = 2 ** (fmt.exponent_bits + fmt.significand_bits)
    last = codes - 1 - (fmt.nan == "ones") if fmt.finite else codes - 2**fmt.significand_bits - 1
    exponent, fraction = divmod(last, 2**fmt.significand_bits)
    bias = 2 ** (fmt.exponent_bits - 1) - 1
    return float(np.ldexp((exponent > 0) + fraction / 2**fmt.significand_bits, max(exponent, 1) - bias))


def _split(x: F64, fmt: Record) -> list[F64]:
    """The parts of a number; where the first is not finite it stands alone and the others are NaN."""
    bias = 2 ** (fmt.exponent_bits - 1) - 1
    exponent = np.maximum(_exponent(np.abs(x)), -126)
    lowest = np.maximum(exponent - 23, 1 - bias - fmt.significand_bits)
    parts: list[F64] = []
    rest = x
    for _ in range(fmt.parts):
        quantum = _power(np.maximum(_exponent(np.abs(rest)) - fmt.significand_bits, lowest))
        part = np.rint(rest / quantum) * quantum
        if not parts:
            part = np.where(np.abs(part) >= 2.0 ** (bias + 1), np.copysign(np.inf, part), part)
            part = np.where(np.isfinite(x), part, x)
        parts.append(part)
        rest = rest - part
    return parts


def _round_compound(x: F64, fmt: Record) -> F64:
    parts = _split(x, fmt)
    total = sum(parts[1:], parts[0])
    return np.where(np.isfinite(parts[0]), np.copysign(total, x), parts[0])


def _parts(x: F32, to: Conversion) -> list[F32]:
    """The parts of a converted operand; a value that is not finite is every one of its parts."""
    value = round(x, to)
    if to.format.parts == 1:
        return [value]
    with np.errstate(all="ignore"):
        first, *others = _split(value.astype(np.float64), to.format)
        others = [np.where(np.isfinite(first), part, first) for part in others]
    return [_to_f32(part) for part in (first, *others)]


# --- operators ------------------------------------------------------------


def _product(a: F32, b: F32) -> F64:
    return a.astype(np.float64) * b.astype(np.float64)  # 48 bits, within the exponents of binary64


def _add_to_odd(x: F64, y: F64) -> F64:
    """x + y rounded to odd: Knuth's TwoSum, then the last bit."""
    total = x + y
    back = total - x
    error = (x - (total - back)) + (y - back)
    inexact = np.isfinite(total) & (error != 0)
    bits = total.view(np.int64)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact & (bits & 1 == 0), bits + step, bits).view(np.float64)


def _f32_fma(a: F32, b: F32, c: F32) -> F32:
    return _to_f32(_add_to_odd(_product(a, b), c.astype(np.float64)))


def _step(op: Fma, a: list[F32], b: list[F32], c: F32) -> F32:
    (i, j), *others = op.terms
    if op.datapath.name == "exact":
        total = _product(a[i], b[j])
        for i, j in others:  # multiples of ulp(a) * ulp(b), below 2^51 of them: no rounding
            total = total + _product(a[i], b[j])
        if op.product:
            total = _round(total, op.product)
        return _to_f32(_round(_add_to_odd(total, c.astype(np.float64)), op.acc))
    if not others and not op.product:
        return round(_f32_fma(a[i], b[j], c), op.acc)
    p = _to_f32(_product(a[i], b[j]))
    for i, j in others:
        p = _f32_fma(a[i], b[j], p)
    if op.product:
        p = round(p, op.product)
    return round(p + c, op.acc)


def _daz(x: F32) -> F32:
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)


def _ftz_fma(a: F32, b: F32, c: F32) -> F32:
    exact = _add_to_odd(_product(_daz(a), _daz(b)), _daz(c).astype(np.float64))
    # Half an ulp below the smallest normal number is a tie that 24 bits round up to it: not tiny.
    tiny = np.abs(exact) < 2.0**-126 - 2.0**-151
    return np.where(tiny, np.copysign(np.float32(0), exact), exact).astype(np.float32)


def _contract(op: Fma, a: list[list[F32]], b: list[list[F32]], c: F32) -> F32:
    if op.datapath.chunk is not None:
        inner = op.step
        for k in range(0, len(a), op.datapath.chunk):
            c = c + _contract(inner, a[k : k + op.datapath.chunk], b[k : k + op.datapath.chunk], np.zeros_like(c))
        return round(c, op.total)
    if op.datapath.name not in ("amx_bf16", "avx512_bf16"):
        for x, y in zip(a, b, strict=True):
            c = _step(op, x, y, c)
        return c
    zero, one = np.zeros(1, np.float32), np.ones(1, np.float32)
    left, right = [x[0] for x in a], [y[0] for y in b]
    if len(left) % 2:
        left, right = [*left, zero], [*right, zero]
    if op.datapath.name == "avx512_bf16":
        for k in range(0, len(left), 2):
            c = _ftz_fma(left[k], right[k], _ftz_fma(left[k + 1], right[k + 1], c))
        return c
    for block in range(0, len(left), 32):
        sums = [zero, zero]
        for k in range(block, min(block + 32, len(left))):
            sums[k % 2] = _ftz_fma(left[k], right[k], sums[k % 2])
        c = _ftz_fma(c, one, _ftz_fma(sums[0], one, sums[1]))
    return c


# --- what to try ------------------------------------------------------------

# The named formats of IEEE-754's kind, and the corners of the sizes the notation allows.
SOME_FORMATS = (
    *(name for name, fmt in RECORDS.items() if fmt.is_usual),
    *("e2m0", "e2m1", "e2m3", "e3m2", "e3m4", "e4m11", "e6m9", "e7m23", "e2m23", "e8m0", "e8m1", "e8m12", "e8m22"),
    *("e8m23n", "e8m7n", "e5m10n", "e2m0n", "e2m5n", "e2m0fn", "e2m1fn", "e3m4fn", "e5m2fn", "e7m0fn", "e7m23fn"),
    *("tf32x2", "fp16x2", "fp16x3", "e5m2x2"),
)

# Every kind of operator: the named ones are in FMAS.
SOME_FMAS = (
    *("mac(e6m9)", "macs(e6m9)", "fmac(e6m9)", "fmacs(fp16)", "mac(bf16,datapath=exact)", "macs(e5m2,datapath=exact)"),
    *("mac(e4m3fn:nan)", "mac(e6m9n:rtz)", "mac(fp32)", "fmac(tf32)", "fma(a=fp8_e4m3,b=fp8_e5m2,acc=fp16:rtz)"),
    *("fma(a=bf16x2,b=bf16,acc=bf16x3)", "fma(a=bf16,b=bf16x3,acc=fp32)", "fma(a=bf16x3,b=bf16x2,acc=bf16)"),
    *("fma(a=tf32x2,acc=fp32,products=3)", "fma(a=fp16x2,b=e5m2,acc=fp32)", "fma(a=fp16x3,acc=e6m9,products=6)"),
    "fma(a=e5m2x2,b=tf32x3,acc=bf16x2,datapath=exact)",
    *(f"fma(a=bf16x2,acc=bf16x2,products={k},datapath=exact)" for k in (3, 4)),
    *(f"fma(a=bf16x3,acc=bf16x3,products={k},datapath=exact)" for k in (6, 9)),
    *(f"fma(a=bf16,acc={acc},datapath=exact)" for acc in ("bf16", "bf16x2", "bf16x3", "fp32", "e6m9", "e5m10n:odd")),
    *(
        f"fma(a=fp32,acc={acc},datapath=exact)"
        for acc in ("fp32:rtz", "fp32:rup", "bf16x2", "bf16x3", "fp16", "e4m3fn")
    ),
    "fma(a=fp32,acc=bf16x2)",
    "fma(a=fp32,acc=e8m0)",
    *(
        "fmac(bf16,chunk=8)",
        "fmac(e6m9,chunk=7)",
        "mac(e5m2,chunk=3)",
        "fma(a=bf16,acc=bf16x2,datapath=exact,chunk=16)",
        "fmac(e6m9,chunk=7,total=fp32)",
        "fma(a=bf16,acc=fp32,chunk=5)",
    ),
    *("fma(a=bf16x2,acc=bf16x2,products=3,chunk=5)", "fma(a=bf16,acc=e6m9n:rtz,datapath=exact,chunk=64)"),
    *("fma(a=e8m2:rtz,acc=fp32,product=e8m2)", "fma(a=bf16,b=e4m3,acc=e6m9,product=fp16)"),
    "fma(a=bf16x2,acc=bf16x2,products=3,product=tf32:rtz,datapath=exact)",
)


def conversions() -> list[str]:
    """Return the text of every rounding of SOME_FORMATS."""
    texts = []
    for name in SOME_FORMATS:
        fmt = parse_conversion(name).format
        texts += [f"{name}:{r}" for r in (ROUNDINGS if fmt.parts == 1 else ["rne"])]
        texts += [f"{name}:{r}:nan" for r in ROUNDINGS if fmt.can_overflow_to_nan]
    return texts


def samples(n: int, seed: int) -> F32:
    """Return operands that meet the hard cases: ties, near-ties, thresholds of the formats, subnormals, specials."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 8, n)
    any_bits = rng.integers(0, 1 << 32, n, dtype=np.uint32)
    # A few leading bits, then a tie, or a tie less or more the last bit.
    keep = rng.integers(0, 24, n, dtype=np.uint32)
    tie = (any_bits >> keep << keep | np.uint32(1) << keep >> 1) + rng.integers(-1, 2, n).astype(np.uint32)
    near_one = tie & np.uint32(0x807FFFFF) | rng.integers(127 - 12, 127 + 13, n).astype(np.uint32) << 23
    subnormal = tie & np.uint32(0x80FFFFFF)
    special = rng.choice(thresholds(), n) + rng.integers(-1, 2, n).astype(np.uint32)
    bits = np.select(
        [kind == 0, kind == 1, kind == 2, kind == 3, kind == 4],
        [any_bits, tie, subnormal, special, rng.standard_normal(n).astype(np.float32).view(np.uint32)],
        near_one,
    )
    values: F32 = bits.astype(np.uint32).view(np.float32)
    return values


def operands(n: int, seed: int) -> tuple[F32, F32, F32]:
    """Return a, b, c where c often has to do with a * b: equal, opposite, half an ulp of it, far below it."""
    rng = np.random.default_rng(seed)
    a, b, c = samples(n, 3 * seed), samples(n, 3 * seed + 1), samples(n, 3 * seed + 2)
    with np.errstate(all="ignore"):
        product = (a.astype(np.float64) * b.astype(np.float64)).astype(np.float32)
        scaled = np.ldexp(product, -rng.integers(-30, 60, n)).astype(np.float32)
        scaled_tie = scaled.view(np.uint32) & np.uint32(0xFF800000)
    near = np.where(rng.integers(0, 2, n) == 1, product, -product).view(np.uint32) + rng.integers(-2, 3, n).astype(
        np.uint32
    )
    kind = rng.integers(0, 6, n)
    bits = np.select([kind == 0, kind == 1, kind == 2], [near, scaled.view(np.uint32), scaled_tie], c.view(np.uint32))
    sign = rng.integers(0, 2, n).astype(np.uint32) << 31
    return a, b, (bits.astype(np.uint32) ^ sign).view(np.float32)


def thresholds() -> npt.NDArray[np.uint32]:
    """Return the encodings where something changes in some format: its limits, and half way between values there."""
    values = {0.0, np.inf, 1.0, 2.0**-149, 2.0**-133, 2.0**-110}
    for name in SOME_FORMATS:
        fmt = parse_conversion(name).format
        largest, ulp = _largest(fmt), 2.0 ** (fmt.emax - fmt.significand_bits)
        least = 2.0 ** (fmt.emin - fmt.significand_bits)
        values |= {
            largest,
            largest + ulp / 2,
            largest + ulp,
            largest - ulp / 2,
            2.0**fmt.emin,
            2.0**fmt.emin - least / 2,
        }
        values |= {least, least / 2, least * 1.5}
    with np.errstate(all="ignore"):
        magnitudes = np.array([*sorted(values), np.nan], np.float64).astype(np.float32)
    return np.concatenate([magnitudes, -magnitudes]).view(np.uint32)


def first_mismatch(got: npt.ArrayLike, want: npt.ArrayLike, *operands: npt.ArrayLike) -> str | None:
    """Return None where every bit agrees (any NaN is one NaN), else the first difference, in hex, with its operands."""
    got, want = np.asarray(got, np.float32), np.asarray(want, np.float32)
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    differ = (got.view(np.uint32) != want.view(np.uint32)) & ~(np.isnan(got) & np.isnan(want))
    if not differ.any():
        return None
    where = np.unravel_index(int(differ.argmax()), differ.shape)

    def show(x: npt.ArrayLike) -> str:
        value = np.broadcast_to(np.asarray(x, np.float32), got.shape)[where]
        return f"{int(value.view(np.uint32)):#010x} ({value!s})"

    given = f" for {', '.join(map(show, operands))}" if operands else ""
    index = ", ".join(map(str, where))
    count = f"{int(differ.sum())} of {differ.size} differ"
    return f"{count}, first at [{index}]: got {show(got)}, expected {show(want)}{given}"
