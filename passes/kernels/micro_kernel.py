# ruff: noqa: E501 - the long lines are MLIR text
"""The micro-kernels of one FMA operator: a tile of accumulators in registers, updated along k.

A contraction (arithmetic.md section 4) is seen as batch x rows x lanes x k: the operand that holds the innermost output
dimension supplies the lanes of the vectors, the other one the rows. Packing (layout.py) lays both out for the loops
here; task.py blocks them. The reduction runs in ascending order in every tile shape: blocking k stores and reloads the
f32 carrier, which changes no bit. One tile of the accumulator is owned by one task, so neither do threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from numc.compiler.arithmetic.formats import Conversion
from numc.compiler.arithmetic.groups import GroupConversion
from numc.compiler.arithmetic.operators import HARDWARE_DATAPATHS, Fma
from numc.passes.kernels.builder import APART, Code
from numc.passes.kernels.datapaths import counting
from numc.passes.kernels.datapaths.chain import NOTHING, emit_fma, is_one_fma
from numc.passes.kernels.datapaths.chunked import Chunks, finish_text
from numc.passes.kernels.datapaths.groups import Groups
from numc.passes.kernels.datapaths.guarded import (
    Guard,
    emit_fast_fma,
    emit_noisy_fma,
    guard,
    products_are_exact,
    scale_of,
)
from numc.passes.kernels.datapaths.stochastic import ARGUMENTS as DRAWN
from numc.passes.kernels.datapaths.stochastic import RandomSteps
from numc.passes.kernels.values.random_bits import run_of


@dataclass(frozen=True)
class Tile:
    """Sizes of the blocked loops, in elements; none of them can change a result.

    width: lanes of a vector register. vectors, rows: the micro-tile is rows x (vectors * width).
    k_block: what is packed at a time, a multiple of 32.
    """

    width: int = 16
    vectors: int = 2
    rows: int = 8
    k_block: int = 256

    @property
    def lanes(self) -> int:
        """Lanes of the micro-tile."""
        return self.width * self.vectors


_F32_BITS = 24  # of a significand

AVX512 = Tile()
AVX2 = Tile(width=8, vectors=2, rows=4)


@dataclass(frozen=True)
class Kernel:
    """One set of micro-kernels to generate. `swap`: the rows come from the operator's b and the lanes from its a.

    partial: row counts below `tile.rows` that get a micro-kernel of their own (fewer rows, the same panels). narrow: so
    does one vector of the tile's, for the last lanes.
    dot: the target has dot products of pairs of 16-bit integers (VNNI). statistics: micro-kernels can count (counting.py).
    """

    fma: Fma
    tile: Tile
    swap: bool = False
    fast: bool = True
    partial: tuple[int, ...] = ()
    dot: bool = False
    narrow: bool = False
    statistics: bool = False

    @property
    def name(self) -> str:
        """The symbol stem, unique per kernel."""
        text = "".join(ch if ch.isalnum() else "_" for ch in str(self.fma))
        t = self.tile
        some = "".join(f"_{n}" for n in self.partial)
        some += "_narrow" if self.narrow else ""
        some += "_counting" if self.counts else ""
        some += ("" if self.fast else "_unguarded") + ("_pairs" if self.pairs else "")
        return f"numc_{text}_{t.rows}x{t.lanes}x{t.k_block}{some}{'_ba' if self.swap else ''}"

    def parts(self, side: str) -> int:
        """How many parts the values of the operand have that supplies the rows, or the lanes."""
        return self.fma.parts[(side == "rows") == self.swap]

    def conversion(self, side: str) -> Conversion:
        """The format of that operand, if it has no groups; what draws has been rounded as a whole, before."""
        return self.fma.singles[(side == "rows") == self.swap].settled

    def groups_of(self, side: str) -> GroupConversion:
        """The format of that operand, if it has groups."""
        assert self.fma.groups is not None
        return self.fma.groups[(side == "rows") == self.swap]

    @property
    def limits(self) -> Guard | None:
        """When the cheap rounding sequence may run, or None if there is none."""
        # What draws may compute a tile twice (`_watched_text`), which would be counted twice.
        if not self.fast or (self.counts and scale_of(self.fma) != 1):
            return None
        return guard(self.fma, self.tile.width) if self.groups is None else self.groups.guard

    @property
    def drawn(self) -> tuple[tuple[str, str], ...]:
        """The arguments, and their types, that tell what accumulators draw from; none if they do not."""
        return tuple(DRAWN.items()) if self.fma.draws and self.groups is None else ()

    @property
    def reads_directly(self) -> bool:
        """Whether lanes can be converted as they are read (unpacked_row.py): for one row, packing is half the work."""
        plain = self.chunks is None and self.groups is None and not self.fma.draws
        return self.tile.rows == 1 and not self.flushes and plain

    @property
    def joins(self) -> bool:
        """Whether whole tiles can go from their initial values to the epilogue in registers (register_tile.py)."""
        return (
            self.fetches_ahead and not self.counts and is_one_fma(self.fma) and not self.flushes and not self.fma.draws
        )

    @property
    def groups(self) -> Groups | None:
        """How the dot products of groups are summed, if the operands have groups."""
        t = self.tile
        return Groups(self.fma, t.k_block, t.width, t.rows * t.lanes, self.counts > 0) if self.fma.groups else None

    @property
    def pairs(self) -> bool:
        """Whether packed operands are 16-bit integers, to be multiplied and added in pairs."""
        return self.dot and self.fast and self.groups is not None and self.groups.fits_pairs

    @property
    def chunks(self) -> Chunks | None:
        """How the accumulators are summed in chunks, if they are."""
        t = self.tile
        if self.fma.chunk is None:
            return None
        return Chunks(self.fma.chunk, t.k_block, t.width, t.rows * t.lanes, self.fma.acc)

    @property
    def growth(self) -> int:
        """What the exponent of a sum can have above that of its largest term, between two looks at the guard."""
        steps = self.tile.k_block if self.chunks is None else min(self.chunks.size, self.tile.k_block)
        steps = steps if self.groups is None else self.groups.size
        return (steps - 1).bit_length() + 2

    @property
    def tile_words(self) -> int:
        """What a tile takes in memory, in f32 numbers; the accumulators come first, then the sums of chunks or groups."""
        sums = 2 if self.groups is not None and self.groups.is_integer else 0 if self.chunks is None else 1
        return self.tile.rows * self.tile.lanes * (1 + sums)

    @property
    def needs_k0(self) -> bool:
        """Whether the kernel must be told where its block of k begins."""
        return bool(self.drawn) or self.counts > 0 or (self.chunks is not None and self.chunks.carried)

    @property
    def counts(self) -> int:
        """How many additions of a multiply-add can be counted."""
        return counting.additions(self.fma) if self.statistics else 0

    @property
    def waiting(self) -> int:
        """How many carries of its counters wait at most."""
        return counting.waiting(self.fma, self.tile.rows * self.tile.vectors, self.tile.k_block)

    @property
    def extra(self) -> tuple[tuple[str, str], ...]:
        """Further arguments of the micro-kernels, and their types."""
        counted = tuple(counting.ARGUMENTS.items()) if self.counts else ()
        ahead = (("%ahead", "!llvm.ptr"),) if self.fetches_ahead else ()
        return (*((("%k0", "i64"),) if self.needs_k0 else ()), *self.drawn, *counted, *ahead)

    @property
    def fetches_ahead(self) -> bool:
        """Whether the next panel of rows is fetched on the way: where one begins, the processor learns of it too late.

        With three parts to a row LLVM runs out of registers for it: products took 1.8 times as long.
        """
        return self.groups is None and self.tile.rows > 1 and self.parts("rows") < 3

    @property
    def flushes(self) -> bool:
        """Whether the operator is a hardware instruction that is emulated with subnormals flushed."""
        return self.fma.datapath in HARDWARE_DATAPATHS


def kernel_text(kernel: Kernel) -> str:
    """Return the MLIR functions of a kernel; ``@<name>`` updates one micro-tile for one block of k.

    Its arguments: packed rows, packed lanes, the tile (rows x lanes, f32), the depth of the block, the number of rows,
    and the smallest and largest magnitudes of rows and lanes, which decide whether the cheap sequence is exact; then
    `Kernel.extra`: where the block begins, what is drawn from, the panel of rows that comes next. ``@<name>_one``, of narrow kernels, updates the tile's first vector only.
    """
    limits = kernel.limits
    widths = (kernel.tile.vectors, 1) if kernel.narrow else (kernel.tile.vectors,)
    parts = []
    for vectors in widths:
        parts.append(_micro_kernel_text(kernel, kernel.tile.rows, vectors, fast=False))
        if limits is not None:
            sizes = (*kernel.partial, kernel.tile.rows)
            parts += [_micro_kernel_text(kernel, rows, vectors, fast=True) for rows in sizes]
        elif kernel.partial:
            parts += [_micro_kernel_text(kernel, rows, vectors, fast=False) for rows in kernel.partial]
    if limits is not None:
        parts.append(_guard_text(kernel, limits))
    if kernel.chunks is not None:
        draws = _random(kernel, kernel.tile.rows) if kernel.fma.acc.noise else None
        parts.append(finish_text(f"{kernel.name}_finish", kernel.chunks, kernel.drawn, draws))
    if kernel.groups is not None and kernel.groups.is_integer:
        sides = kernel.groups_of("rows"), kernel.groups_of("lanes")
        parts.append(kernel.groups.finish_text(f"{kernel.name}_finish", kernel.tile.vectors, *sides))
    if kernel.counts:
        parts.append(counting.merge_text(f"{kernel.name}_merge", kernel.tile.width))
    return "\n".join([*parts, *(_choice_text(kernel, vectors) for vectors in widths)])


def _stem(kernel: Kernel, vectors: int) -> str:
    return kernel.name if vectors == kernel.tile.vectors else f"{kernel.name}_one"


def _micro_name(kernel: Kernel, rows: int, vectors: int, *, fast: bool) -> str:
    return f"{_stem(kernel, vectors)}_{'fast' if fast else 'exact'}{rows}"


def _choice_text(kernel: Kernel, vectors: int) -> str:
    """The entry: guard, then the micro-kernel for the number of rows."""
    names, kinds = "".join(f", {n}" for n, _ in kernel.extra), "".join(f", {kind}" for _, kind in kernel.extra)
    call = f"(%rows, %lanes, %tile, %kc{names}) : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64{kinds}) -> ()"
    fast = kernel.limits is not None

    def by_rows(sizes: list[int], indent: str) -> str:
        if len(sizes) == 1:
            return f"{indent}func.call @{_micro_name(kernel, sizes[0], vectors, fast=fast)}{call}"
        return f"""{indent}%most{sizes[0]} = arith.constant {sizes[0]} : i64
{indent}%few{sizes[0]} = arith.cmpi ule, %count, %most{sizes[0]} : i64
{indent}scf.if %few{sizes[0]} {{
{indent}  func.call @{_micro_name(kernel, sizes[0], vectors, fast=fast)}{call}
{indent}}} else {{
{by_rows(sizes[1:], indent + "  ")}
{indent}}}"""

    body = by_rows([*sorted(kernel.partial), kernel.tile.rows], "      " if fast else "    ")
    if fast and scale_of(kernel.fma) != 1:
        body = _watched_text(
            kernel, body, f"func.call @{_micro_name(kernel, kernel.tile.rows, vectors, fast=False)}{call}"
        )
    elif fast:
        body = f"""    %ok = func.call @{kernel.name}_guard(%rlow, %rhigh, %llow, %lhigh, %tile) : (i32, i32, i32, i32, !llvm.ptr) -> i1
    scf.if %ok {{
{body}
    }} else {{
      func.call @{_micro_name(kernel, kernel.tile.rows, vectors, fast=False)}{call}
    }}"""
    elif kernel.flushes:
        body = f"""    %mode = func.call @numc_ftz_begin() : () -> i32
{body}
    func.call @numc_ftz_end(%mode) : (i32) -> ()"""
    return f"""
