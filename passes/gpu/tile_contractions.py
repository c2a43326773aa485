"""contractions: every planned contraction becomes a call whose kernels are written beside it, as text.

All its kernels are Gluon's. Two pack the operands: converted, in parts, steps of k outside, rows or lanes inside, and
padded to whole tiles. One reads tiles of both into shared memory, and every thread takes its accumulators through one
step of k after the other, in registers. A cheap sequence runs where its guard holds for the operands of a tile, whose
extremes packing has product, and for all of k at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from numc.numerics.operators import Fma
from numc.passes import facts, linalg
from numc.passes.gpu.kernel_text import Argument, Writing, layer_of, no_kernel
from numc.passes.gpu.loop_kernels import Size, sizes_of
from numc.passes.gpu.tile_guard import guard_lines
from numc.passes.gpu.tile_operations import UnknownError
from numc.passes.gpu.tile_step import (
    base_of,
    block_length,
    conversion_lines,
    group_length,
    guard_of,
    is_steps,
    rounding_text,
    step_text,
)
from numc.passes.plan import records
from numc.passes.plan.contraction import Contraction, Found, Operand, find
from numc.passes.plan.contraction_rows import CONTRACTIONS, ContractionRow
from numc.passes.plan.plan import CONTRACTION as PLANNED

CONTRACTION = "numc.tiles"
"""On the call of a contraction: its kernels, and what they are given."""
_NAME = "numc_contraction"


def contractions(module: ir.Operation) -> None:
    """Replace planned contractions by calls that carry their kernels.

    Raises NumcError, which names all layers whose operator has no kernel and is no sequence of single steps either.
    """
    unknown: dict[str, None] = {}
    rows: list[ContractionRow] = []
    with module.context, ir.Location.unknown():
        products = [f for g in linalg.operations(module, "linalg.generic") if (f := find(g)) is not None]
        for number, each in enumerate(products):
            rows += _rows(each)
            try:
                record = _record(each)
            except UnknownError as reason:
                if not is_steps(each.fma):
                    unknown[f"{layer_of(each.generic)}: {reason}"] = None
                continue  # its loops are ordinary ones
            _call(module, each, record, number)
    if unknown:
        raise no_kernel(unknown)
    facts.put(module, CONTRACTIONS, records.data_of(tuple(sorted(rows, key=lambda row: row.id))))


def _rows(product: Found) -> list[ContractionRow]:
    """The row of a planned contraction, as the program's manifest has it."""
    region = product.generic.parent
    if region is None or PLANNED not in region.attributes:
        return []
    about = records.get(Contraction, region, PLANNED, "")
    return [
        ContractionRow(
            id=about.id,
            fma=about.operator,
            passes=product.fma.passes,
            name=about.layer,
            swap=about.swap,
            packed="",
            layout=None,
            plane=None,
        )
    ]


def _call(module: ir.Operation, product: Found, record: dict[str, object], number: int) -> None:
    generic = product.generic
    operands = [product.rows.value, product.lanes.value, product.out.value]
    name = f"{_NAME}_{number}"
    block = module.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block):
        signature = ir.FunctionType.get([v.type for v in operands], [])
        attributes = {
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(signature),
            "sym_visibility": ir.StringAttr.get("private"),
        }
        ir.Operation.create("func.func", attributes=attributes, regions=1)
    with ir.InsertionPoint(generic), generic.location:
        callee = {"callee": ir.FlatSymbolRefAttr.get(name), CONTRACTION: facts.attribute(record)}
        ir.Operation.create("func.call", operands=operands, attributes=callee)
    generic.erase()


def _record(product: Found) -> dict[str, object]:
    """The kernels of a contraction, as a record that is an attribute. Raises UnknownError where there are none."""
    fma = product.fma
    base_of(fma)
    if product.narrow or product.slots:
        raise UnknownError(f"operator '{fma}' on stored codes")
    values = [product.rows.value, product.lanes.value, product.out.value]
    sizes = sizes_of(product.generic)
    limits = guard_of(fma)
    shape = product.shape
    kernels = {
        "rows": _pack(product, "rows", sizes, guarded=limits is not None),
        "lanes": _pack(product, "lanes", sizes, guarded=limits is not None),
        "product": _product(product, sizes),
    }
    return {
        "kernels": {name: written.text for name, written in kernels.items()},
        "arguments": {
            name: [[a.what, values.index(a.value), a.dimension] for a in written.arguments]
            for name, written in kernels.items()
        },
        "sizes": {
            name: [_known(sizes[d], values) for d in dims]
            for name, dims in (("batch", shape.batch), ("rows", shape.rows), ("lanes", shape.lanes), ("k", shape.k))
        },
        "shared": [not (operand.dims() & set(shape.batch)) for operand in (product.rows, product.lanes)],
        "parts": [fma.parts[int(product.swap)], fma.parts[int(not product.swap)]],
        "block": block_length(fma),
        "run": _run(fma),
        "operator": str(product.operator),
        "deep": next((to.format.group for to in fma.grouped if to is not None), 32),
        "guarded": limits is not None,
    }


