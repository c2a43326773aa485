"""Tensors that have the same elements, or some of them: what can be held in fewer bytes together, or not at all.

Elements get from the operation that makes them to those that read them through reshapes, slices, paddings with a
constant, and concatenations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import arith

from numc.passes import linalg

_VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast", "tensor.extract_slice", "tensor.reshape")


@dataclass
class Held(ABC):
    """The operations that make, view and read some tensors.

    tensors: all of them. made: those that operations compute. filled: the operations and operands that have to be
    filled with a constant. read: the operations and the numbers of the operands that they read.
    """

    tensors: dict[ir.Value, None] = field(default_factory=dict)
    made: list[ir.Value] = field(default_factory=list)
    filled: list[tuple[ir.Operation, int]] = field(default_factory=list)
    read: dict[tuple[ir.Operation, int], None] = field(default_factory=dict)

    @abstractmethod
    def fills(self, op: ir.Operation) -> bool:
        """Whether an operation fills a tensor with what the narrow type has, too."""

    @abstractmethod
    def why_not_made(self, tensor: ir.Value) -> str:
        """Why what makes a tensor, no view, cannot make narrow elements; nothing if it can."""

    @abstractmethod
    def why_not_read(self, owner: ir.Operation, number: int) -> str:
        """Why a use that is no view cannot read narrow elements; nothing if it can."""

    def add(self, tensor: ir.Value) -> str:
        """Add a tensor, and all that have its elements; return why narrow ones cannot take their place, or nothing."""
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
            if below is not None and (below.name == "tensor.empty" or self.fills(below)):
                self.filled.append((maker, 1))
                return self.add(maker.operands[0])
            return self.add(maker.operands[0]) or self.add(maker.operands[1])
        self.made.append(tensor)
        return self.why_not_made(tensor)

    def _add_use(self, use: ir.OpOperand) -> str:
        owner, number = use.owner.operation, use.operand_number
        if owner.name in _VIEWS or (owner.name == "tensor.insert_slice" and number < 2):
            return self.add(owner.results[0])
        return "" if owner.name == "tensor.dim" else self.why_not_read(owner, number)

    def retype(self, element: ir.Type) -> None:
        """Let all that only view the tensors, or fill what is around them, be of the narrow type."""
        for owner, number in self.filled:
            owner.operands[number] = _filled(owner, number, element)
        for tensor in self.tensors:
            if tensor not in self.made:
                tensor.set_type(of(tensor, element))


def writes(generic: ir.Operation, tensor: ir.Value) -> bool:
    """Whether each element of a result of `generic` is written once, and does not depend on what was there."""
    argument = linalg.body(generic).arguments[linalg.input_count(generic) + ir.OpResult(tensor).result_number]
    return not linalg.reduces(generic) and linalg.is_unused(argument)


def write_narrow(tensor: ir.Value, element: ir.Type, made: ir.Value) -> None:
    """Let the operation that makes a tensor yield `made`, of its body, as elements of the narrow type."""
    maker, narrow_type, number = tensor.owner.operation, of(tensor, element), ir.OpResult(tensor).result_number
    index, block = linalg.input_count(maker) + number, linalg.body(maker)
    with ir.InsertionPoint(maker), maker.location:
        maker.operands[index] = linalg.room(maker.operands[index], narrow_type)
    block.arguments[index].set_type(element)
    list(block.operations)[-1].operation.operands[number] = made
    tensor.set_type(narrow_type)


def of(tensor: ir.Value, element: ir.Type) -> ir.RankedTensorType:
    """The type of a tensor of that shape with other elements."""
    return ir.RankedTensorType.get(ir.RankedTensorType(tensor.type).shape, element)


def _filled(reader: ir.Operation, number: int, element: ir.Type) -> ir.Value:
    """An operand of a constant, or one that is empty, with elements of another type."""
    old = reader.operands[number]
    with ir.InsertionPoint(reader), reader.location:
        room = linalg.room(old, of(old, element))
        if old.owner.name == "tensor.empty":
            return room
        constant = linalg.filling(old.owner.operation)
        assert constant is not None
        return linalg.filled(room, arith.ConstantOp(element, _number(constant, element)).result)


def _number(constant: ir.Value, element: ir.Type) -> float | int:
    value = constant.owner.attributes["value"]
    number = ir.FloatAttr(value).value if linalg.is_f32(constant) else ir.IntegerAttr(value).value
    if not isinstance(element, ir.IntegerType):
        return float(number)
    # The bits of a byte, as a number with a sign.
    return (int(number) + 128) % 256 - 128
