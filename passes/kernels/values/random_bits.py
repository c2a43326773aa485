"""The random bits of stochastic rounding as straight-line code; numc.reference.random is their definition."""

from __future__ import annotations

from numc.numerics.formats import Noise
from numc.numerics.reference.random import PRODUCT, RUN, field_bits
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value

_BULK = 8  # steps of the shift register at once: its taps leave room for ten


def emit_conversion_noise(code: Code, stream: Value, element: Value, noise: Noise) -> Value:
    """Append what the conversion of one element draws (i32); `stream` and the index `element` are i64 scalars."""
    if not noise.lfsr:
        word = _philox(code, stream, element)
        return code.binary("shrui", word, code.int(32 - noise.bits))
    run = code.int(RUN.bit_length() - 1, "i64")
    word = _philox(code, stream, code.binary("shrui", element, run))
    position = code.binary("andi", code.cast("trunci", element, "i32"), code.int(RUN - 1))
    return _register(code, word, position, noise.bits)


def _philox(code: Code, stream: Value, index: Value) -> Value:
    """The first word of Philox4x32-10 of a 64-bit index under a 64-bit key, all in i64 lanes that hold 32 bits."""
    low, half = code.int(0xFFFFFFFF, "i64"), code.int(32, "i64")

    def both(x: Value) -> tuple[Value, Value]:
        return code.binary("andi", x, low), code.binary("shrui", x, half)

    (k0, k1), (x0, x1), x2, x3 = both(stream), both(index), code.int(0, "i64"), code.int(0, "i64")
    for step in range(10):
        first0, first1 = both(code.binary("muli", x0, code.int(0xD2511F53, "i64")))
        second0, second1 = both(code.binary("muli", x2, code.int(0xCD9E8D57, "i64")))
        keys = []
        for key, weyl in ((k0, 0x9E3779B9), (k1, 0xBB67AE85)):
            moved = code.binary("addi", key, code.int(step * weyl & 0xFFFFFFFF, "i64"))
            keys.append(code.binary("andi", moved, low))
        x0 = code.binary("xori", code.binary("xori", second1, x1), keys[0])
        x2 = code.binary("xori", code.binary("xori", first1, x3), keys[1])
        x1, x3 = second0, first0
    return code.cast("trunci", x0, "i32")


def emit_mix(code: Code, x: Value) -> Value:
    """Append lowbias32 of an i32."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = code.binary("xori", x, code.binary("shrui", x, code.int(shift)))
        x = code.binary("muli", x, code.int(factor))
    return code.binary("xori", x, code.binary("shrui", x, code.int(16)))


def emit_element(code: Code, element: Value, key: Value) -> Value:
    """Append the word of an accumulator: of its index and of the lower half of its stream, both i32."""
    return emit_mix(code, code.binary("addi", emit_mix(code, element), key))


def emit_group(code: Code, group: Value, key: Value, *, product: bool = False) -> Value:
    """Append the word of a group of steps: of its number and of the upper half of the stream, both i32."""
    if product:
        group = code.binary("addi", group, code.int(PRODUCT))
    return emit_mix(code, code.binary("addi", group, key))


def run_of(noise: Noise) -> int:
    """The number of steps of k that share a word: a power of two."""
    return RUN if noise.lfsr else 32 // field_bits(noise)


def emit_draw(code: Code, word: Value, position: Value, noise: Noise) -> Value:
    """Append the draw at a position, an i32 in every lane, of the mixed words of a group."""
    if noise.lfsr:
        return _register(code, word, position, noise.bits)
    width = field_bits(noise)
    if width < 32:
        start = code.binary("muli", position, code.int(width))
        word = code.binary("andi", code.binary("shrui", word, start), code.int((1 << width) - 1))
    return code.binary("shrui", word, code.int(width - noise.bits))


def _register(code: Code, seed: Value, position: Value, bits: int) -> Value:
    """Draw number `position` from the shift registers that begin as `seed`: jumps of 1, 2, 4 and 8 draws."""
    state = code.binary("maxui", seed, code.int(1))
    for jump in (1 << n for n in range(RUN.bit_length() - 1)):
        moved, left = state, jump * bits
        while left:
            count = min(left, _BULK)
            taps = moved
            for tap in (1, 2, 22):
                taps = code.binary("xori", taps, code.binary("shrui", moved, code.int(tap)))
            fresh = code.binary("shli", taps, code.int(32 - count))
            moved = code.binary("ori", code.binary("shrui", moved, code.int(count)), fresh)
            left -= count
        jumps = code.binary("andi", position, code.int(jump))
        state = code.select(code.compare("ne", jumps, code.int(0)), moved, state)
    return code.binary("andi", state, code.int((1 << bits) - 1))