def _run(fma: Fma) -> object:
    """The steps that are summed apart: a number, 0 for all, or the most runs there are, and what divides them."""
    path = fma.datapath
    if length := group_length(fma):
        return length
    return [path.splits, path.least_run] if path.splits is not None else path.chunk or 0


@dataclass(frozen=True)
class _Kernel:
    text: str
    arguments: tuple[Argument, ...]


def _known(size: Size, values: Sequence[ir.Value]) -> object:
    return size if isinstance(size, int) else [values.index(size[0]), size[1]]


def _indices(w: Writing, name: str, dims: Sequence[int], sizes: Sequence[Size], names: dict[int, str]) -> None:
    """The index along each of `dims`, of which `name` numbers the combinations."""
    rest = name
    for d in reversed(dims[1:]):
        size = sizes[d] if isinstance(sizes[d], int) else w.size(*sizes[d])  # type: ignore[misc]
        names[d] = w.let(f"{rest} % {size}", "d")
        rest = w.let(f"{rest} // {size}", "q")
    if dims:
        names[dims[0]] = rest


def _terms(w: Writing, operand: Operand, dims: Sequence[int], names: dict[int, str]) -> list[str]:
    """The terms that indices along `dims` add to the address of an element."""
    terms = []
    for n, (coefficients, _) in enumerate(operand.places):
        for d in dims:
            if d in coefficients:
                stride = w.stride(operand.value, n)
                factor = stride * coefficients[d] if isinstance(stride, int) else f"{stride} * {coefficients[d]}"
                terms.append(f"{names[d]} * {factor}" if factor != 1 else names[d])
    return terms


def _start(w: Writing, operand: Operand) -> list[str]:
    """The terms of the address of an element that depend on no index."""
    terms = []
    for n, (_, start) in enumerate(operand.places):
        if start:
            terms.append(f"{w.stride(operand.value, n)} * {start}")
    return terms


def _sum(terms: Sequence[str], zero: str) -> str:
    return " + ".join(terms) or f"{zero} * 0"


def _pack(product: Found, side: str, sizes: Sequence[Size], *, guarded: bool) -> _Kernel:
    """The kernel that packs the ``rows`` or the ``lanes``, a panel of a block of k in a program instance."""
    fma, shape, w = product.fma, product.shape, Writing("gl")
    operand, inner = (product.rows, shape.rows) if side == "rows" else (product.lanes, shape.lanes)
    number = int((side == "rows") == product.swap)
    memory = w.argument("memory", operand.value)
    names: dict[int, str] = {}
    w.line("G: gl.constexpr = gl.BlockedLayout([1, 4], [1, WARP], [4, 1], [1, 0])")
    w.line("tile = gl.program_id(0) % panels")
    w.line("z = gl.program_id(1).to(I)")
    w.line("i = tile.to(I) * SIDE + gl.arange(0, SIDE, gl.SliceLayout(0, G)).to(I)")
    w.line("k = (gl.program_id(0) // panels).to(I) * DEEP + gl.arange(0, DEEP, gl.SliceLayout(1, G)).to(I)")
    for name, dims in (("i", inner), ("k", shape.k), ("z", shape.batch)):
        _indices(w, name, dims, sizes, names)
    along_i = _sum(_terms(w, operand, inner, names), "i")
    along_k = _sum(_terms(w, operand, shape.k, names), "k")
    along_z = _sum([*_terms(w, operand, shape.batch, names), *_start(w, operand)], "z")
    w.line(f"address = (({along_i}) + ({along_z}))[None, :] + ({along_k})[:, None]")
    w.line("there = (i < side)[None, :] & (k < depth)[:, None]")
    x = w.let(f"gl.load({memory} + address, mask=there, other=0.0)", "x")
    value, least, *parts = conversion_lines(w, x, fma, number)
    w.line("inside = (k < padded)[:, None] & (i < pitch)[None, :]")
    for n, part in enumerate(parts):
        row = f"(z * {len(parts)} + {n}) * padded + k" if len(parts) > 1 else "z * padded + k"
        w.line(f"gl.store(packed + ({row})[:, None] * pitch + i[None, :], {part}, mask=inside)")
    if guarded:
        w.line(f"size = {value}.to(gl.int32, bitcast=True) & 0x7FFFFFFF")
        w.line(f"unit = {least}.to(gl.int32, bitcast=True) & 0x7FFFFFFF")
        w.line("low = gl.min(gl.min(gl.where(unit == 0, 0x7FFFFFFF, unit - 1), 1), 0)")
        w.line("high = gl.max(gl.max(size, 1), 0)")
        w.line("panel = ranges + 2 * (z * panels + tile)")
        w.line("gl.atomic_min(panel, low)")
        w.line("gl.atomic_max(panel + 1, high)")
    told = ["packed", "ranges", *w.arguments.values(), "side", "panels", "depth", "padded", "pitch"]
    return _Kernel(w.kernel(told, ("I", "SIDE", "DEEP", "WARP")), tuple(w.arguments))


