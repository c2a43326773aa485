"""Operators, conversions and functions on AArch64: the bits that they have here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import arithmetic_vectorised as reference
import definitions
import numc
from emulated import Emulated, both, first_difference
from numc.frontends.imported import Imported
from numc.numerics.formats import Record
from numc.numerics.grammar import parse_fma
from numc.numerics.operators import FMAS
from numc.passes.kernels.values.function_table import FUNCTIONS
from tiers import one_in

pytestmark = pytest.mark.all
F32 = npt.NDArray[np.float32]
MATMUL = """
func.func @main(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%c : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}"""
# Formats that flush, and groups; more formats, random bits, one rounding, and the units of accelerators.
OTHERS = ("fmac(e6m9n)", "mxfp8")
MORE = (
    *("fmac(fp16)", "fma(a=bf16,acc=bf16x2,datapath=exact)", "fma(a=bf16,acc=e4m3fn:sr8)"),
    *("fmac(e6m9)", "fmac(fp8_e5m2)", "fmac(e8m12)", "fmac(e5m10:rtz)", "fmac(e6m9:odd)", "fmac(e4m3:rup)"),
    *("fmac(e4m3:rdn)", "fmac(e6m9:rna)", "fmac(e4m3fn:nan)", "fma(a=e6m9n,acc=e6m9n,datapath=exact)", "mac(bf16)"),
    *("mac(fp16)", "mac(e6m9n)", "fma(a=fp8_e4m3,product=bf16,acc=fp32)", "int8", "highbfp", "fmac(bf16,chunk=8)"),
    *("fma(a=bf16x2,acc=bf16x2,products=3,datapath=exact)", "fma(a=posit8,acc=posit8)", "fma(a=mxfp8:sr8,acc=fp32)"),
    *("fmac(e6m9:sr13.lfsr)", "mac(bf16:sr4)", "fma(a=bf16,product=e6m9:sr8,acc=fp32)", "fma(a=bf16,acc=bf16x2:sr8)"),
    *("fma(a=e2..8m1..10,b=bf16,acc=e6m9)", "fma(a=bf16,product=e2..8m1..10,acc=fp32)", *numc.units),
)


def operands(fma: str) -> list[tuple[F32, F32, F32]]:
    """Operands of usual sizes, around the least number of the accumulator, of all sizes, and special ones."""
    rng, op = np.random.default_rng(0), parse_fma(fma)

    def normal(m: int, k: int, n: int) -> list[F32]:
        return [rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n))]

    cases = [normal(29, 70, 37), normal(1, 130, 5), normal(9, 33, 1)]
    least = op.acc.format.emin if isinstance(op.acc.format, Record) else -126
    for middle in (least // 2, least // 2 - 2, -64):
        a, b, c = normal(19, 70, 37)
        start = np.where(rng.random(c.shape) < 0.5, 0, np.ldexp(c, least))
        cases.append([np.ldexp(a, middle), np.ldexp(b, least - middle), start.astype(np.float32)])
    a, b, c = normal(19, 70, 37)
    cases.append([np.ldexp(a, rng.integers(-40, 40, a.shape)), b, c])
    cases.append([reference.samples(x.size, n).reshape(x.shape) for n, x in enumerate(normal(17, 21, 35))])
    return [(a, b, c) for a, b, c in [*cases, _just_below(rng)]]


def _just_below(rng: np.random.Generator) -> list[F32]:
    """Sums of 2^-126, of both signs, and of products that are worth a part of its last bit, or less."""
    a, b = np.zeros((16, 8), np.float32), np.zeros((8, 16), np.float32)
    a[:, 0], b[0] = 2.0**-63, 2.0**-63
    a[:, 1:] = -(2.0**-80) * np.exp2(-(np.arange(16.0)[:, None] % 6)) * rng.integers(100, 256, (16, 7)) / 256
    b[1:] = 2.0**-70 * np.exp2(-rng.integers(0, 4, (7, 16)))
    a[8:] = -a[8:]
    return [a, b, np.zeros((16, 16), np.float32)]


@pytest.mark.parametrize(
    "fma", [*one_in(3, [*FMAS, *OTHERS]), *(pytest.param(fma, marks=pytest.mark.slow) for fma in MORE)]
)
def test_products(fma: str, emulated: Emulated, tmp_path: Path) -> None:
    runs = operands(fma)
    if fma in ("amx_bf16", "avx512_bf16"):  # a mode that looks at results before their rounding makes others of these
        sums = np.abs(reference.matmul(*runs[-1], fma))
        assert (sums == 2.0**-126).any()
        assert (sums == 0).any()
    theirs, ours = both(emulated, tmp_path, Imported(mlir=MATMUL), runs, fma=fma)
    assert (found := first_difference(theirs, ours)) is None, found


MORE_OWN = ("mitchell", "own_posit", "by_table", "kulisch_bf16", "saturating", "logarithmic")


@pytest.mark.slow
@pytest.mark.parametrize("fma", ["own_fused", *(pytest.param(fma, marks=pytest.mark.slow) for fma in MORE_OWN)])
def test_products_of_users_operators(fma: str, emulated: Emulated, tmp_path: Path) -> None:
    """Rows that are computed in turn, whose order in time an assembler text keeps."""
    with definitions.own_operators():
        runs = operands(fma)
        theirs, ours = both(emulated, tmp_path, Imported(mlir=MATMUL), runs, fma=fma)
    assert (found := first_difference(theirs, ours)) is None, found


def _elementwise(bodies: list[str], kind: str) -> Imported:
    """A program that gives one result for each body, of which each makes %r of %a."""
    vector = f"tensor<?x{kind}>"
    count = len(bodies)
    results, maps = ", ".join([vector] * count), ", ".join(["affine_map<(i) -> (i)>"] * (count + 1))
    code = "\n".join(body.replace("%r", f"%r{n}").replace("%t", f"%t{n}") for n, body in enumerate(bodies))
    return Imported(
        mlir=f"""
