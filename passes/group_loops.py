# ruff: noqa: E501 - the long lines are MLIR text
"""Dot products of groups: the loops over k of a micro-kernel whose operands have groups.

What packed panels hold is described in quantize.py. A group is summed in registers from +0 and added to its accumulator in
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

from numc.compiler.fma import Fma
from numc.compiler.grouped import Int, Mx
from numc.passes.code import Code, Function
from numc.passes.fast import Guard

_F32_BITS, _F32_LARGEST, _F32_LEAST = 24, 127, -149


@dataclass(frozen=True)
class Groups:
    """Groups along k of the operator `fma`; `width`: lanes of a vector; `tile`: accumulators of a tile."""

    fma: Fma
    k_block: int
    width: int
    tile: int

    @property
    def size(self) -> int:
        """Steps of k that are summed together."""
        return self.k_block if self.fma.group is None or self.fma.group.group is None else self.fma.group.group

    @property
    def is_integer(self) -> bool:
        """Whether sums are kept as integers until the reduction ends."""
        return isinstance(self.fma.group, Int)

    @property
    def bits(self) -> int:
        """Significant bits that the sum of a group may take before rounding; mx rounds to 24 in any case."""
        assert self.fma.groups is not None
        a, b = (c.format for c in self.fma.groups)
        if isinstance(a, Mx) or isinstance(b, Mx):
            return 24
        return (self.size * a.largest * b.largest).bit_length()

    @property
    def guard(self) -> Guard | None:
        """When binary32 FMAs are exact, or None if they never are, or always."""
        assert self.fma.groups is not None
        if self.is_integer or self.bits > _F32_BITS:
            return None
        # A number with p significant bits is a multiple of 2^(e - p + 1).
        grid = sum(c.format.precision - 1 for c in self.fma.groups)
        return Guard(_F32_LARGEST, _F32_LEAST + grid)

    def step(self, code: Code, a: str, b: str, c: str, *, wide: bool) -> str:
        """One step ``a * b + c`` from binary32 panels; `wide`: `c` is binary64."""
        if not wide:
            return code.fma(a, b, c)
        x, y = (code.cast("extf", v, "f32", "f64") for v in (a, b))
        total = code.binary("addf", code.binary("mulf", x, y, "f64"), c, "f64")
        return _to_24_bits(code, total) if isinstance(self.fma.group, Mx) else total

    def loop(self, names: list[str], places: list[int], passes: list[tuple[str, list[str]]], *, wide: bool) -> str:
        """The loops over the groups of a block, and over the k of a group once for every pass.

        passes: one step from `names` at ``%i``, and what they become.
        """
        kind = "f64" if wide else "f32"
        vec = f"vector<{self.width}x{kind}>"
        types = ", ".join([vec] * len(names))
        ends: list[str] = []
        for name, place in zip(names, places, strict=True):
            code = Code(self.width, name[1:] + "e")
            if self.is_integer:
                self._add_integer(code, name + "_out", place, wide=wide)
            else:
                at = code.address("%tile", place)
                total = code.cast("truncf", name + "_out", "f64", "f32") if wide else name + "_out"
                code.store(code.binary("addf", code.load(at), total), at)
            ends += code.lines
        finish = "\n".join("      " + line for line in ends)
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

    def _add_integer(self, code: Code, total: str, place: int, *, wide: bool) -> None:
        at = code.address("%tile", self.tile + 2 * place)
        kind = code.ty("i64")
        if wide:
            number = code.cast("fptosi", total, "f64", "i64")
        else:
            number = code.cast("extsi", code.cast("fptosi", total, "f32", "i32"), "i32", "i64")
        before = code.op(f"llvm.load {at} {{alignment = 4 : i64}} : !llvm.ptr -> {kind}")
        after = code.binary("addi", before, number, "i64")
        code.lines.append(f"llvm.store {after}, {at} {{alignment = 4 : i64}} : {kind}, !llvm.ptr")

    def finish_text(self, name: str) -> str:
        """The function that ends a reduction of integers: D = C + RN(S) * factor, one binary32 FMA."""
        f = Function(name, {"%tile": "!llvm.ptr", "%factor": "f32"})
        with f.loop(0, self.tile, self.width) as i:
            code = Code(self.width, "c")
            at, sums = code.address("%tile", i), code.address("%tile", f.i64("addi", f.i64("addi", i, i), self.tile))
            number = code.op(f"llvm.load {sums} {{alignment = 4 : i64}} : !llvm.ptr -> {code.ty('i64')}")
            total = code.cast("sitofp", number, "i64", "f32")
            factor = code.op(f"vector.broadcast %factor : f32 to {code.ty('f32')}")
            code.store(code.fma(total, factor, code.load(at)), at)
            f.lines += code.lines
        return f.function()


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
