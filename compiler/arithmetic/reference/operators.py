"""FMA operators and contractions, defined (arithmetic.md sections 3 and 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt

from numc.compiler.arithmetic.formats import Conversion
from numc.compiler.arithmetic.grammar import parse_fma
from numc.compiler.arithmetic.groups import Bfp, GroupConversion
from numc.compiler.arithmetic.operators import FP32, Fma
from numc.compiler.arithmetic.reference.group_operators import NOWHERE, PARTS, Source, Vector, group_dot, largest_of
from numc.compiler.arithmetic.reference.random import PRODUCT, accumulator_draws, conversion_draws, stream
from numc.compiler.arithmetic.reference.rounding import Rounder, parts_of, rounder, to_multiple
from numc.compiler.arithmetic.reference.value import (
    ONE,
    POINT,
    PRODUCT_POINT,
    Value,
    bits_of,
    exact_fma,
    exact_sum,
    from_bits,
    to_array,
    to_float,
)

Parts = tuple[Value, ...]
Step = Callable[[Parts, Parts, Value, int, int], Value]

# The operations of a multiply-add, in the order of their numbers: what each of them draws from.
A, B, START, ACCUMULATE = range(4)


@dataclass(frozen=True)
class Draws:
    """What an accumulator draws from: the stream of its operation, and its index in the result."""

    stream: int
    element: int

    def of(self, op: Fma, depth: int) -> Iterator[tuple[int, int]]:
        """Yield the noise of the product and of the accumulator for steps 0 to depth; the last is a chunked total's."""
        ks = np.arange(depth + 1)
        both = []
        for to, part in ((op.product, PRODUCT), (op.acc, 0)):
            noise = to.noise if to else None
            both.append(accumulator_draws(self.stream, self.element, ks, noise, part) if noise else [0] * len(ks))
        return zip(*both, strict=True)


FIRST = Draws(stream(0, ACCUMULATE), 0)

Contraction = Callable[[Sequence[Parts], Sequence[Parts], Value, Draws], Value]


def fma(
    a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike, fma: Fma | str, *, seed: int = 0, step: int = 0
) -> npt.NDArray[np.float32]:
    """Return one step of an operator on float32 arrays that broadcast; the operands are converted first.

    seed, step: of the streams of stochastic roundings, those of A, B, C and the result in this order. A hardware
    operator is its instruction with one pair of elements, the rest of it zero; a chunk is left out, as only reductions
    have any. Raises NumcError for a text that is no operator, TypeError for operands that float32 does not hold.
    """
    op = _as_fma(fma).step
    a_bits, b_bits, c_bits = np.broadcast_arrays(bits_of(a), bits_of(b), bits_of(c))
    streams = [stream(seed, n, step) for n in range(4)]
    left, right = map(_operands, (a_bits, b_bits), op.singles, streams)
    start = _operands(c_bits, op.acc, streams[START], split=False)
    contract = _contraction(op)
    results = (
        contract((x,), (y,), z[0], Draws(streams[ACCUMULATE], n))
        for n, (x, y, z) in enumerate(zip(left, right, start, strict=True))
    )
    return to_array(results, a_bits.shape)


def dot(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike = 0.0,
    fma: Fma | str = "fp32",
    *,
    draws: Draws = FIRST,
) -> np.float32:
    """Return one element of a contraction: `a` and `b` in one dimension, in ascending order, from the scalar `c`.

    Formats with groups take them for whole operands: what a tensor shares is that of `a`, and of `b`.
    draws: of the accumulator, and of operands with groups. Others whose conversion draws have to be converted already
    (it then changes nothing).
    Raises NumcError for a text that is no operator, ValueError for shapes that do not fit.
    """
    op = _as_fma(fma)
    a_bits, b_bits, c_bits = bits_of(a), bits_of(b), bits_of(c)
    if a_bits.ndim != 1 or a_bits.shape != b_bits.shape or c_bits.ndim != 0:
        raise ValueError(f"dot of shapes {a_bits.shape} and {b_bits.shape} from {c_bits.shape}: needs (K,), (K,), ()")
    (start,) = _operands(c_bits, op.acc, 0, split=False)
    if op.groups:
        (x,), (y,) = (
            _vectors(bits[None], to, draws, 1, part)
            for bits, to, part in zip((a_bits, b_bits), op.groups, PARTS, strict=True)
        )
        grouped: np.float32 = np.float32(to_float(group_dot(op, x, y, start[0])))
        return grouped
    left, right = (_operands(bits, to, 0) for bits, to in zip((a_bits, b_bits), op.singles, strict=True))
    result = _contraction(op)(left, right, start[0], draws)
    rounded: np.float32 = np.float32(to_float(result))
    return rounded


