"""The function that describes one contraction to the runtime (kernels/contraction.cpp), and starts its tasks."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from numc.passes.buffers.loop_nest import WIDTHS, element
from numc.passes.kernels.abi import (
    CHANNELS,
    DESCRIPTOR,
    DRAWS,
    EXPANDS,
    LANES_PACKED,
    PACKS,
    ROWS_PACKED,
    TRANSPOSED_TILES,
    TURNS,
    WHOLE_LANES,
)
from numc.passes.kernels.builder import Function
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.convert_packed import panels_of
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.tasks.interface import SELF, Task
from numc.passes.kernels.tasks.measure import measure_name, measured
from numc.passes.kernels.tasks.plane import Plane
from numc.passes.kernels.tasks.shared_rows import pack_name, row_words, shares_rows
from numc.passes.plan.contraction import Found, Operand
from numc.passes.plan.weights import Packing, packed_batch

Word = int | Value


@dataclass(frozen=True)
class _Memory:
    """Where a memref is: address, offset, sizes and strides, in elements."""

    pointer: Value
    start: Word
    sizes: Sequence[Word]
    strides: Sequence[Word]


_WIDTHS = "rows_width", "lanes_width", "product_width"
#: The function of the runtime that tells whether an observer looks on.
WATCHED = "numc_watched"
_FLOAT = WIDTHS["f32"]


def numbers_of(found: Found) -> dict[str, int]:
    """The numbers that the function of a contraction is told about its run, by the names of its arguments.

    ``stream`` by the number of the operation; open widths by their slots.
    """
    asked = {"stream": found.number} if found.fma.draws else {}
    return asked | {name: slot for name, slot in zip(_WIDTHS, found.widths, strict=True) if slot is not None}


def call_text(
    name: str,
    task: Task,
    found: Found,
    operands: Sequence[Operand],
    packing: Packing | None,
    convert: str | None,
    calibrated: tuple[int, int] | None,
    watched: tuple[str, Operand] | None = None,
) -> str:
    """The function that runs the tasks ``@<name>`` of one contraction: ``@SELF(operands..., id, *numbers_of(found))``.

    operands: of rows and of lanes, one of which is packed already if there is a `packing`; the streams of prologue and
    epilogue; the output. With a plane, the operand of the lanes is what planes are made from: batches are apart as in
    memory, lanes and k as in a plane. convert: the function that converts the packed one, if its widths are open.
    calibrated: the largest magnitudes of rows and lanes, if they are given. watched: what takes the place of the tasks
    and of packed lanes if an observer looks on, who wants to see them before their conversion; it is the first operand.
    """
    order, draws = found.shape.order, task.kernel.fma.draws
    numbers = dict.fromkeys(("id", *numbers_of(found)), "i64")
    parameters = {} if watched is None else {len(operands): watched[1]}
    parameters |= dict(enumerate(operands))
    f = Function(SELF, {f"x{n}": str(o.value.type) for n, o in parameters.items()} | numbers)
    flags = {"": 0, "rows": ROWS_PACKED, "lanes": LANES_PACKED}[task.packed]
    flags |= (0 if task.plane is None else WHOLE_LANES) | (DRAWS if draws else 0)
    flags |= (EXPANDS if task.kernel.expands else 0) | (TRANSPOSED_TILES if task.transposed else 0)
    flags |= TURNS if task.kernel.rows.turned else 0
    t, shape = task.kernel.tile, found.shape
    packed = {"": -1, "rows": 0, "lanes": 1}[task.packed]
    described = [None if n == packed else _describe(f, n, o) for n, o in enumerate(operands)]
    if task.plane is not None:
        described[1] = _in_plane(described[1], task.plane, found)
    extents = {d: _extent(d, operands, described, found.sizes) for d in order}
    largest: list[Word] = [0, 0]
    words: list[Word] = [*extents.values()]
    for n, (operand, memory) in enumerate(zip(operands, described, strict=True)):
        if memory is None:
            assert packing is not None
            address = _address(f, f[f"x{n}"], operand.value.type)
            if convert is not None:
                address = _converted(f, address, task.kernel, packing=packing, convert=convert, widths=f[_WIDTHS[n]])
            largest[n] = _packed_largest(f, address, packing)
            words += [address, 0, *(_packed_stride(d, found, operand, packing) for d in order)]
            continue
        if n < 2:
            side = ("rows", "lanes")[n]
            largest[n] = _largest(f, task.kernel, side, memory, None if calibrated is None else calibrated[n])
        words += _stream(f, operand, memory, order)
    if draws:
        words += _element_strides(f, found, extents)
    fixed: dict[str, Word | list[Word]] = {
        "width": t.width,
        "tile_rows": t.rows,
        "tile_lanes": t.lanes,
        "flags": flags,
        "ranges": packing.shape[0] * packing.layout.batch_words(*packing.shape[1:]) if packing else 0,
        "streams": len(operands),
        "strides": [known.stride for known in (task.kernel.rows.adjacency, task.kernel.lanes.adjacency)],
        "splats": sum(1 << n for n, stream in enumerate(task.streams) if stream.splat),
        "largest": largest,
        "slots": [-1 if slot is None else slot for slot in found.widths[:2]],
        "measures": [_measure(f, name, task, side) for side in ("rows", "lanes")],
        "pack_rows": _address_of(f, pack_name(name)) if shares_rows(task) else 0,
        "k_block": t.k_block,
        "row_words": row_words(task),
        "widths": [f.arguments.get(each, 0) for each in _WIDTHS],
        "random": f["stream"] if draws else 0,
        "dims": [len(dims) for dims in (shape.batch, shape.rows, shape.lanes, shape.k)],
    }
    head: list[Word] = DESCRIPTOR.in_order(fixed)
    words = [*head, *words]
    start = _task(f, name)
    if watched is not None:
        fixed |= {"flags": flags & ~LANES_PACKED, "ranges": 0}
        lanes = _stream(f, watched[1], _describe(f, len(operands), watched[1]), order)
        lanes_start = len(head) + len(order) + len(lanes)  # the words of the rows are as many as those of the lanes
        apart: list[Word] = DESCRIPTOR.in_order(fixed)
        plain = [*apart, *words[len(head) : lanes_start], *lanes, *words[lanes_start + len(lanes) :]]
        (count,) = f.call(WATCHED, results="i32")
        looks_on = f.compare("ne", count, f.scalar.int(0))
        words = [_either(f, looks_on, plain_word, word) for plain_word, word in zip(plain, words, strict=True)]
        start = f.select(looks_on, _task(f, watched[0]), start)
    _start(f, start, f["id"], words)
    return f.function()


def _either(f: Function, condition: Value, one: Word, other: Word) -> Word:
    return one if one == other else f.select(condition, f.number(one), f.number(other))


def pack_text(name: str, task: Task, found: Found, packing: Packing) -> str:
    """The function that packs the lanes of contractions like `task` by ``@<name>``: ``@SELF(memory, lanes)``."""
    batch, lanes = packed_batch(found, found.lanes), found.lanes
    order, t = [*batch, *found.shape.lanes, *found.shape.k], task.kernel.tile
    memory = ir.MemRefType.get([packing.words], ir.F32Type.get())
    f = Function(SELF, {"x0": str(memory), "x1": str(lanes.value.type)})
    words: list[Word] = [found.sizes[d] for d in order]
    words += [_address(f, f["x0"], memory), 0, *[0] * len(order)]
    words += _stream(f, lanes, _describe(f, 1, lanes), order)
    fixed: dict[str, Word | list[Word]] = {
        "width": t.width,
        "tile_rows": t.rows,
        "tile_lanes": t.lanes,
        "flags": ROWS_PACKED | PACKS,
        "ranges": packing.shape[0] * packing.layout.batch_words(*packing.shape[1:]),
        "streams": 2,
        "strides": [known.stride for known in (task.kernel.rows.adjacency, task.kernel.lanes.adjacency)],
        "splats": 0,
        "largest": [0, 0],
        "slots": [-1, -1],
        "measures": [0, 0],
        "pack_rows": 0,
        "k_block": 0,
        "row_words": 0,
        "widths": [0, 0, 0],
        "random": 0,
        "dims": [len(batch), 0, len(found.shape.lanes), len(found.shape.k)],
    }
    head: list[Word] = DESCRIPTOR.in_order(fixed)
    _start(f, _task(f, name), f.number(-1), [*head, *words])
    return f.function()


def _converted(f: Function, address: Value, kernel: Kernel, packing: Packing, convert: str, widths: Value) -> Value:
    """The address of a packed weight that is converted to `widths`."""
    side = packing.layout.side
    data = f.op(f"llvm.inttoptr {address} : i64 to {PTR}", PTR)
    task = f.op(f"llvm.mlir.addressof @{convert} : {PTR}", PTR)
    sizes = f.number(packing.words), f.number(panels_of(kernel, side, packing.shape))
    (converted,) = f.call("numc_converted", data, *sizes, widths, task, results="i64", dialect="llvm")
    return converted


def _measure(f: Function, name: str, task: Task, side: str) -> Word:
    """The address of the function that measures an operand, or null."""
    if side not in measured(task):
        return 0
    return _address_of(f, measure_name(name, side))


def _address_of(f: Function, name: str) -> Value:
    """The address of a function, as i64."""
    function = f.op(f"llvm.mlir.addressof @{name} : {PTR}", PTR)
    return f.op(f"llvm.ptrtoint {function} : {PTR} to i64", "i64")


def _stream(f: Function, operand: Operand, memory: _Memory, order: Sequence[int]) -> list[Word]:
    """The words of an operand: its address, where it begins, and its strides along all dimensions."""
    start = memory.start
    by_dimension: dict[int, list[Word]] = {d: [] for d in order}
    for (coefficients, constant), stride in zip(operand.places, memory.strides, strict=True):
        if constant:
            start = f.i64("addi", start, f.i64("muli", stride, constant))
        for d, factor in coefficients.items():
            by_dimension[d].append(stride if factor == 1 else f.i64("muli", stride, factor))
    words = [memory.pointer, start]
    if (size := WIDTHS[element(operand.value.type)]) != _FLOAT:  # the runtime counts in f32 numbers
        words = [f.i64("addi", memory.pointer, f.i64("muli", start, size)), 0]
    for d in order:
        terms = by_dimension[d] or [0]
        words.append(functools.reduce(lambda total, term: f.i64("addi", total, term), terms))
    return words


def _task(f: Function, name: str) -> Value:
    return f.op(f"llvm.mlir.addressof @{name} : {PTR}", PTR)


def _start(f: Function, task: Value, id_: Value, words: Sequence[Word]) -> None:
    """Store the words of the descriptor, and give it to the runtime with the task function."""
    descriptor = _stored(f, words)
    f.call("numc_contract", task, descriptor, id_, dialect="llvm")


def _stored(f: Function, words: Sequence[Word]) -> Value:
    """Room on the stack that holds `words`."""
    room = f.alloca(max(1, len(words)), "i64")
    for n, word in enumerate(words):
        f.line(f"llvm.store {f.number(word)}, {f.at(room, n, 'i64')} : i64, {PTR}")
    return room


def _element_strides(f: Function, found: Found, extents: Mapping[int, Word]) -> list[Word]:
    """The distance of one step along each dimension in the row-major indices of the output's elements."""
    strides: dict[int, Word] = {}
    stride: Word = 1
    for coefficients, _ in reversed(found.out.places):
        (d,) = coefficients
        strides[d] = stride
        stride = f.i64("muli", extents[d], stride)
    return [strides.get(d, 0) for d in found.shape.order]


