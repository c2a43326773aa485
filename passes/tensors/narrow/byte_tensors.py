"""byte-tensors: integers of 8 bits that operations make are held in bytes, and not as i32 or float32 numbers.

Layers of quantised models add and multiply integers as i32 numbers, which came from bytes; their contractions read them
as float32 ones (integer_products.py). Both take four times the room, and these layers wait for memory. What makes such
a tensor stores bytes, and what reads it widens them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import arith

from numc.passes import linalg
from numc.passes.dialect import contracted
from numc.passes.tensors.narrow.held import Held, write_narrow, writes
from numc.passes.tensors.narrow.integer_bounds import Bounds, bounds

_LIMITS = {True: (-128, 127), False: (0, 255)}  # of bytes with a sign, and without one


def byte_tensors(module: ir.Operation, masks: bool) -> None:
    """Hold integers of 8 bits that operations make in bytes.

    masks: whether the processor loads some lanes of a vector by one instruction; elsewhere reading bytes takes longer.
    """
    if not masks:
        return
    with module.context, ir.Location.unknown():
        known: dict[ir.Value, Bounds | None] = {}
        for joins in (True, False):
            seen: set[ir.Value] = set()
            for tensor in _candidates(module):
                if tensor not in seen:
                    held = _Held(known=known, joins=joins)
                    why = held.add(tensor)
                    seen.update(held.tensors)
                    if not why and held.read:
                        held.narrow()


def _candidates(module: ir.Operation) -> list[ir.Value]:
    """The tensors of i32 numbers that operations make, and the float32 numbers that contractions of bytes read."""
    candidates: list[ir.Value] = []
    for generic in linalg.operations(module, "linalg.generic"):
        made = [result for result in generic.results if _element(result) == "i32"]
        if made and linalg.filling(generic) is None:
            candidates += made
        candidates += [generic.operands[n] for n in _factors(generic) if _element(generic.operands[n]) == "f32"]
    return candidates


def _factors(generic: ir.Operation) -> tuple[int, ...]:
    """The numbers of A and B of a contraction of bytes; none of any other operation."""
    contraction = contracted(generic)
    return contraction.numbers[:2] if contraction is not None and contraction.fma.datapath.name == "bytes" else ()


def _element(tensor: ir.Value) -> str:
    return str(ir.RankedTensorType(tensor.type).element_type)


@dataclass
class _Held(Held):
    """Tensors of integers. known: bounds of these. signs: whether the bytes have a sign, if they hold the numbers.

    joins: whether what float32 numbers are made of integers by has the same elements. copies: operations that do that.
    """

    known: dict[ir.Value, Bounds | None] = field(default_factory=dict)
    joins: bool = True
    signs: set[bool] = field(default_factory=lambda: {False, True})
    copies: list[ir.Operation] = field(default_factory=list)

    def _fit(self, limits: Bounds | None) -> bool:
        self.signs = {s for s in self.signs if limits and _LIMITS[s][0] <= limits[0] and limits[1] <= _LIMITS[s][1]}
        return bool(self.signs)

    def fills(self, op: ir.Operation) -> bool:
        constant = linalg.filling(op)
        if constant is None:
            return False
        value = constant.owner.attributes["value"]
        if linalg.is_f32(constant):
            number = ir.FloatAttr(value).value
            return number.is_integer() and self._fit((int(number), int(number)))
        return isinstance(value, ir.IntegerAttr) and self._fit((value.value, value.value))

    def why_not_made(self, tensor: ir.Value) -> str:
        maker = tensor.owner.operation
        if maker.name != "linalg.generic" or linalg.contracts(maker) or not writes(maker, tensor):
            return "not made element by element"
        if self.joins and _is_copy(maker):
            self.made.remove(tensor)
            self.copies.append(maker)
            return self.add(maker.operands[0])
        if _element(tensor) == "f32":  # only contractions of bytes may read it
            return ""
        return "" if self._fit(bounds(tensor, self.known)) else "more than bytes"

    def why_not_read(self, owner: ir.Operation, number: int) -> str:
        if owner.name != "linalg.generic" or number >= linalg.input_count(owner):
            return "read by something else"
        if self.joins and _is_copy(owner):
            return self.add(owner.results[0])
        self.read[owner, number] = None
        if factors := _factors(owner):
            self.signs &= {number == factors[1]}
            return "" if self.signs else "of another sign"
        return "" if not linalg.reduces(owner) and _element(owner.operands[number]) == "i32" else "read as it is"

    def narrow(self) -> None:
        """Let the tensors be of bytes."""
        signed, byte = False not in self.signs, ir.IntegerType.get_signless(8)
        for tensor in self.made:
            _narrow(tensor, byte)
        self.retype(byte)
        for owner, number in self.read:
            _widen(owner, number, byte, signed)
        for copy in self.copies:
            linalg.replace(copy, copy.operands[:1])


def _is_copy(generic: ir.Operation) -> bool:
    """Whether an operation makes float32 numbers of i32 ones in the same places, and nothing else."""
    ops = [op.operation for op in linalg.body(generic).operations]
    return (
        linalg.input_count(generic) == 1
        and len(generic.results) == 1
        and all(map_ == ir.AffineMap.get_identity(map_.n_dims) for map_ in linalg.indexing_maps(generic))
        and [op.name for op in ops] == ["arith.sitofp", "linalg.yield"]
        and str(ops[0].operands[0].type) == "i32"
        and linalg.is_f32(ops[0].results[0])
    )


def _narrow(tensor: ir.Value, byte: ir.Type) -> None:
    """Let the operation that makes a tensor store bytes of its numbers."""
    maker = tensor.owner.operation
    end = list(linalg.body(maker).operations)[-1].operation
    with ir.InsertionPoint(end), maker.location:
        value = end.operands[ir.OpResult(tensor).result_number]
        if linalg.is_f32(value):
            value = arith.FPToSIOp(ir.IntegerType.get_signless(32), value).result
        made = arith.TruncIOp(byte, value).result
    write_narrow(tensor, byte, made)


def _widen(generic: ir.Operation, number: int, byte: ir.Type, signed: bool) -> None:
    """Let an operation read bytes, as numbers of the type that it took before."""
    argument = linalg.body(generic).arguments[number]
    wide_type = argument.type
    argument.set_type(byte)
    with ir.InsertionPoint.at_block_begin(linalg.body(generic)), generic.location:
        if isinstance(wide_type, ir.F32Type):
            wide = (arith.SIToFPOp if signed else arith.UIToFPOp)(wide_type, argument).result
        else:
            wide = (arith.ExtSIOp if signed else arith.ExtUIOp)(wide_type, argument).result
    argument.replace_all_uses_except(wide, wide.owner.operation)