def vector(
    x: npt.ArrayLike,
    to: GroupConversion,
    *,
    largest: np.float32,
    source: Source = NOWHERE,
    quantized: bool = False,
) -> Vector:
    """Return one row of an operand with groups, whose tensor (or channel) has the largest magnitude `largest`.

    source: for a conversion that draws. quantized: `x` has been converted; of intN, to integers.
    """
    (most,) = (from_bits(b) for b in bits_of(largest).reshape(1).tolist())
    if type(most) is float and not isinstance(to.format, Bfp):
        most = float("nan")
    return Vector([from_bits(b) for b in bits_of(x).tolist()], to, most, quantized, source)


def grouped_dot(a: Vector, b: Vector, c: npt.ArrayLike, fma: Fma) -> np.float32:
    """Return one element of a contraction of formats with groups, as `dot` does."""
    (start,) = (from_bits(bits) for bits in bits_of(c).reshape(1).tolist())
    result: np.float32 = np.float32(to_float(group_dot(fma, a, b, start)))
    return result


def matmul(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike | None = None,
    fma: Fma | str = "fp32",
    *,
    seed: int = 0,
    step: int = 0,
) -> npt.NDArray[np.float32]:
    """Return (M,K) times (K,N), each element as `dot` defines it, from `c` (broadcast to (M,N); none is +0).

    seed, step: of the streams of stochastic roundings: those of A, B, C and the accumulators, in this order.
    Raises NumcError for a text that is no operator, ValueError for shapes that do not fit.
    """
    op = _as_fma(fma)
    a_bits, b_bits = bits_of(a), bits_of(b)
    if a_bits.ndim != 2 or b_bits.ndim != 2 or a_bits.shape[1] != b_bits.shape[0]:
        raise ValueError(f"matmul of shapes {a_bits.shape} and {b_bits.shape}: needs (M,K) and (K,N)")
    shape = (a_bits.shape[0], b_bits.shape[1])
    streams = [stream(seed, n, step) for n in range(4)]
    start = np.broadcast_to(bits_of(0.0 if c is None else c), shape)
    starts = _operands(start, op.acc, streams[START], split=False)
    if op.groups:
        first = Draws(streams[ACCUMULATE], 0)
        lines = (
            _vectors(bits, to, first, stride, part)
            for bits, to, stride, part in zip((a_bits, b_bits.T), op.groups, (shape[1], 1), PARTS, strict=True)
        )
        return to_array((group_dot(op, x, y, z[0]) for (x, y), z in zip(product(*lines), starts, strict=True)), shape)
    left, right = map(_operands, (a_bits, b_bits), op.singles, streams)
    rows = [left[n * a_bits.shape[1] : (n + 1) * a_bits.shape[1]] for n in range(shape[0])]
    columns = [right[n :: shape[1]] for n in range(shape[1])]
    contract = _contraction(op)
    pairs = ((row, column) for row in rows for column in columns)
    results = (
        contract(x, y, z[0], Draws(streams[ACCUMULATE], n))
        for n, ((x, y), z) in enumerate(zip(pairs, starts, strict=True))
    )
    return to_array(results, shape)


