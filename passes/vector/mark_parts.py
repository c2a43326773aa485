"""mark-parts: @main says where each part of it begins and ends, and a table says what the parts are.

A part is a contraction, a loop, a copy, or a chain of contractions and loops that is computed by rows; what lies
between two parts allocates buffers and computes sizes. The marks are calls of the runtime's numc_mark, which returns at
once unless the run is profiled (docs/profiling.md).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from numc.passes import facts, linalg
from numc.passes.buffers.dependences import BUFFERS, NUMBER, PACKS, SEEN, UsedBuffer, dependences
from numc.passes.buffers.loop_nest import WIDTHS
from numc.passes.parsed import parsed
from numc.passes.vector.call_rows import ROWS, is_chain

PARTS = "numc.parts"
MARK = "numc_mark"
_BETWEEN = -1
# Operations that take no time, after which the next part may begin.
_FREE = ("arith.constant", "memref.subview", "memref.cast", "memref.get_global", "memref.collapse_shape",
         "memref.expand_shape", "memref.reinterpret_cast")  # fmt: skip

Moved = tuple[ir.Value, ...]
"""A memref of which a part reads or writes all, or several of which it moves as much as of the smallest."""


@dataclass(frozen=True)
class Part:
    """A part of a program: a row of `parts` in its manifest.

    layer: the name of the operation in the model; "" if it has none. kind: ``contraction``, ``chain``, ``packing``,
    ``elementwise``, ``reduction``, ``gather``, ``fill``, ``copy``, ``transpose``, ``broadcast``, or the name of another
    operation. contraction: its number in the manifest's `contractions`, if it has one; of a chain, which has the name
    of its first step that has one, that of its last contraction. bytes: the size of operands and results, each counted
    once; None if it is known at run time only. role: as in the table of a policy; "" if it is not known,
    as in passes. after: the numbers of the parts that have to end before it begins.
    """

    layer: str
    kind: str
    contraction: int | None = None
    bytes: int | None = None
    role: str = ""
    after: list[int] = field(default_factory=list)


def mark_parts(module: ir.Operation) -> None:
    """Mark where every part of @main begins and ends, for profiles, and list the parts."""
    with module.context, ir.Location.unknown():
        main = linalg.main(module)
        declared = parsed(f"llvm.func @{MARK}(i64, i64)").body.operations[0].operation.clone()
        ir.InsertionPoint(module.regions[0].blocks[0]).insert(declared)
        marker = _Marker(_defined(module), main)
        marker.mark(main)
        after, used = dependences(main, marker.numbers)
        parts = (replace(part, after=sorted(before)) for part, before in zip(marker.parts, after, strict=True))
        facts.put(module, PARTS, [asdict(part) for part in parts])
        facts.put(module, BUFFERS, [asdict(buffer) for buffer in used])


def parts_of(module: ir.Operation) -> list[Part]:
    """The parts of a module that were marked, by their numbers."""
    return [Part(**row) for row in facts.get(module, PARTS, [])]


def buffers_of(module: ir.Operation) -> list[UsedBuffer]:
    """The buffers that the parts of a module use."""
    return [UsedBuffer(**row) for row in facts.get(module, BUFFERS, [])]


def _defined(module: ir.Operation) -> set[str]:
    """The functions of the program: those that a module defines, and kernels, which may have left it already."""
    functions = [op.operation for op in module.regions[0].blocks[0].operations if op.operation.regions]
    ours = [f for f in functions if f.regions[0].blocks or facts.KERNEL in f.attributes]
    return {ir.StringAttr(f.attributes["sym_name"]).value for f in ours}


def _is_loops(op: ir.Operation) -> bool:
    return op.name.split(".")[0] in ("linalg", "tm_tensor") and not op.results


class _Marker:
    """Writes the marks, and collects the parts."""

    def __init__(self, functions: set[str], main: ir.Operation) -> None:
        self._functions = functions
        with ir.InsertionPoint.at_block_begin(main.regions[0].blocks[0]), ir.Location.unknown():
            self._between, self._zero = _number(_BETWEEN), _number(0)
        self.parts: list[Part] = []
        self.numbers: dict[ir.Operation, int] = {}

    def mark(self, parent: ir.Operation) -> None:
        """Mark the parts in the regions of an operation, in the order in which they run."""
        for block in (block for region in parent.regions for block in region.blocks):
            is_open = False
            for op in [op.operation for op in block.operations]:
                if self._is_part(op):
                    self._begin(op)
                    is_open = True
                    continue
                if is_open and op.name not in _FREE:
                    with ir.InsertionPoint(op), op.location:
                        _mark(self._between, self._zero)
                    is_open = False
                self.mark(op)

    def _is_part(self, op: ir.Operation) -> bool:
        if op.name == "func.call":
            return ir.FlatSymbolRefAttr(op.attributes["callee"]).value in self._functions
        return _is_loops(op) or is_chain(op)

    def _begin(self, op: ir.Operation) -> None:
        if is_chain(op):
            kind, number = "chain", next(iter(facts.get(op, ROWS)[-1:]), None)
        else:
            number = facts.get(op, NUMBER)
            kind = _kind(op) if number is None else "contraction"
        moved = _moved(op)
        sizes = [_static(group) for group in moved]
        known = None if None in sizes else sum(size for size in sizes if size is not None)
        # A contraction without a number is one that no observer sees, of a product that has other kernels, too.
        self.numbers[op] = len(self.parts)
        self.parts.append(Part(_layer(op), kind, None if number == -1 else number, known))
        with ir.InsertionPoint(op), op.location:
            _mark(_number(len(self.parts) - 1), self._zero if known is not None else _bytes(moved))


def _layer(op: ir.Operation) -> str:
    """The name of an operation; of a copy that bufferization made, the name of what is copied."""
    makers = (linalg.maker(value) for value in op.operands)
    return next(filter(None, map(linalg.name_of, filter(None, (op, *makers)))), "")


def _number(number: int) -> ir.Value:
    return arith.ConstantOp(ir.IntegerType.get_signless(64), number).result


def _mark(part: ir.Value, bytes_: ir.Value) -> None:
    """Call the runtime, as later passes would write it: there may be hundreds of marks, and each pass takes time."""
    callee = {"callee": ir.FlatSymbolRefAttr.get(MARK), "op_bundle_sizes": ir.DenseI32ArrayAttr.get([])}
    sizes = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([2, 0])}
    ir.Operation.create("llvm.call", operands=[part, bytes_], attributes={**callee, **sizes})


def _bytes(moved: Sequence[Moved]) -> ir.Value:
    """The bytes of memrefs whose sizes are known at run time only (i64)."""
    least = (functools.reduce(lambda a, b: arith.MinUIOp(a, b).result, map(_size, group)) for group in moved)
    total = functools.reduce(lambda a, b: arith.AddIOp(a, b).result, least)
    return arith.IndexCastOp(ir.IntegerType.get_signless(64), total).result


def _kind(op: ir.Operation) -> str:
    """The work of a linalg operation on memrefs, in one word."""
    if PACKS in op.attributes:
        return "packing"
    if op.name != "linalg.generic":
        return "call" if op.name == "func.call" else op.name.split(".")[-1]
    block = linalg.body(op)
    *body, end = [inner.operation for inner in block.operations]
    if linalg.reduces(op):
        return "reduction"
    if any(inner.name == "memref.load" for inner in linalg.operations(op)):
        return "gather"
    if body:
        return "elementwise"
    maps, inputs = linalg.indexing_maps(op), linalg.input_count(op)
    read = {ir.BlockArgument(v).arg_number for v in end.operands if isinstance(v.owner, ir.Block) and v.owner == block}
    if all(not isinstance(op.operands[n].type, ir.MemRefType) for n in read):
        return "fill"
    used = [maps[n] for n in read]
    if any(len(m.results) < len(maps[inputs].results) for m in used):
        return "broadcast"
    dims = [[e.position for e in m.results if isinstance(e, ir.AffineDimExpr)] for m in used]
    return "copy" if all(each == sorted(each) for each in dims) else "transpose"


def _moved(op: ir.Operation) -> list[Moved]:
    """The memrefs that a part reads and writes: each alone, or with the result that bounds how much of it is read."""
    results = (
        [op.operands[n] for n in range(linalg.input_count(op), len(op.operands))] if op.name == "linalg.generic" else []
    )
    operands = list(op.operands)[SEEN in op.attributes :]
    moved: dict[ir.Value, Moved] = {v: (v,) for v in operands if isinstance(v.type, ir.MemRefType)}
    for value in linalg.captured(op)[1] if op.regions else ():
        if isinstance(value.type, ir.MemRefType):  # elements that are looked up, one for each result
            moved.setdefault(value, (value, *results[:1]))
    return list(moved.values())


def _static(group: Moved) -> int | None:
    """The bytes of memrefs, of several the least; None if a size is known at run time only."""
    memref_types = [ir.MemRefType(value.type) for value in group]
    if not all(memref_type.has_static_shape for memref_type in memref_types):
        return None
    return min(int(prod(memref_type.shape)) * _width(memref_type) for memref_type in memref_types)


def _width(kind: ir.MemRefType) -> int:
    return WIDTHS.get(str(kind.element_type), 8)


def _size(value: ir.Value) -> ir.Value:
    """The bytes of a memref (index)."""
    memref_type, index = ir.MemRefType(value.type), ir.IndexType.get()
    known = prod(memref_type.get_dim_size(n) for n in range(memref_type.rank) if not memref_type.is_dynamic_dim(n))
    size = arith.ConstantOp(index, known * _width(memref_type)).result
    for n in range(memref_type.rank):
        if memref_type.is_dynamic_dim(n):
            size = arith.MulIOp(size, memref.DimOp(value, arith.ConstantOp(index, n).result).result).result
    return size
