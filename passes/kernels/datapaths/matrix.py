"""Micro-tiles in matrix registers, whose products take words of packed operands (isa/amx.py)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from numc.passes.kernels.datapaths.datapath import Accumulators, Datapath, Micro, Segment
from numc.passes.kernels.isa.instruction_set import Matrix, Product
from numc.passes.kernels.setting import Setting
from numc.passes.kernels.ssa import Value

_MOST = 2  # registers along the rows and along the lanes of a tile: with the operands of a step there are eight


def multiplied(datapath: str, unit: Matrix, *, swap: bool = False) -> Product | None:
    """The product of rows and lanes that a datapath is; None if matrix registers do not compute it."""
    if datapath == "bytes":  # those of a have no sign
        return unit.signed_unsigned if swap else unit.unsigned_signed
    return unit.bf16 if datapath == "amx_bf16" else None


def product_of(s: Setting) -> Product | None:
    """The product of rows and lanes in matrix registers; None unless the tile is whole ones of them."""
    unit, t = s.instructions.matrix, s.tile
    if unit is None or not s.fast or s.fma.groups or t.width != unit.size:
        return None
    if t.rows % unit.size or t.rows > _MOST * unit.size or t.vectors > _MOST:
        return None
    return multiplied(s.fma.datapath.name, unit, swap=s.swap)


def in_matrices(plain: Datapath) -> Datapath:
    """A datapath on words, in matrix registers where the tile is of these. Its micro-kernels carry no values then."""

    def enter(m: Micro, segment: Segment) -> Accumulators:
        if product_of(m.setting) is None:
            return plain.enter(m, segment)
        for register, address in _sums(m):
            _unit(m).load(m.code, register, address, m.setting.tile.lanes)
        return []

    def walk(m: Micro, first: Value, end: Value, values: Accumulators) -> Accumulators:
        product = product_of(m.setting)
        if product is None:
            return plain.walk(m, first, end, values)
        _walk(m, first, end, product)
        return []

    def leave(m: Micro, segment: Segment, values: Accumulators) -> None:
        if product_of(m.setting) is None:
            plain.leave(m, segment, values)
            return
        for register, address in _sums(m):
            _unit(m).store(m.code, register, address, m.setting.tile.lanes)

    return replace(plain, enter=enter, walk=walk, leave=leave)


def _unit(m: Micro) -> Matrix:
    unit = m.setting.instructions.matrix
    assert unit is not None
    return unit


def _counts(m: Micro) -> tuple[int, int]:
    """The number of registers for the rows of this micro-kernel, and that for its lanes."""
    return -(-m.rows // _unit(m).size), m.vectors


def _sums(m: Micro) -> Iterator[tuple[int, Value]]:
    """The registers of accumulators, and where they are in the tile."""
    t, (rows, lanes) = m.setting.tile, _counts(m)
    for r in range(rows):
        for v in range(lanes):
            yield r * lanes + v, m.f.at(m.f["tile"], (r * t.lanes + v) * t.width)


def _walk(m: Micro, first: Value, end: Value, product: Product) -> None:
    """A register of words of the steps of k at a time; what panels have behind the last step adds nothing."""
    f, t, unit, (rows, lanes) = m.f, m.setting.tile, _unit(m), _counts(m)
    words = m.datapath.dot(m.setting)
    with f.loop(first, end, words * unit.size) as k:
        step = f.i64("divui", k, words)
        row, lane = (f.at(f[side], f.i64("muli", step, size)) for side, size in (("rows", t.rows), ("lanes", t.lanes)))
        b_first = rows * lanes
        a_first = b_first + lanes
        for v in range(lanes):
            unit.load(f, b_first + v, f.at(lane, v * unit.size), t.lanes)
        for r in range(rows):
            unit.load(f, a_first + r, f.at(row, r * unit.size * unit.size), unit.size)
            for v in range(lanes):
                product(f, r * lanes + v, a_first + r, b_first + v)
