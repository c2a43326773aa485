"""What is stored between two programs: a contraction makes the same bits of it as of the tensor itself."""

from __future__ import annotations

import re

import numpy as np
import pytest

from numc.compiler.lower import lowered
from numc.compiler.options import Options
from numc.compiler.programs.compile import contents
from numc.frontends.imported import Argument, Imported, with_codes
from numc.numerics.grammar import parse_any_conversion
from numc.numerics.stored import BITS, along
from numc.passes.explicit.readings import readings
from numc.runtime.program import Program

F32 = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

# The product of a gradient and a tensor along the first dimension of both, and what is asked of the elements.
READER = """
func.func @main(%x: tensor<{t}x{n}xf32>, %g: tensor<{t}x3xf32>) -> (tensor<3x{n}xf32>, tensor<{t}x{n}xi1>) {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x{n}xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<3x{n}xf32>) -> tensor<3x{n}xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(o, i, k) -> (k, o)>, affine_map<(o, i, k) -> (k, i)>,
      affine_map<(o, i, k) -> (o, i)>], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%g, %x : tensor<{t}x3xf32>, tensor<{t}x{n}xf32>) outs(%f : tensor<3x{n}xf32>) {{
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  }} -> tensor<3x{n}xf32>
  %m = tensor.empty() : tensor<{t}x{n}xi1>
  %q = linalg.generic {{indexing_maps = [affine_map<(k, i) -> (k, i)>, affine_map<(k, i) -> (k, i)>],
      iterator_types = ["parallel", "parallel"]}} ins(%x : tensor<{t}x{n}xf32>) outs(%m : tensor<{t}x{n}xi1>) {{
  ^bb0(%a: f32, %o: i1):
    %c = arith.cmpf {asked}, %a, %z : f32
    linalg.yield %c : i1
  }} -> tensor<{t}x{n}xi1>
  return %r, %q : tensor<3x{n}xf32>, tensor<{t}x{n}xi1>
}}"""


# The gradient of the weight of a 1x1 convolution: a product along images, rows and columns.
POINTWISE = """
func.func @main(%x: tensor<3x4x5x7xf32>, %g: tensor<3x2x5x7xf32>) -> tensor<4x2x1xf32> {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x2x1xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x2x1xf32>) -> tensor<4x2x1xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(i, o, k, n, h, w) -> (n, i, {row}, w)>,
      affine_map<(i, o, k, n, h, w) -> (n, o, h, w)>, affine_map<(i, o, k, n, h, w) -> (i, o, k)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}}
      ins(%x, %g : tensor<3x4x5x7xf32>, tensor<3x2x5x7xf32>) outs(%f : tensor<4x2x1xf32>) {{
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  }} -> tensor<4x2x1xf32>
  return %r : tensor<4x2x1xf32>
}}"""


def tensors(*shape: int) -> dict[str, F32]:
    """Tensors whose groups are of every kind."""
    rng = np.random.default_rng(shape[0])
    x = rng.standard_normal(shape).astype(np.float32)
    found = {"plain": x, "subnormal": x * np.float32(1e-42), "large": x * np.float32(1e38), "zeros": x * 0}
    found["wide"] = np.ldexp(x, rng.integers(-90, 90, x.shape, dtype=np.int32))
    found["positive"] = np.where(rng.random(x.shape) < 0.5, np.maximum(x, 0), np.abs(x) * np.float32(1e-9))
    found["not finite"] = x.copy()
    found["not finite"].flat[[5, 14, 23, 32]] = np.nan, np.inf, -np.inf, 1e30  # the largest number is in such a group
    return found


def copies(dtype: str, shape: tuple[int, ...], stored: str) -> Program:
    """A program that returns its input as it is stored."""
    kind = f"tensor<{'x'.join(map(str, shape))}x{'i1' if dtype == 'bool' else 'f32'}>"
    text = f"func.func @main(%x: {kind}) -> {kind} {{\n  return %x : {kind}\n}}"
    argument = Argument("x", dtype, shape)
    return Program(contents(with_codes(Imported(text, (argument,), (argument,)), {}, {0: stored}), Options())[0])


@pytest.mark.parametrize(
    ("to", "asked"),
    [
        ("bfp(16,3,3)", "ole"),
        ("int8", "ogt"),
        ("mxfp4", "ugt"),
        ("mxfp8", "ogt"),
        *(
            pytest.param(to, asked, marks=pytest.mark.all if asked == "ugt" and not number % 6 else pytest.mark.slow)
            for number, to in enumerate(
                (
                    *("bfp(16,8,3)", "bfp(7,2,9):rne", "bfp(5,3,4):rup", "int12", "int4:rna", "int16"),
                    *("mxfp8_e5m2", "mxfp6_e3m2:rtz", "mxfp6_e2m3:rup", "mxfp8_e4m3:odd", "mxint8"),
                )
            )
            for asked in ("ogt", "ugt")
        ),
    ],
)
def test_groups_are_converted_to_the_same(to: str, asked: str) -> None:
    for rows, columns in ((21, 5), (32, 8)):
        shape, reader = (rows, columns), READER.format(t=rows, n=columns, asked=asked)
        given, options = (
            (Argument("x", "float32", shape), Argument("g", "float32", (rows, 3))),
            Options(fma=f"fma(a={to},acc=fp32)"),
        )
        results = Argument("r", "float32", (3, columns)), Argument("q", "bool", shape)
        source, stored = Imported(reader, given, results), along(parse_any_conversion(to), [0])
        (found,) = readings(lowered(source, options, "numc").operation, [0]).values()
        assert (found.format, found.why) == (stored, "")
        narrow = copies("float32", shape, stored)
        plain = Program(contents(source, options)[0])
        wide = Program(contents(with_codes(source, {0: stored}, {}), options)[0])
        g = np.random.default_rng(1).standard_normal((rows, 3)).astype(np.float32)
        for name, x in tensors(rows, columns).items():
            codes = narrow(x)
            assert codes.nbytes < x.nbytes * 3 // 4
            for one, other in zip(plain(x, g).values(), wide(codes, g).values(), strict=True):
                same = (one == other) if one.dtype == bool else one.view(np.int32) == other.view(np.int32)
                assert (same | (one != one) & (other != other)).all(), name


