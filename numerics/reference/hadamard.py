"""Random Hadamard matrices: the entries that operands are multiplied by along a reduction."""

from __future__ import annotations

import math
from functools import cache

from numc.numerics.reference.random import philox


@cache
def hadamard_matrix(size: int, signs: int) -> tuple[tuple[float, ...], ...]:
    """Return the rows of diag(s) H / sqrt(size), whose entries are powers of two.

    H is Sylvester's: an entry is -1 where the numbers of row and column share an odd number of bits. s has the sign of
    bit i of the words of Philox4x32-10 with counter (0, 0, 0, 0) and the number `signs` as the key; a one is a minus.
    """
    import numpy as np

    words = philox(tuple(np.zeros(1, np.uint64) for _ in range(4)), signs)
    bits = sum(int(word[0]) << 32 * n for n, word in enumerate(words))
    each = 1 / math.sqrt(size)
    return tuple(
        tuple(-each if ((i & j).bit_count() + (bits >> i & 1)) % 2 else each for j in range(size)) for i in range(size)
    )