func.func private @{_stem(kernel, vectors)}(%rows: !llvm.ptr, %lanes: !llvm.ptr, %tile: !llvm.ptr, %kc: i64, %count: i64,
    %rlow: i32, %rhigh: i32, %llow: i32, %lhigh: i32{_declared(kernel)}) {APART} {{
{body}
    return
}}"""


def _declared(kernel: Kernel) -> str:
    return "".join(f", {name}: {kind}" for name, kind in kernel.extra)


def _watched_text(kernel: Kernel, fast: str, exact: str) -> str:
    """The cheap sequence under its guard; where a sum was lost below binary32's subnormals, the exact one on the old tile."""
    vec, size = f"vector<{kernel.tile.width}xf32>", kernel.tile_words

    def copy(source: str, target: str, indent: str) -> str:
        lines = f"""scf.for %i = %c0 to %size step %width : i64 {{
  %from = llvm.getelementptr {source}[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %to = llvm.getelementptr {target}[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %v = llvm.load %from {{alignment = 4 : i64}} : !llvm.ptr -> {vec}
  llvm.store %v, %to {{alignment = 4 : i64}} : {vec}, !llvm.ptr
}}"""
        return "\n".join(indent + line for line in lines.splitlines())

    return f"""    %c0 = arith.constant 0 : i64
    %size = arith.constant {size} : i64
    %width = arith.constant {kernel.tile.width} : i64
    %false = arith.constant false
    %old = llvm.alloca %size x f32 : (i64) -> !llvm.ptr
    %ok = func.call @{kernel.name}_guard(%rlow, %rhigh, %llow, %lhigh, %tile) : (i32, i32, i32, i32, !llvm.ptr) -> i1
    %done = scf.if %ok -> (i1) {{
{copy("%tile", "%old", "      ")}
      %flags = func.call @numc_underflow_begin() : () -> i32
{fast}
      %lost = func.call @numc_underflow_end(%flags) : (i32) -> i32
      %none = arith.constant 0 : i32
      %kept = arith.cmpi eq, %lost, %none : i32
      scf.if %kept {{
      }} else {{
{copy("%old", "%tile", "        ")}
      }}
      scf.yield %kept : i1
    }} else {{
      scf.yield %false : i1
    }}
    scf.if %done {{
    }} else {{
      {exact}
    }}"""


