"""Operators that select, order, move and scatter elements, and products along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto

from numc.frontends.onnx.rewrites.node import END, Node, RefusedError

FLAT = "__flat"
"""The attribute of a Hardmax that an opset before 13 defines, which is of all that an axis and those behind it hold."""


def extreme(node: Node) -> None:
    """ArgMax, ArgMin: NaN comes before all others; of a last index torch-mlir counts from the end of another size."""
    source, operator = node.input(0), node.proto.op_type
    axis, keeps = node.attribute("axis", 0), node.attribute("keepdims", 1)
    if not node.attribute("select_last_index", 0):
        if node.is_float(source):
            _place(node, source, operator, axis, keeps, to=node.output(0))
        return
    turned = node.op("Slice", source, node.ints(-1), node.ints(-END), node.ints(axis), node.ints(-1))
    index = _place(node, turned, operator, axis, keeps)
    size = node.size(source, axis)
    last = node.constant(size - 1, np.int64) if isinstance(size, int) else ""
    if isinstance(size, str):
        last = node.op("Sub", node.op("Squeeze", size, node.ints(0)), node.constant(1, np.int64))
    node.op("Sub", last, index, to=node.output(0))


def _place(node: Node, value: str, operator: str, axis: int, keeps: int, to: str = "") -> str:
    """Emit the place of the first extreme element, or of the first NaN, of a value of the type of the first input."""
    if node.is_float(node.input(0)):
        reduction = {"ArgMax": "ReduceMax", "ArgMin": "ReduceMin"}[operator]
        hit = node.op("Equal", value, node.op(reduction, value, node.ints(axis)))
        hit = node.op("Or", hit, node.op("IsNaN", value))
        value, operator = node.cast(hit, TensorProto.INT32), "ArgMax"
    return node.op(operator, value, axis=axis, keepdims=keeps, to=to)


def hardmax(node: Node) -> None:
    """Hardmax: where ArgMax is, also if that is NaN."""
    source, sizes = node.input(0), node.sizes(node.input(0))
    is_flat = node.attribute(FLAT, 0)
    rank = len(sizes)
    axis = node.axis(rank, 1 if is_flat else -1)
    value, size = source, sizes[axis]
    if is_flat:
        rank, size = axis + 1, node.product(*sizes[axis:])
        value = node.reshape(source, [*sizes[:axis], size])
    places = node.reshape(node.steps(size), [-1, *[1] * (rank - 1 - axis)])
    here = node.op("Equal", _place(node, value, "ArgMax", axis, 1), places)
    if is_flat:
        here = node.reshape(here, sizes)
    node.cast(here, node.dtype(source) or TensorProto.FLOAT, to=node.output(0))


def depth_to_space(node: Node) -> None:
    """DepthToSpace: torch-mlir mixes up the dimensions of CRD, and divides fixed sizes only."""
    is_crd, block = node.attribute("mode", "DCR") == "CRD", node.attribute("blocksize", 1)
    if not is_crd and None not in node.shape(node.input(0))[1:]:
        return
    batch, whole, height, width = node.sizes(node.input(0))
    # Not -1, which may be anything where there are no elements.
    deep = whole // block**2 if isinstance(whole, int) else node.op("Div", whole, node.ints(block**2))
    channels, order = (
        ([deep, block, block], (0, 1, 4, 2, 5, 3)) if is_crd else ([block, block, deep], (0, 3, 4, 1, 5, 2))
    )
    apart = node.transpose(node.reshape(node.input(0), [batch, *channels, height, width]), *order)
    large = (node.product(size, block) for size in (height, width))
    node.reshape(apart, [batch, deep, *large], to=node.output(0))


def space_to_depth(node: Node) -> None:
    """SpaceToDepth: torch-mlir divides fixed sizes only."""
    block = node.attribute("blocksize", 1)
    shape = node.shape(node.input(0))
    if None not in shape[2:]:
        return
    batch, channels, *large = node.sizes(node.input(0))
    height, width = (
        size // block if isinstance(size, int) else node.op("Div", size, node.ints(block)) for size in large
    )
    apart = node.reshape(node.input(0), [batch, channels, height, block, width, block])
    deep = channels * block**2 if isinstance(channels, int) else node.product(channels, block**2)
    order = (1, 3, 5, 2, 4) if node.attribute("mode", "DCR") == "CRD" else (3, 5, 1, 2, 4)
    node.reshape(node.transpose(apart, 0, *order), [batch, deep, height, width], to=node.output(0))


def split(node: Node) -> None:
    """Split: a free dimension has the size that its parts add up to; torch-mlir would leave the rest over."""
    shape, parts = node.known_shape(node.input(0)), node.constants.get(node.input(1))
    if shape is None or parts is None:
        return
    axis = node.axis(len(shape), 0)
    if shape[axis] is None:
        whole = _sized(node, node.input(0), axis, int(parts.sum()), len(shape))
        node.copy().input[0] = whole
    elif shape[axis] != parts.sum():
        where = f"'{node.input(0)}' has in dimension {axis}"
        raise RefusedError(f"its parts {parts.tolist()} do not add up to {shape[axis]}, which {where}")


def top_k(node: Node) -> None:
    """TopK: a free dimension has k elements or more; torch-mlir would give those that there are."""
    shape, count = node.known_shape(node.input(0)), node.constants.get(node.input(1))
    if shape is not None and count is None:
        _top_k_of_a_run(node, len(shape))
    if shape is None or count is None or count.size != 1 or int(count.item()) < 2:
        return
    k, axis = int(count.item()), node.axis(len(shape), -1)
    if shape[axis] is None:
        first = _sized(node, node.cut(node.input(0), axis, 0, k), axis, k, len(shape))
        whole = node.op("Concat", first, node.cut(node.input(0), axis, k, END), axis=axis)
        node.copy().input[0] = whole


def _top_k_of_a_run(node: Node, rank: int) -> None:
    """The results have k elements, if k is known in a run only; torch-mlir would give those that there are."""
    axis, k = node.axis(rank, -1), node.input(1)
    never = node.ints(2**31)
    wanted = node.op("Where", node.op("Less", k, node.ints(0)), never, k)
    sizes = node.list_of([*[0] * axis, wanted, *[0] * (rank - axis - 1)])  # 0 keeps a size
    copy = node.copy()
    for n, result in enumerate(node.proto.output):
        if result:
            copy.output[n] = node.fresh()
            node.op("Reshape", copy.output[n], sizes, to=result)


def _sized(node: Node, value: str, axis: int, size: int, rank: int) -> str:
    """Emit a node that fixes a size, and fails the run if it is another one."""
    return node.op("Reshape", value, node.ints(*(size if d == axis else 0 for d in range(rank))))


def random(_: Node) -> None:
    """Refuse an operator that draws random numbers."""
    raise RefusedError("draws random numbers: give them to the model as an input")


def pad(node: Node) -> None:
    """Pad with elements of the source, which are gathered; what is taken away instead goes first, as in onnxruntime."""
    source, mode = node.input(0), node.attribute("mode", "constant")
    if mode == "constant":
        _crop_before(node)
        return
    if mode not in ("edge", "reflect", "wrap"):
        raise RefusedError(f"its mode '{mode}' is none that ONNX has")
    pads, chosen = node.constants.get(node.input(1)), _padded_axes(node)
    value, positive = (source, "") if pads is not None else _cropped_by_a_run(node, chosen)
    for n, axis in enumerate(chosen):
        if pads is None:
            before, after = (node.cut(positive, 0, k, k + 1) for k in (n, n + len(chosen)))
            places = _padded(node, _size_of(node, value, axis), before, after, mode)
            value = node.op("Gather", value, places, axis=axis)
            continue
        size = node.size(source, axis)
        if size == 0:
            raise RefusedError("there is nothing to pad with")
        low, high = int(pads[n]), int(pads[n + len(chosen)])
        if low < 0 or high < 0:
            value = _cropped(node, value, axis, low, high)
            size = size + min(low, 0) + min(high, 0) if isinstance(size, int) else _size_of(node, value, axis)
            low, high = max(low, 0), max(high, 0)
        if low == high == 0:
            continue
        if isinstance(size, int):
            places = node.constant(np.pad(np.arange(size), (low, high), mode=mode), np.int64)
        else:
            places = _padded(node, size, node.ints(low), node.ints(high), mode)
        value = node.op("Gather", value, places, axis=axis)
    node.op("Identity", value, to=node.output(0))


def _crop_before(node: Node) -> None:
    """Take away what negative pads take away first: torch-mlir would insert the rest outside of the result."""
    pads, value = node.constants.get(node.input(1)), node.input(0)
    chosen = _padded_axes(node)
    if pads is None and node.kind != "Pad":  # other operators do not take away
        return
    if pads is None:
        value, positive = _cropped_by_a_run(node, chosen)
        copy = node.copy()
        copy.input[0], copy.input[1] = value, positive
        return
    if pads.min(initial=0) >= 0:
        return
    for n, axis in enumerate(chosen):
        low, high = int(pads[n]), int(pads[n + len(chosen)])
        if low < 0 or high < 0:
            value = _cropped(node, value, axis, low, high)
    copy = node.copy()
    copy.input[0], copy.input[1] = value, node.ints(*(max(0, int(pad)) for pad in pads))


def _padded_axes(node: Node) -> Sequence[int]:
    """The axes of a Pad, for each of which it has two pads."""
    rank, axes, pads = node.rank(node.input(0)), node.constant_input(3, "axes"), node.constants.get(node.input(1))
    chosen = range(rank) if axes is None else [int(axis) % rank for axis in axes.reshape(-1)]
    if pads is not None and pads.size != 2 * len(chosen):
        raise RefusedError(f"its pads are not two numbers for each of {len(chosen)} dimensions")
    return chosen


def _cropped(node: Node, value: str, axis: int, low: int, high: int) -> str:
    """Emit what negative pads leave of an axis."""
    return node.cut(value, axis, max(0, -low), min(high, 0) or END)


def _cropped_by_a_run(node: Node, axes: Sequence[int]) -> tuple[str, str]:
    """Emit what computed pads leave where they are negative, and the pads, 0 instead of those."""
    source, pads, zero = node.input(0), node.input(1), node.ints(0)
    low, high = node.cut(pads, 0, 0, len(axes)), node.cut(pads, 0, len(axes), END)
    start = node.op("Max", node.op("Neg", low), zero)
    end = node.op("Add", node.list_of([node.size(source, axis) for axis in axes]), node.op("Min", high, zero))
    left = node.op("Slice", source, start, end, node.ints(*axes))
    return left, node.op("Max", pads, zero)


def _size_of(node: Node, value: str, axis: int) -> str:
    return node.op("Shape", value, start=axis, end=axis + 1)


def _padded(node: Node, size: str, before: str, after: str, mode: str) -> str:
    """Emit the places in a dimension that padding takes its elements from. All numbers are lists of one."""
    count = node.op("Add", node.op("Add", size, before), after)
    positions = node.op("Sub", node.steps(count), before)
    last = node.op("Sub", size, node.ints(1))
    if mode == "edge":
        return node.op("Min", node.op("Max", positions, node.ints(0)), last)
    if mode == "wrap":
        return node.op("Mod", positions, size)
    # There and back is a period, even for more padding than elements.
    period = node.op("Max", node.op("Mul", last, node.ints(2)), node.ints(1))
    return node.op("Sub", last, node.op("Abs", node.op("Sub", node.op("Mod", positions, period), last)))


def squeeze(node: Node) -> None:
    """Squeeze of dimensions of free sizes: those that are named are 1 in a run, and without axes none is.

    A run checks both (conditions/moves.py), because the rank of the result depends on it; torch-mlir takes neither.
    """
    shape = node.shape(node.input(0))
    if node.input(1):
        axes = [axis % len(shape) for axis in _numbers(node, 1) or ()]
        if any(shape[axis] is None for axis in axes):
            kept = [size for n, size in enumerate(node.sizes(node.input(0))) if n not in axes]
            node.reshape(node.input(0), kept, to=node.output(0))
        return
    if None in shape:
        kept = [size for n, size in enumerate(node.sizes(node.input(0))) if shape[n] != 1]
        node.reshape(node.input(0), kept, to=node.output(0))


def slice_backwards(node: Node) -> None:
    """Slice with negative steps: torch-mlir has none, so the elements are gathered, and those of computed steps."""
    starts, ends, steps = (_numbers(node, n) for n in (1, 2, 4))
    if node.input(4) and steps is None:
        _slice_by_computed_steps(node)
        return
    if starts is None or ends is None or steps is None or min(steps, default=1) > 0:
        return
    source, rank = node.input(0), node.rank(node.input(0))
    chosen = [axis % rank for axis in _numbers(node, 3) or range(len(starts))]
    value = source
    for axis, start, end, step in zip(chosen, starts, ends, steps, strict=True):
        size = node.shape(source)[axis]
        if step > 0:
            value = node.cut(value, axis, start, end, step=step)
        elif size is not None:
            along = np.arange(size)[start : end if end >= -size else None : step]
            value = node.op("Gather", value, node.constant(along, np.int64), axis=axis)
        else:  # of the elements in the opposite order, whose first one is -1
            count = node.size(source, axis)
            last = node.op("Sub", node.list_of([count]), node.ints(1))
            value = node.op("Gather", value, node.op("Sub", last, node.steps(count)), axis=axis)
            value = node.cut(value, axis, ~start, ~end, step=-step)
    node.op("Identity", value, to=node.output(0))


def _slice_by_computed_steps(node: Node) -> None:
    """A Range of places in every dimension, whose ends are cut to the tensor's as for steps of their sign."""
    value, rank, op = node.input(0), node.rank(node.input(0)), node.op
    count = node.shape(node.input(4))[0]
    axes = _numbers(node, 3) if node.input(3) else list(range(count or 0))
    if count is None or axes is None:
        raise RefusedError("its steps and axes are computed: their number has to be fixed, and axes constants")
    zero, unit = node.ints(0), node.ints(1)
    for n, axis in enumerate(axis % rank for axis in axes):
        start, end, step = (node.cast(node.cut(node.input(k), 0, n, n + 1), TensorProto.INT64) for k in (1, 2, 4))
        size = node.list_of([node.size(node.input(0), axis)])
        onwards = op("Greater", step, zero)
        low = op("Where", onwards, zero, node.ints(-1))
        high = op("Where", onwards, size, op("Sub", size, unit))

        def bounded(end: str, least: str, size: str = size, high: str = high) -> str:
            from_end = op("Add", op("Max", end, op("Neg", op("Add", size, unit))), size)
            counted = op("Where", op("Less", end, zero), from_end, end)
            return op("Min", op("Max", counted, least), high)

        numbers = (bounded(start, zero), bounded(end, low), step)
        places = op("Range", *(op("Squeeze", number, zero) for number in numbers))
        value = op("Gather", value, places, axis=axis)
    op("Identity", value, to=node.output(0))


