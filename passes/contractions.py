# ruff: noqa: E501 - the long lines are MLIR text
"""contractions-to-kernels: each linalg.generic on memrefs whose body is one numc.fma becomes a call of its kernel.

What fills its accumulators before, and the elementwise operation that alone reads its result, become part of the
kernel where no value changes by that; weights are packed when the program is built.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from torch_mlir import ir

from numc.compiler.dialect import fma_of
from numc.compiler.fma import Fma
from numc.compiler.switches import disabled
from numc.passes import walk
from numc.passes.code import Function
from numc.passes.driver import LANES_PACKED, PROBE_TEXT, ROWS_PACKED, Driver, Stream, driver_text
from numc.passes.kernels import Kernel, Tile, direct_text, kernel_text
from numc.passes.neighbours import VIEWS, Neighbour, consumer, producer, root
from numc.passes.packing import Layout, layout, pack_dense_text, pack_text, packed

# Up to this many steps of k, lanes are read where they are; beyond, adjacent reads of whole panels are worth a copy.
_FEW = 64
Linear = tuple[dict[int, int], int]


@dataclass(frozen=True)
class Contraction:
    """What the runtime's observer needs to know about one kernel call: its number, operator, name and orientation.

    packed: the operand (``rows``, ``lanes`` or none) that lies packed in the program, and its layout.
    """

    id: int
    fma: str
    name: str
    swap: bool
    packed: str
    layout: Layout | None


Directions = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Packing:
    """How a weight, an argument of main by its number, is packed.

    start: the offset of its first element; then sizes and strides along batch, rows or lanes, and k. dims: the sizes of
    the contraction's dimensions, as far as the weight knows them. conversion: what its values need first, or nothing.
    """

    weight: int
    start: int
    batch: Directions
    across: Directions
    k: Directions
    dims: dict[int, int]
    layout: Layout
    conversion: str

    @property
    def key(self) -> tuple[object, ...]:
        """Equal keys mean equal packed weights."""
        return self.weight, self.start, self.batch, self.across, self.k, self.layout, self.conversion

    @property
    def shape(self) -> tuple[int, int, int]:
        """Batches, rows or lanes, depth."""
        batch, across, k = (int(np.prod([size for size, _ in d])) for d in (self.batch, self.across, self.k))
        return batch, across, k

    def __call__(self, weight: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Pack `weight`, converted already."""
        index = np.full((1,), self.start, np.int64)
        for size, stride in (*self.batch, *self.across, *self.k):
            index = (index[:, None] + np.arange(size) * stride).reshape(-1)
        return packed(weight.reshape(-1)[index].reshape(self.shape), self.layout)


@dataclass(frozen=True)
class _Shape:
    """Iteration dimensions by their part in the contraction, each in linalg order."""

    batch: list[int]
    rows: list[int]
    lanes: list[int]
    k: list[int]

    @property
    def order(self) -> list[int]:
        """All of them, in the order of a stream's strides."""
        return [*self.batch, *self.rows, *self.lanes, *self.k]


@dataclass(frozen=True)
class _Operand:
    """A memref and, for each of its dimensions, the index as a linear function of the contraction's dimensions.

    conversion: what the contraction applies to its values, or nothing.
    """

    value: ir.Value
    places: tuple[Linear, ...]
    conversion: str = ""

    def dims(self) -> set[int]:
        """The contraction's dimensions that address it."""
        return {d for coefficients, _ in self.places for d in coefficients}

    def spread(self, units: set[int]) -> _Operand:
        """The same without dimensions of size one: an operand that only they address is one value for all."""
        places = [
            ({d: n for d, n in coefficients.items() if d not in units}, start) for coefficients, start in self.places
        ]
        return _Operand(self.value, tuple(places))


@dataclass
class _Found:
    """One contraction with everything that its call needs."""

    generic: ir.Operation
    fma: Fma
    swap: bool
    shape: _Shape
    rows: _Operand
    lanes: _Operand
    out: _Operand


