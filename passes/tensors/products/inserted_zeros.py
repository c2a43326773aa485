"""inserted-zeros: in a transposed convolution, weights that are infinite or NaN meet only what the model multiplies.

Such a convolution is computed as one of an image with zeros between and around its elements. With a finite weight a
zero of these changes nothing but -0 (skip_zeros.py); with another one it would give a NaN that the model does not have.
So the contraction takes 0 in place of these weights, and their products with true elements are accumulated afterwards,
in the order of the reduction. Front ends mark these contractions: zeros of the model itself are multiplied.

Nothing is done where all weights are known to be finite when the program is compiled. Where they are not known, a run
looks at them, and only where one is not finite does the rest.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, scf, tensor

from numc.passes import facts, linalg
from numc.passes.dialect import Contracted, contracted

INSERTED = "numc.inserted"
"""On a contraction whose first operand has zeros that are none of the model's, and whose second one are weights."""
FINITE = "numc.finite"
"""On a contraction: no element of its second operand is infinite or NaN in its format."""
LARGEST = "numc.largest"
"""On an argument that is a weight: its largest magnitude, or NaN."""

_SHAPES = tuple(f"tensor.{name}" for name in ("expand_shape", "collapse_shape", "reshape", "extract_slice", "cast"))
_IMAGE, _WEIGHT = 0, 1
_MOST = 3.4028234663852886e38


def inserted_zeros(module: ir.Operation) -> None:
    """Let no weight that is infinite or NaN meet a zero that a transposed convolution inserts."""
    largest = facts.of_arguments(module, LARGEST)
    with module.context, ir.Location.unknown():
        for generic in list(linalg.operations(module, "linalg.generic")):
            if INSERTED not in generic.attributes:
                continue
            facts.drop(generic, INSERTED)
            contraction = contracted(generic)
            if contraction is None or contraction.fma.groups or sorted(contraction.numbers) != [0, 1, 2]:
                continue  # an element that is not finite makes its whole group NaN
            if not _is_finite(generic, contraction, largest):
                _guard(generic, contraction)


def _is_finite(generic: ir.Operation, contraction: Contracted, largest: dict[int, float]) -> bool:
    """Whether the weights of a contraction are known, and finite in their format; then it is marked."""
    value = generic.operands[_WEIGHT]
    while (made := linalg.maker(value)) is not None:
        if made.name not in _SHAPES and not _only_moves(made):
            return False
        value = made.operands[0]
    function = linalg.owner(value)
    if function.name != "func.func" or function != linalg.main(function.parent.operation):
        return False
    limit = contraction.fma.singles[contraction.numbers.index(_WEIGHT)].least_range.max_finite
    known = largest.get(ir.BlockArgument(value).arg_number)
    if known is None or not known <= limit:
        return False
    facts.put(generic, FINITE, None)
    return True


def _only_moves(op: ir.Operation) -> bool:
    """Whether an operation has the elements of its one input, rounded to a format or not."""
    if op.name != "linalg.generic" or linalg.input_count(op) != 1 or linalg.reduces(op):
        return False
    *inner, end = [each.operation for each in linalg.body(op).operations]
    value = end.operands[0]
    while inner and value.owner == inner[-1] and inner[-1].name in ("numc.round", "arith.extf"):
        value = inner.pop().operands[0]
    return not inner and value == linalg.body(op).arguments[0]


def _guard(generic: ir.Operation, contraction: Contracted) -> None:
    with ir.InsertionPoint(generic), generic.location:
        elements = _true_elements(generic.operands[_IMAGE], linalg.name_of(generic))
        if elements is None:
            elements = _true_elements(generic.operands[_IMAGE], None)
        if elements is None:
            return
        operands = list(generic.operands)
        operands[_WEIGHT] = _kept(generic, contraction)
        all_finite = _all_finite(generic, contraction)
    whole = linalg.with_operands(generic, operands, linalg.indexing_maps(generic), generic.results[0].type)
    facts.put(whole, FINITE, None)
    with ir.InsertionPoint(generic), generic.location:
        choice = scf.IfOp(all_finite, [generic.results[0].type], has_else=True)
    with ir.InsertionPoint(choice.then_block), generic.location:
        scf.YieldOp([whole.results[0]])
    with ir.InsertionPoint(choice.else_block), generic.location:
        scf.YieldOp([_with_the_rest(generic, contraction, elements, whole.results[0])])
    linalg.replace(generic, list(choice.results))


def _true_elements(value: ir.Value, name: str | None) -> ir.Value | None:
    """A tensor of the sizes of `value` that is 1 where it has an element of the model, and 0 where one was inserted.

    name: that of the operation whose insertions count. None if there is none of these.
    """
    made = linalg.maker(value)
    if made is None or (name is not None and linalg.name_of(made) != name):
        return None
    if made.name == "linalg.generic":
        in_place = _only_moves(made) and all(m == m.get_identity(m.n_dims) for m in linalg.indexing_maps(made))
        return _true_elements(made.operands[0], name) if in_place else None
    shape = ir.RankedTensorType(value.type).shape
    shaped = ir.RankedTensorType.get(shape, ir.F32Type.get())
    if made.name in _SHAPES:
        before = _true_elements(made.operands[0], name)
        return None if before is None else _again(made, shaped, before, *list(made.operands)[1:])
    if made.name != "tensor.insert_slice":
        return None
    source, into, *sizes = made.operands
    zeros = linalg.maker(into)
    if zeros is None or not linalg.fills_zero(zeros):
        return None
    before = _true_elements(source, name)
    if before is None:
        before = _filled(source, 1.0)
    return _again(made, shaped, before, _filled(into, 0.0), *sizes)