def _numbers(node: Node, n: int) -> list[int] | None:
    """The integers of an input that is a constant; None if it is left out or computed."""
    value = node.constants.get(node.input(n))
    return None if value is None else [int(number) for number in value.reshape(-1)]


def compress(node: Node) -> None:
    """Compress: the places where the condition is true are gathered; beyond the last element, it says nothing."""
    source, axis, condition = node.input(0), node.attribute("axis", None), node.input(1)
    count = node.product(*node.sizes(source)) if axis is None else node.size(source, axis)
    (length,) = node.shape(condition)
    if length is None or isinstance(count, str) or length > count:
        condition = node.cut(condition, 0, 0, count)
    places = node.op("Reshape", node.op("NonZero", condition), node.ints(-1))
    if axis is None:
        source, axis = node.op("Reshape", source, node.ints(-1)), 0
    node.op("Gather", source, places, axis=axis, to=node.output(0))


MAX_TURNS = 256
"""The largest number of elements along an axis that are treated one after the other."""


def scatter_elements(node: Node) -> None:
    """ScatterElements that keeps the largest or the smallest element: torch-mlir has none."""
    reduction = node.attribute("reduction", "none")
    if reduction not in ("max", "min"):
        return
    value, indices, updates = (node.input(n) for n in range(3))
    axis = node.axis(node.rank(value), 0)
    for step in range(_steps(node, indices, axis)):
        # No two elements of such a slice have the same place.
        where, new = (node.cut(name, axis, step, step + 1) for name in (indices, updates))
        old = node.op("GatherElements", value, where, axis=axis)
        kept = node.op("Max" if reduction == "max" else "Min", old, new)
        value = node.op("ScatterElements", value, where, kept, axis=axis)
    node.op("Identity", value, to=node.output(0))


