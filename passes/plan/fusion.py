"""Operations that can run in the kernel of a contraction: what fills its accumulators, and the reader of its result."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.buffers.views import VIEWS, buffers
from numc.passes.explicit.width_slots import measures
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.tasks.interface import Emit
from numc.passes.plan.vector_body import constant, vector_body

_NO_WRITES = (*VIEWS, "memref.reshape", "memref.dim", "memref.load")


@dataclass(frozen=True)
class Elementwise:
    """An elementwise operation beside a contraction: memref operands and output with their indexing maps, and its body.

    arguments: what each argument of the body is: the lanes of an operand (its number), a constant, or the result of the
    contraction (None).
    """

    op: ir.Operation
    operands: tuple[tuple[ir.Value, ir.AffineMap], ...]
    output: tuple[ir.Value, ir.AffineMap]
    body: Emit
    arguments: tuple[int | float | None, ...]

    def prologue(self, code: Code, operands: Sequence[Value]) -> Value:
        """Append the body, given the lanes of the operands; returns the initial accumulators."""
        return self.body(code, [self._argument(code, a, operands) for a in self.arguments])

    def epilogue(self, code: Code, operands: Sequence[Value], result: Value) -> Value:
        """Append the body, given the lanes of the operands and of the contraction's result; returns what is stored."""
        return self.body(code, [result if a is None else self._argument(code, a, operands) for a in self.arguments])

    def _argument(self, code: Code, which: int | float | None, operands: Sequence[Value]) -> Value:
        assert which is not None
        return operands[which] if isinstance(which, int) else code.f32(which)

    @property
    def elements(self) -> tuple[str, ...]:
        """The types of the elements of the operands."""
        return tuple(str(ir.MemRefType(value.type).element_type) for value, _ in self.operands)

    @property
    def form(self) -> str:
        """All that the code of `prologue` and `epilogue` depends on: what is equal in it has the same code."""
        if self.op.name == "memref.copy":
            return "copy"
        arguments = (
            str(self.op.operands[n].owner.attributes["value"]) if isinstance(a, float) else str(a)
            for n, a in enumerate(self.arguments[:-1])
        )
        return f"{', '.join(arguments)}\n{linalg.body_text(self.op)}"

    @property
    def text(self) -> str:
        """The names of its operations, for the reader of a plan."""
        if self.op.name == "memref.copy":
            return "copy"
        *inner, end = [op.operation for op in linalg.body(self.op).operations]
        if inner:
            return ", ".join(op.name for op in inner)
        (value,) = end.operands
        is_argument = isinstance(value.owner, ir.Block)
        source = self.arguments[ir.BlockArgument(value).arg_number] if is_argument else constant(value)
        return f"fill with {source}" if isinstance(source, float) else "copy"


def _all_buffers(values: Iterable[ir.Value]) -> set[ir.Value]:
    return {buffer for value in values if isinstance(value.type, ir.MemRefType) for buffer in buffers(value)}


def producer(generic: ir.Operation, buffer: ir.Value) -> Elementwise | None:
    """The operation that fills `buffer` right before `generic`, reads nothing of it, and can move next to it."""
    if isinstance(buffer.owner, ir.Block) or buffer.owner.name != "memref.alloc":
        return None
    earlier = [op for op in touching((buffer,), generic.block) if op.is_before_in_block(generic)]
    op = earlier[-1] if earlier else None
    if op is None or op.name not in ("linalg.generic", "memref.copy") or op.operands[len(op.operands) - 1] != buffer:
        return None
    elementwise = _elementwise(op, None)
    if elementwise is None:
        return None
    inputs = _all_buffers(value for value, _ in elementwise.operands)
    return elementwise if not any(inputs & written(other) for other in between(op, generic, inputs)) else None


def consumer(
    generic: ir.Operation, buffer: ir.Value, first: Elementwise | None, others: Iterable[ir.Value]
) -> Elementwise | None:
    """The elementwise operation that alone reads the result in `buffer`, if the contraction can move down to it.

    `first` is the producer that moves with the contraction; `others`: what the contraction will read as well.
    """
    if isinstance(buffer.owner, ir.Block) or buffer.owner.name != "memref.alloc":
        return None
    inputs = _all_buffers(o for o in (*generic.operands, *others) if o != buffer)
    if first is not None:
        inputs |= _all_buffers(value for value, _ in first.operands)
    later = [op for op in touching((buffer,), generic.block) if generic.is_before_in_block(op)]
    op = later[0] if later else None
    elementwise = _elementwise(op, buffer) if op is not None and op.name == "linalg.generic" else None
    if op is None or elementwise is None:
        return None
    in_place = elementwise.output[0] == buffer
    if not in_place and any(other.name != "memref.dealloc" for other in later[1:]):
        return None
    if buffers(elementwise.output[0]) & inputs:
        return None
    if measures(generic) and _measured_between(generic, op):
        return None
    meanwhile = between(generic, op, inputs)
    if any(inputs & written(other) for other in meanwhile if other.name != "memref.dealloc"):
        return None
    for other in meanwhile:  # what the contraction reads must live until it runs
        if other.name == "memref.dealloc" and buffers(other.operands[0]) & inputs:
            other.move_after(op)
    return elementwise


def _measured_between(first: ir.Operation, last: ir.Operation) -> bool:
    """Whether a contraction between two operations of a block may measure what the first one does (measured_first)."""
    inside = (op.operation for op in first.block.operations)
    return any(measures(op) for op in inside if first.is_before_in_block(op) and op.is_before_in_block(last))


