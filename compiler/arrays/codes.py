"""Tensors as the codes of a format, one in each byte or pair of bytes, by compiled programs: rounding, and back."""

from __future__ import annotations

from functools import cache

from numc.compiler.arrays.text_programs import compiled_text
from numc.numerics.formats import Conversion, Format
from numc.numerics.stored import stored_dtype
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Type, Value
from numc.passes.kernels.straight import Text
from numc.passes.kernels.values.codes import emit_narrowed, emit_widened
from numc.runtime.program import Program


@cache
def narrowing(to: Conversion) -> Program:
    """Return a program that rounds: from float32 (n) to the codes of a format of at most 16 bits, int8 or int16 (n).

    With a seed it rounds as numc.round does with this seed. The format has significand bits, so that it has a NaN.
    """
    code, bits = Code(0, Text("v")), _integer(to.format)
    rounded = code.op(f'"numc.round"(%x) {{to = "{to}"}} : (f32) -> f32', "f32")
    return _elementwise(code, "f32", code.cast("trunci", emit_narrowed(code, rounded, to.format), bits), bits)


@cache
def widening(fmt: Format) -> Program:
    """Return a program that gives the values, float32 (n), of the codes that `narrowing` made."""
    code, bits = Code(0, Text("v")), _integer(fmt)
    widened = emit_widened(code, code.cast("extui", Value("%x", Type.of(bits)), "i32"), fmt)
    return _elementwise(code, bits, widened, "f32")


def _integer(fmt: Format) -> str:
    return stored_dtype(fmt.name).replace("int", "i")


def _elementwise(code: Code, given: str, result: Value, to: str) -> Program:
    """Return a program of one dimension, whose body is `code` over the element %x."""
    body, same = "\n    ".join(code.lines), "affine_map<(i) -> (i)>"
    return compiled_text(f"""
func.func @main(%t: tensor<?x{given}>) -> tensor<?x{to}> {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %t, %c0 : tensor<?x{given}>
  %e = tensor.empty(%n) : tensor<?x{to}>
  %r = linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = ["parallel"]}}
      ins(%t : tensor<?x{given}>) outs(%e : tensor<?x{to}>) {{
  ^bb0(%x: {given}, %out: {to}):
    {body}
    linalg.yield {result} : {to}
  }} -> tensor<?x{to}>
  return %r : tensor<?x{to}>
}}""")
