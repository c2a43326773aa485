"""hoist-products: what a loop multiplies with the same weights in each of its steps is one product before the loop.

A recurrent layer of ONNX multiplies the inputs of one time step at a time. Their product with the weights depends on no
step before, so that one contraction over all time steps gives the same sums, while the weights are read once. The loop
takes its slice of the result where it took its slice of the input. No bit changes: every sum has the same order.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.dialect import draws, fma_of

_DYNAMIC = ir.ShapedType.get_dynamic_stride_or_offset()


@dataclass(frozen=True, kw_only=True)
class _Product:
    """A contraction in `loop` whose operand `number` is a slice of one along dimension `dim` of a tensor from outside.

    reshape: what takes that dimension off the slice, if the slice has kept it. other: the other operand, from outside.
    fill: the constant that the sums start from.
    """

    loop: ir.Operation
    generic: ir.Operation
    number: int
    slice: ir.Operation
    reshape: ir.Operation | None
    dim: int
    other: ir.Value
    fill: str


def hoist_products(module: ir.Operation) -> None:
    """Make contractions of slices that a loop takes with what it does not change one contraction before the loop."""
    with module.context:
        for loop in linalg.operations(module, "scf.for"):
            for op in [each.operation for each in linalg.body(loop).operations]:
                if op.name == "linalg.generic" and (product := _find(loop, op)) is not None:
                    _hoist(product)


def _find(loop: ir.Operation, generic: ir.Operation) -> _Product | None:
    if not linalg.contracts(generic) or linalg.input_count(generic) != 2 or len(generic.results) != 1:
        return None
    if any(_belongs_to_its_step(op.operation) for op in linalg.body(generic).operations):
        return None
    fill = linalg.filled_with(generic.operands[2])
    *_, out = linalg.indexing_maps(generic)
    if fill is None or not out.is_projected_permutation:
        return None
    for number in (0, 1):
        reshape = linalg.maker(generic.operands[number])
        if reshape is not None and reshape.name != "tensor.collapse_shape":
            reshape = None
        cut = linalg.maker(reshape.operands[0] if reshape is not None else generic.operands[number])
        other = _whole(generic.operands[1 - number])
        if cut is None or cut.name != "tensor.extract_slice" or not _before(loop, other):
            continue
        dim = _dimension(loop, cut)
        if dim is not None and _drops(cut, reshape, dim):
            return _Product(
                loop=loop, generic=generic, number=number, slice=cut, reshape=reshape, dim=dim, other=other, fill=fill
            )
    return None


def _belongs_to_its_step(op: ir.Operation) -> bool:
    """Whether an operation of a body gives other bits for the elements of all steps than for those of one step."""
    if op.name == "linalg.index" or draws(op):
        return True
    return op.name == "numc.fma" and fma_of(op).sees_whole_operands


def _whole(value: ir.Value) -> ir.Value:
    """The tensor that a slice is all of, or `value`."""
    op = linalg.maker(value)
    if op is None or op.name != "tensor.extract_slice" or op.operands[0].type != value.type:
        return value
    return op.operands[0] if ir.RankedTensorType(value.type).has_static_shape else value


def _before(loop: ir.Operation, value: ir.Value) -> bool:
    """Whether a value is made before a loop."""
    owner = linalg.owner(value)
    while owner is not None and owner.name != "builtin.module":
        if owner == loop:
            return False
        owner = owner.parent
    return True


def _dimension(loop: ir.Operation, cut: ir.Operation) -> int | None:
    """The dimension along which a slice takes one element of a tensor that is made before the loop.

    None unless the loop has a step for each of these elements: more of them would be computed than are needed.
    """
    source = cut.operands[0]
    shape = list(ir.RankedTensorType(source.type).shape)
    offsets, sizes, strides = (
        list(ir.DenseI64ArrayAttr(cut.attributes[f"static_{n}"])) for n in ("offsets", "sizes", "strides")
    )
    moving = [d for d, offset in enumerate(offsets) if offset == _DYNAMIC]
    if not _before(loop, source) or set(strides) != {1} or len(moving) != 1:
        return None
    (dim,) = moving
    if any(offset not in (0, _DYNAMIC) for offset in offsets) or sizes != [*shape[:dim], 1, *shape[dim + 1 :]]:
        return None
    return dim if _covers(loop, source, dim) else None


def _covers(loop: ir.Operation, source: ir.Value, dim: int) -> bool:
    """Whether a loop has as many steps as a tensor has elements along a dimension."""
    first, last, step = (linalg.integer(value) for value in loop.operands[:3])
    if first is None or step is None:
        return False
    size = ir.RankedTensorType(source.type).shape[dim]
    if last is not None:
        return bool(size != _DYNAMIC and len(range(first, last, step)) >= size)
    free_size = linalg.given_size(source, dim) if size == _DYNAMIC else None
    if free_size is not None and free_size == loop.operands[1]:
        return (first, step) == (0, 1)
    op = linalg.maker(loop.operands[1])
    same = op is not None and op.name == "tensor.dim" and op.operands[0] == source
    return same and linalg.integer(op.operands[1]) == dim and (first, step) == (0, 1)  # type: ignore[union-attr]


def _size(operands: list[ir.Value], maps: list[list[ir.AffineExpr]], dim: int) -> ir.Value:
    """Emit the size of a dimension of a contraction's result, which is that of an operand."""
    number, operand_dim = next((n, d) for n in (0, 1) for d, e in enumerate(maps[n]) if e == maps[2][dim])
    return linalg.size_of(operands[number], operand_dim)