def _random(kernel: Kernel, rows: int) -> RandomSteps:
    return RandomSteps(kernel.fma, rows, kernel.tile.vectors, kernel.tile.width)


def _micro_kernel_text(kernel: Kernel, rows: int, vectors: int, *, fast: bool) -> str:
    """rows x vectors accumulators in registers, all of the block's k; the tile is loaded, updated and stored."""
    t = kernel.tile
    vec = f"vector<{t.width}xf32>"
    names = [f"%acc{r}_{v}" for r in range(rows) for v in range(vectors)]
    places = [r * t.lanes + v * t.width for r in range(rows) for v in range(vectors)]
    head = f"func.func private @{_micro_name(kernel, rows, vectors, fast=fast)}(%rows: !llvm.ptr, %lanes: !llvm.ptr, %tile: !llvm.ptr, %kc: i64"
    prologue = _random(kernel, rows).prologue() if kernel.drawn else ""
    if kernel.counts:
        carries = counting.carries(kernel.fma, rows * vectors)
        prologue += "\n" + counting.room_text(f"{kernel.name}_merge", t.width, carries, kernel.waiting)
    scale = scale_of(kernel.fma) if fast else 1.0
    noise = kernel.fma.acc.noise
    run = run_of(noise) if fast and noise is not None and not noise.lfsr else 0

    def steps(first: str, end: str) -> str:
        if kernel.counts:
            return _counting_loop(kernel, rows, names, vec, (first, end), fast=fast)
        if run and (kernel.chunks is None or kernel.chunks.size % run == 0):
            return _random_loops(kernel, rows, names, vec, first, end)
        body, results = k_step(kernel, rows, names, fast=fast)
        return f"""    %step = arith.constant {2 if kernel.flushes else 1} : i64
{_loop(names, vec, (first, end, "%step"), ("_in", "_out"), body, results)}"""

    if kernel.chunks is not None:
        return f"""
{head}{_declared(kernel)}) {APART} {{
{prologue}
{kernel.chunks.loop(names, places, steps, scale)}
    return
}}"""
    if kernel.groups is not None:
        if kernel.pairs:
            return f"""
{head}{_declared(kernel)}) {APART} {{
{prologue}
{kernel.groups.pair_loop(kernel.tile.rows, rows, kernel.tile.vectors, exact=not fast)}
    return
}}"""
        wide = not fast and not (kernel.groups.is_integer and kernel.groups.bits <= _F32_BITS)
        passes = [k_step(kernel, rows, names, fast=not wide, term=term) for term in kernel.fma.terms]
        return f"""
{head}{_declared(kernel)}) {APART} {{
{prologue}
{kernel.groups.loop(names, places, passes, wide=wide)}
    return
}}"""
    edges = Code(t.width, "edge")
    down, up = ("", "") if scale == 1 else (edges.f32(scale), edges.f32(1 / scale))
    load = "\n".join(
        f"""    {acc}_at = llvm.getelementptr %tile[{place}] : (!llvm.ptr) -> !llvm.ptr, f32
    {acc}_{"raw" if down else "in"} = llvm.load {acc}_at {{alignment = 4 : i64}} : !llvm.ptr -> {vec}"""
        + (f"\n    {acc}_in = arith.mulf {acc}_raw, {down} : {vec}" if down else "")
        for acc, place in zip(names, places, strict=True)
    )
    store = "\n".join(
        (f"    {acc}_back = arith.mulf {acc}_out, {up} : {vec}\n" if up else "")
        + f"    llvm.store {acc}_{'back' if up else 'out'}, {acc}_at {{alignment = 4 : i64}} : {vec}, !llvm.ptr"
        for acc in names
    )
    loop = _amx_loop(kernel, rows, names, vec) if kernel.fma.datapath == "amx_bf16" else steps("%c0", "%kc")
    return f"""
{head}{_declared(kernel)}) {APART} {{
    %c0 = arith.constant 0 : i64
{edges.text()}
{prologue}
{load}
{loop}
{store}
    return
}}"""


