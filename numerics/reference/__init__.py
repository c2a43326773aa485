"""The definition of numc's arithmetic in plain Python integers: exact and slow (arithmetic.md sections 1 to 4).

Everything else (generated code, hardware paths) is compared with these functions, bit for bit. No floating-point
operation takes part in a finite result; numpy only carries the bits in and out.
"""

from __future__ import annotations

from numc.numerics.reference.datapaths import Draws
from numc.numerics.reference.groups import round_groups
from numc.numerics.reference.operators import dot, fma, matmul
from numc.numerics.reference.random import stream
from numc.numerics.reference.rounding import round, round_real

__all__ = ["Draws", "dot", "fma", "matmul", "round", "round_groups", "round_real", "stream"]
