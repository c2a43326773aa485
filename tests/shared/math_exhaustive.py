"""Measure the largest error of a function over all binary32 inputs, in compiled code, against doubles.

With the package importable, ``python tests/shared/math_exhaustive.py [--own] [name ...]`` prints one line per function.
The doubles are the C library's (half a minute a function), or with ``--own`` those of numc's f64 functions, which are
vectorised and themselves tested against mpmath. Either carries over 20 bits more than the result that is measured.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from math_harness import Compiled

# math operation -> function of the C library; rsqrt has none
LIBRARY = {
    **{n: n for n in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "erfc", "exp")},
    **{n: n for n in ("exp2", "expm1", "log", "log10", "log1p", "log2", "round", "sin", "sinh", "tan", "tanh")},
    "rsqrt": "sqrt",
}


def exhaustive_text(name: str, own: bool) -> str:
    """A module whose @main(range, largest) measures the error over a range of encodings."""
    inverse = "arith.divf %one, %library : f64" if name == "rsqrt" else "arith.addf %library, %minus_zero : f64"
    oracle = f"func.call @{LIBRARY[name]}(%x64) : (f64) -> f64"
    if own:
        oracle = f"math.{LIBRARY[name]} %x64 : f64"
    return f"""
func.func private @{LIBRARY[name]}(f64) -> f64
func.func @main(%range: memref<?xi64>, %largest: memref<?xf64>) attributes {{llvm.emit_c_interface}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %none = arith.constant 0 : i64
  %one = arith.constant 1.0 : f64
  %minus_zero = arith.constant -0.0 : f64
  %zero = arith.constant 0.0 : f64
  %inf = arith.constant 0x7FF0000000000000 : f64
  %top = arith.constant 0x47F0000000000000 : f64
  %bottom = arith.constant 0x3810000000000000 : f64
  %overflow = arith.constant 0x47EFFFFFF0000000 : f64
  %exponent_mask = arith.constant 0x7FF0000000000000 : i64
  %base = arith.constant {(1023 + 1023 + 23) << 52} : i64
  %last = arith.constant {(1023 + 127) << 52} : i64
  %from = memref.load %range[%c0] : memref<?xi64>
  %to = memref.load %range[%c1] : memref<?xi64>
  %start = arith.index_cast %from : i64 to index
  %stop = arith.index_cast %to : i64 to index
  %worst = scf.for %i = %start to %stop step %c1 iter_args(%w = %none) -> i64 {{
    %encoding = arith.index_cast %i : index to i32
    %x = arith.bitcast %encoding : i32 to f32
    %y = math.{name} %x : f32
    %x64 = arith.extf %x : f32 to f64
    %got = arith.extf %y : f32 to f64
    %library = {oracle}
    %want = {inverse}
    %a = math.absf %want : f64
    // An infinity counts as 2^128.
    %a1 = arith.minnumf %a, %top : f64
    %a2 = arith.maxnumf %a1, %bottom : f64
    %bits = arith.bitcast %a2 : f64 to i64
    %exponent0 = arith.andi %bits, %exponent_mask : i64
    %exponent = arith.minsi %exponent0, %last : i64
    %scale_bits = arith.subi %base, %exponent : i64
    %scale = arith.bitcast %scale_bits : i64 to f64
    %g = math.absf %got : f64
    %g1 = arith.minnumf %g, %top : f64
    %distance = arith.subf %g1, %a1 : f64
    %size = math.absf %distance : f64
    %ulps = arith.mulf %size, %scale : f64
    // Wrong: a NaN on one side only, another sign, an infinity for what rounds to a finite number.
    %nan_got = arith.cmpf uno, %got, %got : f64
    %nan_want = arith.cmpf uno, %want, %want : f64
    %nan_differs = arith.xori %nan_got, %nan_want : i1
    %sign_got = math.copysign %one, %got : f64
    %sign_want = math.copysign %one, %want : f64
    %signs = arith.cmpf one, %sign_got, %sign_want : f64
    %inf_got = arith.cmpf oeq, %g, %inf : f64
    %finite = arith.cmpf olt, %a, %overflow : f64
    %early = arith.andi %inf_got, %finite : i1
    %wrong0 = arith.ori %signs, %early : i1
    %e0 = arith.select %wrong0, %inf, %ulps : f64
    %e1 = arith.select %nan_want, %zero, %e0 : f64
    %e = arith.select %nan_differs, %inf, %e1 : f64
    // Errors are not negative: their encodings have their order.
    %e_bits = arith.bitcast %e : f64 to i64
    %next = arith.maxsi %e_bits, %w : i64
    scf.yield %next : i64
  }}
  %result = arith.bitcast %worst : i64 to f64
  memref.store %result, %largest[%c0] : memref<?xf64>
  return
}}"""


def largest_error_of(name: str, own: bool = False, threads: int = 2, step: int = 2**26) -> float:
    """The largest error of `name` in ulps over all 2^32 encodings."""
    compiled = Compiled(exhaustive_text(name, own))

    def measure(start: int) -> float:
        out = np.zeros(1)
        compiled(np.array([start, start + step]), out)
        return float(out[0])

    with ThreadPoolExecutor(threads) as pool:
        return max(pool.map(measure, range(0, 2**32, step)))


if __name__ == "__main__":
    names = [argument for argument in sys.argv[1:] if argument != "--own"]
    for function in names or LIBRARY:
        print(f"{function}: {largest_error_of(function, '--own' in sys.argv):.6f} ulp", flush=True)
