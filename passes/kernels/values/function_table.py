"""The math operations that numc has its own code for, which gives the same bits on every machine."""

from __future__ import annotations

from collections.abc import Callable

from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values import math_functions as kernels

Kernel = Callable[..., Value]

# operation -> one kernel per result
FUNCTIONS: dict[str, tuple[Kernel, ...]] = {
    "math.acos": (kernels.acos,),
    "math.acosh": (kernels.acosh,),
    "math.asin": (kernels.asin,),
    "math.asinh": (kernels.asinh,),
    "math.atan": (kernels.atan,),
    "math.atan2": (kernels.atan2,),
    "math.atanh": (kernels.atanh,),
    "math.cbrt": (kernels.cbrt,),
    "math.cos": (kernels.cos,),
    "math.cosh": (kernels.cosh,),
    "math.erf": (kernels.erf,),
    "math.erfc": (kernels.erfc,),
    "math.exp": (kernels.exp,),
    "math.exp2": (kernels.exp2,),
    "math.expm1": (kernels.expm1,),
    "math.fpowi": (kernels.pow,),
    "math.log": (kernels.log,),
    "math.log10": (kernels.log10,),
    "math.log1p": (kernels.log1p,),
    "math.log2": (kernels.log2,),
    "math.powf": (kernels.pow,),
    "math.round": (kernels.round,),
    "math.rsqrt": (kernels.rsqrt,),
    "math.sin": (kernels.sin,),
    "math.sincos": (kernels.sin, kernels.cos),
    "math.sinh": (kernels.sinh,),
    "math.tan": (kernels.tan,),
    "math.tanh": (kernels.tanh,),
}
