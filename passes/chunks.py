# ruff: noqa: E501 - the long lines are MLIR text
"""Chunked accumulation (FMAC-8 of Popescu et al.): the loop over k of a micro-kernel, and what ends a reduction.

A chunk is summed in registers, in the accumulator's format from +0. The tile in memory holds the binary32 accumulators,
to which every full chunk is added by one binary32 add, and behind them the sum of a chunk that has not ended yet: chunks
count from the first k of the reduction, a block of k may end inside of one.
"""

from __future__ import annotations

from dataclasses import dataclass

from numc.compiler.formats import Conversion
from numc.passes.code import Function, Code
from numc.passes.rounding import emit_round


@dataclass(frozen=True)
class Chunks:
    """Chunks of `size` steps of k in blocks of `k_block`; `width`: lanes of a vector; `tile`: accumulators of a tile."""

    size: int
    k_block: int
    width: int
    tile: int
    acc: Conversion

    @property
    def carried(self) -> bool:
        """Whether a chunk can go on from one block of k to the next."""
        return self.k_block % self.size != 0

    def loop(self, names: list[str], places: list[int], body: str, results: list[str]) -> str:
        """The loops over the chunks of a block and over the k of a chunk.

        names, places: the accumulators and where in the tile they are. body, results: one step from `names` at ``%i``.
        It reads ``%tile``, ``%kc``, the size of the block, and ``%k0``, where it begins, if chunks are carried.
        """
        vec = f"vector<{self.width}xf32>"
        types = ", ".join([vec] * len(names))

        def address(name: str, start: int, place: int) -> str:
            return f"      {name}_at{start} = llvm.getelementptr %tile[{start + place}] : (!llvm.ptr) -> !llvm.ptr, f32"

        def load(name: str, start: int, indent: str) -> str:
            return f"{indent}{name}_was{start} = llvm.load {name}_at{start} {{alignment = 4 : i64}} : !llvm.ptr -> {vec}"

        def store(value: str, name: str, start: int) -> str:
            return f"        llvm.store {value}, {name}_at{start} {{alignment = 4 : i64}} : {vec}, !llvm.ptr"

        totals = "\n".join(address(n, 0, p) for n, p in zip(names, places, strict=True))
        partials = "\n".join(address(n, self.tile, p) for n, p in zip(names, places, strict=True))
        first, start, enter = "%c0", "%zero", ""
        if self.carried:
            enter = "    %within = arith.remui %k0, %size : i64\n    %before = arith.subi %c0, %within : i64"
            first, start = "%first", ""
        begin = "%before" if self.carried else "%c0"
        goes_on = f"""      %first = arith.maxsi %begin, %c0 : i64
      %goes_on = arith.cmpi slt, %begin, %c0 : i64
      {", ".join(f"{n}_in" for n in names)} = scf.if %goes_on -> ({types}) {{
{chr(10).join(load(n, self.tile, "        ") for n in names)}
        scf.yield {", ".join(f"{n}_was{self.tile}" for n in names)} : {types}
      }} else {{
        scf.yield {", ".join(["%zero"] * len(names))} : {types}
      }}"""
        starts = ", ".join(f"{n} = {start or n + '_in'}" for n in names)
        sums = "\n".join(
            f"{load(n, 0, '        ')}\n        {n}_sum = arith.addf {n}_was0, {n}_out : {vec}\n{store(n + '_sum', n, 0)}"
            for n in names
        )
        keep = "\n".join(store(n + "_out", n, self.tile) for n in names)
        return f"""    %c0 = arith.constant 0 : i64
    %c1 = arith.constant 1 : i64
    %size = arith.constant {self.size} : i64
    %zero = arith.constant dense<0.0> : {vec}
{enter}
    scf.for %begin = {begin} to %kc step %size : i64 {{
      %whole = arith.addi %begin, %size : i64
      %end = arith.minsi %whole, %kc : i64
      %full = arith.cmpi sle, %whole, %kc : i64
{totals}
{partials}
{goes_on if self.carried else ""}
      {", ".join(f"{n}_out" for n in names)} = scf.for %i = {first if self.carried else "%begin"} to %end step %c1 iter_args({starts}) -> ({types}) : i64 {{
{body}
        scf.yield {", ".join(results)} : {types}
      }}
      scf.if %full {{
{sums}
      }} else {{
{keep}
      }}
    }}"""


def finish_text(name: str, chunks: Chunks) -> str:
    """The function that ends a reduction: the sum of a short last chunk is added, the total becomes the result."""
    f = Function(name, {"%tile": "!llvm.ptr", "%short": "i1"})
    vec = f"vector<{chunks.width}xf32>"
    with f.loop(0, chunks.tile, chunks.width) as i:
        code = Code(chunks.width, "c")
        total, partial = code.address("%tile", i), code.address("%tile", f.i64("addi", i, chunks.tile))
        before = code.load(total)
        after = code.op(f"scf.if %short -> ({vec}) {{")
        added = code.binary("addf", before, code.load(partial))
        code.lines += [f"scf.yield {added} : {vec}", "} else {", f"scf.yield {before} : {vec}", "}"]
        code.store(emit_round(code, after, chunks.acc), total)
        f.lines += code.lines
    return f.function()