def _loop(
    names: list[str], vec: str, bounds: tuple[str, str, str], suffixes: tuple[str, str], body: str, results: list[str]
) -> str:
    """A loop over k that carries the accumulators; suffixes: of their names before and after it."""
    types = ", ".join([vec] * len(names))
    before, after = suffixes
    (first, end, step), carried = bounds, ", ".join(f"{a} = {a}{before}" for a in names)
    return f"""    {", ".join(a + after for a in names)} = scf.for %i = {first} to {end} step {step} iter_args({carried}) -> ({types}) : i64 {{
{body}
      scf.yield {", ".join(results)} : {types}
    }}"""


def _counting_loop(
    kernel: Kernel, rows: int, names: list[str], vec: str, bounds: tuple[str, str], *, fast: bool
) -> str:
    """Steps of k of which some are counted."""
    body, results = k_step(kernel, rows, names, fast=fast)
    plain = f"""      %step = arith.constant 1 : i64
{_loop(names, vec, ("%pos_w", "%look", "%step"), ("_w", "_q"), body, results)}"""
    planes = counting.Planes([f"%plane{n}_w" for n in range(counting.LOW)])
    counted = k_step(kernel, rows, [n + "_q" for n in names], fast=fast, planes=planes)
    return counting.loop_text(names, vec, bounds, plain, counted, planes)


