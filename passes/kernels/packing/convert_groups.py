"""Conversion of panels to formats with groups: groups lie along k, which is a direction of every panel.

A panel is packed as it is (pack_code.py), then converted in the cache, group after group; rows whose steps of k are
adjacent are converted from where they are. Then it holds the values of formats whose groups have scales, which are
binary32 numbers, or the integers of formats that sum integers. For dot products of integers it holds words of two or
four of them, of one row or lane, and beside them the units of the groups (`Layout`).
"""

from __future__ import annotations

from dataclasses import replace

from numc.numerics.groups import GroupConversion
from numc.passes.kernels.builder import Function
from numc.passes.kernels.guard import magnitude_range
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.group_panels import ALL, GroupPanel
from numc.passes.kernels.packing.group_rows import GroupRows
from numc.passes.kernels.packing.layout import Layout, layout
from numc.passes.kernels.packing.panel_draws import DRAWN, PanelDraws
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.values.kinds import code_of

# Where the values of rows are before their conversion: row 0, and how far it is to the next row, and from one vector of
# a row to the next, in f32 numbers.
SOURCE = {"source": PTR, "row_step": "i64", "step": "i64"}


def in_panel(f: Function, to: Layout, panel: Value) -> list[Value]:
    """The arguments for values that are where their panel is: those of `SOURCE`, of rows."""
    return [] if to.side == "lanes" else [panel, f.number(to.width * to.parts), f.number(to.step_words)]


def quantize_text(kernel: Kernel, side: str) -> str:
    """The function ``@<kernel>_quantize_<side>``, which converts one panel for one block of k."""
    return _text(f"{kernel.name}_quantize_{side}", kernel, side, kernel.groups_of(side), layout(kernel, side))


def extremes_text(kernel: Kernel, side: str) -> str:
    """Two such functions for an operand with open widths, ``@<kernel>_widest_<side>`` and ``narrowest``, to values.

    Of a stochastic conversion the narrowest truncates what the widest has made.
    """
    to, panel = kernel.groups_of(side), replace(layout(kernel, side), dot=0)
    assert to.open is not None
    least, most = (to.at(*each) for each in zip(*to.open.both, strict=True))
    if to.noise is not None:
        least = GroupConversion(least.format, "rtz")
    both = {"narrowest": least, "widest": most}
    return "\n".join(_text(f"{kernel.name}_{name}_{side}", kernel, side, each, panel) for name, each in both.items())


def _text(name: str, kernel: Kernel, side: str, to: GroupConversion, panel: Layout) -> str:
    """The function `name`, which converts one panel of this layout for one block of k.

    Arguments: the panel, how many steps of k it has, and the largest magnitude of the operand, as an encoding, or where
    those of the panel's channels are; open widths; ``DRAWN``, if the conversion draws; of rows ``SOURCE``: lanes are in
    their panel. Returns for the guard the smallest unit of a group that is not zero, less one, and the largest
    magnitude, as encodings; where the other operand has no groups, the range of magnitudes.
    """
    arguments = {"panel": PTR, "count": "i64", "largest": PTR if to.channel else "i32"}
    if to.open is not None:
        arguments["width"] = "i64"
    if to.noise is not None:
        arguments |= DRAWN
    if side == "rows":
        arguments |= SOURCE
    f = Function(name, arguments, "i32, i32")
    of_b = (side == "rows") == kernel.swap
    draws = None if to.noise is None else PanelDraws(f, panel, to.noise, of_b)
    of_panel = f, panel, code_of(to, f.arguments.get("width"), factors=kernel.fma.multiplies), draws
    group, limits = to.format.group, (f.int(ALL), f.int(0))
    if group is None:
        GroupPanel(*of_panel).by_tensor(channel=to.channel)
    else:
        limits = GroupPanel(*of_panel).lanes(group) if side == "lanes" else GroupRows(*of_panel).rows(group)
    if kernel.groups is None and kernel.limits is not None:
        limits = _range(f, panel)
    return f.function(*limits)


def _range(f: Function, panel: Layout) -> tuple[Value, Value]:
    """The limits of values that are multiplied as other binary32 numbers are: their own magnitudes."""
    code, steps = f.lanes(panel.width), f["count"]
    if panel.side == "rows":
        steps = f.i64("ceildivui", steps, panel.width)
    with f.carry(0, f.i64("muli", steps, panel.step_words), panel.width, [code.int(ALL), code.int(0)]) as words:
        bits = code.cast("bitcast", code.load(f.at(f["panel"], words.index)), "i32")
        words.next = list(magnitude_range(code, bits, *words.values))
    low, high = words.results
    return f.reduce("minui", low), f.reduce("maxui", high)