func.func @main(%x: {vector}) -> ({results}) {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : {vector}
  %e = tensor.empty(%n) : {vector}
  %y:{count} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
      ins(%x : {vector}) outs({", ".join(["%e"] * count)} : {results}) {{
  ^bb0(%a: {kind}, {", ".join(f"%o{n}: {kind}" for n in range(count))}):
{code}
    linalg.yield {", ".join(f"%r{n}" for n in range(count))} : {", ".join([kind] * count)}
  }} -> ({results})
  return {", ".join(f"%y#{n}" for n in range(count))} : {results}
}}"""
    )


FORMATS = ("bf16", "fp16", "e6m9n", "e4m3fn", "e5m2", "bf16x2", "e8m0fnu", "posit8", "e2m1fn", "fp32")
CONVERSIONS = [to for to in reference.conversions() if to.split(":")[0] in reference.SOME_FORMATS]


@pytest.mark.parametrize(
    "conversions", [FORMATS, pytest.param(tuple(CONVERSIONS), marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_conversions(conversions: tuple[str, ...], emulated: Emulated, tmp_path: Path) -> None:
    model = _elementwise([f'    %r = "numc.round"(%a) {{to = "{to}"}} : (f32) -> f32' for to in conversions], "f32")
    theirs, ours = both(emulated, tmp_path, model, [[reference.samples(1 << 14, 1)]])
    for to, *pair in zip(conversions, theirs, ours, strict=True):
        assert (found := first_difference(*([each] for each in pair))) is None, f"{to}: {found}"


# Casts of floats that integers cannot hold, NaN too; narrow dtypes; larger and smaller ones with NaN; remainders.
CASTS = [
    *(f"    %t = arith.fptosi %a : f32 to {i}\n    %r = arith.sitofp %t : {i} to f32" for i in ("i8", "i32", "i64")),
    *(f"    %t = arith.truncf %a : f32 to {f}\n    %r = arith.extf %t : {f} to f32" for f in ("f16", "bf16", "f8E5M2")),
    *(f"    %r = arith.{name} %a, %a : f32" for name in ("maximumf", "minimumf", "maxnumf", "minnumf")),
    *(f"    %r = math.{name} %a : f32" for name in ("roundeven", "round", "floor", "ceil", "trunc", "sqrt", "absf")),
]


def test_casts_and_roundings(emulated: Emulated, tmp_path: Path) -> None:
    special = np.array([0, -0.0, np.nan, np.inf, -np.inf, 2.0**31, -(2.0**31), 2.0**63, 1e30, 0.5, 2.5], np.float32)
    values = np.concatenate([special, reference.samples(1 << 12, 2)])
    theirs, ours = both(emulated, tmp_path, _elementwise(CASTS, "f32"), [[values]])
    for body, *pair in zip(CASTS, theirs, ours, strict=True):
        assert (found := first_difference(*([each] for each in pair))) is None, f"{body}: {found}"


_TWO_OPERANDS = ("math.atan2", "math.fpowi", "math.powf", "math.sincos")
FUNCTIONS_OF_ONE = [name for name in FUNCTIONS if name not in _TWO_OPERANDS]
SOME_FUNCTIONS = ("math.erf", "math.exp", "math.log", "math.sin", "math.tanh")  # some of which have tables on x86


@pytest.mark.parametrize(
    "names", [SOME_FUNCTIONS, pytest.param(tuple(FUNCTIONS_OF_ONE), marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_functions(names: tuple[str, ...], emulated: Emulated, tmp_path: Path) -> None:
    model = _elementwise([f"    %r = {name} %a : f32" for name in names], "f32")
    theirs, ours = both(emulated, tmp_path, model, [[reference.samples(1 << 13, 3)]])
    for name, *pair in zip(names, theirs, ours, strict=True):
        assert (found := first_difference(*([each] for each in pair))) is None, f"{name}: {found}"