def contractions_to_kernels(
    module: ir.Operation, tile: Tile, weights: Iterable[int] = (), *, fast: bool = True
) -> tuple[list[Contraction], dict[int, Packing], set[int]]:
    """Rewrite `module` in place; returns the contractions in program order, packed weights, and weights without a use.

    weights: the arguments of main whose values are known. Packed weights are new arguments of main, by their numbers;
    the arguments that nothing uses any more are empty.
    """
    with module.context, ir.Location.unknown():
        found = [f for g in walk.operations(module, "linalg.generic") if (f := _find(g)) is not None]
        lowering = _Lowering(module, tile, fast and not disabled("fast"), set(weights))
        for each in found:
            lowering.lower(each)
        lowering.finish()
    return lowering.table, lowering.packings, lowering.unused


def _find(generic: ir.Operation) -> _Found | None:
    match = _match(generic)
    shape = None if match is None else _shape(generic, *match[1])
    if match is None or shape is None:
        return None
    fma, numbers, conversions = match
    swap, groups = shape
    maps = walk.indexing_maps(generic)
    a, b, c = (_Operand(generic.operands[n], _places(maps[n]), to) for n, to in zip(numbers, conversions, strict=True))
    return _Found(generic, fma, swap, groups, *((b, a) if swap else (a, b)), c)


def _places(map_: ir.AffineMap) -> tuple[Linear, ...]:
    found = tuple(_linear(e) for e in map_.results)
    assert None not in found
    return found  # type: ignore[return-value]


