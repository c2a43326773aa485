"""Operators with a register: sums that are whole numbers, behind the accumulators of a tile from block to block of k.

The tile is made with zeros there. The accumulators that a reduction began with stay as they are until it ends.
"""

from __future__ import annotations

from dataclasses import replace

from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.datapaths.datapath import Accumulators, Drawn, Micro, Segment
from numc.passes.kernels.datapaths.defined.rows_in_turn import Room, prepared
from numc.passes.kernels.datapaths.defined.traced_blocks import DEFINED
from numc.passes.kernels.datapaths.defined.writer import emit_ended, register_element
from numc.passes.kernels.setting import Parts, Setting
from numc.passes.kernels.ssa import PTR, Value


def _words(s: Setting) -> int:
    return int(register_element(s.fma)[1:]) // 32


def _prepared(m: Micro) -> Room | None:
    return prepared(m, m.f.at(m.f["tile"], m.setting.accumulators)) if DEFINED.in_turn(m.setting) else None


def _enter(m: Micro, segment: Segment) -> Accumulators:
    if isinstance(m.kept, Room):
        return []
    return [m.code.load(_at(m, at), element=register_element(m.setting.fma)) for at in m.places]


def _leave(m: Micro, segment: Segment, values: Accumulators) -> None:
    if isinstance(m.kept, Room):
        return
    for at, value in zip(m.places, values, strict=True):
        m.code.store(value, _at(m, at))


def _at(m: Micro, at: int) -> Value:
    s = m.setting
    return m.code.at(m.f["tile"], s.accumulators + at * _words(s))


def _finish(s: Setting, name: str) -> str:
    """The function that ends a reduction; its argument is the tile."""
    f = Function(name, {"tile": PTR})
    with f.loop(0, s.accumulators, s.tile.width) as i:
        code = f.lanes(s.tile.width)
        start = code.at(f["tile"], i)
        sums = code.at(code.at(f["tile"], s.accumulators), f.i64("muli", i, _words(s)))
        register = code.load(sums, element=register_element(s.fma))
        code.store(emit_ended(code, s.fma, code.load(start), register), start)
    return f.function()


def _step(code: Code, fma: Fma, a: Parts, b: Parts, c: Value, drawn: Drawn) -> Value:
    """A reduction of one step."""
    assert DEFINED.step is not None
    zero = code.int(0, register_element(fma))
    return emit_ended(code, fma, c, DEFINED.step(*(code, fma, a, b, zero, drawn)))


REGISTERS = replace(DEFINED, step=_step, prepare=_prepared, enter=_enter, leave=_leave, state=_words, finish=_finish)
"""Operators whose sums are registers."""
