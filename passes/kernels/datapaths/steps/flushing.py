"""Accumulators without subnormal numbers: the processor flushes, in the mode that replaces subnormal results by zeros.

Lanes and accumulators are scaled by a power of two that takes the least number of the format to 2^-126, the least
normal number of binary32. A sum that the format flushes is then a sum that the processor flushes: both look at the
magnitude after its rounding to 24 bits, and both keep its sign. Nothing else is tiny: other results are roundings of
sums that were not flushed, and the guard looks after the operands. What is left of a step is its rounding, and the sign
of a zero.
"""

from __future__ import annotations

from dataclasses import replace

from numc.numerics.datapaths import Steps
from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.datapath import Drawn, Guard
from numc.passes.kernels.datapaths.steps import guarded
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.setting import Parts, Setting
from numc.passes.kernels.ssa import Value

_LEAST_NORMAL = -126


def applies(fma: Fma) -> bool:
    """Whether steps of the operator, which draws no random bits, can be taken in that mode."""
    fmt = fma.acc.format
    if fma.datapath.name != "fp32" or not isinstance(fma.order, Steps) or fma.product is not None or len(fma.terms) > 1:
        return False
    if guarded.guard(fma) is None:
        return False
    return not fmt.is_gradual and fmt.has_infinities and fmt.precision <= 11


def limits(s: Setting) -> Guard | None:
    """As without the mode, but no operand may be subnormal, that of the lanes neither when it is scaled."""
    guard = guarded.guard(s.fma)
    return None if guard is None else replace(guard, normal=True, least=s.fma.acc.format.emin)


def scale(s: Setting) -> float:
    """The factor of products and accumulators."""
    return float(2.0 ** (_LEAST_NORMAL - s.fma.acc.format.emin))


def cheap_step(
    code: Code, fma: Fma, isa: InstructionSet, a: Parts, b: Parts, c: Value, drawn: Drawn, product: Value | None = None
) -> Value:
    """Append one step, scaled, in that mode."""
    x = code.fma(a[0], b[0], c)
    sign = code.binary("andi", code.cast("bitcast", x, "i32"), code.int(0x80000000))
    rounded = code.cast("bitcast", guarded.split(code, isa, x, fma.acc.format.precision), "i32")
    return code.cast("bitcast", code.binary("ori", rounded, sign), "f32")


FLUSHING = replace(guarded.FP32, cheap=cheap_step, limits=limits, scale=scale, flushes=True)