@pytest.mark.parametrize("shape", [(4, 8), (3, 7), (1, 3)])
def test_bits(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).random(shape) < 0.5
    (packed,) = copies("bool", shape, BITS)(x)
    runs = np.zeros((8, packed.size), bool)
    runs.flat[: x.size] = x.flat
    assert packed.size == -(-x.size // 8)
    assert np.array_equal(np.packbits(runs, axis=0, bitorder="little")[0], packed.view(np.uint8))


@pytest.mark.parametrize(
    ("fma", "why"),
    [
        ("fma(a=int8:rtz,acc=fp32)", "converted to int8:rtz by linalg.generic, which has no codes"),
        ("fp32", "read as float32 by linalg.generic"),
    ],
)
def test_why_a_tensor_is_not_narrower(fma: str, why: str) -> None:
    source = Imported(READER.format(t=16, n=4, asked="ogt"))
    found = readings(lowered(source, Options(fma=fma), "numc").operation, [0])[0]
    assert (found.format, found.why) == ("", why)


@pytest.mark.parametrize(
    "to", ["bfp(16,3,3)", *(pytest.param(to, marks=pytest.mark.all) for to in ("bfp(7,2,9)", "mxfp8"))]
)
def test_groups_along_several_dimensions(to: str) -> None:
    shape, options = (3, 4, 5, 7), Options(fma=f"fma(a={to},acc=fp32)")
    given = Argument("x", "float32", shape), Argument("g", "float32", (3, 2, 5, 7))
    source = Imported(POINTWISE.format(row="h + k"), given, (Argument("r", "float32", (4, 2, 1)),))
    (found,) = readings(lowered(source, options, "numc").operation, [0]).values()
    assert (found.format, found.why) == (f"{parse_any_conversion(to)} along dimensions 0, 2, 3", "")
    narrow, plain = copies("float32", shape, found.format), Program(contents(source, options)[0])
    wide = Program(contents(with_codes(source, {0: found.format}, {}), options)[0])
    g = np.random.default_rng(1).standard_normal((3, 2, 5, 7)).astype(np.float32)
    for name, x in tensors(*shape).items():
        codes = narrow(x)
        assert codes.nbytes < x.nbytes // 2
        assert np.array_equal(plain(x, g), wide(codes, g), equal_nan=True), name


def test_groups_that_are_no_groups_of_the_tensor() -> None:
    window = "affine_map<(o, i, k) -> (k + i, i)>"
    text = READER.format(t=16, n=4, asked="ogt")
    text = re.sub(r"affine_map<\(o, i, k\) -> \(k, i\)>", window, text).replace("tensor<16x3xf32>", "tensor<13x3xf32>")
    (found,) = readings(lowered(Imported(text), Options(fma="midbfp"), "numc").operation, [0]).values()
    assert (
        found.why == "converted to bfp(16,3,3) by linalg.generic, in windows, so that an element is in several groups"
    )
    text = POINTWISE.format(row="2 * h").replace("tensor<3x2x5x7xf32>", "tensor<3x2x3x7xf32>")
    (found,) = readings(lowered(Imported(text), Options(fma="midbfp"), "numc").operation, [0]).values()
    assert found.why == "converted to bfp(16,3,3) by linalg.generic, some of whose elements it does not read"
    text = POINTWISE.format(row="4 - h")
    (found,) = readings(lowered(Imported(text), Options(fma="midbfp"), "numc").operation, [0]).values()
    assert found.why == "converted to bfp(16,3,3) by linalg.generic, in groups that do not lie along its dimensions"
    view = "%x = tensor.expand_shape %y [[0, 1], [2], [3]] output_shape [3, 4, 5, 7]"
    view += " : tensor<12x5x7xf32> into tensor<3x4x5x7xf32>"
    text = POINTWISE.format(row="h").replace("  %z =", f"  {view}\n  %z =", 1)
    text = text.replace("%x: tensor<3x4x5x7xf32>", "%y: tensor<12x5x7xf32>")
    (found,) = readings(lowered(Imported(text), Options(fma="midbfp"), "numc").operation, [0]).values()
    assert found.why == "converted to bfp(16,3,3) by linalg.generic, in groups that do not lie along its dimensions"
