"""The random bits of a stochastic conversion of a packed panel: each value has them by its output and its step of k."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from numc.numerics.formats import Noise
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.packing.layout import Layout
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.values.random_bits import emit_draw, emit_element, emit_group, emit_mix, run_of

# Arguments of a conversion that draws, behind its others: the stream of the operation, where its block of k begins, and
# the indices of the first outputs of the batch and of the panel's rows or lanes.
DRAWN: Mapping[str, str] = {"random": "i64", "k0": "i64", "e_batch": "i64", "e_places": PTR}


@dataclass
class PanelDraws:
    """The draws of a panel in the function `f`, which has the arguments DRAWN. of_b: the panel is of operand B."""

    f: Function
    panel: Layout
    noise: Noise
    of_b: bool
    _words: Value = field(init=False)  # of the elements, in lanes or a scalar of a row
    _key: Value = field(init=False)

    def begin(self, v: Value) -> None:
        """Append what the draws of row or vector `v` have in common; it stands before the loops over its values."""
        f = self.f
        lanes = self.panel.side == "lanes"
        code = f.lanes(self.panel.width) if lanes else f
        address = f.at(f["e_places"], f.i64("muli", v, self.panel.width) if lanes else v, "i64")
        index = code.load(address, element="i64")
        element = code.cast("trunci", code.binary("addi", index, code.broadcast(f["e_batch"])), "i32")
        low = code.broadcast(f.cast("trunci", f["random"], "i32"))
        self._words = emit_element(code, element, low)
        self._key = f.cast("trunci", f.i64("shrui", f["random"], 32), "i32")

    def draw(self, code: Code, u: Value, behind: int = 0) -> Value:
        """Append what the values of `code` draw, `behind` steps after `u`.

        They are those of step `u` of the block (lanes, or a scalar of a row), or of vector `u` of a row.
        """
        f, key, words = self.f, self._key, self._words
        along_k = self.panel.side == "rows" and code.width > 0
        step = f.i64("muli", u, code.width) if along_k else u
        k = f.cast("trunci", f.i64("addi", f.i64("addi", f["k0"], step), behind), "i32")
        if along_k:
            listed = ", ".join(map(str, range(code.width)))
            steps = code.op(f"arith.constant dense<[{listed}]> : {code.ty('i32')}", code.ty("i32"))
            k, key, words = (code.broadcast(x) for x in (k, key, words))
            k = code.binary("addi", k, steps)
        at = code if along_k else f
        run = run_of(self.noise)
        group = at.binary("shrui", k, at.int(run.bit_length() - 1))
        word = emit_group(at, group, key, product=self.of_b)
        position = at.binary("andi", k, at.int(run - 1))
        if not along_k:
            word, position = code.broadcast(word), code.broadcast(position)
        return emit_draw(code, emit_mix(code, code.binary("addi", words, word)), position, self.noise)