class _Lowering:
    """The functions added to a module so far, and what was learnt about its contractions."""

    def __init__(self, module: ir.Operation, tile: Tile, fast: bool, weights: set[int]) -> None:
        self.module, self.tile, self.fast = module, tile, fast
        self._main = _main(module)
        self._weights = {self._main.arguments[n]: n for n in weights} if weights else {}
        self._packed: dict[tuple[object, ...], ir.Value] = {}
        self.table: list[Contraction] = []
        self.packings: dict[int, Packing] = {}
        self.unused: set[int] = set()
        self._kernels: dict[str, Kernel] = {}
        self._drivers: dict[str, str] = {}
        self._calls: dict[str, str] = {}

    def lower(self, found: _Found) -> None:
        """Replace one contraction, and what fuses with it, by a call."""
        generic, buffer = found.generic, found.out.value
        first = None if disabled("fuse-first") else producer(generic, buffer)
        last = None if disabled("fuse-last") else consumer(generic, buffer, first)
        units = {d for d, size in _sizes(found).items() if size == 1}
        first_streams = (
            [found.out] if first is None else [_moved(o, first, found).spread(units) for o in first.operands]
        )
        last_streams = [] if last is None else [_moved(o, last, found).spread(units) for o in last.operands]
        out = found.out if last is None else _moved(last.output, last, found)
        kernel = Kernel(found.fma, *_tile(self.tile, found), found.swap, self.fast)
        kernel = replace(kernel, partial=_partial(kernel.tile, found))
        depth = _size(found, found.shape.k)
        side, packing, found = self._pack(found, kernel)
        operands = [found.rows, found.lanes, *first_streams, *last_streams, out]
        direct = kernel.reads_directly and side != "lanes" and depth is not None and depth <= _FEW
        lanes = set(found.shape.lanes)
        driver = Driver(
            kernel,
            side,
            direct,
            (lambda _, values: values[0]) if first is None else first.emit,
            (lambda _, values: values[0]) if last is None else lambda code, v: last.emit(code, v[1:], v[0]),
            tuple(Stream(bool(o.dims() & lanes)) for o in first_streams),
            tuple(Stream(bool(o.dims() & lanes)) for o in last_streams),
        )
        self._kernels[kernel.name] = kernel
        task = self._named(self._drivers, driver_text(driver), "driver", "task")
        text = _call_text(task, kernel, side, packing, found, operands)
        callee = self._named(self._calls, text, "contraction", "contraction")
        number = len(self.table)
        about = layout(kernel, side) if side else None
        self.table.append(Contraction(number, str(found.fma), _name(generic), found.swap, side, about))
        with ir.InsertionPoint(generic if last is None else last.op), generic.location:
            id_ = ir.Operation.create(
                "arith.constant",
                results=[ir.IntegerType.get_signless(64)],
                attributes={"value": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)},
            ).results[0]
            ir.Operation.create(
                "func.call",
                operands=[*(o.value for o in operands), id_],
                attributes={"callee": ir.FlatSymbolRefAttr.get(callee)},
            )
        for op in (generic, *(n.op for n in (first, last) if n is not None)):
            op.erase()
        _erase_unused(buffer)

    def _named(self, known: dict[str, str], text: str, placeholder: str, stem: str) -> str:
        name = known.setdefault(text, f"{stem}_{len(known)}")
        assert f"@{placeholder}" in text
        return name

    def _pack(self, found: _Found, kernel: Kernel) -> tuple[str, Packing | None, _Found]:
        """Put the packed form of a weight among main's arguments, if an operand is a weight; returns which side it is."""
        for side, across in (("rows", found.shape.rows), ("lanes", found.shape.lanes)):
            operand = found.rows if side == "rows" else found.lanes
            source = root(operand.value)
            if disabled("pack-weights") or source not in self._weights:
                continue
            packing = _packing(self._weights[source], operand, found, across, layout(kernel, side))
            if packing is None:
                continue
            if packing.key not in self._packed:
                kind = ir.MemRefType.get([packing.layout.words(*packing.shape)], ir.F32Type.get())
                self._packed[packing.key] = self._main.add_argument(kind, ir.Location.unknown())
                self.packings[len(self._main.arguments) - 1] = packing
            packed_operand = _Operand(self._packed[packing.key], operand.places, operand.conversion)
            if side == "rows":
                return side, packing, replace(found, rows=packed_operand)
            return side, packing, replace(found, lanes=packed_operand)
        return "", None, found

    def finish(self) -> None:
        """Add the functions to the module."""
        self._drop_unused_weights()
        if not self.table:
            return
        parts = [_EXTERNALS, PROBE_TEXT]
        for text, name in self._drivers.items():
            parts.append(text.replace("@driver", f"@{name}"))
        for text, name in self._calls.items():
            parts.append(text.replace("@contraction(", f"@{name}("))
        for kernel in self._kernels.values():
            if kernel.reads_directly:
                parts.append(direct_text(kernel))
            parts += [
                kernel_text(kernel),
                pack_text(kernel, "rows"),
                pack_text(kernel, "lanes"),
                pack_dense_text(kernel),
            ]
        source = ir.Module.parse("\n".join(parts), self.module.context)
        for op in source.body.operations:
            self.module.regions[0].blocks[0].append(op.operation.clone())

    def _drop_unused_weights(self) -> None:
        """A weight that is used in packed form only becomes an empty argument."""
        for weight in self._weights:
            _erase_dead_views(weight)
            if walk.uses(weight) == 0 and str(ir.MemRefType(weight.type).element_type) == "f32":
                weight.set_type(ir.MemRefType.get([0], ir.F32Type.get()))
                self.unused.add(self._weights[weight])
        function = self._main.owner.operation
        results = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results
        inputs = [a.type for a in self._main.arguments]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))


def _erase_dead_views(value: ir.Value) -> None:
    for use in list(value.uses):
        user = use.owner.operation
        if user.name in VIEWS:
            _erase_dead_views(user.results[0])
            if walk.uses(user.results[0]) == 0:
                user.erase()


