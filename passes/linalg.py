"""Small questions about linalg IR that several passes ask."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from numc.numerics.dtypes import NARROW_ELEMENTS
from numc.support.errors import NumcError

Linear = tuple[dict[int, int], int]

_PURE = frozenset(
    ("linalg.generic", "tensor.collapse_shape", "tensor.empty", "tensor.expand_shape", "tensor.extract_slice")
)
_ZERO = "0.000000e+00 : f32"
_ZEROS = {_ZERO, *(f"0.000000e+00 : {element}" for element in NARROW_ELEMENTS)}


def operations(root: ir.Operation, name: str | None = None) -> Iterator[ir.Operation]:
    """Yield every operation below `root` (inner ones before outer ones), or those called `name`; erasure is safe."""
    matches: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if name is None or op.name == name:
            matches.append(op.operation)
        return ir.WalkResult.ADVANCE

    root.walk(visit, ir.WalkOrder.POST_ORDER)
    return iter(matches)


def body(generic: ir.Operation) -> ir.Block:
    """The body of a linalg.generic."""
    return generic.regions[0].blocks[0]


def input_count(generic: ir.Operation) -> int:
    """The number of `ins` operands of a linalg.generic."""
    return int(ir.DenseI32ArrayAttr(generic.attributes["operandSegmentSizes"])[0])


def iterator_types(generic: ir.Operation) -> list[str]:
    """``parallel`` or ``reduction`` for each dimension of a linalg.generic."""
    return re.findall("parallel|reduction", str(generic.attributes["iterator_types"]))


def indexing_maps(generic: ir.Operation) -> list[ir.AffineMap]:
    """The indexing maps of a linalg.generic, one an operand."""
    return [ir.AffineMapAttr(a).value for a in ir.ArrayAttr(generic.attributes["indexing_maps"])]


def reduces(generic: ir.Operation) -> bool:
    """Whether a linalg.generic has a reduction among its loops."""
    return "reduction" in str(generic.attributes["iterator_types"])


def accumulated(generic: ir.Operation, value: ir.Value) -> int | None:
    """The number of the result of a reduction whose running value `value` is; None for any other value."""
    if generic.name != "linalg.generic" or not isinstance(value.owner, ir.Block) or not reduces(generic):
        return None
    number = int(ir.BlockArgument(value).arg_number) - input_count(generic)
    return number if number >= 0 else None


def computes(op: ir.Operation) -> bool:
    """Whether an operation of a body computes an f32: `ops` rounds its operands and its result."""
    if op.name.split(".")[0] not in ("arith", "math") or len(op.results) != 1 or not is_f32(op.results[0]):
        return False
    # What is widened is the value that it was.
    return op.name not in ("arith.constant", "arith.select", "arith.extf")


def contracts(generic: ir.Operation) -> bool:
    """Whether a linalg.generic is a contraction, alone or among others: a reduction by an FMA operator."""
    return reduces(generic) and any(op.operation.name == "numc.fma" for op in body(generic).operations)


def multiply_adds(op: ir.Operation) -> list[tuple[ir.Operation, ir.Value]]:
    """The multiply-adds that an arith.addf may be, before arithmetic is explicit: a product used once, and the addend.

    There are two of them where both operands are products, and none for any other operation.
    """
    if op.name != "arith.addf":
        return []
    pairs = [(maker(product), op.operands[1 - n]) for n, product in enumerate(op.operands)]
    return [(p, c) for p, c in pairs if p is not None and p.name == "arith.mulf" and uses(p.results[0]) == 1]


def loop_sizes(generic: ir.Operation) -> list[int | None]:
    """The trip count of each loop of a linalg.generic, None where it is dynamic."""
    sizes: dict[int, int | None] = {}
    for operand, indexing in zip(generic.operands, indexing_maps(generic), strict=True):
        for n, expr in enumerate(indexing.results):
            if isinstance(expr, ir.AffineDimExpr) and sizes.get(expr.position) is None:
                shaped_type = ir.ShapedType(operand.type)
                sizes[expr.position] = None if shaped_type.is_dynamic_dim(n) else shaped_type.get_dim_size(n)
    return [sizes.get(d) for d in range(len(iterator_types(generic)))]


def names_all_loops(maps: Sequence[ir.AffineMap]) -> bool:
    """Whether every loop is a dimension of some operand: trip counts come from there."""
    named = {e.position for m in maps for e in m.results if isinstance(e, ir.AffineDimExpr)}
    return len(named) == int(maps[0].n_dims)


def maker(value: ir.Value) -> ir.Operation | None:
    """The operation that `value` is a result of; None for an argument of a block."""
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def owner(value: ir.Value) -> ir.Operation:
    """The operation that makes a value, or in whose region it is an argument."""
    return value.owner.owner.operation if isinstance(value.owner, ir.Block) else value.owner.operation


def captured(op: ir.Operation) -> tuple[list[ir.Operation], list[ir.Value]]:
    """The values that a body uses from outside: constants, which can be cloned, and other values."""
    inside = set(operations(op))
    constants: list[ir.Operation] = []
    values: list[ir.Value] = []
    for inner in operations(op):
        if inner == op:
            continue
        for value in inner.operands:
            if owner(value) in inside:
                continue
            made = maker(value)
            if made is not None and made.name == "arith.constant":
                constants.append(made)
            else:
                values.append(value)
    return list(dict.fromkeys(constants)), list(dict.fromkeys(values))


def linear(expr: ir.AffineExpr) -> Linear | None:
    """Return the coefficients and the constant of a linear affine expression."""
    if isinstance(expr, ir.AffineDimExpr):
        return {expr.position: 1}, 0
    if isinstance(expr, ir.AffineConstantExpr):
        return {}, expr.value
    if isinstance(expr, (ir.AffineAddExpr, ir.AffineMulExpr)):
        left, right = linear(expr.lhs), linear(expr.rhs)
        if left is None or right is None:
            return None
        if isinstance(expr, ir.AffineAddExpr):
            dims = {d: left[0].get(d, 0) + right[0].get(d, 0) for d in {*left[0], *right[0]}}
            return dims, left[1] + right[1]
        if left[0] and right[0]:
            return None
        (scaled, factor) = (left, right[1]) if not right[0] else (right, left[1])
        return {d: n * factor for d, n in scaled[0].items()}, scaled[1] * factor
    return None


def generic(
    inputs: Sequence[ir.Value],
    output: ir.Value,
    maps: Sequence[ir.AffineMap],
    kinds: Sequence[str],
    body: Callable[..., ir.Value],
) -> ir.Value:
    """The result of a linalg.generic at the insertion point; `kinds`: ``parallel`` or ``reduction`` for every loop.

    body: from the elements of the inputs and of the output to what it yields.
    """
    return _generic([*inputs, output], [output.type], maps, kinds, body).results[0]


def copying(source: ir.Value, target: ir.Value) -> ir.Operation:
    """A linalg.generic at the insertion point that copies a memref to another one."""
    rank = ir.MemRefType(target.type).rank
    maps = [ir.AffineMap.get_identity(rank)] * 2
    return _generic([source, target], [], maps, ["parallel"] * rank, lambda element, _: element)


def _generic(
    operands: Sequence[ir.Value],
    results: Sequence[ir.Type],
    maps: Sequence[ir.AffineMap],
    kinds: Sequence[str],
    body: Callable[..., ir.Value],
) -> ir.Operation:
    """A linalg.generic of which the last operand is the output."""
    new = ir.Operation.create(
        "linalg.generic",
        results=results,
        operands=operands,
        attributes={
            "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]),
            "iterator_types": _iterators(kinds),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands) - 1, 1]),
        },
        regions=1,
    )
    taken = [getattr(v.type, "element_type", v.type) for v in operands]
    block = new.regions[0].blocks.append(*taken, arg_locs=[new.location] * len(taken))
    with ir.InsertionPoint(block):
        ir.Operation.create("linalg.yield", operands=[body(*block.arguments)])
    return new


def _iterators(kinds: Sequence[str]) -> ir.Attribute:
    return ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{iterator}>") for iterator in kinds])


def generic_like(
    old: ir.Operation,
    operands: list[ir.Value],
    maps: list[ir.AffineMap],
    arguments: list[ir.Type],
    results: list[ir.Type],
    kinds: Sequence[str] | None = None,
) -> tuple[ir.Operation, ir.Block]:
    """A linalg.generic before `old` with its layer and its loops, or loops of other kinds, but other operands.

    Returns it with its body, which is empty and has these arguments.
    """
    kept = {name: old.attributes[name] for name in ("iterator_types", "numc.layer") if name in old.attributes}
    if kinds is not None:
        kept["iterator_types"] = _iterators(kinds)
    with ir.InsertionPoint(old), old.location:
        new = ir.Operation.create(
            "linalg.generic",
            results=results,
            operands=operands,
            attributes={
                "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands) - len(results), len(results)]),
                **kept,
            },
            regions=1,
        )
    return new, new.regions[0].blocks.append(*arguments, arg_locs=[old.location] * len(arguments))


def with_operands(
    old: ir.Operation,
    operands: list[ir.Value],
    maps: list[ir.AffineMap],
    result: ir.Type,
    kinds: Sequence[str] | None = None,
) -> ir.Operation:
    """A linalg.generic before `old` with its body but other operands of the same elements; see generic_like."""
    source = body(old)
    new, block = generic_like(
        old, operands, maps, arguments=[a.type for a in source.arguments], results=[result], kinds=kinds
    )
    yielded = copy_body(source, ir.InsertionPoint(block), dict(zip(source.arguments, block.arguments, strict=True)))
    with ir.InsertionPoint(block), old.location:
        ir.Operation.create("linalg.yield", operands=yielded)
    return new


def body_text(generic: ir.Operation, captured: Sequence[ir.Value] = ()) -> str:
    """The body as text in which arguments and captured values are numbered: equal bodies are found to be equal.

    What else it takes from outside has to be constants.
    """
    block = body(generic)
    names = {argument: f"a{n}" for n, argument in enumerate(block.arguments)}
    names.update({value: f"c{n}" for n, value in enumerate(captured)})
    lines = []
    for op in operations(generic):
        if op == generic:
            continue
        operands = [names.get(v) or str(v.owner.attributes["value"]) for v in op.operands]
        names.update({r: f"r{len(names)}" for r in op.results})
        attributes = [f"{a}={op.attributes[a]}" for a in op.attributes]
        lines.append(f"{op.name} {operands} {attributes} {[str(r.type) for r in op.results]} {op.parent.name}")
    return "\n".join(lines)


def copy(op: ir.Operation, at: ir.InsertionPoint, values: dict[ir.Value, ir.Value]) -> None:
    """Copy `op` to `at` with `values` replaced in it and in its regions; `values` gains its results."""
    new = op.clone(at)
    for inner in operations(new.operation):
        for n, operand in enumerate(inner.operands):
            if operand in values:
                inner.operands[n] = values[operand]
    values.update(zip(op.results, new.operation.results, strict=True))


def copy_body(source: ir.Block, at: ir.InsertionPoint, values: dict[ir.Value, ir.Value]) -> list[ir.Value]:
    """Copy `source` without its terminator to `at`, `values` replaced; returns what it would yield.

    Operations whose results are in `values` already are left out.
    """
    *ops, terminator = [op.operation for op in source.operations]
    for op in ops:
        if op.results and all(r in values for r in op.results):
            continue
        copy(op, at, values)
    return [values.get(v, v) for v in terminator.operands]


def replace(op: ir.Operation, values: Sequence[ir.Value]) -> None:
    """Let `values` take the places of the results of `op`, and erase it."""
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    op.erase()


def main(module: ir.Operation) -> ir.Operation:
    """The function @main of a module. Raises NumcError if there is none."""
    for op in module.regions[0].blocks[0].operations:
        if op.operation.name == "func.func" and ir.StringAttr(op.attributes["sym_name"]).value == "main":
            return op.operation
    raise NumcError("the module has no function @main: want one, which takes the inputs and returns the results")


def filled(room: ir.Value, value: ir.Value) -> ir.Value:
    """A tensor like `room` with a constant in every place."""
    rank = ir.RankedTensorType(room.type).rank
    return generic([], room, [ir.AffineMap.get_identity(rank)], ["parallel"] * rank, lambda _: value)


def room(value: ir.Value, kind: ir.RankedTensorType) -> ir.Value:
    """An empty tensor of the sizes of `value` and of a type."""
    sizes = [size_of(value, d) for d in range(kind.rank) if kind.is_dynamic_dim(d)]
    return ir.Operation.create("tensor.empty", results=[kind], operands=sizes).results[0]


def size_of(value: ir.Value, dim: int) -> ir.Value:
    """A free size of a tensor, from where that was made, so that asking does not keep the tensor itself."""
    size = given_size(value, dim)
    return tensor.DimOp(value, arith.ConstantOp(ir.IndexType.get(), dim).result).result if size is None else size


def given_size(value: ir.Value, dim: int) -> ir.Value | None:
    """The number that a tensor was made with as its free size in a dimension; None for a tensor made otherwise."""
    made = maker(value)
    while made is not None and made.name == "linalg.generic":
        value = made.operands[input_count(made) + list(made.results).index(value)]
        made = maker(value)
    if made is None or made.name != "tensor.empty":
        return None
    tensor_type = ir.RankedTensorType(value.type)
    return made.operands[sum(tensor_type.is_dynamic_dim(d) for d in range(dim))]


def retype(function: ir.Operation) -> None:
    """Make the inputs in a func.func's type those that its body takes; new ones come after those that it had."""
    results = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results
    inputs = [a.type for a in function.regions[0].blocks[0].arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    if "arg_attrs" in function.attributes:
        known = list(ir.ArrayAttr(function.attributes["arg_attrs"]))
        missing = [ir.DictAttr.get({})] * (len(inputs) - len(known))
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([*known, *missing])


def name_of(op: ir.Operation) -> str:
    """The name in an operation's location, of fused ones the first; "" if there is none."""
    return name_at(op.location)


def name_at(location: ir.Location) -> str:
    """The name in a location, of fused ones the first; "" if there is none."""
    if isinstance(location, ir.NameLoc):
        return str(location.name_str)
    if isinstance(location, ir.FusedLoc):
        return next(filter(None, map(name_at, location.locations)), "")
    return ""


def integer(value: ir.Value) -> int | None:
    """The number that an integer constant is; None if it is anything else."""
    op = maker(value)
    if op is None or op.name != "arith.constant" or not isinstance(op.attributes["value"], ir.IntegerAttr):
        return None
    return int(ir.IntegerAttr(op.attributes["value"]).value)


def splat(value: ir.Value) -> ir.Attribute | None:
    """The number that every element of a constant tensor is; None if it is anything else."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "arith.constant":
        return None
    tensor = value.owner.attributes["value"]
    return tensor.get_splat_value() if isinstance(tensor, ir.DenseElementsAttr) and tensor.is_splat else None


def filled_with(value: ir.Value) -> str | None:
    """The f32 constant that a tensor is filled with, as text; None if it is anything else."""
    return None if isinstance(value.owner, ir.Block) else fills_with(value.owner.operation)


def fills_with(op: ir.Operation) -> str | None:
    """The f32 constant that an operation fills its output with, as text; None if it does anything else."""
    number = filling(op)
    return str(number.owner.attributes["value"]) if number is not None and is_f32(number) else None


def filling(op: ir.Operation) -> ir.Value | None:
    """The constant that an operation fills its output with; None if it does anything else."""
    if op.name not in ("linalg.fill", "linalg.generic"):
        return None
    source = op.operands[0]
    if op.name == "linalg.generic":
        ops = list(body(op).operations)
        source = ops[-1].operands[0]
        if len(ops) != 1:
            return None
        if isinstance(source.owner, ir.Block):
            argument = ir.BlockArgument(source)
            if argument.owner != body(op) or argument.arg_number >= input_count(op):
                return None
            source = op.operands[argument.arg_number]
    return None if isinstance(source.owner, ir.Block) or source.owner.name != "arith.constant" else source


def fills_zero(op: ir.Operation) -> bool:
    """Whether an operation fills its output with +0, of f32 or of a narrow dtype."""
    number = filling(op)
    return number is not None and str(number.owner.attributes["value"]) in _ZEROS


def is_filled_with_zero(value: ir.Value) -> bool:
    """Whether a tensor is an integer 0 everywhere."""
    made = maker(value)
    number = None if made is None else filling(made)
    attribute = None if number is None else number.owner.attributes["value"]
    return isinstance(attribute, ir.IntegerAttr) and attribute.value == 0


def is_zero(value: ir.Value) -> bool:
    """Whether a value is +0 (f32): a constant, or a tensor that is it everywhere."""
    op = maker(value)
    if op is None:
        return False
    constant = splat(value)
    if constant is None and op.name == "arith.constant":
        constant = op.attributes["value"]
    return str(constant) == _ZERO or fills_zero(op)


def uses(value: ir.Value) -> int:
    """The number of uses of a value."""
    return sum(1 for _ in value.uses)


def is_unused(value: ir.Value) -> bool:
    """Whether nothing uses a value."""
    return next(iter(value.uses), None) is None


def erase_unused(*values: ir.Value, makers: Collection[str] = _PURE) -> None:
    """Erase what makes tensors that nothing uses, and what that alone has used, as far as it is one of `makers`.

    A tensor may be given twice, and one may have been made of another: what is erased is not looked at again.
    """
    waiting, erased = list(values), set[ir.Value]()
    while waiting:
        value = waiting.pop(0)
        if value in erased:
            continue
        op = maker(value)
        if op is not None and op.name in makers and all(map(is_unused, op.results)):
            waiting += op.operands
            erased.update(op.results)
            op.erase()


def is_f32(value: ir.Value) -> bool:
    """Whether a value is an f32 scalar."""
    return isinstance(value.type, ir.F32Type)
