# ruff: noqa: E501 - the long lines are MLIR text
"""The text of the contraction kernels of one FMA operator: packing, micro-kernels and the blocked loops around them.

A contraction (arithmetic.md section 4) is seen as batch x rows x lanes x k: the operand that holds the innermost output
dimension supplies the lanes of the vectors, the other one the rows. Element addresses are sums of per-dimension offsets, so
four tables per operand side describe every matmul and convolution, whatever its strides; packing follows the tables and
nothing like im2col is ever stored for a whole tensor.

The reduction runs in ascending order in every tile shape: blocking k stores and reloads the f32 carrier, which changes no
bit. One tile of the accumulator is owned by one task, so neither do threads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from numc.compiler.fma import Fma
from numc.compiler.formats import Conversion
from numc.passes.code import Code
from numc.passes.fast import Guard, emit_fast_fma, guard
from numc.passes.operators import emit_fma
from numc.passes.rounding import emit_parts, emit_round

CONTRACT_ARGUMENTS = [
    "a",
    "b",
    "c",
    "batch_a",
    "batch_b",
    "batch_c",
    "row_a",
    "row_c",
    "lane_b",
    "lane_c",
    "k_a",
    "k_b",
]


@dataclass(frozen=True)
class Tile:
    """Sizes of the blocked loops, in elements; none of them can change a result.

    width: lanes of a vector register. vectors, rows: the micro-tile is rows x (vectors * width).
    row_block, lane_block, k_block: what one task packs at a time (multiples of the micro-tile; k_block of 32).
    """

    width: int = 16
    vectors: int = 2
    rows: int = 8
    row_block: int = 128
    lane_block: int = 256
    k_block: int = 256

    @property
    def lanes(self) -> int:
        """Lanes of the micro-tile."""
        return self.width * self.vectors


AVX512 = Tile()
AVX2 = Tile(width=8, vectors=2, rows=4)


def slim(tile: Tile) -> Tile:
    """The tile for contractions with a single row (matrix times vector, depthwise convolution)."""
    return replace(tile, rows=1, row_block=1)


@dataclass(frozen=True)
class Kernel:
    """One kernel to generate. `swap`: the rows come from the operator's b and the lanes from its a."""

    fma: Fma
    tile: Tile
    swap: bool = False
    fast: bool = True

    @property
    def name(self) -> str:
        """The symbol stem, unique per kernel."""
        text = "".join(ch if ch.isalnum() else "_" for ch in str(self.fma))
        t = self.tile
        shape = f"{t.rows}x{t.lanes}" + (
            f"_{t.row_block}_{t.lane_block}_{t.k_block}" if t not in (AVX512, AVX2) else ""
        )
        return f"numc_{text}_{shape}{'_ba' if self.swap else ''}"

    @property
    def row_conversion(self) -> Conversion:
        """The format of the operand that supplies the rows."""
        return self.fma.b if self.swap else self.fma.a

    @property
    def lane_conversion(self) -> Conversion:
        """The format of the operand that supplies the lanes."""
        return self.fma.a if self.swap else self.fma.b


def kernel_text(kernel: Kernel) -> str:
    """Return the MLIR functions of a kernel; the entry is ``@<name>`` with the CONTRACT_ARGUMENTS and a task range."""
    limits = guard(kernel.fma) if kernel.fast else None
    t = kernel.tile
    parts = [
        _pack_text(f"{kernel.name}_pack_rows", t.rows, kernel.row_conversion, limits is not None),
        _pack_text(f"{kernel.name}_pack_lanes", t.lanes, kernel.lane_conversion, limits is not None),
        _micro_kernel_text(kernel, f"{kernel.name}_exact", fast=False),
        _tile_in_text(kernel),
        _driver_text(kernel, limits),
    ]
    if limits is not None:
        parts.append(_micro_kernel_text(kernel, f"{kernel.name}_fast", fast=True))
    return "\n".join(parts)


