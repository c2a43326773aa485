"""narrow-operands: activations that only contractions read are held in the bytes of the format they are rounded to.

What makes such a tensor rounds its elements and stores their codes, a tensor of a narrow dtype, and kernels widen them
while they pack. No bit changes: the contractions would round to the same format, and rounding twice is rounding once.
The tensor may get to the contractions through reshapes, slices, paddings with zeros and concatenations.

Only formats whose codes are the first bits of a float32 are held so: these are made and widened in a few operations.
Codes of other formats took 6 % (fp16) to 22 % (e4m3fn) of the time of a whole network in excess of what they saved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith

from numc.compiler.arithmetic.dtypes import NARROW_ELEMENTS
from numc.compiler.arithmetic.formats import FORMATS, Conversion
from numc.passes import facts, linalg
from numc.passes.dialect import EncodeOp, contracted

ACTIVATIONS = "numc.activations"
"""On the module: rows of the program's manifest about the tensors that operations make and contractions read."""
_VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast", "tensor.extract_slice", "tensor.reshape")
_ELEMENTS = {
    narrow.stored.format: element
    for element, narrow in NARROW_ELEMENTS.items()
    if narrow.stored.format.exponent_bits == FORMATS["fp32"].exponent_bits
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
    found = contracted(generic)
    if found is None:
        return {}
    if found.fma.groups is not None:
        return dict.fromkeys(found.numbers[:2], f"converted in groups by {linalg.name_of(generic)}")
    return {
        number: _why_not(to) or to.settled
        for number, to in zip(found.numbers, found.fma.singles, strict=False)
        if linalg.is_f32(linalg.body(generic).arguments[number])
    }


def _why_not(to: Conversion) -> str:
    """Why no tensor is held in the bytes of a format; nothing if one can be."""
    if to.open is not None:
        return "a run chooses its widths"
    if to.format.bits >= FORMATS["fp32"].bits:
        return f"{to.format.name} has as many bits"
    return "" if to.format in _ELEMENTS else f"codes of {to.format.name} would take longer"


@dataclass
class _Held:
    """Tensors that have the same elements, or some of them: what makes, views and reads them.

    tensors: all of them. made: those that operations compute. filled: the operations and operands that have to be
    filled with zeros. read: the contractions and the numbers of their operands. to: what these are rounded to.
    """

    tensors: dict[ir.Value, None] = field(default_factory=dict)
    made: list[ir.Value] = field(default_factory=list)
    filled: list[tuple[ir.Operation, int]] = field(default_factory=list)
    read: dict[tuple[ir.Operation, int], None] = field(default_factory=dict)
    to: Conversion | None = None

    def add(self, tensor: ir.Value) -> str:
        """Add a tensor, and all that have its elements; return why codes cannot take their place, or nothing."""
        if tensor in self.tensors:
            return ""
        self.tensors[tensor] = None
        return self._add_maker(tensor) or next(filter(None, map(self._add_use, list(tensor.uses))), "")

    def _add_maker(self, tensor: ir.Value) -> str:
        maker = linalg.maker(tensor)
        if maker is None or maker.name == "arith.constant" or not isinstance(tensor.type, ir.RankedTensorType):
            return "given to the program or to a loop"
        if maker.name in _VIEWS:
            return self.add(maker.operands[0])
        if maker.name == "tensor.insert_slice":
            below = linalg.maker(maker.operands[1])
            if below is not None and (linalg.fills_zero(below) or below.name == "tensor.empty"):
                self.filled.append((maker, 1))
                return self.add(maker.operands[0])
            return self.add(maker.operands[0]) or self.add(maker.operands[1])
        self.made.append(tensor)
        if maker.name == "linalg.generic" and (linalg.contracts(maker) or _writes(maker, tensor)):
            return ""
        return f"made by {linalg.name_of(maker) or maker.name}"

    def _add_use(self, use: ir.OpOperand) -> str:
        owner, number = use.owner.operation, use.operand_number
        if owner.name in _VIEWS or (owner.name == "tensor.insert_slice" and number < 2):
            return self.add(owner.results[0])
        if owner.name == "tensor.dim":
            return ""
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
        for owner, number in self.filled:
            owner.operands[number] = _filled(owner, number, element)
        for owner, number in self.read:
            _widen(owner, number, element)
        for tensor in self.tensors:
            if tensor not in self.made:
                tensor.set_type(_of(tensor, element))
        for tensor in self.made:
            _narrow(tensor, self.to, element)


def _layer(tensor: ir.Value) -> str:
    maker = linalg.maker(tensor)
    return "" if maker is None else linalg.name_of(maker)


def _bytes(tensor: ir.Value, bits: int) -> int | None:
    """The size of a tensor whose elements have so many bits; None if it is free."""
    kind = ir.RankedTensorType(tensor.type)
    return prod(kind.shape) * bits // 8 if kind.has_static_shape else None


def _writes(generic: ir.Operation, tensor: ir.Value) -> bool:
    """Whether each element of a result of `generic` is written once, and does not depend on what was there."""
    place = linalg.input_count(generic) + ir.OpResult(tensor).result_number
    argument = linalg.body(generic).arguments[place]
    return not linalg.reduces(generic) and linalg.is_unused(argument) and linalg.is_f32(argument)


def _of(tensor: ir.Value, element: ir.Type) -> ir.RankedTensorType:
    return ir.RankedTensorType.get(ir.RankedTensorType(tensor.type).shape, element)


def _filled(reader: ir.Operation, number: int, element: ir.Type) -> ir.Value:
    """An operand of zeros, or one that is empty, with elements of another type."""
    old = reader.operands[number]
    with ir.InsertionPoint(reader), reader.location:
        room = linalg.room(old, _of(old, element))
        if old.owner.name == "tensor.empty":
            return room
        return linalg.filled(room, arith.ConstantOp(element, 0.0).result)


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
    maker, kind, number = tensor.owner.operation, _of(tensor, element), ir.OpResult(tensor).result_number

    def encoded(value: ir.Value) -> ir.Value:
        return EncodeOp(element, value, to=ir.StringAttr.get(str(to))).result

    if linalg.contracts(maker):
        readers = [(use.owner.operation, use.operand_number) for use in tensor.uses]
        with ir.InsertionPoint.after(maker), maker.location:
            maps = [ir.AffineMap.get_identity(kind.rank)] * 2
            room = linalg.room(tensor, kind)
            made = linalg.generic([tensor], room, maps, ["parallel"] * kind.rank, lambda x, _: encoded(x))
        for owner, place in readers:
            owner.operands[place] = made
        return
    place, block = linalg.input_count(maker) + number, linalg.body(maker)
    with ir.InsertionPoint(maker), maker.location:
        maker.operands[place] = linalg.room(maker.operands[place], kind)
    block.arguments[place].set_type(element)
    end = list(block.operations)[-1].operation
    with ir.InsertionPoint(end), maker.location:
        end.operands[number] = encoded(end.operands[number])
    tensor.set_type(kind)
