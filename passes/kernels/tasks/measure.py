"""The part of an operand that its widest format keeps beyond its narrowest one: FAST chooses widths by it.

r(X) = sum |widest(X) - narrowest(X)| / sum |narrowest(X)|, over all groups that the contraction converts (Zhang et al.,
HPCA 2022, eq. 2). The sums of every panel are stored apart, and the runtime adds them in one order, so threads change
no bit. Groups that are NaN do not count.
"""

from __future__ import annotations

from numc.passes.kernels.builder import Function
from numc.passes.kernels.packing.convert_groups import in_panel
from numc.passes.kernels.packing.layout import layout
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.tasks.interface import SELF, Task, context
from numc.passes.kernels.tasks.panels import drawn, largest, pack_lanes, pack_rows

_ARGUMENTS = {"context": PTR, "begin": "i64", "end": "i64"}


def measured(task: Task) -> list[str]:
    """The operands, ``rows`` and ``lanes``, that runs can measure: with groups of open widths, packed by tasks."""
    kernel = task.kernel
    sides = [side for side in ("rows", "lanes") if kernel.grouped(side) is not None]
    return [side for side in sides if kernel.is_open(side) and task.packed != side]


def measure_name(name: str, side: str) -> str:
    """The name of the function that measures an operand of the task function `name`."""
    return f"{name}_measure_{side}"


def measure_text(task: Task, side: str) -> str:
    """The function ``(context, begin, end)`` that measures these panels, counted through all batches."""
    kernel, to = task.kernel, layout(task.kernel, side)
    name = measure_name(SELF, side)
    f = Function(f"{name}_body", _ARGUMENTS)
    a, b, depth, size, sums = context(f, "a", "b", "depth", side, "sums")
    of_batch = context(f, "a_batch" if side == "rows" else "b_batch")[0]
    data = a if side == "rows" else b
    words = to.panel_words(to.k_block)
    (memory,) = f.call("numc_alloc", f.number(8 * words), results=str(PTR), dialect="llvm")
    wide, narrow = memory, f.at(memory, words)
    panels = f.i64("ceildivui", size, to.extent)
    blocks = f.i64("maxui", f.i64("ceildivui", depth, to.k_block), 1)
    with f.loop(f["begin"], f["end"]) as number:
        batch, panel = f.i64("divui", number, panels), f.i64("remui", number, panels)
        first = f.i64("muli", panel, to.extent)
        source = f.at(data, f.fetch(of_batch, batch))
        with f.carry(0, blocks, 1, [f.f64(0.0)] * 2) as block:
            k0 = f.i64("muli", block.index, to.k_block)
            kc = f.i64("minui", f.i64("subi", depth, k0), to.k_block)
            if side == "rows":
                count = f.i64("minui", f.i64("subi", size, first), to.extent)
                pack_rows(f, kernel, source, row=first, count=count, k0=k0, kc=kc, to=wide)
            else:
                pack_lanes(f, kernel, source, panel=panel, k0=k0, kc=kc, to=wide)
            used = f.i64("muli", _steps(f, side, to.width, kc), to.step_words)
            _convert_both(f, task, side, panels=(wide, narrow), used=used, kc=kc, batch=batch, place=first, k0=k0)
            of_block = _sums(f, to.width, wide, narrow, used)
            block.next = [f.binary("addf", x, y) for x, y in zip(block.values, of_block, strict=True)]
        for n, total in enumerate(block.results):
            at = f.at(sums, f.i64("addi", f.i64("muli", number, 2), n), "f64")
            f.line(f"llvm.store {total}, {at} : f64, {PTR}")
    f.call("numc_free", memory, dialect="llvm")
    entry = Function(name, _ARGUMENTS, attributes="", dialect="llvm")
    entry.call(f"{name}_body", *entry.arguments.values())
    return f.function() + entry.function()


def _steps(f: Function, side: str, width: int, kc: Value) -> Value:
    """The steps of a packed block: vectors of k of rows, an even number of lanes."""
    return f.i64("ceildivui", kc, width) if side == "rows" else f.i64("addi", kc, f.i64("andi", kc, 1))


def _convert_both(
    f: Function,
    task: Task,
    side: str,
    panels: tuple[Value, Value],
    used: Value,
    kc: Value,
    batch: Value,
    place: Value,
    k0: Value,
) -> None:
    """Convert a packed block to the widest and to the narrowest format; a stochastic one from the former."""
    kernel, (wide, narrow) = task.kernel, panels
    name, noisy = kernel.name, kernel.groups_of(side).noise is not None
    most, to = largest(f, task, side, batch, place), layout(kernel, side)

    def widest() -> None:
        draws = drawn(f, task, side, batch=batch, place=place, k0=k0)
        f.call(f"{name}_widest_{side}", wide, kc, most, *draws, *in_panel(f, to, wide), results="i32, i32")

    if noisy:
        widest()
    code = f.lanes(kernel.tile.width)
    with f.loop(0, used, kernel.tile.width) as word:
        code.store(code.load(f.at(wide, word)), f.at(narrow, word))
    if not noisy:
        widest()
    f.call(f"{name}_narrowest_{side}", narrow, kc, most, *in_panel(f, to, narrow), results="i32, i32")


def _sums(f: Function, width: int, wide: Value, narrow: Value, used: Value) -> list[Value]:
    """The sums of the magnitudes of the narrow values, and of what the wide ones have beyond them."""
    code = f.lanes(width)
    zero = code.f64(0.0)
    with f.carry(0, used, width, [zero, zero]) as words:
        most, least = (code.load(f.at(panel, words.index)) for panel in (wide, narrow))
        sums = []
        for x, total in zip((least, code.binary("subf", most, least)), words.values, strict=True):
            size = code.cast("extf", code.unary("math.absf", x), "f64")
            counts = code.select(code.compare("ord", size, size), size, zero)
            sums.append(code.binary("addf", total, counts))
        words.next = sums
    return [_total(f, width, x) for x in words.results]


def _total(f: Function, width: int, x: Value) -> Value:
    """The sum of the lanes, in their order."""
    total = f.f64(0.0)
    for n in range(width):
        total = f.binary("addf", total, f.op(f"vector.extract {x}[{n}] : f64 from {x.type}", "f64"))
    return total