def _pack_text(name: str, panel: int, to: Conversion, with_range: bool) -> str:
    """Pack `panel` columns over a block of k: gather by the offset tables, convert, split into parts.

    The panel is laid out k-major, the parts of one k next to each other; columns beyond `count` and a k beyond the end
    (up to an even number) are +0. Returns the smallest non-zero and the largest magnitude, as encodings.
    """
    parts = to.format.parts
    width = next(w for w in (16, 8, 4, 2, 1) if panel % w == 0)
    code = Code(width, "q")
    rounded = emit_round(code, "%raw", to)
    split = emit_parts(code, rounded, parts)
    stores = "\n".join(
        f"""        %at{n} = arith.addi %base, %part{n} : index
        vector.store {value}, %panel[%at{n}] : memref<?xf32>, vector<{width}xf32>"""
        for n, value in enumerate(split)
    )
    part_offsets = "\n".join(f"    %part{n} = arith.constant {n * panel} : index" for n in range(parts))
    measure = Code(width, "m")
    bits = measure.cast("bitcast", rounded, "f32", "i32")
    magnitude = measure.binary("andi", bits, measure.int(0x7FFFFFFF), "i32")
    # x - 1 as unsigned turns a zero into the largest value: it then never is the minimum.
    less_one = measure.binary("subi", magnitude, measure.int(1), "i32")
    low = measure.binary("minui", "%low0", less_one, "i32")
    high = measure.binary("maxui", "%high0", magnitude, "i32")
    if not with_range:
        measure, low, high = Code(width, "m"), "%low0", "%high0"
    ivec = f"vector<{width}xi32>"
    return f"""
func.func private @{name}(%src: memref<?xf32>, %start: index, %offsets: memref<?xindex>, %first: index, %count: index,
    %ks: memref<?xindex>, %k0: index, %kc: index, %panel: memref<?xf32>, %to: index) -> (i32, i32) attributes {{no_inline, passthrough = ["noinline"]}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %size = arith.constant {panel} : index
    %width = arith.constant {width} : index
    %stride = arith.constant {panel * parts} : index
    %zero = arith.constant 0.0 : f32
    %true = arith.constant true
{part_offsets}
    %full = arith.cmpi eq, %count, %size : index
    %origin = memref.load %offsets[%first] : memref<?xindex>
    %adjacent = scf.for %j = %c0 to %count step %c1 iter_args(%ok = %full) -> (i1) {{
      %at = arith.addi %first, %j : index
      %offset = memref.load %offsets[%at] : memref<?xindex>
      %expected = arith.addi %origin, %j : index
      %same = arith.cmpi eq, %offset, %expected : index
      %both = arith.andi %ok, %same : i1
      scf.yield %both : i1
    }}
    scf.for %i = %c0 to %kc step %c1 {{
      %ki = arith.addi %k0, %i : index
      %koffset = memref.load %ks[%ki] : memref<?xindex>
      %from = arith.addi %start, %koffset : index
      %row = arith.muli %i, %stride : index
      %base = arith.addi %to, %row : index
      scf.if %adjacent {{
        %whole = arith.addi %from, %origin : index
        scf.for %j = %c0 to %size step %width {{
          %s = arith.addi %whole, %j : index
          %v = vector.load %src[%s] : memref<?xf32>, vector<{width}xf32>
          %d = arith.addi %base, %j : index
          vector.store %v, %panel[%d] : memref<?xf32>, vector<{width}xf32>
        }}
      }} else {{
        scf.for %j = %c0 to %count step %c1 {{
          %at = arith.addi %first, %j : index
          %offset = memref.load %offsets[%at] : memref<?xindex>
          %s = arith.addi %from, %offset : index
          %v = memref.load %src[%s] : memref<?xf32>
          %d = arith.addi %base, %j : index
          memref.store %v, %panel[%d] : memref<?xf32>
        }}
        scf.for %j = %count to %size step %c1 {{
          %d = arith.addi %base, %j : index
          memref.store %zero, %panel[%d] : memref<?xf32>
        }}
      }}
    }}
    %odd = arith.remui %kc, %c2 : index
    %even = arith.addi %kc, %odd : index
    scf.for %i = %kc to %even step %c1 {{
      %row = arith.muli %i, %stride : index
      %base = arith.addi %to, %row : index
      scf.for %j = %c0 to %stride step %c1 {{
        %d = arith.addi %base, %j : index
        memref.store %zero, %panel[%d] : memref<?xf32>
      }}
    }}
    %low_start = arith.constant dense<-1> : {ivec}
    %high_start = arith.constant dense<0> : {ivec}
    %low, %high = scf.for %i = %c0 to %kc step %c1 iter_args(%low1 = %low_start, %high1 = %high_start) -> ({ivec}, {ivec}) {{
      %row = arith.muli %i, %stride : index
      %start_row = arith.addi %to, %row : index
      %low2, %high2 = scf.for %j = %c0 to %size step %width iter_args(%low0 = %low1, %high0 = %high1) -> ({ivec}, {ivec}) {{
        %base = arith.addi %start_row, %j : index
        %raw = vector.load %panel[%base] : memref<?xf32>, vector<{width}xf32>
{code.text("        ")}
{stores}
{measure.text("        ")}
        scf.yield {low}, {high} : {ivec}, {ivec}
      }}
      scf.yield %low2, %high2 : {ivec}, {ivec}
    }}
    %min = vector.reduction <minui>, %low : {ivec} into i32
    %max = vector.reduction <maxui>, %high : {ivec} into i32
    return %min, %max : i32, i32
}}"""


