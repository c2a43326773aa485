# ruff: noqa: E501 - the long lines are MLIR text
"""Dot products of groups: the loops over k of a micro-kernel whose operands have groups.

What packed panels hold is described in convert_groups.py. A group is summed in registers from +0 and added to its accumulator in
memory by one binary32 add. A block of k holds whole groups, but for the last one.

bfp, mx
    Binary32 FMAs, under a guard: nothing leaves the range of binary32, and the sum of a group of bfp has at most 24
    bits, so that none of them rounds. Otherwise binary64, where products are exact, and so is the sum of a group of bfp; mx
    rounds every sum to 24 bits, which is what an FMA of binary32 would do if it had all exponents.
intN
    The sum over a block of k is an integer, in binary32 if it fits, else in binary64. Behind the accumulators of a tile
    are 64-bit integers, to which it is added; the end of the reduction scales them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from numc.compiler.arithmetic.groups import GroupConversion
from numc.compiler.arithmetic.operators import Fma
from numc.passes.kernels.builder import PTR, Code, Function
from numc.passes.kernels.datapaths.counting import group_text
from numc.passes.kernels.datapaths.guarded import Guard
from numc.passes.kernels.values.kinds import code_of

_F32_BITS, _F32_LARGEST, _F32_LEAST = 24, 127, -149


@dataclass(frozen=True)
class Groups:
    """Groups along k of the operator `fma`; `width`: lanes of a vector; `tile`: accumulators of a tile.

    counts: the additions to accumulators can be counted (counting.py).
    """

    fma: Fma
    k_block: int
    width: int
    tile: int
    counts: bool = False

    @property
    def size(self) -> int:
        """Steps of k that are summed together."""
        return self.k_block if self.fma.group is None or self.fma.group.group is None else self.fma.group.group

    @property
    def is_integer(self) -> bool:
        """Whether sums are kept as integers until the reduction ends."""
        return self.fma.group is not None and self.fma.group.sums_integers

    @property
    def bits(self) -> int:
        """Significant bits that the exact sum of a group may take."""
        assert self.fma.groups is not None
        a, b = (c.format.most_units for c in self.fma.groups)
        return (self.size * a * b).bit_length()

    @property
    def rounds(self) -> bool:
        """Whether the steps of a group round: those of mx do, to 24 bits, where there are more."""
        assert self.fma.group is not None
        return not self.fma.group.sums_exactly and self.bits > _F32_BITS

    @property
    def guard(self) -> Guard | None:
        """When binary32 FMAs are exact, or None if they never are, or always."""
        assert self.fma.groups is not None
        if self.is_integer or (self.bits > _F32_BITS and not self.rounds):
            return None
        # The smallest magnitudes are the units of the groups: all products are multiples of products of units.
        return Guard(_F32_LARGEST, _F32_LEAST)

    def step(self, code: Code, a: str, b: str, c: str, *, wide: bool) -> str:
        """One step ``a * b + c`` from binary32 panels; `wide`: `c` is binary64."""
        if not wide:
            return code.fma(a, b, c)
        x, y = (code.cast("extf", v, "f32", "f64") for v in (a, b))
        total = code.binary("addf", code.binary("mulf", x, y, "f64"), c, "f64")
        return _to_24_bits(code, total) if self.rounds else total

    def loop(self, names: list[str], places: list[int], passes: list[tuple[str, list[str]]], *, wide: bool) -> str:
        """The loops over the groups of a block, and over the k of a group once for every pass.

        passes: one step from `names` at ``%i``, and what they become.
        """
        kind = "f64" if wide else "f32"
        vec = f"vector<{self.width}x{kind}>"
        types = ", ".join([vec] * len(names))
        ends: list[str] = []
        sums: list[tuple[str, str]] = []
        for name, place in zip(names, places, strict=True):
            code = Code(self.width, name[1:] + "e")
            if self.is_integer:
                self._add_integer(code, name + "_out", place, wide=wide)
            else:
                at = code.address("%tile", place)
                total = code.cast("truncf", name + "_out", "f64", "f32") if wide else name + "_out"
                acc = code.load(at)
                sums.append((total, acc))
                code.store(code.binary("addf", acc, total), at)
            ends += code.lines
        finish = "\n".join("      " + line for line in ends)
        if self.counts:
            finish += "\n" + group_text(sums, self.width)
        inner, before = "", dict.fromkeys(names, "%zero")
        for n, (body, results) in enumerate(passes):
            after = {name: f"{name}_out{n if n < len(passes) - 1 else ''}" for name in names}
            inner += f"""      {", ".join(after.values())} = scf.for %i = %begin to %end step %c1 iter_args({", ".join(f"{n} = {v}" for n, v in before.items())}) -> ({types}) : i64 {{
{body}
        scf.yield {", ".join(results)} : {types}
      }}
