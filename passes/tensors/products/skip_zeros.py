"""skip-zeros: a contraction of an operand with zeros between its elements leaves out the products with those zeros.

Such are transposed convolutions, and the gradients of strided convolutions' inputs. Each becomes one contraction per
residue class of the stride (zero_phases.py), with a part of the taps, of the operand without the zeros between them.

Why no bit changes. A step adds P, the sum of partial products, to an accumulator C in the accumulator's format, and
rounds: round(C + P). Where the operand is +0 and the other a finite number, P is +0 or -0. Then the step leaves every C
alone, infinities and NaN too, but one: -0 + +0 is +0. Skipping it can leave -0 where it would have made +0, and from
there a step with P other than zero gives the same for both, one with +0 gives +0 for both, one with -0 leaves them. So
at every step both accumulators are equal, or the one that skips is -0 and the other +0: a result that is not -0 is
right. Hence three conditions, of which the first is checked here and the others when the program runs:

- steps do not know their number (stochastic rounding, chunks, groups, and pairs of hardware operators do), accumulators
  start in their format, and nothing flushes them;
- no element of the other operand is infinite or NaN, or becomes so in its format: times zero, that is NaN;
- no result is -0. It takes a product that underflows, or an initial value of -0.

If one of these fails, or if somebody watches (verification and statistics are about the contraction as it is defined),
the contraction is computed as a whole.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, func, scf, tensor

from numc.passes import linalg
from numc.passes.dialect import draws
from numc.passes.explicit.tidy_conversions import tensor_is_in
from numc.passes.tensors.products.inserted_zeros import FINITE
from numc.passes.tensors.products.zero_phases import Axis, Insertion, Spread, find

#: Marks contractions that are a phase, a part of one; and those computed by phases where nobody watches.
PHASE, BY_PHASES = "numc.phase", "numc.by_phases"

# What makes a spread operand or an initial value out of others, without an effect.
_MAKERS = (
    "linalg.generic",
    "tensor.empty",
    *(f"tensor.{n}" for n in ("insert_slice", "extract_slice", "expand_shape", "collapse_shape")),
)
_WATCHED = "numc_watched"
_MINUS_ZERO = -(1 << 31)


def skip_zeros(module: ir.Operation) -> None:
    """Let contractions of operands with zeros between their elements leave out the products with those zeros."""
    with module.context, ir.Location.unknown():
        for generic in linalg.operations(module, "linalg.generic"):
            spread = find(generic)
            if spread is not None and _starts_in_format(spread) and _is_uniform(generic.operands[2], _out_dims(spread)):
                _declare_watched(module)
                _split(spread)


def _out_dims(spread: Spread) -> dict[int, Axis]:
    return {axis.out_dim: axis for axis in spread.axes}


def _starts_in_format(spread: Spread) -> bool:
    to, start = str(spread.fma.acc), spread.generic.operands[2]
    return to == "fp32" or linalg.is_zero(start) or tensor_is_in(start, to)


def _is_uniform(value: ir.Value, dims: dict[int, Axis]) -> bool:
    """Whether a tensor is made by elementwise operations from nothing that differs along `dims`: a fill, a bias."""
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    if op.name == "tensor.empty" or linalg.splat(value) is not None:
        return True
    if op.name != "linalg.generic" or len(op.results) != 1 or linalg.reduces(op):
        return False
    if any(inner.name == "linalg.index" or draws(inner) for inner in linalg.operations(op)):
        return False
    *inputs, into = zip(op.operands, linalg.indexing_maps(op), strict=True)
    if into[1] != ir.AffineMap.get_identity(into[1].n_dims):
        return False
    if not (_is_uniform(into[0], dims) or (_only_writes(op) and ir.RankedTensorType(value.type).has_static_shape)):
        return False
    return all(_is_uniform(v, dims) if m == into[1] else not _names(m, dims) for v, m in inputs)


def _only_writes(op: ir.Operation) -> bool:
    """Whether a linalg.generic does not read what it writes into."""
    return linalg.is_unused(linalg.body(op).arguments[linalg.input_count(op)])


def _names(map_: ir.AffineMap, dims: dict[int, Axis]) -> bool:
    return any(x is None or not dims.keys().isdisjoint(x[0]) for x in map(linalg.linear, map_.results))


def _declare_watched(module: ir.Operation) -> None:
    block = module.regions[0].blocks[0]
    names = {ir.StringAttr(op.attributes["sym_name"]).value for op in block.operations if "sym_name" in op.attributes}
    if _WATCHED not in names:
        with ir.InsertionPoint.at_block_begin(block):
            func.FuncOp(_WATCHED, ([], [ir.IntegerType.get_signless(32)]), visibility="private")


def _split(spread: Spread) -> None:
    generic = spread.generic
    result = generic.results[0]
    with ir.InsertionPoint(generic), generic.location:
        operand = _compact(spread)
        parts = [(phase, _part(spread, operand, phase)) for phase in spread.phases()]
        holds = [] if spread.number == 0 and FINITE in generic.attributes else [_is_finite(spread)]
        holds += [_has_no_minus_zero([part for _, part in parts]), _is_unwatched()]
        target = _alloc(ir.RankedTensorType(result.type).shape, _sizes(generic.operands[2]))
        skips = functools.reduce(lambda one, other: arith.AndIOp(one, other).result, holds)
        choice = scf.IfOp(skips, [result.type], has_else=True)
    with ir.InsertionPoint(choice.then_block), generic.location:
        scf.YieldOp([_joined(spread, parts, target)])
    with ir.InsertionPoint(choice.else_block), generic.location:
        operands = list(generic.operands)
        operands[spread.number] = _spread_again(spread, operand)
        operands[2] = _resized(operands[2], {}, target)
        whole = _like(generic, operands, linalg.indexing_maps(generic))
        whole.owner.attributes[BY_PHASES] = ir.UnitAttr.get()
        scf.YieldOp([whole])
    result.replace_all_uses_with(choice.results[0])
    linalg.erase_unused(result, makers=_MAKERS)


def _compact(spread: Spread) -> ir.Value:
    """The source without zeros between its elements, and with those around them."""
    insertion = spread.insertion
    whole = ir.RankedTensorType(insertion.whole.type)
    axes = {axis.dim: axis for axis in spread.axes}
    sizes = {d: axis.compact for d, axis in axes.items()}
    offsets = [axes[d].low if d in axes else o for d, o in enumerate(insertion.offsets)]
    shape = [sizes.get(d, n) for d, n in enumerate(whole.shape)]
    if shape == list(ir.RankedTensorType(insertion.source.type).shape) and not any(offsets):
        return insertion.source
    zeros = _filled(_zero(), _alloc(shape, insertion.sizes))
    return _insert(insertion.source, zeros, offsets, [1] * len(shape), insertion.source_sizes)


def _spread_again(spread: Spread, operand: ir.Value) -> ir.Value:
    """The spread operand, with all its zeros, from the compact one."""
    insertion = spread.insertion
    zeros = _filled(_zero(), _alloc(ir.RankedTensorType(insertion.whole.type).shape, insertion.sizes))
    axes = {axis.dim: axis for axis in spread.axes}
    rank = ir.RankedTensorType(zeros.type).rank
    offsets = [axes[d].offset % axes[d].stride if d in axes else 0 for d in range(rank)]
    strides = [axes[d].stride if d in axes else 1 for d in range(rank)]
    return _viewed(insertion, _insert(operand, zeros, offsets, strides, insertion.sizes))


def _viewed(insertion: Insertion, value: ir.Value) -> ir.Value:
    """A tensor seen as the operand is, whose other dimensions may be split."""
    view = insertion.view
    if view is None:
        return value
    shape = list(ir.RankedTensorType(view.results[0].type).shape)
    for n in range(len(shape)):
        dim = insertion.dimension(n)
        if dim is not None:
            shape[n] = ir.RankedTensorType(value.type).shape[dim]
    attributes = {
        "reassociation": view.attributes["reassociation"],
        "static_output_shape": ir.DenseI64ArrayAttr.get(shape),
    }
    return ir.Operation.create(
        "tensor.expand_shape",
        results=[ir.RankedTensorType.get(shape, ir.F32Type.get())],
        operands=[value, *insertion.viewed_sizes],
        attributes=attributes,
    ).results[0]


def _part(spread: Spread, operand: ir.Value, phase: Sequence[int]) -> ir.Value:
    """The outputs of one phase."""
    generic, axes = spread.generic, spread.axes
    start = _resized(generic.operands[2], {a.out_dim: a.outputs_of(r) for a, r in zip(axes, phase, strict=True)})
    taps_by_axis = [axis.taps_of(r) for axis, r in zip(axes, phase, strict=True)]
    taps = [t for t in taps_by_axis if t is not None]
    if len(taps) < len(taps_by_axis):
        return start  # zeros only
    operands, maps = list(generic.operands), linalg.indexing_maps(generic)
    places = list(maps[spread.number].results)
    read, kept = {}, {}
    for axis, r, t in zip(axes, phase, taps, strict=True):
        read[axis.place] = (t.start, axis.outputs_of(r) + (t.count - 1) * t.stride, 1)
        places[axis.place] = ir.AffineExpr.get_dim(axis.o)
        if axis.k is not None and axis.kernel_dim is not None:
            kept[axis.kernel_dim] = (t.first, t.count, t.step)
            places[axis.place] += ir.AffineExpr.get_dim(axis.k) * t.stride
    maps[spread.number] = ir.AffineMap.get(maps[2].n_dims, 0, places)
    operands[spread.number] = _slice(_viewed(spread.insertion, operand), read, spread.insertion.viewed_sizes)
    operands[1 - spread.number] = _slice(operands[1 - spread.number], kept, ())
    operands[2] = start
    part = _like(generic, operands, maps)
    part.owner.attributes[PHASE] = ir.UnitAttr.get()
    return part


def _slice(value: ir.Value, kept: Mapping[int, tuple[int, int, int]], dynamic: Sequence[ir.Value]) -> ir.Value:
    """A part of a tensor; kept: offset, size and stride in the dimensions that are not kept as they are."""
    sizes = list(ir.RankedTensorType(value.type).shape)
    offsets, strides = [0] * len(sizes), [1] * len(sizes)
    for dim, (offset, size, stride) in kept.items():
        offsets[dim], sizes[dim], strides[dim] = offset, size, stride
    slice_type = ir.RankedTensorType.get(sizes, ir.F32Type.get())
    return tensor.ExtractSliceOp(slice_type, value, [], list(dynamic), [], offsets, sizes, strides).result


def _joined(spread: Spread, parts: Sequence[tuple[Sequence[int], ir.Value]], target: ir.Value) -> ir.Value:
    """The outputs of all phases, every one in its places of `target`."""
    sizes = _sizes(spread.generic.operands[2])
    rank = ir.RankedTensorType(target.type).rank
    joined = target
    for phase, part in parts:
        offsets, strides = [0] * rank, [1] * rank
        for axis, r in zip(spread.axes, phase, strict=True):
            offsets[axis.out_dim], strides[axis.out_dim] = r, axis.stride
        joined = _insert(part, joined, offsets, strides, sizes)
    return joined


def _insert(
    source: ir.Value, target: ir.Value, offsets: Sequence[int], strides: Sequence[int], dynamic: Sequence[ir.Value]
) -> ir.Value:
    """Insert `source` into `target`; dynamic: the sizes of the source that are not known now."""
    shape = ir.RankedTensorType(source.type).shape
    return tensor.InsertSliceOp(source, target, [], list(dynamic), [], offsets, shape, strides).result


def _sizes(value: ir.Value) -> tuple[ir.Value, ...]:
    """The sizes of a uniform tensor that are not known now."""
    if ir.RankedTensorType(value.type).has_static_shape:
        return ()
    op = value.owner.operation
    return tuple(op.operands) if op.name == "tensor.empty" else _sizes(op.operands[len(op.operands) - 1])


def _resized(value: ir.Value, sizes: Mapping[int, int], target: ir.Value | None = None) -> ir.Value:
    """A uniform tensor made anew, with other sizes of some dimensions, in `target` if that is given."""
    op = value.owner.operation
    shape = [sizes.get(d, n) for d, n in enumerate(ir.RankedTensorType(value.type).shape)]
    number = linalg.splat(value)
    if op.name == "tensor.empty" or number is not None:
        room = _alloc(shape, _sizes(value)) if target is None else target
        return room if number is None else _filled(number, room)
    maps = linalg.indexing_maps(op)
    *inputs, into = op.operands
    operands = [_resized(v, sizes) if m == maps[-1] else v for v, m in zip(inputs, maps, strict=False)]
    if not _only_writes(op):
        into = _resized(into, sizes, target)
    else:
        into = _alloc(shape, _sizes(value)) if target is None else target
    return _like(op, [*operands, into], maps)


def _alloc(shape: Sequence[int], dynamic: Sequence[ir.Value]) -> ir.Value:
    """Memory of its own, which nothing may make a part of what it is copied to later: kernels want rows to be dense."""
    return ir.Operation.create(
        "bufferization.alloc_tensor",
        results=[ir.RankedTensorType.get(shape, ir.F32Type.get())],
        operands=list(dynamic),
        attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(dynamic), 0, 0])},
    ).results[0]


def _filled(number: ir.Attribute, room: ir.Value) -> ir.Value:
    value = arith.ConstantOp(number.type, number).result
    rank = ir.RankedTensorType(room.type).rank
    maps = [ir.AffineMap.get(rank, 0, []), ir.AffineMap.get_identity(rank)]
    return linalg.generic([value], room, maps, ["parallel"] * rank, lambda x, _: x)


def _zero() -> ir.Attribute:
    return ir.FloatAttr.get(ir.F32Type.get(), 0.0)


def _like(op: ir.Operation, operands: list[ir.Value], maps: list[ir.AffineMap]) -> ir.Value:
    """The result of a linalg.generic with the body, the loops and the layer of `op` at the insertion point."""
    kept = {name: op.attributes[name] for name in ("iterator_types", "numc.layer") if name in op.attributes}
    kinds = [a.type for a in linalg.body(op).arguments]
    new = ir.Operation.create(
        "linalg.generic",
        results=[operands[-1].type],
        operands=operands,
        attributes={
            "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands) - 1, 1]),
            **kept,
        },
        regions=1,
        loc=op.location,
    )
    block = new.regions[0].blocks.append(*kinds, arg_locs=[op.location] * len(kinds))
    values = dict(zip(linalg.body(op).arguments, block.arguments, strict=True))
    yielded = linalg.copy_body(linalg.body(op), ir.InsertionPoint(block), values)
    with ir.InsertionPoint(block), op.location:
        ir.Operation.create("linalg.yield", operands=yielded)
    return new.results[0]


def _is_finite(spread: Spread) -> ir.Value:
    """Whether all elements of the operand that meets zeros are finite numbers in their format."""
    f32 = ir.F32Type.get()

    def larger(x: ir.Value, most: ir.Value) -> ir.Value:
        magnitude = arith.MaximumFOp(x, arith.NegFOp(x).result).result
        return arith.MaximumFOp(most, magnitude).result

    most = _reduced(spread.generic.operands[1 - spread.number], _scalar(_zero()), larger)
    limit = arith.ConstantOp(f32, ir.FloatAttr.get(f32, spread.limit)).result
    return arith.CmpFOp(arith.CmpFPredicate.OLE, _only(most), limit).result


def _has_no_minus_zero(values: Sequence[ir.Value]) -> ir.Value:
    i32 = ir.IntegerType.get_signless(32)

    def found(x: ir.Value, so_far: ir.Value) -> ir.Value:
        minus_zero = arith.ConstantOp(i32, ir.IntegerAttr.get(i32, _MINUS_ZERO)).result
        equal = arith.CmpIOp(arith.CmpIPredicate.eq, arith.BitcastOp(i32, x).result, minus_zero).result
        return arith.OrIOp(so_far, arith.ExtUIOp(i32, equal).result).result

    total = _scalar(ir.IntegerAttr.get(i32, 0))
    for value in values:
        total = _reduced(value, total, found)
    return _is_zero(_only(total))


def _is_unwatched() -> ir.Value:
    i32 = ir.IntegerType.get_signless(32)
    return _is_zero(func.CallOp([i32], _WATCHED, []).results[0])


def _is_zero(value: ir.Value) -> ir.Value:
    zero = arith.ConstantOp(value.type, ir.IntegerAttr.get(value.type, 0)).result
    return arith.CmpIOp(arith.CmpIPredicate.eq, value, zero).result


def _scalar(value: ir.Attribute) -> ir.Value:
    """A tensor without dimensions that holds a number."""
    scalar_type = ir.RankedTensorType.get([], value.type)
    return _filled(value, ir.Operation.create("tensor.empty", results=[scalar_type]).results[0])


def _only(value: ir.Value) -> ir.Value:
    return tensor.ExtractOp(value, []).result


def _reduced(value: ir.Value, start: ir.Value, body: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """All elements of a tensor, one after the other, into a tensor without dimensions."""
    rank = ir.RankedTensorType(value.type).rank
    maps = [ir.AffineMap.get_identity(rank), ir.AffineMap.get(rank, 0, [])]
    return linalg.generic([value], start, maps, ["reduction"] * rank, body)
