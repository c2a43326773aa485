"""The entry of a set of micro-kernels: which of them updates a tile, by its guard and by its number of rows."""

from __future__ import annotations

from collections.abc import Sequence

from numc.passes.kernels.builder import Function
from numc.passes.kernels.environment import raised, subnormals_flushed, watch_exceptions
from numc.passes.kernels.guard import RANGES
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.ssa import PTR, Value

PANELS = {"rows": PTR, "lanes": PTR}


def micro_name(kernel: Kernel, rows: int, vectors: int, *, fast: bool) -> str:
    """The name of one micro-kernel of the set."""
    return f"{_stem(kernel, vectors)}_{'fast' if fast else 'exact'}{rows}"


def _stem(kernel: Kernel, vectors: int) -> str:
    return kernel.name if vectors == kernel.tile.vectors else f"{kernel.name}_one"


def choice_text(kernel: Kernel, vectors: int) -> str:
    """The entry: the guard, then the micro-kernel for the number of rows; the exact one if the guard does not hold."""
    arguments = {**PANELS, "tile": PTR, "kc": "i64", "count": "i64", **RANGES, **dict(kernel.extra)}
    f = Function(_stem(kernel, vectors), arguments)
    sizes = [*sorted(kernel.partial), kernel.tile.rows]
    if kernel.limits is None:
        with kernel.datapath.around(f, kernel):
            _by_rows(f, kernel, vectors, sizes, fast=False)
        return f.function()
    (holds,) = f.call(f"{kernel.name}_guard", *(f[n] for n in RANGES), f["tile"], results="i1")
    if kernel.scale != 1 and not kernel.datapath.flushes:
        holds = _watched(f, kernel, vectors, sizes, holds)
        with f.choose(holds) as choice:
            with choice.then():
                pass
            with choice.otherwise():
                _call(f, kernel, vectors, kernel.tile.rows, fast=False)
        return f.function()
    with f.choose(holds) as choice:
        with choice.then(), subnormals_flushed(f) if kernel.datapath.flushes else kernel.datapath.around(f, kernel):
            _by_rows(f, kernel, vectors, sizes, fast=True)
        with choice.otherwise():
            _call(f, kernel, vectors, kernel.tile.rows, fast=False)
    return f.function()


def _call(f: Function, kernel: Kernel, vectors: int, rows: int, *, fast: bool) -> None:
    names = ("rows", "lanes", "tile", "kc", *(name for name, _ in kernel.extra))
    f.call(micro_name(kernel, rows, vectors, fast=fast), *(f[name] for name in names))


def _by_rows(f: Function, kernel: Kernel, vectors: int, sizes: Sequence[int], *, fast: bool) -> None:
    """The micro-kernel with the fewest rows that are enough."""
    if len(sizes) == 1:
        _call(f, kernel, vectors, sizes[0], fast=fast)
        return
    with f.choose(f.compare("ule", f["count"], f.number(sizes[0]))) as choice:
        with choice.then():
            _call(f, kernel, vectors, sizes[0], fast=fast)
        with choice.otherwise():
            _by_rows(f, kernel, vectors, sizes[1:], fast=fast)


def _watched(f: Function, kernel: Kernel, vectors: int, sizes: Sequence[int], holds: Value) -> Value:
    """The cheap sequence where the guard holds, undone if a sum was lost beyond binary32's numbers or below them.

    Returns whether the tile has been updated.
    """
    old = f.alloca(kernel.tile_words, "f32")
    with f.choose(holds, "i1") as choice:
        with choice.then():
            _copy(f, kernel, f["tile"], old)
            flags = watch_exceptions(f)
            _by_rows(f, kernel, vectors, sizes, fast=True)
            kept = f.compare("eq", raised(f, flags), f.int(0))
            with f.choose(kept) as undo:
                with undo.then():
                    pass
                with undo.otherwise():
                    _copy(f, kernel, old, f["tile"])
            choice.next = [kept]
        with choice.otherwise():
            choice.next = [f.int(0, "i1")]
    return choice.results[0]


def _copy(f: Function, kernel: Kernel, source: Value, target: Value) -> None:
    """Copy a tile."""
    code = f.lanes(kernel.tile.width)
    with f.loop(0, kernel.tile_words, kernel.tile.width) as i:
        code.store(code.load(f.at(source, i)), f.at(target, i))