def _elementwise(op: ir.Operation, buffer: ir.Value | None) -> Elementwise | None:
    """`op` beside the contraction that owns `buffer`, if its loops are parallel and its body simple."""
    if op.name == "memref.copy":
        source, target = op.operands
        identity = ir.AffineMap.get_identity(ir.MemRefType(target.type).rank)
        return Elementwise(op, ((source, identity),), (target, identity), _same, (0,))
    inputs = linalg.input_count(op)
    body, maps = vector_body(op), linalg.indexing_maps(op)
    if body is None or len(op.operands) != inputs + 1 or linalg.reduces(op):
        return None
    output = (op.operands[inputs], maps[inputs])
    reads_output = any(True for _ in linalg.body(op).arguments[inputs].uses)
    if reads_output or not output[1].is_permutation:
        return None
    operands: list[tuple[ir.Value, ir.AffineMap]] = []
    arguments: list[int | float | None] = []
    for value, map_ in list(zip(op.operands, maps, strict=True))[:inputs]:
        if buffer is not None and value == buffer:
            if map_ != output[1]:
                return None
            arguments.append(None)
        elif isinstance(value.type, ir.MemRefType):
            arguments.append(len(operands))
            operands.append((value, map_))
        elif (number := constant(value)) is not None:
            arguments.append(number)
        else:
            return None
    if any(_skips(value, map_, output[1]) for value, map_ in operands):
        return None
    return Elementwise(op, tuple(operands), output, body, (*arguments, 0.0))


def _skips(value: ir.Value, map_: ir.AffineMap, output: ir.AffineMap) -> bool:
    """Whether neighbours of the output want elements of `value` that are some apart in its last dimension.

    A kernel would take elements of all that it reads one by one; a loop of its own reads every other one in vectors.
    """
    if not map_.results or not output.results:
        return False
    linear, strides = linalg.linear(map_.results[-1]), ir.MemRefType(value.type).get_strides_and_offset()[0]
    return linear is not None and linear[0].get(output.results[-1].position, 0) * strides[-1] not in (0, 1)


def touching(memory: Iterable[ir.Value], block: ir.Block) -> list[ir.Operation]:
    """The operations of a block that take one of these buffers, or a view of it, themselves or inside, in their order.

    It follows the uses from the buffers to what is made of them: the time does not depend on the size of the block.
    """
    touched: dict[ir.Operation, None] = {}
    seen = set(memory)
    waiting = list(seen)
    while waiting:
        for use in waiting.pop().uses:
            user = use.owner.operation
            if (top := ancestor(user, block)) is not None:
                touched[top] = None
            for made in (*user.results, *_yielded(user)):
                if isinstance(made.type, ir.MemRefType) and made not in seen:
                    seen.add(made)
                    waiting.append(made)
    return sorted(touched, key=functools.cmp_to_key(_by_place))


def _by_place(one: ir.Operation, other: ir.Operation) -> int:
    return -1 if one.is_before_in_block(other) else 1


def between(first: ir.Operation, last: ir.Operation, memory: Iterable[ir.Value]) -> list[ir.Operation]:
    """The operations between two of a block that take one of these buffers, see `touching`."""
    touched = touching(memory, first.block)
    return [op for op in touched if first.is_before_in_block(op) and op.is_before_in_block(last)]


def _yielded(op: ir.Operation) -> Sequence[ir.Value]:
    """The results of the operation around `op`, if `op` ends a block of it, which gives its operands to them."""
    results: Sequence[ir.Value] = () if op.parent is None else op.parent.operation.results
    return results if results and list(op.block.operations)[-1].operation == op else ()


def ancestor(op: ir.Operation, block: ir.Block) -> ir.Operation | None:
    """The operation of `block` that is `op` or has it inside."""
    while op.block != block:
        if op.parent is None or op.parent.name == "func.func":
            return None
        op = op.parent.operation
    return op


def written(op: ir.Operation) -> set[ir.Value]:
    """The buffers that `op` may write (or free)."""
    written: set[ir.Value] = set()
    for inner in linalg.operations(op):
        memrefs = [v for v in inner.operands if isinstance(v.type, ir.MemRefType)]
        if inner.name in _NO_WRITES:
            continue
        if inner.name == "linalg.generic":
            memrefs = [
                v for v in list(inner.operands)[linalg.input_count(inner) :] if isinstance(v.type, ir.MemRefType)
            ]
        elif inner.name == "memref.copy":
            memrefs = memrefs[1:]
        written |= _all_buffers(memrefs)
    return written


def overwrites(writer: ir.Operation) -> bool:
    """Whether an operation writes all elements of its output, and reads none."""
    if writer.name == "memref.copy":
        return True
    count = linalg.input_count(writer)
    alone = len(writer.operands) == count + 1 and not linalg.reduces(writer)
    return (
        alone
        and linalg.is_unused(linalg.body(writer).arguments[count])
        and bool(linalg.indexing_maps(writer)[count].is_permutation)
    )


def prologue_of(first: Elementwise | None) -> tuple[Emit, tuple[str, ...]]:
    """The initial accumulators, with the types of the values they are made from: by default what the output holds."""
    return (_same, ("f32",)) if first is None else (first.prologue, first.elements)


def epilogue_of(last: Elementwise | None) -> tuple[Emit, tuple[str, ...]]:
    """The results, with the types of the values they are made from, of which the first are the accumulators."""
    if last is None:
        return _same, ("f32",)
    return lambda code, values: last.epilogue(code, values[1:], values[0]), ("f32", *last.elements)


def _same(_: Code, values: Sequence[Value]) -> Value:
    return values[0]


def text_of(edge: Elementwise | None) -> str:
    """The computation of a prologue or an epilogue in words, for the reader of a plan."""
    return "none" if edge is None else edge.text
