"""FMA operators and contractions, defined (arithmetic.md sections 3 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt

from numc.numerics.exact.value import (
    POINT,
    Value,
    bits_of,
    from_bits,
    to_array,
    to_float,
)
from numc.numerics.formats import Conversion
from numc.numerics.formats.rounding import parts_of, rounder
from numc.numerics.grammar import parse_fma
from numc.numerics.groups import GroupConversion
from numc.numerics.operators import Fma
from numc.numerics.reference.datapaths import Draws, Parts, contraction
from numc.numerics.reference.group_operators import NOWHERE, PARTS, Source, Vector, group_dot, largest_of
from numc.numerics.reference.random import conversion_draws, stream
from numc.numerics.reference.scaled_blocks import scaled_dot
from numc.numerics.reference.written_out import Matrix, operand_values, rotated, summed
from numc.support.environment import in_default_environment

# The operations of a multiply-add, in the order of their numbers: what each of them draws from.
A, B, START, ACCUMULATE = range(4)


FIRST = Draws(stream(0, ACCUMULATE), 0)


@in_default_environment
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
    contract = contraction(op)
    results = (
        contract((x,), (y,), z[0], Draws(streams[ACCUMULATE], n))
        for n, (x, y, z) in enumerate(zip(left, right, start, strict=True))
    )
    return to_array(results, a_bits.shape)


@in_default_environment
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
    if op.datapath.admits.internal:
        return _integer_dot(a, b, c_bits)
    if op.written_out:
        rows = a_bits[None].view(np.float32), b_bits[None].view(np.float32)
        streams = [stream(0, A), stream(0, B), stream(0, START), draws.stream]
        only: np.float32 = _written_out(op, *rows, c_bits.reshape(1, 1), streams)[0, 0]
        return only
    (start,) = _operands(c_bits, op.acc, 0, split=False)
    x, y = (
        _operands(bits, single, 0) if to is None else _vectors(bits[None], to, draws, 1, part)[0]
        for bits, to, single, part in zip((a_bits, b_bits), op.grouped, op.singles, PARTS, strict=True)
    )
    result: np.float32 = np.float32(to_float(_contracted(op, x, y, start[0], draws)))
    return result


def _contracted(op: Fma, a: Vector | Sequence[Parts], b: Vector | Sequence[Parts], c: Value, draws: Draws) -> Value:
    """One element from converted operands, which are vectors where they have groups, and the converted start."""
    if isinstance(a, Vector) and isinstance(b, Vector):
        return scaled_dot(op, a, b, c, draws) if op.multiplies == "elements" else group_dot(op, a, b, c)
    x, y = (each.parts if isinstance(each, Vector) else each for each in (a, b))
    return contraction(op)(x, y, c, draws)


def _integer_dot(a: npt.ArrayLike, b: npt.ArrayLike, c: npt.NDArray[np.uint32]) -> np.float32:
    """A sum of products of integers modulo 2^32. A and B are binary32 numbers, C and the result the bits of one."""
    x, y = ([int(n) for n in np.asarray(operand).tolist()] for operand in (a, b))
    total = int(c) + sum(i * j for i, j in zip(x, y, strict=True))
    result: np.float32 = np.uint32(total & 0xFFFFFFFF).view(np.float32)
    return result


def vector(
    x: npt.ArrayLike,
    to: GroupConversion,
    *,
    largest: np.float32,
    source: Source = NOWHERE,
    quantized: bool = False,
    scales: npt.ArrayLike = (),
) -> Vector:
    """Return one row of an operand with groups, whose tensor (or channel) has the largest magnitude `largest`.

    source: for a conversion that draws. quantized: `x` has been converted; of intN, to integers, and to elements where
    sums multiply these by `scales`.
    """
    (most,) = (from_bits(b) for b in bits_of(largest).reshape(1).tolist())
    if type(most) is float and not to.format.finite_only:
        most = float("nan")
    values, factors = ([from_bits(b) for b in bits_of(each).tolist()] for each in (x, scales))
    return Vector(values, to, most, quantized, source, scales=factors)


def grouped_dot(
    a: Vector | npt.ArrayLike, b: Vector | npt.ArrayLike, c: npt.ArrayLike, fma: Fma, *, draws: Draws = FIRST
) -> np.float32:
    """Return one element of a contraction as `dot` does, of operands that are vectors where they have groups."""
    (start,) = _operands(bits_of(c).reshape(1), fma.acc, 0, split=False)
    x, y = (
        operand if isinstance(operand, Vector) else _operands(bits_of(operand), to, 0)
        for operand, to in zip((a, b), fma.singles, strict=True)
    )
    result: np.float32 = np.float32(to_float(_contracted(fma, x, y, start[0], draws)))
    return result


@in_default_environment
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
    if op.written_out:
        return _written_out(op, a_bits.view(np.float32), b_bits.T.view(np.float32), start, streams)
    return _plain(op, a_bits, b_bits.T, start, streams)


def _plain(
    op: Fma,
    a_bits: npt.NDArray[np.uint32],
    b_bits: npt.NDArray[np.uint32],
    start: npt.NDArray[np.uint32],
    streams: Sequence[int],
) -> npt.NDArray[np.float32]:
    """A contraction of the rows of A and of B, each element as `dot` defines it."""
    shape, first = start.shape, Draws(streams[ACCUMULATE], 0)
    starts = _operands(start, op.acc, streams[START], split=False)
    to_a, to_b = op.grouped
    rows: Sequence[Vector | Sequence[Parts]]
    columns: Sequence[Vector | Sequence[Parts]]
    if to_a is None:
        left, depth = _operands(a_bits, op.singles[0], streams[A]), a_bits.shape[1]
        rows = [left[n * depth : (n + 1) * depth] for n in range(shape[0])]
    else:
        rows = _vectors(a_bits, to_a, first, shape[1], PARTS[0])
    if to_b is None:
        right = _operands(b_bits.T, op.singles[1], streams[B])
        columns = [right[n :: shape[1]] for n in range(shape[1])]
    else:
        columns = _vectors(b_bits, to_b, first, 1, PARTS[1])
    results = (
        _contracted(op, x, y, z[0], Draws(streams[ACCUMULATE], n))
        for n, ((x, y), z) in enumerate(zip(product(rows, columns), starts, strict=True))
    )
    return to_array(results, shape)


def _written_out(
    op: Fma, a: Matrix, b: Matrix, c: npt.NDArray[np.uint32], streams: Sequence[int]
) -> npt.NDArray[np.float32]:
    """A contraction of the rows of `a` and of `b` by an operator that is written out in simpler ones."""
    if op.hadamard:
        a, b = (rotated(each, op.hadamard, op.signs) for each in (a, b))
        op = op.unrotated
    if op.written_out and op.groups is None:
        pairs = zip((a, b), op.grouped, streams, strict=False)
        a, b = (each if to is None else operand_values(each, to, own) for each, to, own in pairs)
        op = op.without_groups
    first = Draws(streams[ACCUMULATE], 0)
    if op.written_out:
        starts = _operands(c, op.acc, streams[START], split=False)
        sums = summed(op, (a, b), [each[0] for each in starts], streams=streams, first=first)
        return to_array(sums, c.shape)
    return _plain(op, bits_of(a), bits_of(b), c, streams)


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
        self._round, self._format = rounder(to, POINT), to.format if split else to.format.part

    def __missing__(self, bits: int) -> Parts:
        value = self._round(from_bits(bits))
        self[bits] = parts = parts_of(value, self._format)
        return parts


@cache
def _converted(to: Conversion, split: bool) -> _Converted:
    return _Converted(to, split)


def _operands(bits: npt.NDArray[np.uint32], to: Conversion, stream: int, split: bool = True) -> list[Parts]:
    if to.noise is not None:
        fmt, to_format = to.format if split else to.format.part, rounder(to, POINT)
        draws = zip(bits.ravel().tolist(), conversion_draws(stream, bits.size, to.noise), strict=True)
        values = (to_format(from_bits(b), noise) for b, noise in draws)
        return [parts_of(value, fmt) for value in values]
    known = _converted(to, split)
    if len(known) > 1 << 20:
        known.clear()
    return list(map(known.__getitem__, bits.ravel().tolist()))