def gather_nd(node: Node) -> None:
    """GatherND: torch-mlir does not see that an index is outside of its dimension if it is inside of the tensor."""
    batches, source, indices = node.attribute("batch_dims", 0), node.input(0), node.input(1)
    ranks = node.rank(source), node.rank(indices)
    if not 0 <= batches < min(ranks):
        raise RefusedError(f"its batch_dims {batches} is not below the ranks of its inputs, {ranks[0]} and {ranks[1]}")
    depth = _depth(node, indices, ranks[0] - batches)
    if depth < 2 and not batches:
        return
    sizes = node.sizes(source)
    indexed, left = sizes[batches : batches + depth], sizes[batches + depth :]
    flat_index, inside = _flat(node, indices, indexed)
    if batches:  # what one of the batch has lies behind what the one before has
        count = node.product(*sizes[:batches])
        first = node.op("Mul", node.steps(count), node.list_of([node.product(*indexed)]))
        first = node.reshape(first, [*sizes[:batches], *[1] * (ranks[1] - 1 - batches)])
        flat_index = node.op("Add", flat_index, first)
    flat_index = node.op("Where", inside, flat_index, node.list_of([node.product(*sizes[: batches + depth])]))
    node.op("Gather", node.reshape(source, [-1, *left]), flat_index, axis=0, to=node.output(0))