def _vectors(bits: npt.NDArray[np.uint32], to: GroupConversion, first: Draws, stride: int, part: int) -> list[Vector]:
    """The rows of an operand (rows, K) that have it in common; `first`: what the first one draws from.

    stride: between the indices of the outputs of adjacent rows.
    """
    rows = [[from_bits(b) for b in row] for row in bits.tolist()]
    largest = None if to.channel else largest_of([value for row in rows for value in row], to)
    return [
        Vector(
            row,
            to,
            largest_of(row, to) if largest is None else largest,
            source=Source(first.stream, first.element + n * stride, part),
        )
        for n, row in enumerate(rows)
    ]


def _as_fma(fma: Fma | str) -> Fma:
    return parse_fma(fma) if isinstance(fma, str) else fma


class _Converted(dict[int, Parts]):
    """Binary32 encodings to the parts of their conversion, remembered: tensors repeat their values in every dot."""

    def __init__(self, to: Conversion, split: bool) -> None:
        super().__init__()
        self._round, self._count = rounder(to, POINT), to.format.parts if split else 1

    def __missing__(self, bits: int) -> Parts:
        value = self._round(from_bits(bits))
        self[bits] = parts = parts_of(value, self._count) if self._count > 1 else (value,)
        return parts


@cache
def _converted(to: Conversion, split: bool) -> _Converted:
    return _Converted(to, split)


def _operands(bits: npt.NDArray[np.uint32], to: Conversion, stream: int, split: bool = True) -> list[Parts]:
    if to.noise is not None:
        count, to_format = to.format.parts if split else 1, rounder(to, POINT)
        draws = zip(bits.ravel().tolist(), conversion_draws(stream, bits.size, to.noise), strict=True)
        values = (to_format(from_bits(b), noise) for b, noise in draws)
        return [parts_of(value, count) if count > 1 else (value,) for value in values]
    known = _converted(to, split)
    if len(known) > 1 << 20:
        known.clear()
    return list(map(known.__getitem__, bits.ravel().tolist()))


@cache
def _contraction(op: Fma) -> Contraction:
    """The reduction of an operator, on converted operands and a converted start."""
    if op.datapath in _INSTRUCTIONS:
        return _INSTRUCTIONS[op.datapath]
    step = STEPS[op.datapath](op)
    if op.chunk is not None:
        return _chunked(op, step, op.chunk, rounder(op.acc, POINT))

    if not op.draws:

        def contract(a: Sequence[Parts], b: Sequence[Parts], c: Value, draws: Draws) -> Value:
            for x, y in zip(a, b, strict=True):
                c = step(x, y, c, 0, 0)
            return c

        return contract

    def contract_at_random(a: Sequence[Parts], b: Sequence[Parts], c: Value, draws: Draws) -> Value:
        for x, y, noise in zip(a, b, draws.of(op, len(a)), strict=False):
            c = step(x, y, c, *noise)
        return c

    return contract_at_random


def _chunked(op: Fma, step: Step, chunk: int, to_acc: Rounder) -> Contraction:
    """Sums of `chunk` steps from +0 are added up in binary32; the total is rounded to the accumulator's format."""

    def contract(a: Sequence[Parts], b: Sequence[Parts], c: Value, draws: Draws) -> Value:
        noise = list(draws.of(op, len(a)))
        total = c
        for begin in range(0, len(a), chunk):
            partial: Value = 0
            for k in range(begin, min(begin + chunk, len(a))):
                partial = step(a[k], b[k], partial, *noise[k])
            total = f32_add(total, partial)
        return to_acc(total, noise[-1][1])

    return contract


_TO_F32 = rounder(FP32, PRODUCT_POINT)


def _f32_fma(a: Value, b: Value, c: Value) -> Value:
    return _TO_F32(exact_fma(a, b, c))


def _f32_mul(a: Value, b: Value) -> Value:
    if type(a) is int and type(b) is int and a and b:
        return _TO_F32(a * b)
    return _f32_fma(a, b, -0.0)  # x + -0 is x, for zeros of both signs too


def f32_add(x: Value, y: Value) -> Value:
    """The binary32 sum, to nearest even."""
    return _f32_fma(x, ONE, y)