def _random_loops(kernel: Kernel, rows: int, names: list[str], vec: str, first: str, end: str) -> str:
    """Steps of k by the runs that share random words, then those that are left one by one."""
    random, t = _random(kernel, rows), kernel.tile
    code = Code(t.width, "u")
    scalar = Code(0, "us")
    steps = ["%i", *(scalar.binary("addi", "%i", scalar.int(n, "i64"), "i64") for n in range(1, random.run))]
    k = scalar.binary("addi", "%k0", "%i", "i64")
    code.lines += scalar.lines
    words = random.words(code, k)
    panels = []
    for n, step in enumerate(steps):
        panel = Code(t.width, f"u{n}_")
        panels.append(_panel_loads(kernel, rows, panel, step))
        code.lines += panel.lines
    panels = [(r, _scaled(kernel, code, lanes)) for r, lanes in panels]
    current = list(names)
    # An accumulator at a time: what it draws is in one register then, and all of their chains are in flight anyway.
    for n in range(len(names)):
        for position, (row_values, lane_values) in enumerate(panels):
            row, lane = row_values[n // t.vectors], lane_values[n % t.vectors]
            a, b = (lane, row) if kernel.swap else (row, lane)
            current[n] = emit_noisy_fma(code, a, b, current[n], kernel.fma, words[n], position)
    whole = _loop(names, vec, (first, "%runs_end", "%run"), ("_in", "_mid"), code.text("      "), current)
    body, results = k_step(kernel, rows, names, fast=True)
    return f"""    %one = arith.constant 1 : i64
    %run = arith.constant {random.run} : i64
    %rest = arith.remui {end}, %run : i64
    %runs_end = arith.subi {end}, %rest : i64
{whole}
{_loop(names, vec, ("%runs_end", end, "%one"), ("_mid", "_out"), body, results)}"""


def _scaled(kernel: Kernel, code: Code, lanes: list[list[str]]) -> list[list[str]]:
    """The lanes times the scale of the cheap sequence, and so all products."""
    scale = scale_of(kernel.fma)
    if scale == 1:
        return lanes
    return [[code.binary("mulf", part, code.f32(scale)) for part in parts] for parts in lanes]


def _panel_loads(
    kernel: Kernel, rows: int, code: Code, k: str, *, lanes_only: bool = False
) -> tuple[list[list[str]], list[list[str]]]:
    """Loads of one k: row values (broadcast) [row][part], lane values [vector][part]; the layouts are layout.py's.

    lanes_only: of the rows, the addresses.
    """
    t = kernel.tile
    row_parts, lane_parts = kernel.parts("rows"), kernel.parts("lanes")
    scalar = Code(0, code.prefix + "x")
    within = scalar.binary("andi", k, scalar.int(t.width - 1, "i64"), "i64")
    chunk = scalar.binary("subi", k, within, "i64")
    row_at = scalar.binary(
        "addi", scalar.binary("muli", chunk, scalar.int(t.rows * row_parts, "i64"), "i64"), within, "i64"
    )
    lane_at = scalar.binary("muli", k, scalar.int(t.lanes * lane_parts, "i64"), "i64")
    code.lines += scalar.lines
    row_base, lane_base = code.address("%rows", row_at), code.address("%lanes", lane_at)
    lanes = [
        [code.load(code.address(lane_base, (v * lane_parts + p) * t.width)) for p in range(lane_parts)]
        for v in range(t.vectors)
    ]
    places = [[code.address(row_base, (r * row_parts + p) * t.width) for p in range(row_parts)] for r in range(rows)]
    if lanes_only:
        return places, lanes
    return [[code.splat(at) for at in parts] for parts in places], lanes


def k_step(
    kernel: Kernel,
    rows: int,
    acc: list[str],
    *,
    fast: bool,
    term: tuple[int, int] = (0, 0),
    planes: counting.Planes | None = None,
) -> tuple[str, list[str]]:
    """One step over k (two for VDPBF16PS, whose odd element comes first); of groups, only of the product `term`.

    planes: where its additions are counted, if they are.
    """
    t = kernel.tile
    code = Code(t.width, "s")
    order = ["%i"]
    if kernel.flushes:
        code.lines += ["%one = arith.constant 1 : i64", "%next = arith.addi %i, %one : i64"]
        order = ["%next", "%i"]
    if kernel.fetches_ahead:  # a step's share of it
        code.fetch_ahead("%ahead", "%i", t.rows * kernel.parts("rows"))
    current, vectors = list(acc), len(acc) // rows
    drawn = [NOTHING] * len(acc)
    if kernel.drawn:
        code.lines.append("%k = arith.addi %k0, %i : i64")
        drawn = _random(kernel, rows).step(code, "%k")
    if planes is not None:
        planes.code = code
    for k in order:
        panel = Code(t.width, code.prefix + k[1])
        row_values, lane_values = _panel_loads(kernel, rows, panel, k, lanes_only=planes is not None)
        code.lines += panel.lines
        if fast:
            lane_values = _scaled(kernel, code, lane_values)
        for n, c in enumerate(current):
            if planes is not None and n % vectors == 0:
                if n:
                    before = slice(n - vectors, n)
                    *current[before], lane_values[0][0] = counting.in_order(code, [*current[before], lane_values[0][0]])
                row_values[n // vectors] = [code.splat(at) for at in row_values[n // vectors]]
            row, lane = row_values[n // vectors], lane_values[n % vectors]
            a, b = (lane, row) if kernel.swap else (row, lane)
            product = ""
            if planes is not None:
                words, product = counting.emit_additions(code, a, b, c, kernel.fma, drawn[n])
                for word in words:
                    planes.add(word)
                limits = kernel.limits
                if not (fast and limits is not None and products_are_exact(kernel.fma, limits)):
                    product = ""
            if kernel.groups is not None:
                current[n] = kernel.groups.step(code, a[term[0]], b[term[1]], c, wide=not fast)
            elif kernel.flushes:
                current[n] = code.fma(a[0], b[0], c)
            elif fast:
                current[n] = emit_fast_fma(code, a, b, c, kernel.fma, drawn[n][1], product)
            else:
                current[n] = emit_fma(code, a, b, c, kernel.fma, drawn[n])
    if planes is not None:
        planes.finish()
    return code.text("      "), current


def _amx_loop(kernel: Kernel, rows: int, acc: list[str], vec: str) -> str:
    """TDPBF16PS: in blocks of 32, one chain over even k and one over odd k from +0, then C + (E + O)."""
    t = kernel.tile
    types = ", ".join([vec] * len(acc))
    chain_types = ", ".join([vec] * (2 * len(acc)))
    evens, odds = [a + "e" for a in acc], [a + "o" for a in acc]
    body = Code(t.width, "s")
    results = []
    for k, chain in (("%i", evens), ("%next", odds)):
        panel = Code(t.width, body.prefix + k[1])
        row_values, lane_values = _panel_loads(kernel, rows, panel, k)
        body.lines += panel.lines
        results += [
            body.fma(row_values[n // t.vectors][0], lane_values[n % t.vectors][0], c) for n, c in enumerate(chain)
        ]
    tail = Code(t.width, "t")
    sums = [
        tail.binary("addf", a, tail.binary("addf", even + "_r", odd + "_r"))
        for a, even, odd in zip(acc, evens, odds, strict=True)
    ]
    inner_args = ", ".join(f"{c} = %zero" for c in evens + odds)
    return f"""    %c1 = arith.constant 1 : i64
    %c2 = arith.constant 2 : i64
    %c32 = arith.constant 32 : i64
    %zero = arith.constant dense<0.0> : {vec}
    {", ".join(a + "_out" for a in acc)} = scf.for %block = %c0 to %kc step %c32 iter_args({", ".join(f"{a} = {a}_in" for a in acc)}) -> ({types}) : i64 {{
      %block_end = arith.addi %block, %c32 : i64
      %end = arith.minui %block_end, %kc : i64
      {", ".join(c + "_r" for c in evens + odds)} = scf.for %i = %block to %end step %c2 iter_args({inner_args}) -> ({chain_types}) : i64 {{
        %next = arith.addi %i, %c1 : i64
{body.text("        ")}
        scf.yield {", ".join(results)} : {chain_types}
      }}
{tail.text("      ")}
      scf.yield {", ".join(sums)} : {types}
    }}"""


def _guard_text(kernel: Kernel, limits: Guard) -> str:
    """Decide for one micro-tile and one block of k whether the cheap sequence is exact (see guarded.py).

    Bounds are on biased exponents. A product is below 2^(ea + eb + 2); with K of them and the accumulator at entry every
    partial sum is below 2^(max(ea + eb + 2 + log2 K, ec + 1) + 2), the last 2 covering the growth by rounding (monotone
    rounding of multiples for one part, a factor below e for compound formats and K <= 2^15). With chunks, K is at most
    theirs, and the accumulators at entry are the sum of a chunk that goes on from the block before. Groups begin at +0.
    """
    t, chunks = kernel.tile, kernel.chunks
    # Where no chunk goes on, there is nothing to look at.
    start, size = (0, t.rows * t.lanes) if chunks is None else (chunks.tile, chunks.tile if chunks.carried else 0)
    if kernel.groups is not None:
        size = 0
    code = Code(t.width, "g")
    value = code.load(code.address(code.address("%tile", start), "%i"))
    bits = code.cast("bitcast", value, "f32", "i32")
    magnitude = code.binary("andi", bits, code.int(0x7FFFFFFF), "i32")
    high = code.binary("maxui", "%high0", magnitude, "i32")
    # -0 would become +0 in the cheap sequence.
    minus_zero = code.cast("extui", code.compare("eq", bits, code.int(0x80000000)), "i1", "i32")
    zeros = code.binary("ori", "%zero0", minus_zero, "i32")
    ivec = f"vector<{t.width}xi32>"
    # Formats have no bits below their subnormal numbers, but units of groups can be anywhere.
    normal = "    %a1 = arith.andi %a0, %a0 : i1"
    if kernel.groups is not None:
        normal = """    %rn = arith.cmpi ne, %ra, %zero : i32
    %ln = arith.cmpi ne, %la, %zero : i32
    %n1 = arith.andi %rn, %ln : i1
    %a1 = arith.andi %a0, %n1 : i1"""
    return f"""
func.func private @{kernel.name}_guard(%rlow: i32, %rhigh: i32, %llow: i32, %lhigh: i32, %tile: !llvm.ptr) -> i1 {APART} {{
    %c0 = arith.constant 0 : i64
    %size = arith.constant {size} : i64
    %width = arith.constant {t.width} : i64
    %none = arith.constant dense<0> : {ivec}
    %highs, %zeros = scf.for %i = %c0 to %size step %width iter_args(%high0 = %none, %zero0 = %none) -> ({ivec}, {ivec}) : i64 {{
{code.text("      ")}
      scf.yield {high}, {zeros} : {ivec}, {ivec}
    }}
    %chigh = vector.reduction <maxui>, %highs : {ivec} into i32
    %czero = vector.reduction <or>, %zeros : {ivec} into i32
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %shift = arith.constant 23 : i32
    %bias = arith.constant 127 : i32
    %growth = arith.constant {kernel.growth} : i32
    %largest = arith.constant {limits.largest - 2} : i32
    %least_product = arith.constant {limits.product} : i32
    %finite = arith.constant 2139095040 : i32
    // Zero operands only: the stored minimum is all ones; its exponent then reads as huge, which is what is wanted.
    %ra = arith.shrui %rlow, %shift : i32
    %la = arith.shrui %llow, %shift : i32
    %rz = arith.shrui %rhigh, %shift : i32
    %lz = arith.shrui %lhigh, %shift : i32
    %emin0 = arith.addi %ra, %la : i32
    %emin1 = arith.subi %emin0, %bias : i32
    %emin = arith.subi %emin1, %bias : i32
    %emax0 = arith.addi %rz, %lz : i32
    %emax1 = arith.subi %emax0, %bias : i32
    %emax2 = arith.subi %emax1, %bias : i32
    %emax = arith.addi %emax2, %growth : i32
    %ec0 = arith.shrui %chigh, %shift : i32
    %ec1 = arith.subi %ec0, %bias : i32
    %ec = arith.addi %ec1, %one : i32
    %bound = arith.maxsi %emax, %ec : i32
    %ok1 = arith.cmpi sle, %bound, %largest : i32
    %ok2 = arith.cmpi sge, %emin, %least_product : i32
    %ok3 = arith.cmpi eq, %czero, %zero : i32
    %ok4 = arith.cmpi ult, %rhigh, %finite : i32
    %ok5 = arith.cmpi ult, %lhigh, %finite : i32
    %a0 = arith.andi %ok1, %ok2 : i1
{normal}
    %a2 = arith.andi %ok3, %ok4 : i1
    %a3 = arith.andi %a1, %a2 : i1
    %ok = arith.andi %a3, %ok5 : i1
    return %ok : i1
}}"""


def magnitude_range(code: Code, bits: str, low: str, high: str) -> tuple[str, str]:
    """Append the update of the smallest non-zero (less one) and the largest magnitude by encodings; returns both."""
    magnitude = code.binary("andi", bits, code.int(0x7FFFFFFF), "i32")
    # x - 1 as unsigned turns a zero into the largest value: it then never is the minimum.
    less_one = code.binary("subi", magnitude, code.int(1), "i32")
    return code.binary("minui", low, less_one, "i32"), code.binary("maxui", high, magnitude, "i32")