def scatter_nd(node: Node) -> None:
    """ScatterND: with several indices for each place, as GatherND."""
    source, indices, updates = (node.input(n) for n in range(3))
    depth = _depth(node, indices, node.rank(source))
    if depth < 2:
        return
    sizes = node.sizes(source)
    flat_index, inside = _flat(node, indices, sizes[:depth])
    flat_index = node.op("Where", inside, flat_index, node.list_of([node.product(*sizes[:depth])]))
    flat = node.reshape(source, [-1, *sizes[depth:]])
    flat_index = node.op("Unsqueeze", flat_index, node.ints(-1))
    written = node.op("ScatterND", flat, flat_index, updates, reduction=node.attribute("reduction", None))
    node.reshape(written, sizes, to=node.output(0))


def _depth(node: Node, indices: str, dimensions: int) -> int:
    """The number of dimensions that indices count. Raises RefusedError unless they are fixed, and there are as many."""
    depth = node.shape(indices)[-1]
    if depth is None:
        raise RefusedError(f"the last dimension of '{indices}' has no fixed size: give shapes={{...}} or --shape")
    if not 1 <= depth <= dimensions:
        raise RefusedError(f"'{indices}' has {depth} numbers for an element: want 1 to {dimensions}")
    return depth


def _flat(node: Node, indices: str, sizes: Sequence[int | str]) -> tuple[str, str]:
    """Emit lists of indices as places in a flat tensor of these sizes, and whether all of a list are inside."""
    flat_index = within = ""
    for n, size in enumerate(sizes):
        index = node.op("Gather", indices, node.constant(n, np.int64), axis=-1)
        length = node.list_of([size])
        inside = node.op(
            "And",
            node.op("GreaterOrEqual", index, node.op("Neg", length)),
            node.op("Less", index, length),
        )
        from_start = node.op("Where", node.op("Less", index, node.ints(0)), node.op("Add", index, length), index)
        flat_index = node.op("Add", node.op("Mul", flat_index, length), from_start) if flat_index else from_start
        within = node.op("And", within, inside) if within else inside
    return flat_index, within