def _fp32_step(op: Fma) -> Step:
    """Section 3, datapath fp32: a chain of binary32 FMAs, one addition, one conversion."""
    to_acc = rounder(op.acc, POINT)
    first, *others = op.terms
    to_product = rounder(op.product, POINT) if op.product else None

    def single(a: Parts, b: Parts, c: Value, _: int, noise: int) -> Value:
        return to_acc(_TO_F32(exact_fma(a[0], b[0], c)), noise)

    def chain(a: Parts, b: Parts, c: Value, product_noise: int, noise: int) -> Value:
        p = _f32_mul(a[first[0]], b[first[1]])
        for i, j in others:
            p = _f32_fma(a[i], b[j], p)
        if to_product:
            p = to_product(p, product_noise)
        return to_acc(f32_add(p, c), noise)

    return chain if others or to_product else single


def _exact_step(op: Fma) -> Step:
    """Section 3, datapath exact: one rounding of the real sum; MAC and MACS also round the real product."""
    to_acc = rounder(op.acc, PRODUCT_POINT)
    to_product = rounder(op.product, PRODUCT_POINT) if op.product else None

    def step(a: Parts, b: Parts, c: Value, product_noise: int, noise: int) -> Value:
        products = [(a[i], b[j]) for i, j in op.terms]
        if to_product:
            products = [(to_product(exact_sum(products, -0.0), product_noise), ONE)]
        return to_acc(exact_sum(products, c), noise)

    return step


_MIN_NORMAL = 1 << (POINT - 126)


def _daz(x: Value) -> Value:
    """Denormals are zeros, of the same sign."""
    if type(x) is int and -_MIN_NORMAL < x < _MIN_NORMAL:
        return 0 if x >= 0 else -0.0
    return x


def _ftz_fma(a: Value, b: Value, c: Value) -> Value:
    """A binary32 FMA, to nearest even, that takes and returns zeros for subnormals (tiny is decided after rounding)."""
    exact = exact_fma(_daz(a), _daz(b), _daz(c))
    if type(exact) is int and exact:
        shift = abs(exact).bit_length() - FP32.format.precision
        rounded = to_multiple(abs(exact), shift, "rne", exact < 0) if shift > 0 else abs(exact)
        if rounded < _MIN_NORMAL << POINT:
            return 0 if exact > 0 else -0.0
    return _TO_F32(exact)


def _amx_bf16(a: Sequence[Parts], b: Sequence[Parts], c: Value, _: Draws) -> Value:
    """TDPBF16PS on rows of 32: even and odd elements in a chain each, then the sum of both is added to C."""
    for block in range(0, len(a), 32):
        even: Value = 0
        odd: Value = 0
        for k in range(block, min(block + 32, len(a)), 2):
            even = _ftz_fma(a[k][0], b[k][0], even)
            odd = _ftz_fma(*_element(a, b, k + 1), odd)
        c = _ftz_fma(_ftz_fma(even, ONE, odd), ONE, c)
    return c


def _avx512_bf16(a: Sequence[Parts], b: Sequence[Parts], c: Value, _: Draws) -> Value:
    """VDPBF16PS: of each pair the odd element first."""
    for k in range(0, len(a), 2):
        c = _ftz_fma(*_element(a, b, k + 1), c)
        c = _ftz_fma(a[k][0], b[k][0], c)
    return c


def _element(a: Sequence[Parts], b: Sequence[Parts], k: int) -> tuple[Value, Value]:
    """Element k of both operands; +0 in the half of the last pair that an odd length leaves empty."""
    return (a[k][0], b[k][0]) if k < len(a) else (0, 0)


# What a step is, of the datapaths whose reductions are one step after the other.
STEPS: Mapping[str, Callable[[Fma], Step]] = {"fp32": _fp32_step, "exact": _exact_step}
_INSTRUCTIONS: Mapping[str, Contraction] = {"amx_bf16": _amx_bf16, "avx512_bf16": _avx512_bf16}