def _product(product: Found, sizes: Sequence[Size]) -> _Kernel:
    """The kernel that computes the tiles of accumulators."""
    fma, shape, w = product.fma, product.shape, Writing("gl")
    limits = guard_of(fma)
    length = block_length(fma)
    out = w.argument("memory", product.out.value)
    names: dict[int, str] = {}
    for line in _LAYOUTS:
        w.line(line)
    for name, dims in (("i", shape.rows), ("j", shape.lanes), ("z", shape.batch)):
        _indices(w, name, dims, sizes, names)
    along_i = _sum(_terms(w, product.out, shape.rows, names), "i")
    along_j = _sum(_terms(w, product.out, shape.lanes, names), "j")
    along_z = _sum([*_terms(w, product.out, shape.batch, names), *_start(w, product.out)], "z")
    w.line(f"address = {out} + (({along_i}) + ({along_z}))[:, None] + ({along_j})[None, :]")
    w.line("there = (i < side_a)[:, None] & (j < side_b)[None, :]")
    w.line("c = gl.load(address, mask=there, other=0.0)")
    parts = {"a": fma.parts[int(product.swap)], "b": fma.parts[int(not product.swap)]}
    for side, count in parts.items():
        w.line(f"part_{side} = padded * pitch_{side}")
        w.line(f"begin_{side} = {side} + z * batch_{side}")
        size = {"a": "ROWS", "b": "LANES"}[side]
        for n in range(count):
            w.line(f"shared_{side}{n} = gl.allocate_shared_memory(gl.float32, [DEEP, {size}], S)")
    w.line("whole = padded - padded % DEEP")
    functions = []

    def steps(how: str, *, unrolled: bool = True) -> None:
        append = _Steps(w=w, step=f"{{name}}_{how}", swap=product.swap, parts=parts, length=length)
        if group_length(fma) and how == "cheap":
            append.through_shared_memory(apart=True)
        elif group_length(fma):
            append.in_runs("float64")
        elif fma.datapath.in_runs:
            append.in_runs("float32")
        elif unrolled:
            append.through_shared_memory()
        else:
            append.from_memory("0", "padded")

    if limits is None:
        steps("step")
        functions.append(step_text("{name}_step", fma, cheap=False))
    else:
        functions += [step_text(f"{{name}}_{how}", fma, cheap=how == "cheap") for how in ("cheap", "step")]
        w.line("least_a, most_a = gl.load(range_a), gl.load(range_a + 1)")
        w.line("least_b, most_b = gl.load(range_b), gl.load(range_b + 1)")
        guard_lines(w, limits)
        with w.inside("if holds:"):
            steps("cheap")
        with w.inside("else:"):
            steps("step", unrolled=False)  # seldom, and long: it is not unrolled
    if fma.datapath.in_runs:
        functions.append(rounding_text("{name}_total", fma))
        w.line("c = {name}_total(c)")
    w.line("gl.store(address, c, mask=there)")
    told = ["a", "b", "ranges_a", "ranges_b", *w.arguments.values(), *_TOLD]
    text = w.kernel(told, ("I", "ROWS", "LANES", "DEEP", "WARP"))
    return _Kernel("\n\n\n".join([*functions, text]), tuple(w.arguments))