def _micro_kernel_text(kernel: Kernel, name: str, *, fast: bool) -> str:
    """rows x vectors accumulators in registers, all of k; the accumulator tile is loaded, updated and stored."""
    hardware = kernel.fma.datapath if kernel.fma.datapath not in ("fp32", "exact") else ""
    t = kernel.tile
    vec = f"vector<{t.width}xf32>"
    accumulators = [(r, v) for r in range(t.rows) for v in range(t.vectors)]
    names = [f"%acc{r}_{v}" for r, v in accumulators]
    load, store = [], []
    for (r, v), acc in zip(accumulators, names, strict=True):
        place = f"%o{r}_{v} = arith.constant {r * t.lanes + v * t.width} : index\n    %p{r}_{v} = arith.addi %to, %o{r}_{v} : index"
        load.append(f"    {place}\n    {acc}_in = vector.load %tile[%p{r}_{v}] : memref<?xf32>, {vec}")
        store.append(f"    vector.store {acc}_out, %tile[%p{r}_{v}] : memref<?xf32>, {vec}")
    inits = ", ".join(f"{a} = {a}_in" for a in names)
    outs = ", ".join(f"{a}_out" for a in names)
    types = ", ".join([vec] * len(names))
    if hardware == "amx_bf16":
        loop = _amx_loop(kernel, names, vec)
    else:
        step = 2 if hardware else 1
        body, results = _k_step(kernel, names, vec, fast=fast, hardware=hardware)
        loop = f"""    %step = arith.constant {step} : index
    {outs} = scf.for %i = %c0 to %kc step %step iter_args({inits}) -> ({types}) {{
{body}
      scf.yield {", ".join(results)} : {types}
    }}"""
    nl = "\n"
    return f"""
func.func private @{name}(%rows: memref<?xf32>, %row_start: index, %lanes: memref<?xf32>, %lane_start: index,
    %tile: memref<?xf32>, %to: index, %kc: index) attributes {{no_inline, passthrough = ["noinline"]}} {{
    %c0 = arith.constant 0 : index
{nl.join(load)}
{loop}
{nl.join(store)}
    return
}}"""


def _panel_loads(kernel: Kernel, k: str, tag: str, vec: str) -> tuple[list[str], list[list[str]], list[list[str]]]:
    """Loads of one k: lines, row values (broadcast) [row][part], lane values [vector][part]."""
    t = kernel.tile
    row_parts, lane_parts = kernel.row_conversion.format.parts, kernel.lane_conversion.format.parts
    lines = [
        f"%{tag}rs = arith.constant {t.rows * row_parts} : index",
        f"%{tag}ls = arith.constant {t.lanes * lane_parts} : index",
        f"%{tag}ro = arith.muli {k}, %{tag}rs : index",
        f"%{tag}lo = arith.muli {k}, %{tag}ls : index",
        f"%{tag}rb = arith.addi %row_start, %{tag}ro : index",
        f"%{tag}lb = arith.addi %lane_start, %{tag}lo : index",
    ]
    lanes, rows = [], []
    for v in range(t.vectors):
        values = []
        for p in range(lane_parts):
            n = f"%{tag}l{v}_{p}"
            lines += [
                f"{n}c = arith.constant {p * t.lanes + v * t.width} : index",
                f"{n}i = arith.addi %{tag}lb, {n}c : index",
                f"{n} = vector.load %lanes[{n}i] : memref<?xf32>, {vec}",
            ]
            values.append(n)
        lanes.append(values)
    for r in range(t.rows):
        values = []
        for p in range(row_parts):
            n = f"%{tag}r{r}_{p}"
            lines += [
                f"{n}c = arith.constant {p * t.rows + r} : index",
                f"{n}i = arith.addi %{tag}rb, {n}c : index",
                f"{n}s = memref.load %rows[{n}i] : memref<?xf32>",
                f"{n} = vector.broadcast {n}s : f32 to {vec}",
            ]
            values.append(n)
        rows.append(values)
    return lines, rows, lanes


