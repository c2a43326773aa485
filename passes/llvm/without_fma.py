"""without-fma: for processors that have no FMA instruction, an f32 FMA becomes binary64 arithmetic with the same bits.

The product of two binary32 numbers is exact in binary64, the sum is rounded to odd, and the conversion to binary32 is
then the one rounding of the real number (Boldo and Melquiond 2008). It also is under the FTZ and DAZ of the hardware
datapaths: the conversions are what reads and writes binary32, binary64 values stay far from subnormal, and both
instructions detect tininess after rounding. An f64 FMA stays, as a call of the C library's, which rounds correctly.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.kernels.datapaths.steps.chain import emit_add_to_odd
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.math_functions import Lanes
from numc.passes.vector.lower_math import function_text, replace


def without_fma(module: ir.Operation, has_fma: bool) -> None:
    """Make every f32 FMA, a scalar or a 1-D vector, binary64 arithmetic, unless the processor has the instruction."""
    if has_fma:
        return
    bodies: dict[tuple[str, ...], ir.Module] = {}
    for op in linalg.operations(module, "math.fma"):
        if not str(op.results[0].type).endswith("f64") and not str(op.results[0].type).endswith("f64>"):
            replace(op, lambda op: function_text(op, (_fused,)), bodies)


def _fused(m: Lanes, a: Value, b: Value, c: Value) -> Value:
    return emit_add_to_odd(m.code, m.mul(a, b), c)