_TOLD = (
    "side_a",
    "side_b",
    "tiles_a",
    "padded",
    "run",
    "growth",
    "pitch_a",
    "pitch_b",
    "batch_a",
    "batch_b",
    "range_batch_a",
    "range_batch_b",
)
_LAYOUTS = (
    "L: gl.constexpr = gl.BlockedLayout([ROWS // 16, LANES // (WARP // 4)], [8, WARP // 8], [2, 2], [1, 0])",
    "G: gl.constexpr = gl.BlockedLayout([1, 4], [1, WARP], [4, 1], [1, 0])",
    "S: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])",
    "row_tile = gl.program_id(0) % tiles_a",
    "lane_tile = gl.program_id(0) // tiles_a",
    "z = gl.program_id(1).to(I)",
    "range_a = ranges_a + z * range_batch_a + 2 * row_tile",
    "range_b = ranges_b + z * range_batch_b + 2 * lane_tile",
    "i = row_tile.to(I) * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, L)).to(I)",
    "j = lane_tile.to(I) * LANES + gl.arange(0, LANES, gl.SliceLayout(0, L)).to(I)",
    "gk = gl.arange(0, DEEP, gl.SliceLayout(1, G)).to(I)",
    "gi = row_tile.to(I) * ROWS + gl.arange(0, ROWS, gl.SliceLayout(0, G)).to(I)",
    "gj = lane_tile.to(I) * LANES + gl.arange(0, LANES, gl.SliceLayout(0, G)).to(I)",
)


@dataclass(frozen=True, kw_only=True)
class _Steps:
    """Code that takes accumulators ``c`` through steps of k.

    step: the function of one. swap: rows come from the operator's b. parts: of the values of rows (a) and lanes (b).
    length: the products that a step takes.
    """

    w: Writing
    step: str
    swap: bool
    parts: dict[str, int]
    length: int

    def through_shared_memory(self, *, apart: bool = False) -> None:
        """Append all of k: by blocks of DEEP through shared memory, and what is left by single steps from memory.

        apart: each block is summed from +0 on, and added to the accumulators.
        """
        w, parts = self.w, self.parts
        for side, inner in (("a", "gi"), ("b", "gj")):
            w.line(f"from_{side} = begin_{side} + gk[:, None] * pitch_{side} + {inner}[None, :]")
        with w.inside("for k0 in range(0, whole, DEEP):"):
            names = [(side, n) for side, count in parts.items() for n in range(count)]
            tiles = [w.let(f"gl.load(from_{side}{f' + {n} * part_{side}' if n else ''})", "g") for side, n in names]
            for side in parts:
                w.line(f"from_{side} += DEEP * pitch_{side}")
            w.line("barrier()")
            for (side, n), tile in zip(names, tiles, strict=True):
                w.line(f"shared_{side}{n}.store({tile})")
            w.line("barrier()")
            if apart:
                self._begin_run("float32")
            with w.inside(f"for k in gl.static_range(0, DEEP, {self.length}):"):
                turned = {"a": ".permute([1, 0])", "b": ""}
                self._append({
                    side: [
                        w.let(f"shared_{side}{n}.slice(k + {m}, 1, 0){turned[side]}.load(L)", "x")
                        for m in range(self.length)
                        for n in range(count)
                    ]
                    for side, count in parts.items()
                })  # fmt: skip
            if apart:
                w.line("c = total + c")
        if not apart:
            self.from_memory("whole", "padded")
            return
        with w.inside("if whole < padded:"):
            self._begin_run("float32")
            self.from_memory("whole", "padded")
            w.line("c = total + c")

    def from_memory(self, first: str, end: str) -> None:
        """Append a loop over steps from `first` up to `end`, of operands from memory."""
        indices = {"a": ("i", "[:, None]"), "b": ("j", "[None, :]")}
        with self.w.inside(f"for k in range({first}, {end}, {self.length}):"):
            told: dict[str, list[str]] = {"a": [], "b": []}
            for m in range(self.length):
                for side, (index, turned) in indices.items():
                    for n in range(self.parts[side]):
                        at = f"begin_{side} + {n} * part_{side} + (k + {m}) * pitch_{side} + {index}"
                        told[side].append(self.w.let(f"gl.load({at}){turned}", "x"))
            self._append(told)

    def in_runs(self, dtype: str) -> None:
        """Append runs of steps, each summed in a type from +0 on, and added to the accumulators."""
        w = self.w
        with w.inside("for first in range(0, padded, run):"):
            self._begin_run(dtype)
            self.from_memory("first", "gl.minimum(first + run, padded)")
            w.line("c = total + c.to(gl.float32)")

    def _begin_run(self, dtype: str) -> None:
        self.w.line("total = c")
        self.w.line(f"c = gl.full([ROWS, LANES], 0.0, gl.{dtype}, L)")

    def _append(self, told: dict[str, list[str]]) -> None:
        first, second = ("b", "a") if self.swap else ("a", "b")
        self.w.line(f"c = {self.step}({', '.join([*told[first], *told[second]])}, c)")
