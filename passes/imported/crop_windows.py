"""crop-windows: windows whose results are cut off are not computed.

The gradient of a strided convolution's filters is a convolution, too, whose windows may slide further than the filters
reach: a filter of 1 x 1 and a stride of 2 give 2 x 2 results, of which one is wanted. What is left of the result is
computed as before, so no bit changes, unless an element depends on others: on all that the windows read, where that has
a scale or a width as a whole, or on its place among them, by which random bits are drawn.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from numc.passes import linalg


def crop_windows(module: ir.Operation, is_local: bool) -> None:
    """Leave out windows whose results are cut off. is_local: no element of a result depends on the others."""
    with module.context:
        for cut in linalg.operations(module, "tensor.extract_slice") if is_local else ():
            if (windows := _windows(cut)) is not None:
                _crop(windows, cut)


def _windows(cut: ir.Operation) -> ir.Operation | None:
    """The reduction over windows of whose result this cut alone reads the beginning, if that needs fewer windows."""
    generic = linalg.maker(cut.operands[0])
    if generic is None or generic.name != "linalg.generic" or not linalg.reduces(generic) or len(generic.results) != 1:
        return None
    inputs = linalg.input_count(generic)
    *maps, writes = linalg.indexing_maps(generic)
    offsets, steps = (set(cut.attributes[f"static_{name}"]) for name in ("offsets", "strides"))
    before, after = (ir.RankedTensorType(v.type) for v in (cut.operands[0], cut.results[0]))
    is_beginning = len(cut.operands) == 1 and offsets == {0} and steps == {1} and after.rank == before.rank
    if not is_beginning or linalg.uses(cut.operands[0]) != 1 or not before.has_static_shape:
        return None
    if not writes.is_projected_permutation or linalg.filled_with(generic.operands[inputs]) is None:
        return None
    sizes = zip(writes.results, before.shape, after.shape, strict=True)
    cropped = {ir.AffineDimExpr(e).position for e, whole, part in sizes if whole != part}
    whole = {e.position for m in maps for e in m.results if isinstance(e, ir.AffineDimExpr)}
    return generic if cropped and not cropped & whole else None  # else operands would have to be cut


def _crop(generic: ir.Operation, cut: ir.Operation) -> None:
    """Replace a reduction and what cuts off a part of its result by a reduction to the rest."""
    cut_type, inputs = ir.RankedTensorType(cut.results[0].type), linalg.input_count(generic)
    start = generic.operands[inputs]
    with ir.InsertionPoint(generic), generic.location:
        number = arith.ConstantOp(cut_type.element_type, ir.Attribute.parse(str(linalg.filled_with(start)))).result
        filled = linalg.filled(tensor.EmptyOp(cut_type.shape, cut_type.element_type).result, number)
    operands = [*list(generic.operands)[:inputs], filled]
    new = linalg.with_operands(generic, operands, linalg.indexing_maps(generic), cut_type)
    linalg.replace(cut, new.results)
    linalg.erase_unused(generic.results[0])