def _address(f: Function, memref: Value, kind: ir.Type) -> Value:
    """The address of a memref's first element, as i64."""
    index = f.op(f"memref.extract_aligned_pointer_as_index {memref} : {kind} -> index", "index")
    return f.cast("index_cast", index, "i64")


def _describe(f: Function, n: int, operand: Operand) -> _Memory:
    """Where operand number `n` is."""
    memref_type = ir.MemRefType(operand.value.type)
    memref = f"memref<{memref_type.element_type}>"
    parts = [memref, *["index"] * (1 + 2 * memref_type.rank)]
    base, *numbers = f.several(
        f"memref.extract_strided_metadata {f[f'x{n}']} : {memref_type} -> {', '.join(parts)}", *parts
    )
    index = f.op(f"memref.extract_aligned_pointer_as_index {base} : {memref} -> index", "index")
    pointer, start, *words = [f.cast("index_cast", number, "i64") for number in (index, *numbers)]
    return _Memory(pointer, start, words[: memref_type.rank], words[memref_type.rank :])


def _in_plane(source: _Memory | None, plane: Plane, found: Found) -> _Memory:
    """An operand with the sizes and strides of its plane where they are not those of batches."""
    assert source is not None
    inside = iter(zip(plane.sizes, plane.pitches, strict=True))
    batch = set(found.shape.batch)
    dims = [
        (source.sizes[n], source.strides[n]) if set(coefficients) & batch else next(inside)
        for n, (coefficients, _) in enumerate(found.lanes.places)
    ]
    return _Memory(source.pointer, source.start, [size for size, _ in dims], [stride for _, stride in dims])