def _k_step(kernel: Kernel, acc: list[str], vec: str, *, fast: bool, hardware: str) -> tuple[str, list[str]]:
    """One step over k (two for VDPBF16PS, whose odd element comes first)."""
    t = kernel.tile
    lines: list[str] = []
    current = list(acc)
    order = [("x", "%i")]
    if hardware:
        lines += ["%one = arith.constant 1 : index", "%next = arith.addi %i, %one : index"]
        order = [("x", "%next"), ("y", "%i")]
    code = Code(t.width, "s")
    for tag, k in order:
        loads, rows, lanes = _panel_loads(kernel, k, tag, vec)
        code.lines += loads
        for n in range(len(acc)):
            row, lane = rows[n // t.vectors], lanes[n % t.vectors]
            a, b = (lane, row) if kernel.swap else (row, lane)
            if hardware:
                current[n] = code.fma(a[0], b[0], current[n])
            elif fast:
                current[n] = emit_fast_fma(code, a, b, current[n], kernel.fma)
            else:
                current[n] = emit_fma(code, a, b, current[n], kernel.fma)
    return "\n".join("      " + line for line in lines + code.lines), current


def _amx_loop(kernel: Kernel, acc: list[str], vec: str) -> str:
    """TDPBF16PS: in blocks of 32, one chain over even k and one over odd k from +0, then C + (E + O)."""
    t = kernel.tile
    types = ", ".join([vec] * len(acc))
    chain_types = ", ".join([vec] * (2 * len(acc)))
    evens, odds = [a + "e" for a in acc], [a + "o" for a in acc]
    code = Code(t.width, "s")
    results = []
    for parity, chain in ((0, evens), (1, odds)):
        k = "%i" if parity == 0 else "%next"
        loads, rows, lanes = _panel_loads(kernel, k, "xy"[parity], vec)
        code.lines += loads
        results += [code.fma(rows[n // t.vectors][0], lanes[n % t.vectors][0], c) for n, c in enumerate(chain)]
    tail = Code(t.width, "t")
    sums = []
    for n, a in enumerate(acc):
        sums.append(tail.binary("addf", a, tail.binary("addf", evens[n] + "_r", odds[n] + "_r")))
    inner_args = ", ".join(f"{c} = %zero" for c in evens + odds)
    return f"""    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c32 = arith.constant 32 : index
    %zero = arith.constant dense<0.0> : {vec}
    {", ".join(a + "_out" for a in acc)} = scf.for %block = %c0 to %kc step %c32 iter_args({", ".join(f"{a} = {a}_in" for a in acc)}) -> ({types}) {{
      %block_end = arith.addi %block, %c32 : index
      %end = arith.minui %block_end, %kc : index
      {", ".join(c + "_r" for c in evens + odds)} = scf.for %i = %block to %end step %c2 iter_args({inner_args}) -> ({chain_types}) {{
        %next = arith.addi %i, %c1 : index
{code.text("        ")}
        scf.yield {", ".join(results)} : {chain_types}
      }}
{tail.text("      ")}
      scf.yield {", ".join(sums)} : {types}
    }}"""


def _tile_in_text(kernel: Kernel) -> str:
    """Bring the initial accumulators of one micro-tile in (converted to the accumulator format), and the results out."""
    t = kernel.tile
    code = Code(0, "q")
    converted = emit_round(code, "%raw", kernel.fma.acc)
    head = f"""(%c: memref<?xf32>, %start: index, %row_c: memref<?xindex>, %row: index, %row_count: index,
    %lane_c: memref<?xindex>, %lane: index, %lane_count: index, %tile: memref<?xf32>, %to: index) attributes {{no_inline, passthrough = ["noinline"]}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %pitch = arith.constant {t.lanes} : index
    scf.for %r = %c0 to %row_count step %c1 {{
      %rr = arith.addi %row, %r : index
      %ro = memref.load %row_c[%rr] : memref<?xindex>
      %rs = arith.addi %start, %ro : index
      %tr = arith.muli %r, %pitch : index
      %tb = arith.addi %to, %tr : index
      scf.for %l = %c0 to %lane_count step %c1 {{
        %ll = arith.addi %lane, %l : index
        %lo = memref.load %lane_c[%ll] : memref<?xindex>
        %s = arith.addi %rs, %lo : index
        %d = arith.addi %tb, %l : index"""
    tail = """
      }
    }
    return
}"""
    return f"""
func.func private @{kernel.name}_tile_in{head}
        %raw = memref.load %c[%s] : memref<?xf32>
{code.text("        ")}
        memref.store {converted}, %tile[%d] : memref<?xf32>{tail}
func.func private @{kernel.name}_tile_out{head}
        %v = memref.load %tile[%d] : memref<?xf32>
        memref.store %v, %c[%s] : memref<?xf32>{tail}"""


def _driver_text(kernel: Kernel, limits: Guard | None) -> str:
    """The blocked loops: a task is one (batch, row block, lane block); k is blocked inside it."""
    t, name = kernel.tile, kernel.name
    row_parts, lane_parts = kernel.row_conversion.format.parts, kernel.lane_conversion.format.parts
    row_panels, lane_panels = t.row_block // t.rows, t.lane_block // t.lanes
    row_panel, lane_panel = t.rows * row_parts * t.k_block, t.lanes * lane_parts * t.k_block
    tile_size = t.rows * t.lanes
    call = "(%rows, %rp_at, %lanes, %lp_at, %tiles, %tile_at, %kc) : (memref<?xf32>, index, memref<?xf32>, index, memref<?xf32>, index, index) -> ()"
    if limits is not None:
        run = f"""            %ok = func.call @{name}_guard(%rlow, %rhigh, %llow, %lhigh, %tiles, %tile_at, %kc) : (i32, i32, i32, i32, memref<?xf32>, index, index) -> i1
            scf.if %ok {{
              func.call @{name}_fast{call}
            }} else {{
              func.call @{name}_exact{call}
            }}"""
    elif kernel.fma.datapath in ("fp32", "exact"):
        run = f"            func.call @{name}_exact{call}"
    else:
        run = f"""            %mode = func.call @numc_ftz_begin() : () -> i32
            func.call @{name}_exact{call}
            func.call @numc_ftz_end(%mode) : (i32) -> ()"""
    pack_type = "(memref<?xf32>, index, memref<?xindex>, index, index, memref<?xindex>, index, index, memref<?xf32>, index) -> (i32, i32)"
    tile_type = "(memref<?xf32>, index, memref<?xindex>, index, index, memref<?xindex>, index, index, memref<?xf32>, index) -> ()"
    arguments = ", ".join(f"%{n}: memref<?x{'f32' if n in ('a', 'b', 'c') else 'index'}>" for n in CONTRACT_ARGUMENTS)
    return f"""
{_guard_text(kernel, limits) if limits is not None else ""}
func.func private @{name}({arguments}, %begin: index, %end: index) attributes {{no_inline, passthrough = ["noinline"]}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %micro_rows = arith.constant {t.rows} : index
    %micro_lanes = arith.constant {t.lanes} : index
    %row_block = arith.constant {t.row_block} : index
    %lane_block = arith.constant {t.lane_block} : index
    %k_block = arith.constant {t.k_block} : index
    %row_panel = arith.constant {row_panel} : index
    %lane_panel = arith.constant {lane_panel} : index
    %tile_size = arith.constant {tile_size} : index
    %lane_panels = arith.constant {lane_panels} : index
    %size_rows = arith.constant {row_panel * row_panels} : index
    %size_lanes = arith.constant {lane_panel * lane_panels} : index
    %size_tiles = arith.constant {tile_size * row_panels * lane_panels} : index
    %size_stats = arith.constant {row_panels} : index
    %rows = memref.alloc(%size_rows) {{alignment = 64 : i64}} : memref<?xf32>
    %lanes = memref.alloc(%size_lanes) {{alignment = 64 : i64}} : memref<?xf32>
    %tiles = memref.alloc(%size_tiles) {{alignment = 64 : i64}} : memref<?xf32>
    %lows = memref.alloc(%size_stats) : memref<?xi32>
    %highs = memref.alloc(%size_stats) : memref<?xi32>
    %m = memref.dim %row_c, %c0 : memref<?xindex>
    %n = memref.dim %lane_c, %c0 : memref<?xindex>
    %kk = memref.dim %k_a, %c0 : memref<?xindex>
    %mb = arith.ceildivui %m, %row_block : index
    %nb = arith.ceildivui %n, %lane_block : index
    %per_batch = arith.muli %mb, %nb : index
    %k_blocks0 = arith.ceildivui %kk, %k_block : index
    %k_blocks = arith.maxui %k_blocks0, %c1 : index
    scf.for %task = %begin to %end step %c1 {{
      %batch = arith.divui %task, %per_batch : index
      %in_batch = arith.remui %task, %per_batch : index
      %ib = arith.remui %in_batch, %mb : index
      %jb = arith.divui %in_batch, %mb : index
      %a0 = memref.load %batch_a[%batch] : memref<?xindex>
      %b0 = memref.load %batch_b[%batch] : memref<?xindex>
      %cc0 = memref.load %batch_c[%batch] : memref<?xindex>
      %i0 = arith.muli %ib, %row_block : index
      %j0 = arith.muli %jb, %lane_block : index
      %i_left = arith.subi %m, %i0 : index
      %j_left = arith.subi %n, %j0 : index
      %mc = arith.minui %i_left, %row_block : index
      %nc = arith.minui %j_left, %lane_block : index
      %rps = arith.ceildivui %mc, %micro_rows : index
      %lps = arith.ceildivui %nc, %micro_lanes : index
      %last = arith.subi %k_blocks, %c1 : index
      scf.for %kb = %c0 to %k_blocks step %c1 {{
        %k0 = arith.muli %kb, %k_block : index
        %k_left = arith.subi %kk, %k0 : index
        %kc = arith.minui %k_left, %k_block : index
        %is_first = arith.cmpi eq, %kb, %c0 : index
        %is_last = arith.cmpi eq, %kb, %last : index
        scf.for %rp = %c0 to %rps step %c1 {{
          %r0 = arith.muli %rp, %micro_rows : index
          %first = arith.addi %i0, %r0 : index
          %left = arith.subi %mc, %r0 : index
          %count = arith.minui %left, %micro_rows : index
          %to = arith.muli %rp, %row_panel : index
          %low, %high = func.call @{name}_pack_rows(%a, %a0, %row_a, %first, %count, %k_a, %k0, %kc, %rows, %to) : {pack_type}
          memref.store %low, %lows[%rp] : memref<?xi32>
          memref.store %high, %highs[%rp] : memref<?xi32>
        }}
        scf.for %lp = %c0 to %lps step %c1 {{
          %l0 = arith.muli %lp, %micro_lanes : index
          %first_lane = arith.addi %j0, %l0 : index
          %lane_left = arith.subi %nc, %l0 : index
          %lane_count = arith.minui %lane_left, %micro_lanes : index
          %lp_at = arith.muli %lp, %lane_panel : index
          %llow, %lhigh = func.call @{name}_pack_lanes(%b, %b0, %lane_b, %first_lane, %lane_count, %k_b, %k0, %kc, %lanes, %lp_at) : {pack_type}
          scf.for %rp = %c0 to %rps step %c1 {{
            %r0 = arith.muli %rp, %micro_rows : index
            %first = arith.addi %i0, %r0 : index
            %left = arith.subi %mc, %r0 : index
            %count = arith.minui %left, %micro_rows : index
            %rp_at = arith.muli %rp, %row_panel : index
            %rlow = memref.load %lows[%rp] : memref<?xi32>
            %rhigh = memref.load %highs[%rp] : memref<?xi32>
            %tile_row = arith.muli %rp, %lane_panels : index
            %tile_index = arith.addi %tile_row, %lp : index
            %tile_at = arith.muli %tile_index, %tile_size : index
            scf.if %is_first {{
              func.call @{name}_clear(%tiles, %tile_at) : (memref<?xf32>, index) -> ()
              func.call @{name}_tile_in(%c, %cc0, %row_c, %first, %count, %lane_c, %first_lane, %lane_count, %tiles, %tile_at) : {tile_type}
            }}
{run}
            scf.if %is_last {{
              func.call @{name}_tile_out(%c, %cc0, %row_c, %first, %count, %lane_c, %first_lane, %lane_count, %tiles, %tile_at) : {tile_type}
            }}
          }}
        }}
      }}
    }}
    memref.dealloc %rows : memref<?xf32>
    memref.dealloc %lanes : memref<?xf32>
    memref.dealloc %tiles : memref<?xf32>
    memref.dealloc %lows : memref<?xi32>
    memref.dealloc %highs : memref<?xi32>
    return
}}
func.func private @{name}_clear(%tiles: memref<?xf32>, %at: index) attributes {{no_inline}} {{
    %c0 = arith.constant 0 : index
    %size = arith.constant {tile_size} : index
    %width = arith.constant {t.width} : index
    %zero = arith.constant dense<0.0> : vector<{t.width}xf32>
    scf.for %i = %c0 to %size step %width {{
      %d = arith.addi %at, %i : index
      vector.store %zero, %tiles[%d] : memref<?xf32>, vector<{t.width}xf32>
    }}
    return
}}"""


def _guard_text(kernel: Kernel, limits: Guard) -> str:
    """Decide for one micro-tile and one block of k whether the cheap sequence is exact (see fast.py).

    Bounds are on biased exponents. A product is below 2^(ea + eb + 2); with K of them and the accumulator at entry every
    partial sum is below 2^(max(ea + eb + 2 + log2 K, ec + 1) + 2), the last 2 covering the growth by rounding (monotone
    rounding of multiples for one part, a factor below e for compound formats and K <= 2^15).
    """
    t = kernel.tile
    growth = (t.k_block - 1).bit_length()
    code = Code(t.width, "g")
    bits = code.cast("bitcast", "%v", "f32", "i32")
    magnitude = code.binary("andi", bits, code.int(0x7FFFFFFF), "i32")
    low = code.binary("minui", "%low0", code.binary("subi", magnitude, code.int(1), "i32"), "i32")
    high = code.binary("maxui", "%high0", magnitude, "i32")
    # -0 would become +0 in the cheap sequence.
    minus_zero = code.cast("extui", code.compare("eq", bits, code.int(0x80000000)), "i1", "i32")
    zeros = code.binary("ori", "%zero0", minus_zero, "i32")
    ivec = f"vector<{t.width}xi32>"
    return f"""
func.func private @{kernel.name}_guard(%rlow: i32, %rhigh: i32, %llow: i32, %lhigh: i32, %tiles: memref<?xf32>, %at: index, %kc: index) -> i1 attributes {{no_inline, passthrough = ["noinline"]}} {{
    %c0 = arith.constant 0 : index
    %size = arith.constant {t.rows * t.lanes} : index
    %width = arith.constant {t.width} : index
    %ones = arith.constant dense<-1> : {ivec}
    %none = arith.constant dense<0> : {ivec}
    %lows, %highs, %zeros = scf.for %i = %c0 to %size step %width iter_args(%low0 = %ones, %high0 = %none, %zero0 = %none) -> ({ivec}, {ivec}, {ivec}) {{
      %d = arith.addi %at, %i : index
      %v = vector.load %tiles[%d] : memref<?xf32>, vector<{t.width}xf32>
{code.text("      ")}
      scf.yield {low}, {high}, {zeros} : {ivec}, {ivec}, {ivec}
    }}
    %clow = vector.reduction <minui>, %lows : {ivec} into i32
    %chigh = vector.reduction <maxui>, %highs : {ivec} into i32
    %czero = vector.reduction <or>, %zeros : {ivec} into i32
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %shift = arith.constant 23 : i32
    %bias = arith.constant 127 : i32
    %growth = arith.constant {growth + 2} : i32
    %largest = arith.constant {limits.largest - 2} : i32
    %least_product = arith.constant {limits.product} : i32
    %least_accumulator = arith.constant {max(0, limits.accumulator + 127) << 23} : i32
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
    %ok3 = arith.cmpi uge, %clow, %least_accumulator : i32
    %ok4 = arith.cmpi eq, %czero, %zero : i32
    %ok5 = arith.cmpi ult, %rhigh, %finite : i32
    %ok6 = arith.cmpi ult, %lhigh, %finite : i32
    %a1 = arith.andi %ok1, %ok2 : i1
    %a2 = arith.andi %ok3, %ok4 : i1
    %a3 = arith.andi %ok5, %ok6 : i1
    %a4 = arith.andi %a1, %a2 : i1
    %ok = arith.andi %a3, %a4 : i1
    return %ok : i1
}}"""
