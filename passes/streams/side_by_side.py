"""side-by-side: parts that do not depend on each other become chains that run at the same time.

The windows (windows.py) say which; what a chain is in the code says chains.py. A part is estimated by what it
multiplies and moves, so that parts of free sizes stay as they are. Programs that leave widths to the run do, too: which
part chooses a width first depends on the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate

from torch_mlir import ir

from numc.passes import facts, linalg
from numc.passes.buffers.dependences import UsedBuffer
from numc.passes.explicit.width_slots import slots_of
from numc.passes.plan.emit_kernels import FMAS
from numc.passes.streams.chains import Chains, code_of
from numc.passes.streams.units import Unit, stretches
from numc.passes.streams.windows import Cost, Window, windows
from numc.passes.vector.mark_parts import Part, buffers_of, parts_of

_FMAS, _BYTES, _START = 4e10, 1.5e10, 2e-7
"""The multiply-adds and the bytes of a thread in a second, and the seconds that any part takes."""
_SHARED_FMAS, _SHARED_BYTES = 1 << 17, 1 << 20
"""A part with less is not shared out among threads."""
_MINOR = 1e-6
"""Seconds of a part that does not count where a program is cut into windows."""
_ALWAYS = 64 << 20
"""Bytes that buffers may take in any case, unless a limit is given."""


def side_by_side(module: ir.Operation, memory: int | None) -> None:
    """Compute parts at the same time that do not depend on each other, where one alone leaves threads idle.

    memory: the MiB that all buffers may take at once where this is done, 0 to leave it; None: 64, or as many as they
    take without it.
    """
    if memory == 0 or slots_of(module):
        return
    parts = parts_of(module)
    room = _Room(parts, buffers_of(module), None if memory is None else memory << 20)
    with module.context, ir.Location.unknown():
        chains = Chains(module)
        for stretch in stretches(linalg.main(module)):
            units = stretch.units
            costs, after = [_cost(unit, parts) for unit in units], _after(units, parts)
            chosen = windows(costs, after, partial(room.has, units))
            for code in [code_of(stretch, window) for window in chosen]:  # before anything is erased
                chains.make(code)


def _cost(unit: Unit, parts: Sequence[Part]) -> Cost:
    fmas, moved = sum(facts.get(op, FMAS, 0) for op in unit.ops), sum(parts[n].bytes or 0 for n in unit.parts)
    seconds = _START + max(fmas / _FMAS, moved / _BYTES)
    shared = fmas >= _SHARED_FMAS or moved >= _SHARED_BYTES
    fills = all(parts[n].kind == "fill" for n in unit.parts)
    return Cost(seconds, shared, fills or seconds < _MINOR)


def _after(units: Sequence[Unit], parts: Sequence[Part]) -> list[list[int]]:
    """For every unit the units that have to end before it begins."""
    of = {part: n for n, unit in enumerate(units) for part in unit.parts}
    return [
        sorted({of[predecessor] for part in unit.parts for predecessor in parts[part].after if predecessor in of} - {n})
        for n, unit in enumerate(units)
    ]


class _Room:
    """The memory that buffers take at each part, one after the other, and what a window would add."""

    def __init__(self, parts: Sequence[Part], buffers: Sequence[UsedBuffer], limit: int | None) -> None:
        self._parts, count = parts, len(parts)
        self._buffers = [(buffer.bytes, buffer.parts, buffer.result) for buffer in buffers]
        changes, first = [0] * (count + 1), [0] * (count + 1)
        for size, users, result in self._buffers:
            changes[users[0]] += size or 0
            changes[count if result else users[-1] + 1] -= size or 0
            first[users[0] + 1] += size or 0
        self._used, self._made = list(accumulate(changes)), list(accumulate(first))
        self._limit = max(_ALWAYS, *self._used) if limit is None else limit

    def has(self, units: Sequence[Unit], window: Window) -> bool:
        """Whether all buffers fit while a window is computed. What is of a free size does not."""
        numbers = [part for unit in units[window.first : window.last + 1] for part in unit.parts]
        if any(self._parts[n].bytes is None for n in numbers):
            return False
        of = {part: n for n, chain in enumerate(window.chains) for unit in chain for part in units[unit].parts}
        begin, end = numbers[0], numbers[-1]
        if self._used[begin] + self._made[end + 1] - self._made[begin + 1] <= self._limit:
            return True
        whole, own = 0, [[0] * (end - begin + 2) for _ in window.chains]
        for size, users, result in self._buffers:
            if users[0] > end or (users[-1] < begin and not result):
                continue
            homes = {of.get(user) for user in users}
            home = homes.pop()
            if home is None or homes or result:
                whole += size or 0
            else:
                own[home][users[0] - begin] += size or 0
                own[home][users[-1] + 1 - begin] -= size or 0
        return whole + sum(max(accumulate(each)) for each in own) <= self._limit
