"""The function that describes one contraction to the runtime, and starts it (runtime/src/contract.cpp)."""

from __future__ import annotations

import functools
import math

from torch_mlir import ir

from numc.passes.kernels.builder import Function
from numc.passes.kernels.micro_kernel import Kernel
from numc.passes.kernels.tasks.edges import CHANNELS, DRAWS, LANES_PACKED, ROWS_PACKED, WHOLE_LANES
from numc.passes.plan.contraction import Found, Operand
from numc.passes.plan.padding import Plane
from numc.passes.plan.weights import Packing

_About = tuple[str, str, list[str | int], list[str | int]]


def call_text(
    task: str,
    kernel: Kernel,
    side: str,
    packing: Packing | None,
    found: Found,
    operands: list[Operand],
    plane: Plane | None,
    calibrated: tuple[int, int] | None = None,
) -> str:
    """The function that describes one contraction to the runtime (runtime/src/contract.cpp) and starts its tasks.

    With a plane, the operand of the lanes is what planes are made from: batches are apart as in memory, lanes and k as
    in a plane. calibrated: the largest magnitudes of rows and lanes, if they are given.
    """
    order, draws = found.shape.order, kernel.fma.draws
    numbers = dict.fromkeys(("%id", "%stream") if draws else ("%id",), "i64")
    f = Function("contraction", {f"%x{n}": str(o.value.type) for n, o in enumerate(operands)} | numbers)
    flags = {"": 0, "rows": ROWS_PACKED, "lanes": LANES_PACKED}[side]
    flags |= (0 if plane is None else WHOLE_LANES) | (DRAWS if draws else 0)
    groups = (found.shape.batch, found.shape.rows, found.shape.lanes, found.shape.k)
    ranges = packing.shape[0] * packing.layout.batch_words(*packing.shape[1:]) if packing else 0
    words: list[int | str] = [kernel.tile.width, kernel.tile.rows, kernel.tile.lanes, flags, ranges, len(operands)]
    largest = len(words)
    words += [0, 0, "%stream" if draws else 0]
    words += [len(group) for group in groups]
    weight = {"": -1, "rows": 0, "lanes": 1}[side]
    described = [None if n == weight else _describe(f, n, o) for n, o in enumerate(operands)]
    if plane is not None:
        described[1] = _in_plane(described[1], plane, found)
    extents = {d: _extent(f, d, operands, described, packing, found) for d in order}
    words += extents.values()
    for n, (operand, about) in enumerate(zip(operands, described, strict=True)):
        if about is None:
            assert packing is not None
            base = f.op(f"memref.extract_aligned_pointer_as_index %x{n} : {operand.value.type} -> index")
            address = f.cast("index_cast", base, "index", "i64")
            words[largest + n] = _packed_largest(f, address, packing)
            words += [address, 0]
            words += [_packed_stride(d, operand, packing, found) for d in order]
            continue
        pointer, start, _, strides = about
        channel = kernel.groups is not None and n < 2 and kernel.groups_of("rows" if n == 0 else "lanes").channel
        if channel:
            words[largest + n] = CHANNELS
        elif n < 2 and calibrated is not None:
            words[largest + n] = calibrated[n]
        elif n < 2:
            words[largest + n] = _largest(f, kernel, "rows" if n == 0 else "lanes", about)
        words.append(pointer)
        by_dimension: dict[int, list[int | str]] = {d: [] for d in order}
        for (coefficients, constant), stride in zip(operand.places, strides, strict=True):
            if constant:
                start = f.i64("addi", start, f.i64("muli", stride, constant))
            for d, factor in coefficients.items():
                by_dimension[d].append(stride if factor == 1 else f.i64("muli", stride, factor))
        words.append(start)
        for d in order:
            terms = by_dimension[d] or [0]
            words.append(functools.reduce(lambda total, term: f.i64("addi", total, term), terms))
    if draws:
        words += _element_strides(f, found, extents)
    size = f.number(len(words))
    place = f.op(f"llvm.alloca {size} x i64 : (i64) -> !llvm.ptr")
    for n, word in enumerate(words):
        f.line(f"llvm.store {f.number(word)}, {f.at(place, n, 'i64')} : i64, !llvm.ptr")
    address = f.op(f"llvm.mlir.addressof @{task} : !llvm.ptr")
    f.call("numc_contract", address, place, "%id", types="!llvm.ptr, !llvm.ptr, i64", dialect="llvm")
    return f.function()