def _again(op: ir.Operation, shaped: ir.Type, *operands: ir.Value) -> ir.Value:
    attributes = {name: op.attributes[name] for name in op.attributes}
    return ir.Operation.create(op.name, results=[shaped], operands=operands, attributes=attributes).results[0]


def _filled(like: ir.Value, number: float) -> ir.Value:
    f32 = ir.F32Type.get()
    shaped = ir.RankedTensorType.get(ir.RankedTensorType(like.type).shape, f32)
    return linalg.filled(linalg.room(like, shaped), arith.ConstantOp(f32, ir.FloatAttr.get(f32, number)).result)


def _converted(generic: ir.Operation, operand: int, element: ir.Value, step: ir.Value) -> ir.Value:
    """Append what the body of a contraction makes of an element of an operand; step: what its multiply-add takes."""
    made = linalg.maker(step)
    if made is None:
        return element
    values = {made.operands[0]: _converted(generic, operand, element, made.operands[0])}
    linalg.copy(made, ir.InsertionPoint.current, values)
    return values[made.results[0]]


def _weight_of(generic: ir.Operation, contraction: Contracted, element: ir.Value) -> ir.Value:
    return _converted(generic, _WEIGHT, element, contraction.step.operands[contraction.numbers.index(_WEIGHT)])


def _finite(value: ir.Value) -> ir.Value:
    f32 = ir.F32Type.get()
    magnitude = arith.MaximumFOp(value, arith.NegFOp(value).result).result
    return arith.CmpFOp(
        arith.CmpFPredicate.OLE, magnitude, arith.ConstantOp(f32, ir.FloatAttr.get(f32, _MOST)).result
    ).result


def _kept(generic: ir.Operation, contraction: Contracted) -> ir.Value:
    """The weights that are finite, and 0 in place of the others."""
    weight = generic.operands[_WEIGHT]
    shaped = ir.RankedTensorType(weight.type)
    maps = [ir.AffineMap.get_identity(shaped.rank)] * 2

    def body(element: ir.Value, _: ir.Value) -> ir.Value:
        zero = arith.ConstantOp(element.type, ir.FloatAttr.get(element.type, 0.0)).result
        return arith.SelectOp(_finite(_weight_of(generic, contraction, element)), element, zero).result

    return linalg.generic([weight], linalg.room(weight, shaped), maps, ["parallel"] * shaped.rank, body)


def _all_finite(generic: ir.Operation, contraction: Contracted) -> ir.Value:
    weight, i32 = generic.operands[_WEIGHT], ir.IntegerType.get_signless(32)
    rank = ir.RankedTensorType(weight.type).rank

    def body(element: ir.Value, so_far: ir.Value) -> ir.Value:
        finite = arith.ExtUIOp(i32, _finite(_weight_of(generic, contraction, element))).result
        return arith.AndIOp(so_far, finite).result

    room = ir.Operation.create("tensor.empty", results=[ir.RankedTensorType.get([], i32)]).results[0]
    start = linalg.filled(room, arith.ConstantOp(i32, ir.IntegerAttr.get(i32, 1)).result)
    maps = [ir.AffineMap.get_identity(rank), ir.AffineMap.get(rank, 0, [])]
    all_of_them = linalg.generic([weight], start, maps, ["reduction"] * rank, body)
    return arith.TruncIOp(ir.IntegerType.get_signless(1), tensor.ExtractOp(all_of_them, []).result).result


def _with_the_rest(generic: ir.Operation, contraction: Contracted, elements: ir.Value, start: ir.Value) -> ir.Value:
    """Accumulate, from `start` on, the products of true elements and of weights that are not finite."""
    image, weight, into = linalg.indexing_maps(generic)
    operands = [generic.operands[_IMAGE], elements, generic.operands[_WEIGHT]]
    step = contraction.step

    def body(*values: ir.Value) -> ir.Value:
        x, is_true, w, so_far = values
        values_of_body: dict[ir.Value, ir.Value] = {step.operands[2]: so_far}
        w = _weight_of(generic, contraction, w)
        x = _converted(generic, _IMAGE, x, step.operands[contraction.numbers.index(_IMAGE)])
        values_of_body |= {step.operands[contraction.numbers.index(n)]: v for n, v in ((_IMAGE, x), (_WEIGHT, w))}
        linalg.copy(step, ir.InsertionPoint.current, values_of_body)
        made = values_of_body[step.results[0]]
        made.owner.attributes["fma"] = ir.StringAttr.get(str(contraction.fma.step))
        f32 = ir.F32Type.get()
        zero = arith.ConstantOp(f32, ir.FloatAttr.get(f32, 0.0)).result
        inserted = arith.CmpFOp(arith.CmpFPredicate.OEQ, is_true, zero).result
        return arith.SelectOp(arith.OrIOp(inserted, _finite(w)).result, so_far, made).result

    return linalg.generic(operands, start, [image, image, weight, into], linalg.iterator_types(generic), body)
