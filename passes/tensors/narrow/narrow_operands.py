"""narrow-operands: activations that only contractions read are held in the bytes of the format they are rounded to.

What makes such a tensor rounds its elements and stores their codes, a tensor of a narrow dtype, and kernels widen them
while they pack. No bit changes: the contractions would round to the same format, and rounding twice is rounding once.
The tensor may get to the contractions through reshapes, slices, paddings with zeros and concatenations.

Only formats whose codes are the first bits of a float32 are held so: these are made and widened in a few operations.
Codes of other formats took 6 % (fp16) to 22 % (e4m3fn) of the time of a whole network in excess of what they saved.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith

from numc.numerics.dtypes import NARROW_ELEMENTS
from numc.numerics.formats import FORMATS, Conversion
from numc.passes import facts, linalg
from numc.passes.dialect import EncodeOp, contracted
from numc.passes.tensors.narrow.held import Held, of, write_narrow, writes

ACTIVATIONS = "numc.activations"
"""On the module: rows of the program's manifest about the tensors that operations make and contractions read."""
_ELEMENTS = {
    narrow.stored.format: element for element, narrow in NARROW_ELEMENTS.items() if narrow.stored.format.is_full_range
}


def narrow_operands(module: ir.Operation, packs: bool, observed: bool) -> None:
    """Hold activations that only contractions read in the bytes of the format that these round them to.

    packs: whether weights are in these bytes, too; else all stays as it is. observed: leave it for observers that look
    at operands before they are rounded.
    """
    if not packs or observed:
        return
    with module.context, ir.Location.unknown():
        rows: list[dict[str, Any]] = []
        seen: set[ir.Value] = set()
        for generic in list(linalg.operations(module, "linalg.generic")):
            for number in _operands_of(generic):
                held = _Held()
                if generic.operands[number] not in seen:
                    why = held.add(generic.operands[number])
                    seen.update(held.tensors)
                    rows += held.rows(why)
                    if not why:
                        held.narrow()
        facts.put(module, ACTIVATIONS, rows)


def _operands_of(generic: ir.Operation) -> dict[int, Conversion | str]:
    """The operands of a contraction, by their numbers: what it rounds them to, or why no dtype can be that."""
    contraction = contracted(generic)
    if contraction is None:
        return {}
    operands: dict[int, Conversion | str] = {}
    for number, groups, to in zip(contraction.numbers, contraction.fma.grouped, contraction.fma.singles, strict=False):
        if groups is not None:
            operands[number] = f"converted in groups by {linalg.name_of(generic)}"
        elif linalg.is_f32(linalg.body(generic).arguments[number]):
            operands[number] = _why_not(to) or to.settled
    return operands


def _why_not(to: Conversion) -> str:
    """Why no tensor is held in the bytes of a format; nothing if one can be."""
    if to.open is not None:
        return "a run chooses its widths"
    if to.format.bits >= FORMATS["fp32"].bits:
        return f"{to.format.name} has as many bits"
    return "" if to.format in _ELEMENTS else f"codes of {to.format.name} would take longer"


@dataclass
class _Held(Held):
    """Tensors that contractions read. to: what these round them to."""

    to: Conversion | None = None

    def fills(self, op: ir.Operation) -> bool:
        return linalg.fills_zero(op)

    def why_not_made(self, tensor: ir.Value) -> str:
        maker = tensor.owner.operation
        if maker.name == "linalg.generic" and (linalg.contracts(maker) or writes(maker, tensor)):
            return ""
        return f"made by {linalg.name_of(maker) or maker.name}"

    def why_not_read(self, owner: ir.Operation, number: int) -> str:
        to = _operands_of(owner).get(number) if owner.name == "linalg.generic" else None
        if not isinstance(to, Conversion):
            return to or f"read as float32 by {linalg.name_of(owner) or owner.name}"
        self.to = self.to or to
        self.read[owner, number] = None
        return "" if to == self.to else f"rounded to several formats: {', '.join(sorted(map(str, (self.to, to))))}"

    def rows(self, why: str) -> list[dict[str, Any]]:
        """The rows of the manifest about the tensors that operations make; why: they are not narrow."""
        held = f"float32: {why}" if why else str(self.to)
        bits = 32 if why or self.to is None else self.to.format.bits
        return [{"layer": _layer(made), "bytes": _bytes(made, bits), "held": held} for made in self.made]

    def narrow(self) -> None:
        """Let the tensors be of the narrow dtype."""
        assert self.to is not None
        element = ir.Type.parse(_ELEMENTS[self.to.format])
        self.retype(element)
        for owner, number in self.read:
            _widen(owner, number, element)
        for tensor in self.made:
            _narrow(tensor, self.to, element)


def _layer(tensor: ir.Value) -> str:
    maker = linalg.maker(tensor)
    return "" if maker is None else linalg.name_of(maker)


def _bytes(tensor: ir.Value, bits: int) -> int | None:
    """The size of a tensor whose elements have so many bits; None if it is free."""
    tensor_type = ir.RankedTensorType(tensor.type)
    return prod(tensor_type.shape) * bits // 8 if tensor_type.has_static_shape else None


def _widen(contraction: ir.Operation, number: int, element: ir.Type) -> None:
    """Let a contraction read an operand of a narrow dtype, which needs no rounding."""
    argument = linalg.body(contraction).arguments[number]
    argument.set_type(element)
    roundings = [use.owner.operation for use in argument.uses if use.owner.name == "numc.round"]
    with ir.InsertionPoint.at_block_begin(linalg.body(contraction)), contraction.location:
        wide = arith.ExtFOp(ir.F32Type.get(), argument)
    argument.replace_all_uses_except(wide.result, wide.operation)
    for op in roundings:
        linalg.replace(op, op.operands)


def _narrow(tensor: ir.Value, to: Conversion, element: ir.Type) -> None:
    """Let the operation that makes a tensor round its elements; behind a contraction, one that its kernel can do."""
    maker, narrow_type, number = tensor.owner.operation, of(tensor, element), ir.OpResult(tensor).result_number

    def encoded(value: ir.Value) -> ir.Value:
        code: ir.Value = EncodeOp(element, value, to=ir.StringAttr.get(str(to))).result
        return code

    if linalg.contracts(maker):
        readers = [(use.owner.operation, use.operand_number) for use in tensor.uses]
        with ir.InsertionPoint.after(maker), maker.location:
            maps = [ir.AffineMap.get_identity(narrow_type.rank)] * 2
            room = linalg.room(tensor, narrow_type)
            made = linalg.generic([tensor], room, maps, ["parallel"] * narrow_type.rank, lambda x, _: encoded(x))
        for owner, index in readers:
            owner.operands[index] = made
        return
    value = list(linalg.body(maker).operations)[-1].operands[number]
    with ir.InsertionPoint(list(linalg.body(maker).operations)[-1]), maker.location:
        made = encoded(value)
    write_narrow(tensor, element, made)
