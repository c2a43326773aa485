"""What the steps of a micro-kernel draw: the words of its accumulators before the loop over k, the noise inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numc.compiler.arithmetic.formats import Noise
from numc.compiler.arithmetic.operators import Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.chain import Drawn
from numc.passes.kernels.values.random_bits import emit_draw, emit_element, emit_group, emit_mix, run_of

# What a kernel is told, behind its other arguments: the stream, the indices of the batch, the rows and the lanes.
ARGUMENTS: Mapping[str, str] = {"%random": "i64", "%e_batch": "i64", "%e_rows": "!llvm.ptr", "%e_lanes": "!llvm.ptr"}


@dataclass(frozen=True)
class RandomSteps:
    """The draws of a tile of `rows` x `vectors` accumulators of `width` lanes under an operator that draws."""

    fma: Fma
    rows: int
    vectors: int
    width: int

    def prologue(self) -> str:
        """Code before the loops: ``%e<row>_<vector>``, the words of accumulators, and ``%key``, for the groups of k."""
        scalar, code = Code(0, "ex"), Code(self.width, "ev")
        low = scalar.cast("trunci", "%random", "i64", "i32")
        high = scalar.binary("shrui", "%random", scalar.int(32, "i64"), "i64")
        scalar.lines.append(f"%key = arith.trunci {high} : i64 to i32")
        vec, wide = code.ty("i32"), code.ty("i64")
        lines = [*scalar.lines, f"%low = vector.broadcast {low} : i32 to {vec}"]
        lanes = []
        for v in range(self.vectors):
            place = code.op(f"llvm.getelementptr %e_lanes[{v * self.width}] : (!llvm.ptr) -> !llvm.ptr, i64")
            index = code.op(f"llvm.load {place} {{alignment = 8 : i64}} : !llvm.ptr -> {wide}")
            lanes.append(code.cast("trunci", index, "i64", "i32"))
        for r in range(self.rows):
            place = code.op(f"llvm.getelementptr %e_rows[{r}] : (!llvm.ptr) -> !llvm.ptr, i64")
            row = code.op(f"llvm.load {place} : !llvm.ptr -> i64")
            both = code.op(f"arith.addi {row}, %e_batch : i64")
            base = code.op(f"vector.broadcast {code.op(f'arith.trunci {both} : i64 to i32')} : i32 to {vec}")
            for v, lane in enumerate(lanes):
                word = emit_element(code, code.binary("addi", base, lane, "i32"), "%low")
                code.lines.append(f"%e{r}_{v} = arith.addi {word}, {code.int(0)} : {vec}")
        return "\n".join("    " + line for line in (*lines, *code.lines))

    def step(self, code: Code, k: str) -> list[Drawn]:
        """Append what every accumulator draws at step `k` (i64, of the whole reduction)."""
        scalar = Code(0, code.prefix + "k")
        number = scalar.cast("trunci", k, "i64", "i32")
        parts: list[tuple[Noise, str, str] | None] = []
        for to, product in ((self.fma.product, True), (self.fma.acc, False)):
            if to is None or to.noise is None:
                parts.append(None)
                continue
            run = run_of(to.noise)
            group = scalar.binary("shrui", number, scalar.int(run.bit_length() - 1), "i32")
            word = emit_group(scalar, group, "%key", product=product)
            parts.append((to.noise, word, scalar.binary("andi", number, scalar.int(run - 1), "i32")))
        code.lines += scalar.lines
        drawn: list[list[str]] = []
        for part in parts:
            if part is None:
                drawn.append([""] * (self.rows * self.vectors))
                continue
            noise, word, position = part
            group, place = (code.op(f"vector.broadcast {x} : i32 to {code.ty('i32')}") for x in (word, position))
            words = (
                code.binary("addi", f"%e{r}_{v}", group, "i32") for r in range(self.rows) for v in range(self.vectors)
            )
            drawn.append([emit_draw(code, emit_mix(code, x), place, noise) for x in words])
        return list(zip(*drawn, strict=True))

    @property
    def run(self) -> int:
        """How many steps of k share a word of the accumulator's."""
        assert self.fma.acc.noise is not None
        return run_of(self.fma.acc.noise)

    def words(self, code: Code, k: str) -> list[str]:
        """Append the words that every accumulator's steps `k` (i64, a multiple of `run`) and following draw from."""
        scalar = Code(0, code.prefix + "k")
        number = scalar.cast("trunci", k, "i64", "i32")
        group = scalar.binary("shrui", number, scalar.int(self.run.bit_length() - 1), "i32")
        word = emit_group(scalar, group, "%key")
        code.lines += scalar.lines
        spread = code.op(f"vector.broadcast {word} : i32 to {code.ty('i32')}")
        names = [f"%e{r}_{v}" for r in range(self.rows) for v in range(self.vectors)]
        return [emit_mix(code, code.binary("addi", name, spread, "i32")) for name in names]