def _steps(node: Node, name: str, axis: int) -> int:
    size = node.shape(name)[axis]
    if size is None or size > MAX_TURNS:
        raise RefusedError(f"it is available for up to {MAX_TURNS} elements along its axis, whose number is fixed")
    return size


def tensor_scatter(node: Node) -> None:
    """TensorScatter: the places of the elements of a cache that are written are computed."""
    past, update, start = (node.input(n) for n in range(3))
    rank = node.rank(past)
    axis = node.axis(rank, -2)
    steps = node.steps(node.size(update, axis))
    places = node.reshape(steps, [-1 if d == axis else 1 for d in range(rank)])
    if start:
        places = node.op("Add", places, node.reshape(start, [-1, *[1] * (rank - 1)]))
    if node.attribute("mode", "linear") == "circular":
        places = node.op("Mod", places, node.list_of([node.size(past, axis)]))
    wide = node.op("Expand", places, node.list_of(node.sizes(update)))
    node.op("ScatterElements", past, wide, update, axis=axis, to=node.output(0))


def eye_like(node: Node) -> None:
    """EyeLike with a diagonal that lies outside of the matrix is zero: torch-mlir fails."""
    shape, dtype = node.shape(node.input(0)), node.attribute("dtype", 0) or node.dtype(node.input(0))
    if len(shape) != 2:
        raise RefusedError(f"its input has {len(shape)} dimensions: want 2")
    rows, columns = shape
    if rows is not None and columns is not None and not -rows < node.attribute("k", 0) < columns:
        zeros = node.constant(np.zeros(shape), onnx.helper.tensor_dtype_to_np_dtype(dtype))
        node.op("Identity", zeros, to=node.output(0))