def _element_strides(f: Function, found: Found, extents: dict[int, int | str]) -> list[int | str]:
    """How far one step along each dimension goes in the row-major indices of the output's elements."""
    strides: dict[int, int | str] = {}
    stride: int | str = 1
    for coefficients, _ in reversed(found.out.places):
        (d,) = coefficients
        strides[d] = stride
        stride = f.i64("muli", extents[d], stride)
    return [strides.get(d, 0) for d in found.shape.order]


def _describe(f: Function, n: int, operand: Operand) -> _About:
    """Pointer, offset, sizes and strides of a memref, as i64."""
    kind = ir.MemRefType(operand.value.type)
    rank = kind.rank
    sizes = f", %size{n}:{rank}, %stride{n}:{rank}" if rank else ""
    types = f" -> memref<f32>, index{', index' * 2 * rank}"
    f.line(f"%base{n}, %offset{n}{sizes} = memref.extract_strided_metadata %x{n} : {kind}{types}")
    pointer = f.op(f"memref.extract_aligned_pointer_as_index %base{n} : memref<f32> -> index")

    def number(name: str) -> str:
        return f.cast("index_cast", name, "index", "i64")

    names = [(f"%size{n}#{d}", f"%stride{n}#{d}") if rank > 1 else (f"%size{n}", f"%stride{n}") for d in range(rank)]
    return number(pointer), number(f"%offset{n}"), [number(s) for s, _ in names], [number(s) for _, s in names]


def _in_plane(source: _About | None, plane: Plane, found: Found) -> _About:
    """The description of an operand with the sizes and strides of its plane where they are not those of batches."""
    assert source is not None
    pointer, start, sizes, strides = source
    inside = iter(zip(plane.sizes, plane.pitches, strict=True))
    batch = set(found.shape.batch)
    dims = [
        (sizes[n], strides[n]) if set(coefficients) & batch else next(inside)
        for n, (coefficients, _) in enumerate(found.lanes.places)
    ]
    return pointer, start, [size for size, _ in dims], [stride for _, stride in dims]


def _largest(f: Function, kernel: Kernel, side: str, about: _About) -> int | str:
    """The largest magnitude of an operand, if its conversion depends on that."""
    if kernel.groups is None or not kernel.groups_of(side).format.shares_tensor:
        return 0
    pointer, start, sizes, strides = about
    data = f.at(f.op(f"llvm.inttoptr {pointer} : i64 to !llvm.ptr"), start)
    words = [*sizes, *strides]
    place = f.op(f"llvm.alloca {f.number(max(1, len(words)))} x i64 : (i64) -> !llvm.ptr")
    for n, word in enumerate(words):
        f.line(f"llvm.store {word}, {f.at(place, n, 'i64')} : i64, !llvm.ptr")
    finite = f.int(int(kernel.groups_of(side).format.finite_only))
    (found,) = f.call(
        "numc_largest", data, f.number(len(sizes)), place, finite,
        types="!llvm.ptr, i64, !llvm.ptr, i32", results="i32", dialect="llvm",
    )  # fmt: skip
    return f.cast("extui", found, "i32", "i64")


def _packed_largest(f: Function, address: str, packing: Packing) -> int | str:
    """The same of a packed weight: its last word; of channels, where they begin."""
    if packing.groups is None:
        return 0
    place = packing.layout.words(*packing.shape) - packing.layout.largest_words(packing.shape[1])
    if packing.layout.channel:
        return f.i64("addi", address, 4 * place)
    data = f.op(f"llvm.inttoptr {address} : i64 to !llvm.ptr")
    return f.cast("extui", f.fetch(data, place, "i32"), "i32", "i64")


def _extent(
    f: Function,
    d: int,
    operands: list[Operand],
    described: list[_About | None],
    packing: Packing | None,
    found: Found,
) -> int | str:
    """The size of one dimension of the contraction."""
    for operand, about in zip(operands, described, strict=True):
        for n, place in enumerate(operand.places):
            if about is not None and place == ({d: 1}, 0):
                return about[2][n]
    assert packing is not None  # only the packed weight has it: its sizes were static
    return packing.dims[d]


def _packed_stride(d: int, operand: Operand, packing: Packing, found: Found) -> int:
    """The distance of two batches of a packed weight along one dimension."""
    batch = [b for b in found.shape.batch if b in operand.dims()]
    if d not in batch:
        return 0
    inner = batch[batch.index(d) + 1 :]
    pitch = math.prod(packing.dims[b] for b in inner)
    return pitch * packing.layout.batch_words(*packing.shape[1:])