def _drops(cut: ir.Operation, reshape: ir.Operation | None, dim: int) -> bool:
    """Whether the operand is the slice without the dimension along which it was taken."""
    shape = list(ir.RankedTensorType(cut.operands[0].type).shape)
    result = ir.RankedTensorType((reshape or cut).results[0].type)
    if reshape is None:
        return list(result.shape) == shape[:dim] + shape[dim + 1 :]
    groups = [list(group) for group in ir.ArrayAttr(reshape.attributes["reassociation"])]
    joined = [[ir.IntegerAttr(d).value for d in group] for group in groups if len(group) > 1]
    whole = ir.RankedTensorType(reshape.operands[0].type).rank == len(shape)
    return whole and len(joined) == 1 and len(joined[0]) == 2 and dim in joined[0]


def _hoist(found: _Product) -> None:
    generic, source = found.generic, found.slice.operands[0]
    steps = ir.RankedTensorType(source.type).shape[found.dim]
    maps = linalg.indexing_maps(generic)
    loops = maps[0].n_dims + 1
    shifted = [ir.AffineExpr.get_dim(d + 1) for d in range(loops - 1)]
    wide = [[e.compose(ir.AffineMap.get(loops, 0, shifted)) for e in each.results] for each in maps]
    wide[found.number].insert(found.dim, ir.AffineExpr.get_dim(0))
    wide[2].insert(0, ir.AffineExpr.get_dim(0))
    step_type = ir.RankedTensorType(generic.results[0].type)
    operands = [source, found.other] if found.number == 0 else [found.other, source]
    with ir.InsertionPoint(found.loop), generic.location:
        result = ir.RankedTensorType.get([steps, *step_type.shape], step_type.element_type)
        sizes = [_size(operands, wide, d) for d in range(result.rank) if result.is_dynamic_dim(d)]
        number = ir.Operation.create(
            "arith.constant", results=[step_type.element_type], attributes={"value": ir.Attribute.parse(found.fill)}
        ).results[0]
        room = ir.Operation.create("tensor.empty", results=[result], operands=sizes).results[0]
        spread = [ir.AffineMap.get(result.rank, 0, []), ir.AffineMap.get_identity(result.rank)]
        start = linalg.generic([number], room, spread, ["parallel"] * result.rank, lambda value, _: value)
    kinds = ["parallel", *linalg.iterator_types(generic)]
    whole = [ir.AffineMap.get(loops, 0, each) for each in wide]
    product = linalg.with_operands(generic, [*operands, start], whole, result, kinds)
    product.move_before(found.loop)
    with ir.InsertionPoint(generic), generic.location:
        lengths = sizes[1:] if result.is_dynamic_dim(0) else sizes
        part = ir.Operation.create(
            "tensor.extract_slice",
            results=[step_type],
            operands=[product.results[0], found.slice.operands[1], *lengths],
            attributes={
                "static_offsets": ir.DenseI64ArrayAttr.get([_DYNAMIC, *[0] * step_type.rank]),
                "static_sizes": ir.DenseI64ArrayAttr.get([1, *step_type.shape]),
                "static_strides": ir.DenseI64ArrayAttr.get([1] * result.rank),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1, len(lengths), 0]),
            },
        ).results[0]
    replaced = list(generic.operands)
    linalg.replace(generic, [part])
    linalg.erase_unused(*replaced)