def _tile(tile: Tile, found: _Found) -> tuple[Tile]:
    """The micro-tile for the sizes that are known: few rows leave registers for more vectors, and the other way round."""
    accumulators = tile.rows * tile.vectors
    rows, lanes = _size(found, found.shape.rows), _size(found, found.shape.lanes)
    if lanes is not None and lanes <= tile.width:
        return (replace(tile, vectors=1, rows=max(1, min(accumulators, rows or accumulators))),)
    if rows is not None and rows < tile.rows:
        vectors = accumulators // max(1, rows)
        if lanes is not None:  # as few panels as that allows, all of them of one size
            needed = -(-lanes // tile.width)
            vectors = -(-needed // -(-needed // vectors)) if needed else 1
        return (replace(tile, rows=max(1, rows), vectors=vectors),)
    return (tile,)


def _partial(tile: Tile, found: _Found) -> tuple[int, ...]:
    """Numbers of rows below a whole tile that get a micro-kernel of their own."""
    rows = _size(found, found.shape.rows)
    if rows is None:
        return tuple(n for n in (1, 2, 4) if n < tile.rows)
    return (rows % tile.rows,) if rows % tile.rows else ()


def _size(found: _Found, dims: list[int]) -> int | None:
    """The number of index combinations of `dims`, if it is known now."""
    sizes = _sizes(found)
    return int(np.prod([sizes[d] for d in dims], dtype=np.int64)) if all(d in sizes for d in dims) else None


def _sizes(found: _Found) -> dict[int, int]:
    """The sizes of the contraction's dimensions that are known now."""
    sizes: dict[int, int] = {}
    for operand in (found.rows, found.lanes, found.out):
        sizes |= _static_sizes(operand, ir.MemRefType(operand.value.type))
    return sizes


def _static_sizes(operand: _Operand, kind: ir.MemRefType) -> dict[int, int]:
    """The contraction's dimensions that are a dimension of the memref, with its static size."""
    return {
        next(iter(coefficients)): kind.get_dim_size(n)
        for n, (coefficients, start) in enumerate(operand.places)
        if list(coefficients.values()) == [1] and start == 0 and not kind.is_dynamic_dim(n)
    }


def _packing(weight: int, operand: _Operand, found: _Found, across: list[int], to: Layout) -> Packing | None:
    """How a view of a weight is packed, if its sizes and strides are known."""
    kind = ir.MemRefType(operand.value.type)
    strides_of_view, start = kind.get_strides_and_offset()
    sizes = _static_sizes(operand, kind)
    batch = [d for d in found.shape.batch if d in operand.dims()]
    dims = (*batch, *across, *found.shape.k)
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    if any(d not in sizes for d in dims) or dynamic in (*strides_of_view, start):
        return None
    strides = dict.fromkeys(dims, 0)
    for (coefficients, constant), stride in zip(operand.places, strides_of_view, strict=True):
        start += constant * stride
        for d, factor in coefficients.items():
            strides[d] += factor * stride

    def directions(group: Iterable[int]) -> tuple[tuple[int, int], ...]:
        return tuple((sizes[d], strides[d]) for d in group)

    return Packing(
        weight, start, directions(batch), directions(across), directions(found.shape.k), sizes, to, operand.conversion
    )


def _main(module: ir.Operation) -> ir.Block:
    """The body of @main."""
    for op in module.regions[0].blocks[0].operations:
        if op.operation.name == "func.func" and ir.StringAttr(op.attributes["sym_name"]).value == "main":
            return op.operation.regions[0].blocks[0]
    raise AssertionError("no @main")


def _moved(operand: tuple[ir.Value, ir.AffineMap], neighbour: Neighbour, found: _Found) -> _Operand:
    """An operand of a neighbour, addressed by the contraction's dimensions: both index the contraction's buffer."""
    own = neighbour.output[1]
    to = {}
    for e, (coefficients, _) in zip(own.results, found.out.places, strict=True):
        to[ir.AffineDimExpr(e).position] = next(iter(coefficients))
    places = []
    for coefficients, start in _places(operand[1]):
        moved: dict[int, int] = {}
        for d, factor in coefficients.items():
            moved[to[d]] = moved.get(to[d], 0) + factor
        places.append((moved, start))
    return _Operand(operand[0], tuple(places))


def _erase_unused(buffer: ir.Value) -> None:
    users = [use.owner.operation for use in buffer.uses]
    if not isinstance(buffer.owner, ir.Block) and all(user.name == "memref.dealloc" for user in users):
        for user in users:
            user.erase()
        buffer.owner.erase()


def _match(generic: ir.Operation) -> tuple[Fma, tuple[int, int, int], tuple[str, ...]] | None:
    """Return the operator, and the operand numbers of A, B, C and the conversions that the body applies to them.

    None if the body is anything but [rounds] numc.fma, yield.
    """
    if not all(isinstance(operand.type, ir.MemRefType) for operand in generic.operands):
        return None
    if "reduction" not in walk.iterator_types(generic):
        return None
    ops = [op.operation for op in walk.body(generic).operations]
    fmas = [op for op in ops if op.name == "numc.fma"]
    if len(fmas) != 1 or any(op.name not in ("numc.round", "numc.fma", "linalg.yield") for op in ops):
        return None
    if len(ops[-1].operands) != 1 or ops[-1].operands[0] != fmas[0].results[0]:
        return None
    fma = fma_of(fmas[0])
    arguments, conversions = [], []
    for value, expected in zip(fmas[0].operands, (fma.a, fma.b, None), strict=True):
        conversions.append("" if isinstance(value.owner, ir.Block) else str(expected))
        while not isinstance(value.owner, ir.Block):
            if value.owner.name != "numc.round" or ir.StringAttr(value.owner.attributes["to"]).value != str(expected):
                return None
            value = value.owner.operands[0]
        if ir.BlockArgument(value).owner != walk.body(generic):
            return None
        arguments.append(ir.BlockArgument(value).arg_number)
    a, b, c = arguments
    inputs = walk.input_count(generic)
    if a >= inputs or b >= inputs or c < inputs or len(generic.operands) != inputs + 1:
        return None
    return fma, (a, b, c), tuple(conversions)


def _linear(expr: ir.AffineExpr) -> Linear | None:
    """Return the coefficients and the constant of a linear affine expression."""
    if isinstance(expr, ir.AffineDimExpr):
        return {expr.position: 1}, 0
    if isinstance(expr, ir.AffineConstantExpr):
        return {}, expr.value
    if isinstance(expr, (ir.AffineAddExpr, ir.AffineMulExpr)):
        left, right = _linear(expr.lhs), _linear(expr.rhs)
        if left is None or right is None:
            return None
        if isinstance(expr, ir.AffineAddExpr):
            dims = {d: left[0].get(d, 0) + right[0].get(d, 0) for d in {*left[0], *right[0]}}
            return dims, left[1] + right[1]
        (scaled, factor) = (left, right[1]) if not right[0] else (right, left[1])
        if left[0] and right[0]:
            return None
        return {d: n * factor for d, n in scaled[0].items()}, scaled[1] * factor
    return None


def _shape(generic: ir.Operation, a: int, b: int, c: int) -> tuple[bool, _Shape] | None:
    """Sort the dimensions into batch, rows, lanes and k; True means that A supplies the lanes."""
    maps = walk.indexing_maps(generic)
    used: list[set[int]] = []
    for n in (a, b, c):
        linear = [_linear(e) for e in maps[n].results]
        if any(x is None for x in linear):
            return None
        used.append({d for x in linear if x is not None for d in x[0]})
    out = [_linear(e) for e in maps[c].results]
    if any(x is None or len(x[0]) != 1 or x[1] != 0 for x in out):
        return None
    kinds = walk.iterator_types(generic)
    parallel = [d for d, kind in enumerate(kinds) if kind == "parallel"]
    only_a = [d for d in parallel if d in used[0] and d not in used[1]]
    only_b = [d for d in parallel if d in used[1] and d not in used[0]]
    batch = [d for d in parallel if d not in only_a and d not in only_b]
    order = [next(iter(x[0])) for x in out if x is not None]
    if set(order) != set(parallel) or len(set(order)) != len(order):
        return None
    if not all(any(x == ({d: 1}, 0) for e in maps for x in map(_linear, e.results)) for d in range(len(kinds))):
        return None  # nothing tells the size of a dimension
    innermost = next((d for d in reversed(order) if d in only_a or d in only_b), None)
    swap = innermost in only_a
    rows, lanes = (only_b, only_a) if swap else (only_a, only_b)
    return swap, _Shape(batch, rows, lanes, [d for d, kind in enumerate(kinds) if kind == "reduction"])


def _name(generic: ir.Operation) -> str:
    """The source name of an operation: the innermost name in its location."""
    text = str(generic.location)
    quoted = text.split('"')
    return quoted[1] if len(quoted) > 1 else text


_EXTERNALS = """
func.func private @numc_ftz_begin() -> i32
func.func private @numc_ftz_end(i32)
llvm.func @numc_alloc(i64) -> !llvm.ptr
llvm.func @numc_free(!llvm.ptr)
llvm.func @numc_contract(!llvm.ptr, !llvm.ptr, i64)
"""


def _call_text(
    task: str, kernel: Kernel, side: str, packing: Packing | None, found: _Found, operands: list[_Operand]
) -> str:
    """The function that describes one contraction to the runtime (runtime/src/contract.cpp) and starts its tasks."""
    order = found.shape.order
    f = Function("contraction", {f"%x{n}": str(o.value.type) for n, o in enumerate(operands)} | {"%id": "i64"})
    flags = {"": 0, "rows": ROWS_PACKED, "lanes": LANES_PACKED}[side]
    groups = (found.shape.batch, found.shape.rows, found.shape.lanes, found.shape.k)
    ranges = packing.shape[0] * packing.layout.batch_words(*packing.shape[1:]) if packing else 0
    words: list[int | str] = [kernel.tile.width, kernel.tile.rows, kernel.tile.lanes, flags, ranges, len(operands)]
    words += [len(group) for group in groups]
    weight = {"": -1, "rows": 0, "lanes": 1}[side]
    described = [None if n == weight else _describe(f, n, o) for n, o in enumerate(operands)]
    for d in order:
        words.append(_extent(f, d, operands, described, packing, found))
    for n, (operand, about) in enumerate(zip(operands, described, strict=True)):
        if about is None:
            assert packing is not None
            base = f.op(f"memref.extract_aligned_pointer_as_index %x{n} : {operand.value.type} -> index")
            words += [f.cast("index_cast", base, "index", "i64"), 0]
            words += [_packed_stride(d, operand, packing, found) for d in order]
            continue
        pointer, start, _, strides = about
        words.append(pointer)
        by_dimension: dict[int, list[int | str]] = {d: [] for d in order}
        for (coefficients, constant), stride in zip(operand.places, strides, strict=True):
            if constant:
                start = f.i64("addi", start, f.i64("muli", stride, constant))
            for d, factor in coefficients.items():
                by_dimension[d].append(stride if factor == 1 else f.i64("muli", stride, factor))
        words.append(start)
        for d in order:
            total: int | str = 0
            for n_, term in enumerate(by_dimension[d]):
                total = term if n_ == 0 else f.i64("addi", total, term)
            words.append(total)
    size = f.number(len(words))
    place = f.op(f"llvm.alloca {size} x i64 : (i64) -> !llvm.ptr")
    for n, word in enumerate(words):
        f.line(f"llvm.store {f.number(word)}, {f.at(place, n, 'i64')} : i64, !llvm.ptr")
    address = f.op(f"llvm.mlir.addressof @{task} : !llvm.ptr")
    f.call("numc_contract", address, place, "%id", types="!llvm.ptr, !llvm.ptr, i64", dialect="llvm")
    return f.function()


_About = tuple[str, str, list[str], list[str]]


def _describe(f: Function, n: int, operand: _Operand) -> _About:
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


def _extent(
    f: Function,
    d: int,
    operands: list[_Operand],
    described: list[_About | None],
    packing: Packing | None,
    found: _Found,
) -> int | str:
    """The size of one dimension of the contraction."""
    for operand, about in zip(operands, described, strict=True):
        for n, place in enumerate(operand.places):
            if about is not None and place == ({d: 1}, 0):
                return about[2][n]
    assert packing is not None  # only the packed weight has it: its sizes were static
    return packing.dims[d]


def _packed_stride(d: int, operand: _Operand, packing: Packing, found: _Found) -> int:
    """The distance of two batches of a packed weight along one dimension."""
    batch = [b for b in found.shape.batch if b in operand.dims()]
    if d not in batch:
        return 0
    inner = batch[batch.index(d) + 1 :]
    pitch = int(np.prod([packing.dims[b] for b in inner], dtype=np.int64))
    return pitch * packing.layout.batch_words(*packing.shape[1:])
