"""The random bits of stochastic rounding, defined: generators that are indexed, not stepped (docs/arithmetic.md).

A stream is a 64-bit number, for one execution of one operation: Philox of (operation, occurrence, step) under the seed.
philox4x32-10 (Salmon et al., SC 2011): a conversion draws the word of its element's index under the stream.
numc-mix-1: an accumulator draws a field of a hash of the stream, of the element's index and of k. The hash is lowbias32
(C. Wellons, 2018), once for the element, once for the group of k that shares a word, once for the sum of both.
numc-lfsr32-1: 16 successive draws are those of a linear feedback shift register that such a word seeds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from numc.numerics.formats import Noise

Words = npt.NDArray[np.uint32]

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85
_LOW = np.uint64(0xFFFFFFFF)
RUN = 16  # draws of a shift register from one seed
PRODUCT = 1 << 31  # added to the group of k for the rounding of a product before its addition


def philox(counter: tuple[npt.NDArray[np.uint64], ...], key: int) -> tuple[npt.NDArray[np.uint64], ...]:
    """Return the four words of Philox4x32-10 for counters of four words each and a key of 64 bits."""
    x0, x1, x2, x3 = counter
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        first, second = x0 * _MULTIPLIERS[0], x2 * _MULTIPLIERS[1]
        x0, x1, x2, x3 = (
            second >> np.uint64(32) ^ x1 ^ np.uint64(k0),
            second & _LOW,
            first >> np.uint64(32) ^ x3 ^ np.uint64(k1),
            first & _LOW,
        )
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return x0, x1, x2, x3


def stream(seed: int, operation: int, step: int = 0, occurrence: int = 0) -> int:
    """Return the stream of an operation in execution `step` of a program, at its `occurrence` in a loop."""
    counter = (operation, occurrence, step & 0xFFFFFFFF, step >> 32)
    low, high, _, _ = philox(tuple(np.array([word], np.uint64) for word in counter), seed)
    return int(low[0]) | int(high[0]) << 32


def conversion_draws(stream: int, count: int, noise: Noise | None) -> list[int]:
    """Return what the conversions of elements 0 to `count` - 1 draw; zeros for a conversion that does not."""
    if noise is None:
        return [0] * count
    drawn: list[int] = draws(stream, count, noise).tolist()
    return drawn


def draws(stream: int, count: int, noise: Noise) -> Words:
    """Return what the conversions of elements 0 to `count` - 1 draw, as an array."""
    element = np.arange(count, dtype=np.uint64)
    if not noise.lfsr:
        highest: Words = _words(stream, element) >> np.uint32(32 - noise.bits)
        return highest
    seeds = _words(stream, element // np.uint64(RUN))
    return register(seeds, (element % np.uint64(RUN)).astype(np.uint32), noise.bits)


def _words(stream: int, index: npt.NDArray[np.uint64]) -> Words:
    zero = np.zeros_like(index)
    return philox((index & _LOW, index >> np.uint64(32), zero, zero), stream)[0].astype(np.uint32)


def accumulator_draws(stream: int, element: int, ks: npt.NDArray[np.int64], noise: Noise, part: int = 0) -> list[int]:
    """Return what steps `ks` of the accumulator of an element draw; part: 0, or PRODUCT for the product's rounding."""
    run = RUN if noise.lfsr else 32 // field_bits(noise)
    group = (ks // run).astype(np.uint32) + np.uint32(part)
    of_element = mix(mix(np.array([element & 0xFFFFFFFF], np.uint32)) + np.uint32(stream & 0xFFFFFFFF))
    words = mix(of_element + mix(group + np.uint32(stream >> 32)))
    position = (ks % run).astype(np.uint32)
    if noise.lfsr:
        drawn = register(words, position, noise.bits)
    else:
        width = np.uint32(field_bits(noise))
        field = words >> width * position & np.uint32((1 << int(width)) - 1)
        drawn = field >> width - np.uint32(noise.bits)
    numbers: list[int] = drawn.tolist()
    return numbers


def field_bits(noise: Noise) -> int:
    """The bits of a word that one draw takes."""
    return 8 if noise.bits <= 8 else 16 if noise.bits <= 16 else 32


def mix(x: Words) -> Words:
    """lowbias32: a bijection of 32 bits in which every bit depends on every bit."""
    x = x ^ x >> np.uint32(16)
    x = x * np.uint32(0x7FEB352D)
    x = x ^ x >> np.uint32(15)
    x = x * np.uint32(0x846CA68B)
    mixed: Words = x ^ x >> np.uint32(16)
    return mixed


def register(seeds: Words, position: Words, bits: int) -> Words:
    """Return draw `position` of `bits` bits each from shift registers that begin as `seeds` (1 in place of 0).

    The register holds 32 bits and gives its lowest one; bit n + 32 is the sum of bits n, n + 1, n + 2 and n + 22
    (x^32 + x^22 + x^2 + x + 1, which is primitive). A draw is the next `bits` bits, the first one lowest.
    """
    seeds, position = np.broadcast_arrays(np.maximum(seeds, np.uint32(1)), position)
    state = seeds.astype(np.uint64)
    for n in range(RUN - 1):
        moved = state
        for _ in range(bits):
            new = (moved ^ moved >> np.uint64(1) ^ moved >> np.uint64(2) ^ moved >> np.uint64(22)) & np.uint64(1)
            moved = moved >> np.uint64(1) | new << np.uint64(31)
        state = np.where(position > n, moved, state)
    drawn: Words = (state & np.uint64((1 << bits) - 1)).astype(np.uint32)
    return drawn
