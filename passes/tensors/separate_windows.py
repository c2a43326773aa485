"""separate-windows: the extremes of windows are taken along one dimension after the other.

A maximum over 3 x 3 elements becomes one over 3 rows, of every column, and one over 3 of these columns, which
neighbouring windows share. Extremes do not depend on any order, and what they begin with is never above an element of a
maximum, so that elementwise operations on elements that lie side by side give the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

from torch_mlir import ir
from torch_mlir.dialects import tensor

from numc.passes import linalg

# Extremes, and what the result of every window is at least or at most.
_NEUTRAL = {"arith.maximumf": "0xFF800000 : f32", "arith.minimumf": "0x7F800000 : f32"}
# An operation reads so many elements at most.
_MOST = 16


class _Window(NamedTuple):
    """The windows along one dimension: how far they are apart, how far their elements are, how many these are."""

    dim: int
    stride: int
    dilation: int
    size: int


def separate_windows(module: ir.Operation) -> None:
    """Compute the extremes of windows that overlap along one dimension after the other."""
    with module.context, ir.Location.unknown():
        for generic in list(linalg.operations(module, "linalg.generic")):
            extreme = _extreme(generic)
            windows = _windows(generic) if extreme is not None else []
            if extreme is not None and len(windows) > 1 and windows[-1].stride < windows[-1].size:
                _separate(generic, extreme, windows)


def _extreme(generic: ir.Operation) -> ir.Operation | None:
    """The extreme that a reduction of the first of its inputs is, beginning with a number that changes none."""
    block, inputs = linalg.body(generic), linalg.input_count(generic)
    ops = [op.operation for op in block.operations]
    arguments = list(block.arguments)
    if len(ops) != 2 or ops[0].name not in _NEUTRAL or not linalg.reduces(generic) or len(arguments) != inputs + 1:
        return None
    takes = {*ops[0].operands} == {arguments[0], arguments[-1]}
    begins = linalg.filled_with(generic.operands[inputs]) == _NEUTRAL[ops[0].name]
    return ops[0] if takes and begins else None


def _windows(generic: ir.Operation) -> list[_Window]:
    """The windows in the dimensions of the first input; none if it is read in any other way, or sizes are not known."""
    kinds, sizes, maps = linalg.iterator_types(generic), linalg.loop_sizes(generic), linalg.indexing_maps(generic)
    out = [linalg.linear(e) for e in maps[-1].results]
    read, found, used = maps[0].results, [], 0
    if len(read) != len(out):
        return []
    for dim, place in enumerate(map(linalg.linear, read)):
        if place is None or place[1]:
            return []
        moves = [d for d in place[0] if kinds[d] == "parallel"]
        inside = [d for d in place[0] if kinds[d] == "reduction"]
        if len(moves) != 1 or len(inside) > 1 or out[dim] != ({moves[0]: 1}, 0):
            return []
        used += len(inside)
        size = sizes[inside[0]] if inside else 1
        if size is None or size > _MOST:
            return []
        if inside:
            found.append(_Window(dim, place[0][moves[0]], place[0][inside[0]], size))
        elif place[0][moves[0]] != 1:
            return []
    known = all(size is not None for size in sizes) and used == kinds.count("reduction")
    return [window for window in found if window.size > 1 or window.stride > 1] if known else []


def _separate(generic: ir.Operation, extreme: ir.Operation, windows: list[_Window]) -> None:
    """Replace `generic` by an elementwise operation for each of the windows."""
    value, out = generic.operands[0], ir.RankedTensorType(generic.results[0].type)
    shape, element = list(ir.RankedTensorType(value.type).shape), out.element_type
    for window in windows:
        shape[window.dim] = out.shape[window.dim]
        with ir.InsertionPoint(generic), generic.location:
            operands = [_slice(value, window, n, shape) for n in range(window.size)]
            operands.append(tensor.EmptyOp(shape, element).result)
        types, maps = [element] * len(operands), [ir.AffineMap.get_identity(out.rank)] * len(operands)
        kind = operands[-1].type
        new, block = linalg.generic_like(generic, operands, maps, types, [kind], ["parallel"] * out.rank)
        found, *rest = list(block.arguments)[:-1]
        with ir.InsertionPoint(block), generic.location:
            for each in rest:
                found = ir.Operation.create(extreme.name, results=[element], operands=[found, each]).results[0]
            ir.Operation.create("linalg.yield", operands=[found])
        value = new.results[0]
    linalg.replace(generic, [value])


def _slice(value: ir.Value, window: _Window, number: int, shape: list[int]) -> ir.Value:
    """The elements of that number in all windows, of a shape."""
    offsets, strides = [0] * len(shape), [1] * len(shape)
    offsets[window.dim], strides[window.dim] = number * window.dilation, window.stride
    kind = ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type)
    return tensor.ExtractSliceOp(kind, value, [], [], [], offsets, shape, strides).result