"""
            before = after
        return f"""    %c0 = arith.constant 0 : i64
    %c1 = arith.constant 1 : i64
    %size = arith.constant {self.size} : i64
    %zero = arith.constant dense<0.0> : {vec}
    scf.for %begin = %c0 to %kc step %size : i64 {{
      %whole = arith.addi %begin, %size : i64
      %end = arith.minsi %whole, %kc : i64
{inner}{finish}
    }}"""

    @property
    def fits_pairs(self) -> bool:
        """Whether elements are 16-bit integers whose sums over a group are 32-bit integers."""
        assert self.fma.groups is not None
        a, b = (c.format for c in self.fma.groups)
        if self.fma.passes > 1 or self.rounds or not max(a.most_units, b.most_units) < 1 << 15:
            return False
        # Units lie beside a row in whole vectors, or several in one; pairs do not reach into the next group.
        places = self.size % 2 == 0 and (self.width % self.size == 0 or self.size % self.width == 0)
        return places and self.size * a.most_units * b.most_units < 1 << 31

    def pair_loop(self, pitch: int, rows: int, vectors: int, *, exact: bool) -> str:
        """The loops over the groups of a block and over pairs of k; the panels have `pitch` rows.

        exact: scaling in binary64, with one rounding; else in binary32, where a guard or the format makes it exact.
        """
        names = [f"%acc{r}_{v}" for r in range(rows) for v in range(vectors)]
        lanes, half = vectors * self.width, self.width // 2
        kind, types = f"vector<{self.width}xi32>", ", ".join([f"vector<{self.width}xi32>"] * len(names))

        def row_at(code: Code, k: str) -> tuple[str, str]:
            """Where the vector of row 0 that holds step k begins, and the place of k in it."""
            scalar = Code(0, code.prefix + "x")
            within = scalar.binary("andi", k, scalar.int(self.width - 1, "i64"), "i64")
            vector = scalar.binary("subi", k, within, "i64")
            place = scalar.binary("muli", vector, scalar.int(pitch, "i64"), "i64")
            code.lines += scalar.lines
            return code.address("%rows", place), within

        def lane_at(code: Code, step: str) -> str:
            scalar = Code(0, code.prefix + "y")
            place = scalar.binary("muli", step, scalar.int(lanes, "i64"), "i64")
            code.lines += scalar.lines
            return code.address("%lanes", place)

        def half_of(code: Code, n: str, by: int = 2) -> str:
            scalar = Code(0, code.prefix + "z")
            found = scalar.binary("divui", n, scalar.int(by, "i64"), "i64")
            code.lines += scalar.lines
            return found

        step = Code(self.width, "s")
        row, within = row_at(step, "%i")
        row = step.address(row, half_of(step, within))
        pair = Code(self.width, "h")
        where = half_of(pair, "%i")
        step.lines += pair.lines
        lane = lane_at(step, where)
        lane_values = [_load_words(step, step.address(lane, v * self.width)) for v in range(vectors)]
        results = []
        for r in range(rows):
            word = step.op(f"llvm.load {step.address(row, r * self.width)} {{alignment = 4 : i64}} : !llvm.ptr -> i32")
            spread = step.op(f"vector.broadcast {word} : i32 to {kind}")
            for v in range(vectors):
                results.append(_dot(step, names[r * vectors + v], spread, lane_values[v]))
        end = Code(self.width, "e")
        if self.is_integer:
            for n, name in enumerate(names):
                self._add_words(end, name + "_out", n * self.width, step="i32")
        else:
            row, within = row_at(end, "%begin")
            if self.size < self.width:
                unit = half_of(end, within, self.size)
                row = end.address(row, unit)
            group = Code(self.width, "g")
            number = half_of(group, "%begin", self.size)
            end.lines += [*group.lines, f"%unit = arith.addi %even, {number} : i64"]
            lane = lane_at(end, "%unit")
            lane_units = [end.load(end.address(lane, v * self.width)) for v in range(vectors)]
            added = []
            for r in range(rows):
                row_unit = end.splat(end.address(row, r * self.width + half))
                for v in range(vectors):
                    at = end.address("%tile", r * lanes + v * self.width)
                    sums, before = names[r * vectors + v] + "_out", end.load(at)
                    if self.counts:
                        nothing = end.f32(-0.0)
                        added.append((self._scaled(end, sums, row_unit, lane_units[v], nothing, exact=exact), before))
                    end.store(self._scaled(end, sums, row_unit, lane_units[v], before, exact=exact), at)
        counted = group_text(added, self.width) if self.counts else ""
        start = ", ".join(f"{n} = %zero" for n in names)
        return f"""    %c0 = arith.constant 0 : i64
    %c1 = arith.constant 1 : i64
    %c2 = arith.constant 2 : i64
    %odd = arith.andi %kc, %c1 : i64
    %even = arith.addi %kc, %odd : i64
    %size = arith.constant {self.size} : i64
    %zero = arith.constant dense<0> : {kind}
    scf.for %begin = %c0 to %kc step %size : i64 {{
      %whole = arith.addi %begin, %size : i64
      %end = arith.minsi %whole, %kc : i64
      {", ".join(n + "_out" for n in names)} = scf.for %i = %begin to %end step %c2 iter_args({start}) -> ({types}) : i64 {{
{step.text("        ")}
        scf.yield {", ".join(results)} : {types}
      }}
{chr(10).join("      " + line for line in end.lines)}
{counted}
    }}"""

    def _scaled(self, code: Code, sums: str, row: str, lane: str, acc: str, *, exact: bool) -> str:
        if not exact:
            # The product of units is a power of two that binary32 has, and so has what is added: one rounding.
            return code.fma(code.cast("sitofp", sums, "i32", "f32"), code.binary("mulf", row, lane), acc)
        total = code.cast("sitofp", sums, "i32", "f64")
        for unit in (row, lane):
            total = code.binary("mulf", total, code.cast("extf", unit, "f32", "f64"), "f64")
        return code.binary("addf", acc, code.cast("truncf", total, "f64", "f32"))

    def _add_integer(self, code: Code, total: str, place: int, *, wide: bool) -> None:
        if wide:
            self._add_words(code, total, place, step="f64")
        else:
            self._add_words(code, code.cast("fptosi", total, "f32", "i32"), place, step="i32")

    def _add_words(self, code: Code, total: str, place: int, *, step: str) -> None:
        """Add a sum over a block, of type `step`, to the 64-bit integers of a tile."""
        at = code.address("%tile", self.tile + 2 * place)
        kind = code.ty("i64")
        number = code.cast("fptosi" if step == "f64" else "extsi", total, step, "i64")
        before = code.op(f"llvm.load {at} {{alignment = 4 : i64}} : !llvm.ptr -> {kind}")
        after = code.binary("addi", before, number, "i64")
        code.lines.append(f"llvm.store {after}, {at} {{alignment = 4 : i64}} : {kind}, !llvm.ptr")

    def finish_text(self, name: str, vectors: int, rows: GroupConversion, lanes: GroupConversion) -> str:
        """The function that ends a reduction of integers: D = C + RN(S) * RN(scale * scale), one binary32 FMA.

        Its arguments: the tile and the largest magnitudes of rows and lanes, or where those of its channels are.
        """
        kinds = {n: PTR if to.channel else "i32" for n, to in (("rows", rows), ("lanes", lanes))}
        f = Function(name, {"tile": PTR, **kinds})
        pitch = vectors * self.width
        with f.loop(0, self.tile, pitch) as start:
            row = f.fetch(f["rows"], f.i64("divui", start, pitch), "i32") if rows.channel else f["rows"]
            (row_scale,) = code_of(rows).scaling(f.scalar, row, None).up
            with f.loop(0, pitch, self.width) as v:
                code = f.lanes(self.width)
                if lanes.channel:
                    lane = code.load(f.at(f["lanes"], v, "i32"), element="i32")
                else:
                    lane = code.broadcast(f["lanes"])
                (lane_scale,) = code_of(lanes).scaling(code, lane, None).up
                factor = code.binary("mulf", code.broadcast(row_scale), lane_scale)
                i = f.i64("addi", start, v)
                at = code.address(f["tile"], i)
                sums = code.address(f["tile"], f.i64("addi", f.i64("addi", i, i), self.tile))
                number = code.load(sums, element="i64")
                code.store(code.fma(code.cast("sitofp", number, "f32"), factor, code.load(at)), at)
        return f.function()


def _load_words(code: Code, address: str) -> str:
    return code.op(f"llvm.load {address} {{alignment = 4 : i64}} : !llvm.ptr -> {code.ty('i32')}")


def _dot(code: Code, acc: str, a: str, b: str) -> str:
    """VPDPWSSD: 32-bit sums, to which the products of two 16-bit integers are added."""
    kind = code.ty("i32")
    name = f"llvm.x86.avx512.vpdpwssd.{32 * code.width}"
    short = f"vector<{2 * code.width}xi16>"
    x, y = (code.op(f"llvm.bitcast {v} : {kind} to {short}") for v in (a, b))
    return code.op(f'llvm.call_intrinsic "{name}"({acc}, {x}, {y}) : ({kind}, {short}, {short}) -> {kind}')


def _to_24_bits(code: Code, x: str) -> str:
    """A binary64 number to nearest even at 24 significant bits; it has the exponents to spare."""
    bits = code.cast("bitcast", x, "f64", "i64")
    odd = code.binary("andi", code.binary("shrui", bits, code.int(29, "i64"), "i64"), code.int(1, "i64"), "i64")
    half = code.binary("addi", code.int((1 << 28) - 1, "i64"), odd, "i64")
    kept = code.binary("andi", code.binary("addi", bits, half, "i64"), code.int(-(1 << 29), "i64"), "i64")
    return code.cast("bitcast", kept, "i64", "f64")


def block_of_k(k_block: int, width: int, fma: Fma) -> int:
    """The size of a block of k: `k_block`, or about that in whole groups and whole vectors."""
    if fma.group is None or fma.group.group is None:
        return k_block
    unit = math.lcm(fma.group.group, width)
    return max(unit, k_block // unit * unit)
