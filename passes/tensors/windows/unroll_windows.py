"""unroll-windows: what windows of few elements are reduced to becomes an elementwise operation on slices.

The sum over 3 x 3 elements is then one of nine slices, in the same order, with what follows in the same loop, and no
pass over memory writes where it begins. Extremes depend on no order: a maximum over 3 x 3 elements becomes one over 3
rows, of every column, and one over 3 of these columns, which neighbouring windows share. Rows of a border that changes
no extreme are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from numc.numerics.binary32 import INFINITY
from numc.passes import linalg
from numc.passes.dialect import varies
from numc.passes.tensors.windows.window_parts import MOST_PARTS, Source, Window

# Extremes, and what the result of every window is at least or at most.
_NEUTRAL = {"arith.maximumf": "0xFF800000 : f32", "arith.minimumf": f"0x{INFINITY:X} : f32"}
# An operation reads so many slices at most, whose elements are so far apart at most: others do not get into lanes.
_MOST, _APART = 16, 2


def unroll_windows(module: ir.Operation) -> None:
    """Make reductions of windows of few elements elementwise operations, those of extremes one for each dimension."""
    with module.context, ir.Location.unknown():
        for generic in list(linalg.operations(module, "linalg.generic")):
            start = _start(generic)
            windows = _windows(generic) if start is not None else []
            if start is None or not windows:
                continue
            is_extreme = _is_extreme(generic, start)
            single, several = ([w for w in windows if (w.size > 1) == more] for more in (False, True))
            groups = [windows]
            if is_extreme and several and several[-1].stride < several[-1].size:
                groups = [[*single, several[0]], *([window] for window in several[1:])]
            if all(prod(window.size for window in group) <= _MOST for group in groups):
                _unroll(generic, start, groups, is_extreme=is_extreme)


def _start(generic: ir.Operation) -> str | None:
    """The f32 constant that a reduction of its first input alone begins with; None if it is anything else."""
    block, inputs = linalg.body(generic), linalg.input_count(generic)
    reads_one = inputs and all(map(linalg.is_unused, list(block.arguments)[1:inputs]))
    if not linalg.reduces(generic) or not reads_one or len(generic.operands) != inputs + 1:
        return None
    if linalg.contracts(generic) or any(op.name == "linalg.index" or varies(op) for op in linalg.operations(generic)):
        return None
    return linalg.filled_with(generic.operands[inputs])


def _is_extreme(generic: ir.Operation, start: str) -> bool:
    """Whether a reduction is an extreme that begins with a number that changes none."""
    ops, arguments = [op.operation for op in linalg.body(generic).operations], list(linalg.body(generic).arguments)
    takes = len(ops) == 2 and {*ops[0].operands} == {arguments[0], arguments[-1]}
    return takes and _NEUTRAL.get(ops[0].name) == start


def _windows(generic: ir.Operation) -> list[Window]:
    """The windows in the dimensions of the first input.

    There are none if it is read in any other way, or far apart, or if sizes are not known.
    """
    kinds, sizes, maps = linalg.iterator_types(generic), linalg.loop_sizes(generic), linalg.indexing_maps(generic)
    read, written = ([linalg.linear(e) for e in m.results] for m in (maps[0], maps[-1]))
    shape, small = (ir.RankedTensorType(generic.operands[n].type).shape for n in (0, len(maps) - 1))
    if None in sizes or len(read) != len(written):
        return []
    windows, order = [], []
    for dim, linear in enumerate(read):
        if linear is None or linear[1]:
            return []
        moves = [d for d in linear[0] if kinds[d] == "parallel"]
        inside = [d for d in linear[0] if kinds[d] == "reduction"]
        if len(moves) != 1 or len(inside) > 1 or written[dim] != ({moves[0]: 1}, 0):
            return []
        order += inside
        stride = linear[0][moves[0]]
        dilation, size = next(((linear[0][d], sizes[d] or 0) for d in inside), (1, 1))
        if dim == len(read) - 1 and (stride > _APART or (size > 1 and small[dim] == 1)):
            return []
        if shape[dim] != small[dim]:
            windows.append(Window(dim, stride, dilation, size))
    return windows if order == [d for d, iterator in enumerate(kinds) if iterator == "reduction"] else []


def _unroll(generic: ir.Operation, start: str, groups: Sequence[Sequence[Window]], *, is_extreme: bool) -> None:
    """Replace `generic`, which begins with a constant, by an elementwise operation for each group of windows."""
    value, out = generic.operands[0], ir.RankedTensorType(generic.results[0].type)
    shape = list(ir.RankedTensorType(value.type).shape)
    for windows in groups:
        for window in windows:
            shape[window.dim] = out.shape[window.dim]
        # The last dimension keeps its border: vectors read whole rows.
        source = Source.of(value, start if is_extreme and windows is not groups[-1] else None)
        parts = source.parts(windows, shape)
        if source.border and len(parts) > MOST_PARTS:
            source = Source.of(value)
            parts = source.parts(windows, shape)
        with ir.InsertionPoint(generic), generic.location:
            whole = tensor.EmptyOp(shape, out.element_type).result
            value = linalg.filled(whole, _constant(out.element_type, start)) if source.border else whole
            for part in parts:
                firsts, sizes, ones = [s.first for s in part], [s.size for s in part], [1] * out.rank
                room = tensor.EmptyOp(sizes, out.element_type).result if source.border else whole
                made = _combined(generic, source.slices(part), room, "" if is_extreme else start)
                inserted = source.border and tensor.InsertSliceOp(made, value, [], [], [], firsts, sizes, ones)
                value = inserted.result if inserted else made
    linalg.replace(generic, [value])


def _constant(kind: ir.Type, number: str) -> ir.Value:
    return arith.ConstantOp(kind, ir.Attribute.parse(number)).result


def _combined(generic: ir.Operation, slices: list[ir.Value], room: ir.Value, start: str) -> ir.Value:
    """Apply the body of a reduction to the elements of slices, in `room`.

    start: the constant that it begins with, "" if that is the first element.
    """
    operands, body, rank = [*slices, room], linalg.body(generic), ir.RankedTensorType(room.type).rank
    maps = [ir.AffineMap.get_identity(rank)] * len(operands)
    types = [v.type.element_type for v in operands]
    new, block = linalg.generic_like(
        generic, operands, maps, arguments=types, results=[room.type], kinds=["parallel"] * rank
    )
    elements = list(block.arguments)[:-1]
    with ir.InsertionPoint(block), generic.location:
        accumulator = _constant(types[-1], start) if start else elements.pop(0)
        for element in elements:
            values = {body.arguments[0]: element, body.arguments[len(body.arguments) - 1]: accumulator}
            (accumulator,) = linalg.copy_body(body, ir.InsertionPoint(block), values)
        ir.Operation.create("linalg.yield", operands=[accumulator])
    return new.results[0]
