"""The conversion of a packed weight to open widths: once for every choice of them, by panels (numc_converted)."""

from __future__ import annotations

from numc.passes.kernels.builder import Function
from numc.passes.kernels.guard import magnitude_range
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.convert_groups import in_panel
from numc.passes.kernels.packing.layout import layout
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.values.rounding import emit_round
from numc.passes.kernels.values.widths import run_time

#: What the function is given: where the copy to convert is, and the widths.
_DATA, _WIDTHS = 0, 1
_ARGUMENTS = {"context": PTR, "begin": "i64", "end": "i64"}


def panels_of(kernel: Kernel, side: str, shape: tuple[int, int, int]) -> int:
    """The number of panels of a packed operand; shape: batches, rows or lanes, depth."""
    batches, size, _ = shape
    return batches * -(-size // layout(kernel, side).extent)


def convert_packed_text(name: str, kernel: Kernel, side: str, shape: tuple[int, int, int]) -> str:
    """The function ``@<name>(context, begin, end)``, which converts panels in place, and their guard's data.

    shape: batches, rows or lanes, depth.
    """
    to, (batches, size, depth) = layout(kernel, side), shape
    f = Function(f"{name}_body", _ARGUMENTS)
    data, widths = f.fetch(f["context"], _DATA, PTR), f.fetch(f["context"], _WIDTHS)
    ranges = f.at(data, batches * to.batch_words(size, depth))
    last = to.words(*shape) - to.largest_words(size)
    blocks = -(-depth // to.k_block)
    with f.loop(f["begin"], f["end"]) as panel:
        base = f.at(data, f.i64("muli", panel, to.panel_words(depth)))
        for n in range(blocks):
            count = min(to.k_block, depth - n * to.k_block)
            before = n * to.k_block // to.width if side == "rows" else n * to.block_steps(to.k_block)
            block = f.at(base, before * to.step_words)
            if kernel.grouped(side) is not None:
                arguments = (block, f.number(count), f.fetch(data, last, "i32"), widths, *in_panel(f, to, block))
                limits = f.call(f"{kernel.name}_quantize_{side}", *arguments, results="i32, i32")
            else:
                limits = _singles(f, kernel, side, block=block, count=count, widths=widths)
            index = f.i64("addi", f.i64("muli", panel, 2 * blocks), 2 * n)
            for word, limit in enumerate(limits):
                at = f.at(ranges, f.i64("addi", index, word), "i32")
                f.line(f"llvm.store {limit}, {at} : i32, {PTR}")
    entry = Function(name, _ARGUMENTS, attributes="", dialect="llvm")
    entry.call(f"{name}_body", *entry.arguments.values())
    return f.function() + entry.function()


def _singles(f: Function, kernel: Kernel, side: str, block: Value, count: int, widths: Value) -> list[Value]:
    """Convert `count` steps of a panel value by value; returns the range of magnitudes, as encodings."""
    to, code = layout(kernel, side), f.lanes(layout(kernel, side).width)
    numbers = run_time(f, widths, kernel.conversion(side))
    steps = -(-count // to.width) if side == "rows" else count + count % 2
    with f.carry(0, steps * to.step_words, to.width, [code.int(0xFFFFFFFF), code.int(0)]) as words:
        address = f.at(block, words.index)
        value = emit_round(code, code.load(address), kernel.conversion(side), widths=numbers)
        code.store(value, address)
        words.next = list(magnitude_range(code, code.cast("bitcast", value, "i32"), *words.values))
    low, high = words.results
    return [f.reduce("minui", low), f.reduce("maxui", high)]
