"""The order of the parts of @main that has to be kept, found from the buffers that its parts read and write.

Two parts depend on each other if one of them writes what the other one reads or writes, or if a number that is computed
from what one has written is given to the other. Parts of a buffer that static sizes show to be apart are different
memory. Random bits are no dependence, because every draw has a number of its own. Parts of a loop run in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from torch_mlir import ir

from numc.passes import facts, linalg
from numc.passes.buffers.loop_nest import WIDTHS
from numc.passes.buffers.views import VIEWS, buffers

NUMBER = "numc.number"
"""On a call of a contraction: its number among the contractions, -1 if it has none."""
PACKS = "numc.packs"
"""On a call that packs its second operand into its first one."""
SEEN = "numc.seen"
"""On a call of a contraction whose first operand is read only if an observer looks on."""
BUFFERS = "numc.buffers"

_FREE = (*VIEWS, "memref.alloc", "memref.dealloc", "memref.dim", "memref.get_global", "func.return")
_DYNAMIC = -(1 << 63)

Box = tuple[tuple[float, float], ...] | None
"""The indices of a part of a buffer, for every dimension from where to where; None is all of it."""
Parts = frozenset[int]


@dataclass(frozen=True)
class UsedBuffer:
    """A buffer of a program: a row of `buffers` in its manifest.

    bytes: its size; None if it is known at run time only. parts: the numbers of those that use it, in order. result:
    whether the program may return it.
    """

    bytes: int | None
    parts: list[int]
    result: bool


@dataclass
class _Log:
    """Who has read and written a buffer so far, and which part of it. users: all parts of the program that do."""

    reads: list[tuple[Box, Parts]] = field(default_factory=list)
    writes: list[tuple[Box, Parts]] = field(default_factory=list)
    users: set[int] = field(default_factory=set)


def dependences(main: ir.Operation, numbers: Mapping[ir.Operation, int]) -> tuple[list[Parts], list[UsedBuffer]]:
    """Return for every part the parts that have to end before it begins, and the buffers that @main allocates.

    numbers: of the operations that are parts, in the order of the program.
    """
    graph = _Dependences(numbers)
    for op in main.regions[0].blocks[0].operations:
        graph.add(op.operation)
    return graph.after, graph.used()


class _Dependences:
    """The dependences of the operations that were added so far."""

    def __init__(self, numbers: Mapping[ir.Operation, int]) -> None:
        self.after: list[Parts] = [frozenset()] * len(numbers)
        self._numbers = numbers
        self._logs: dict[ir.Value, _Log] = {}
        self._sources: dict[ir.Value, Parts] = {}  # the parts from whose results a value was computed
        self._returned: set[ir.Value] = set()

    def add(self, op: ir.Operation) -> None:
        """Add the next operation of @main."""
        if op.name == "arith.constant" or (op.name == "llvm.call" and not op.results):
            return  # most operations: constants, and the marks of parts
        inside = list(linalg.operations(op)) if op.regions else [op]
        parts = sorted(self._numbers[inner] for inner in inside if inner in self._numbers)
        before: set[int] = set()
        for inner in inside:
            for value in inner.operands:
                before |= self._sources.get(value, frozenset())
        accesses = [(log, box, writes) for value, writes in _accesses(op) for log, box in self._places(value)]
        for log, box, writes in accesses:
            for other, who in (*log.writes, *(log.reads if writes else ())):
                if _overlap(box, other):
                    before |= who
        for number, previous in zip(parts, (None, *parts), strict=False):
            self.after[number] = frozenset(before) if previous is None else frozenset((previous,))
        who = frozenset(parts[-1:]) or frozenset(before)
        for log, box, writes in accesses:
            log.users.update(parts)
            if writes and box is None:
                log.reads, log.writes = [], []
            if who:
                (log.writes if writes else log.reads).append((box, who))
        if who:
            self._sources.update((result, who) for result in op.results)
        if op.name == "func.return":
            for value in op.operands:
                if isinstance(value.type, ir.MemRefType):
                    self._returned |= buffers(value)

    def _places(self, value: ir.Value) -> Iterator[tuple[_Log, Box]]:
        """The buffers that `value` may be in, and which part of each."""
        box, at = None, value
        while (maker := linalg.maker(at)) is not None and maker.name in (*VIEWS, "memref.reshape"):
            if maker.name == "memref.subview":
                box = _box(maker)
            elif maker.name != "memref.cast":
                box = None  # the indices of a part of another shape are not those of the buffer
            at = maker.operands[0]
        if maker is not None and maker.name not in ("memref.alloc", "memref.get_global"):
            for other in buffers(at):
                yield self._logs.setdefault(other, _Log()), None
        else:
            yield self._logs.setdefault(at, _Log()), box

    def used(self) -> list[UsedBuffer]:
        """The buffers that are allocated for parts."""
        used = []
        for value, log in self._logs.items():
            maker = linalg.maker(value)
            if maker is not None and maker.name == "memref.alloc" and log.users:
                used.append(UsedBuffer(_bytes(value), sorted(log.users), value in self._returned))
        return used


def _accesses(op: ir.Operation) -> Iterator[tuple[ir.Value, bool]]:
    """The memrefs that an operation, or one inside of it, reads, and whether it may write them, too."""
    operands = [value for value in op.operands if isinstance(value.type, ir.MemRefType)]
    if op.name == "memref.reshape":
        yield operands[1], False
    elif op.name == "memref.load":
        yield operands[0], False
    elif op.name == "memref.copy":
        yield from zip(operands, (False, True), strict=True)
    elif op.name == "linalg.generic":
        inputs = linalg.input_count(op)
        for n, value in enumerate(op.operands):
            if isinstance(value.type, ir.MemRefType):
                yield value, n >= inputs
    elif PACKS in op.attributes:
        yield from zip(operands, (True, False), strict=True)
    elif facts.get(op, NUMBER) is not None:
        for value in operands:
            yield value, value == operands[-1]
    elif op.name not in _FREE:
        results = [value for value in op.results if isinstance(value.type, ir.MemRefType)]
        for value in (*operands, *results):
            yield value, True
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _accesses(inner.operation)


def _box(subview: ir.Operation) -> Box:
    """The box of a memref.subview in its source; what is known at run time only is everything."""
    offsets, sizes, strides = (
        list(ir.DenseI64ArrayAttr(subview.attributes[f"static_{name}"])) for name in ("offsets", "sizes", "strides")
    )
    return tuple(
        (-float("inf"), float("inf")) if _DYNAMIC in (offset, size, stride) else (offset, offset + (size - 1) * stride)
        for offset, size, stride in zip(offsets, sizes, strides, strict=True)
    )


def _overlap(one: Box, other: Box) -> bool:
    if one is None or other is None:
        return True
    return all(low <= end and begin <= high for (low, high), (begin, end) in zip(one, other, strict=True))


def _bytes(buffer: ir.Value) -> int | None:
    memref_type = ir.MemRefType(buffer.type)
    return (
        int(prod(memref_type.shape)) * WIDTHS.get(str(memref_type.element_type), 8)
        if memref_type.has_static_shape
        else None
    )
