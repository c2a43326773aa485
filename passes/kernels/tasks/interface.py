"""The common part of the functions of a contraction: what tells one task from another, and the context that they read.

The names of all these functions begin with `SELF`, which is replaced by the name of the task function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from numc.passes.kernels.abi import STREAM, TASK_CONTEXT
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.ssa import PTR, Type, Value
from numc.passes.kernels.tasks.plane import Plane

#: The name of the task function in its text.
SELF = "SELF"

#: What appends straight-line code, given the lanes of its inputs, and returns its result.
Emit = Callable[[Code, Sequence[Value]], Value]

_SHORT = 24  # operations on a vector that may be written once for each vector of a tile


@dataclass(frozen=True)
class Stream:
    """An operand of the prologue or the epilogue, or the output.

    along: it differs from lane to lane; of transposed tiles, from row to row. element: the type of its elements: f32,
    or integers, which can be the codes of a format in the output. splat: it differs from one run of lanes to the next,
    but not in a run, as a factor for every channel of an image does where images are lanes, too.
    """

    along: bool
    element: str = "f32"
    splat: bool = False


@dataclass(frozen=True, kw_only=True)
class Task:
    """The facts that tell one task function from another.

    packed: the side that is packed already: ``rows``, ``lanes`` or nothing. unpacked_steps: the number of
    steps of k if the lanes are read where they are (unpacked_row.py), else 0. in_registers: whole tiles stay in
    registers from their initial values to the epilogue (register_tile.py). plane: the padded plane that lanes are read
    from, if one is made (plane.py). transposed: the rows of the output are adjacent in memory, not its lanes, and tiles
    are transposed on their way in and out (transposed_edges.py). prologue: the initial accumulators from the lanes of
    its streams; epilogue: the results from the accumulators and the lanes of its streams. Streams are numbered: those
    of the prologue, those of the epilogue, the output.
    """

    kernel: Kernel
    packed: str
    unpacked_steps: int
    in_registers: bool
    plane: Plane | None
    transposed: bool
    prologue: Emit
    epilogue: Emit
    prologue_streams: tuple[Stream, ...]
    epilogue_streams: tuple[Stream, ...]
    output: Stream

    @property
    def ready(self) -> str:
        """The side whose packed panels micro-kernels read where they are; other ones are expanded."""
        return "" if self.kernel.expands else self.packed

    @property
    def keeps_lanes(self) -> bool:
        """Whether a task packs all of its lanes first: rows of tiles write longer runs of memory than columns do.

        Processors fetch such runs ahead, which matters where a step of k is one FMA.
        """
        no_groups = self.kernel.grouped("lanes") is None
        return self.in_registers and self.packed != "lanes" and self.kernel.limits is None and no_groups

    @property
    def reads_in_place(self) -> bool:
        """Whether tiles in registers can read whole panels of lanes where the operand is: nothing is converted."""
        return self.keeps_lanes and not self.kernel.converts("lanes") and not self.kernel.lanes.in_place

    @property
    def streams(self) -> tuple[Stream, ...]:
        """All streams, the output last."""
        return (*self.prologue_streams, *self.epilogue_streams, self.output)


def is_short(width: int, *edges: tuple[Emit, Sequence[str]]) -> bool:
    """Whether prologue and epilogue, each with the types of its inputs, are so little code that it may be repeated."""
    code = Code(width)
    for emit, inputs in edges:
        emit(code, [Value("%x", Type(element, width)) for element in inputs])
    return len(code.lines) <= _SHORT and not any(" = math." in line for line in code.lines)


def context(f: Function, *names: str) -> list[Value]:
    """Load the words of the context called `names`."""
    return [f.fetch(f["context"], TASK_CONTEXT.word(name), TASK_CONTEXT.field(name).mlir_type) for name in names]


def stream_base(f: Function, number: int, stream: Stream) -> tuple[Value, Value, Value]:
    """Where a batch of a stream begins, and the tables of its offsets along rows and lanes."""
    first = TASK_CONTEXT.words + STREAM.words * number
    data, batches, rows, lanes = (f.fetch(f["context"], first + n, PTR) for n in range(STREAM.words))
    return f.at(data, f.fetch(batches, f["batch"]), stream.element), rows, lanes


def stream_places(f: Function, task: Task, lane: Value, row: Value) -> list[Value]:
    """The addresses of `lane` of `row` in all streams, the output last."""
    addresses = []
    for number, stream in enumerate(task.streams):
        base, rows, lanes = stream_base(f, number, stream)
        line = f.at(base, f.fetch(rows, row), stream.element)
        addresses.append(f.at(line, f.fetch(lanes, lane), stream.element) if stream.along else line)
    return addresses


def step(f: Function, stream: Stream, address: Value, lanes: Value | int) -> Value:
    """The address of a stream so many adjacent lanes further on."""
    return f.at(address, lanes, stream.element) if stream.along and not stream.splat else address


def load(code: Code, stream: Stream, address: Value, mask: Value | None = None) -> Value:
    """Append the lanes of one vector of a stream, those where the mask is true."""
    if stream.splat or not stream.along:
        return code.splat(address, stream.element)
    return code.load(address, mask, stream.element, alignment=Type(stream.element).bits // 8)


def store(code: Code, output: Stream, value: Value, address: Value, mask: Value | None = None) -> None:
    """Append the store of the lanes of one vector to the output, those where the mask is true."""
    code.store(value, address, mask, alignment=Type(output.element).bits // 8)


def run_from(f: Function, lane_run: Value, lane: Value) -> Value:
    """The number of lanes from `lane` on that are adjacent, or one, in every stream."""
    return f.i64("subi", lane_run, f.i64("remui", lane, lane_run))