def cumulative_sum(node: Node) -> None:
    """CumSum without an element itself sums the elements moved on by one: torch-mlir takes them off the sums again.

    An axis that is computed is, of a list, the only one.
    """
    source, axis_input = node.input(0), node.constants.get(node.input(1))
    rank = node.rank(source)
    if axis_input is None and rank != 1:
        raise RefusedError(f"its axis '{node.input(1)}' is computed: it has to be a constant")
    axis = 0 if axis_input is None else int(axis_input.item()) % rank
    if node.attribute("exclusive", 0):
        slice_shape = node.op("Shape", node.cut(source, axis, 0, 1))  # none if there are no elements
        zero = node.op("Expand", node.like(0, source), slice_shape)
        is_reversed = node.attribute("reverse", 0)
        parts = [node.cut(source, axis, 1, END), zero] if is_reversed else [zero, node.cut(source, axis, 0, -1)]
        source = node.op("Concat", *parts, axis=axis)
    elif axis_input is not None:
        return
    node.copy(exclusive=None).input[:] = [source, node.constant(axis, np.int64)]


def cumulative_product(node: Node) -> None:
    """CumProd, one element after the other."""
    source, rank = node.input(0), node.rank(node.input(0))
    axis_input = node.constant_input(1, "axis") if rank > 1 else None  # of a list, it is the only one
    axis = int(axis_input.item() if axis_input is not None else 0) % rank
    count = _steps(node, source, axis)
    parts = [node.cut(source, axis, n, n + 1) for n in range(count)]
    parts = parts[::-1] if node.attribute("reverse", 0) else parts
    if node.attribute("exclusive", 0):
        ones = node.op("Expand", node.like(1, source), node.op("Shape", parts[0]))
        parts = [ones, *parts[:-1]]
    products = parts[:1]
    for part in parts[1:]:
        products.append(node.op("Mul", products[-1], part))
    products = products[::-1] if node.attribute("reverse", 0) else products
    node.op("Concat", *products, axis=axis, to=node.output(0))