def _largest(f: Function, kernel: Kernel, side: str, memory: _Memory, calibrated: int | None) -> Word:
    """The largest magnitude of an operand, if its conversion depends on that; of channels the runtime finds them."""
    to = kernel.grouped(side)
    if to is not None and to.channel:
        return CHANNELS
    if calibrated is not None:
        return calibrated
    if to is None or not to.format.shares_tensor:
        return 0
    data = f.at(f.op(f"llvm.inttoptr {memory.pointer} : i64 to {PTR}", PTR), memory.start)
    extents = _stored(f, [*memory.sizes, *memory.strides])
    finite = f.int(int(to.format.finite_only))
    (largest,) = f.call(
        "numc_largest", data, f.number(len(memory.sizes)), extents, finite, results="i32", dialect="llvm"
    )
    return f.cast("extui", largest, "i64")


def _packed_largest(f: Function, address: Value, packing: Packing) -> Word:
    """The word of the largest magnitude of a packed weight: its last word; of channels, where they begin."""
    if not packing.groups:
        return 0
    offset = packing.words - packing.layout.largest_words(packing.shape[1])
    if packing.layout.channel:
        return f.i64("addi", address, 4 * offset)
    data = f.op(f"llvm.inttoptr {address} : i64 to {PTR}", PTR)
    return f.cast("extui", f.fetch(data, offset, "i32"), "i64")


def _extent(d: int, operands: Sequence[Operand], described: Sequence[_Memory | None], known: Mapping[int, int]) -> Word:
    """The size of one dimension of the contraction."""
    for operand, memory in zip(operands, described, strict=True):
        for n, linear in enumerate(operand.places):
            if memory is not None and linear == ({d: 1}, 0):
                return memory.sizes[n]
    return known[d]  # only the packed weight has it: its sizes are static


def _packed_stride(d: int, found: Found, operand: Operand, packing: Packing) -> int:
    """The distance of two batches of a packed weight along one dimension."""
    batch = packed_batch(found, operand)
    if d not in batch:
        return 0
    inner = batch[batch.index(d) + 1 :]
    return math.prod(found.sizes[b] for b in inner) * packing.layout.batch_words(*packing.shape[1:])
