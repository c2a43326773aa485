# ruff: noqa: E501 - the long lines are MLIR text
"""Chunked accumulation (FMAC-8 of Popescu et al.): the loop over k of a micro-kernel, and what ends a reduction.

A chunk is summed in registers, in the accumulator's format from +0. The tile in memory holds the binary32 accumulators,
to which every full chunk is added by one binary32 add, and behind them the sum of a chunk that has not ended yet: chunks
count from the first k of the reduction, a block of k may end inside of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from numc.compiler.arithmetic.formats import Conversion
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.datapaths.stochastic import RandomSteps
from numc.passes.kernels.values.rounding import emit_round


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

    def loop(self, names: list[str], places: list[int], steps: Callable[[str, str], str], scale: float = 1.0) -> str:
        """The loops over the chunks of a block and over the k of a chunk.

        names, places: the accumulators and where in the tile they are. steps: the loop over the k between two names,
        from ``<name>_in`` to ``<name>_out``; scale: what it multiplies the accumulators by.
        It reads ``%tile``, ``%kc``, the size of the block, and ``%k0``, where it begins, if chunks are carried.
        """
        vec = f"vector<{self.width}xf32>"
        types = ", ".join([vec] * len(names))

        def each(start: int, *lines: str) -> str:
            """Lines for each accumulator, where ``@`` is its name and ``@_at`` its address, `start` behind the tile."""
            text = []
            for name, place in zip(names, places, strict=True):
                text.append(f"{name}_at = llvm.getelementptr %tile[{start + place}] : (!llvm.ptr) -> !llvm.ptr, f32")
                text += [line.replace("@", name) for line in lines]
            return "\n".join("        " + line for line in text)

        load = f"@_was = llvm.load @_at {{alignment = 4 : i64}} : !llvm.ptr -> {vec}"
        numbers = Code(self.width, "scale")
        begin, sum_of = [load], ["@_sum = arith.addf @_was, @_out : " + vec]
        out = "@_out"
        if scale != 1:
            down, up = numbers.f32(scale), numbers.f32(1 / scale)
            begin = [load.replace("@_was", "@_raw"), f"@_was = arith.mulf @_raw, {down} : {vec}"]
            sum_of = [f"@_back = arith.mulf @_out, {up} : {vec}", f"@_sum = arith.addf @_was, @_back : {vec}"]
            out = "@_left"
        keep = [] if scale == 1 else [f"@_left = arith.mulf @_out, {up} : {vec}"]
        store = f"{{alignment = 4 : i64}} : {vec}, !llvm.ptr"

        def listed(suffix: str) -> str:
            return ", ".join(name + suffix for name in names)

        before, enter = "", ""
        first = "%begin"
        if self.carried:
            before = """    %within = arith.remui %k0, %size : i64
    %from = arith.subi %c0, %within : i64"""
            enter = f"""      %first = arith.maxsi %begin, %c0 : i64
      %goes_on = arith.cmpi slt, %begin, %c0 : i64
      {listed("_in")} = scf.if %goes_on -> ({types}) {{
{each(self.tile, *begin)}
        scf.yield {listed("_was")} : {types}
      }} else {{
        scf.yield {", ".join(["%zero"] * len(names))} : {types}
      }}"""
            first = "%first"
        else:
            enter = "\n".join(f"      {name}_in = arith.constant dense<0.0> : {vec}" for name in names)
        return f"""    %c0 = arith.constant 0 : i64
    %c1 = arith.constant 1 : i64
    %size = arith.constant {self.size} : i64
    %zero = arith.constant dense<0.0> : {vec}
{numbers.text()}
{before}
    scf.for %begin = {"%from" if self.carried else "%c0"} to %kc step %size : i64 {{
      %whole = arith.addi %begin, %size : i64
      %end = arith.minsi %whole, %kc : i64
{enter}
{steps(first, "%end")}
      %full = arith.cmpi sle, %whole, %kc : i64
      scf.if %full {{
{each(0, load, *sum_of, f"llvm.store @_sum, @_at {store}")}
      }} else {{
{each(self.tile, *keep, f"llvm.store {out}, @_at {store}")}
      }}
    }}"""


def finish_text(
    name: str, chunks: Chunks, arguments: Iterable[tuple[str, str]] = (), random: RandomSteps | None = None
) -> str:
    """The function that ends a reduction: the sum of a short last chunk is added, the total becomes the result.

    arguments: what an operator that draws is told, behind its depth; random: the draws of a tile, if the total draws.
    """
    more = {"%depth": "i64", **dict(arguments)} if arguments else {}
    f = Function(name, {"%tile": "!llvm.ptr", "%short": "i1", **more})
    vec, ivec = f"vector<{chunks.width}xf32>", f"vector<{chunks.width}xi32>"
    noise = ""
    if random is not None:
        code = Code(chunks.width, "r")
        drawn = random.step(code, "%depth")
        f.lines += [random.prologue(), *code.lines]
        noise = f.op(f"llvm.alloca {f.number(chunks.tile)} x i32 : (i64) -> !llvm.ptr")
        for n, (_, lanes) in enumerate(drawn):
            place = f.at(noise, n * chunks.width, "i32")
            f.line(f"llvm.store {lanes}, {place} {{alignment = 4 : i64}} : {ivec}, !llvm.ptr")
    with f.loop(0, chunks.tile, chunks.width) as i:
        code = Code(chunks.width, "c")
        total, partial = code.address("%tile", i), code.address("%tile", f.i64("addi", i, chunks.tile))
        before = code.load(total)
        after = code.op(f"scf.if %short -> ({vec}) {{")
        added = code.binary("addf", before, code.load(partial))
        code.lines += [f"scf.yield {added} : {vec}", "} else {", f"scf.yield {before} : {vec}", "}"]
        draw = (
            code.op(f"llvm.load {code.address(noise, i)} {{alignment = 4 : i64}} : !llvm.ptr -> {ivec}")
            if noise
            else ""
        )
        code.store(emit_round(code, after, chunks.acc, noise=draw), total)
        f.lines += code.lines
    return f.function()
