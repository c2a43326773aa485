"""The cheap sequences at the limits of their guards: what a guard admits is exact, without a kernel's own slack."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import arithmetic_vectorised as reference
from math_harness import V3_ONLY, V4, Compiled, apply
from numc.numerics.grammar import parse_fma
from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.datapath import NOTHING, Cheap, Guard
from numc.passes.kernels.datapaths.steps.guarded import cheap_step, guard, splits
from numc.passes.kernels.isa.avx2 import AVX2
from numc.passes.kernels.isa.avx512 import AVX512
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.straight import Text
from numc.passes.kernels.values.rounding import emit_parts
from numc.runtime.library import cpu_features

F32 = npt.NDArray[np.float32]
FEATURES = {8: (V3_ONLY, "x86-64-v3"), 16: (V4, "x86-64-v4")}
SETS = [
    pytest.param(AVX2, id="avx2", marks=pytest.mark.skipif("fma" not in cpu_features(), reason="needs FMA")),
    pytest.param(
        AVX512, id="avx512", marks=pytest.mark.skipif("avx512dq" not in cpu_features(), reason="needs AVX-512")
    ),
]
# Roundings by additions, which need no instruction that others lack.
ADDERS = [pytest.param(replace(AVX2, name="adders", adders=AVX2.tile), id="adders", marks=SETS[0].marks)]
FP32 = [
    *("bf16_1_1", "bf16_1_2", "bf16_1_3", "bf16_2_2{3}", "bf16_2_2{4}", "bf16_3_3{6}", "bf16_3_3{9}"),
    *(
        "fmac(e8m1)",
        "fmac(tf32)",
        "fmac(e8m11)",
        "fmac(e8m12)",
        "fma(a=fp32,acc=e8m21)",
        "fma(a=fp32,acc=bf16)",
        "fma(a=bf16x2,acc=bf16)",
    ),
    *(
        "fmac(e6m9)",
        "fmac(e6m9n)",
        "fmac(fp16)",
        "fmac(e5m2)",
        "fmac(e4m3fn)",
        "fmac(e4m3)",
        "fmac(e6m11)",
        "fmac(e6m16)",
    ),
    *("fmac(e6m16n)", "fma(a=fp32,acc=e4m3fn:nan)", "fma(a=bf16,acc=e6m9n)", "fma(a=fp32,acc=e3m4fn)"),
    *("mac(bf16)", "mac(tf32)", "mac(e6m9)", "mac(e4m3fn)", "mac(e6m9n)", "fma(a=bf16,product=bf16,acc=fp32)"),
    *(
        "fma(a=bf16,product=e6m9,acc=bf16x2)",
        "fma(a=fp32,product=e4m3fn,acc=fp32)",
        "fma(a=fp32,product=fp32,acc=bf16)",
    ),
    *(
        "fma(a=tf32,product=e8m12,acc=e8m1)",
        "fma(a=bf16,product=fp32,acc=e7m10)",
        "fma(a=bf16,product=e8m1,acc=bf16x3)",
    ),
]
EXACT = [
    *(
        f"fma(a=bf16,acc={acc},datapath=exact)"
        for acc in ("bf16", "bf16x2", "bf16x3", "e8m1", "e8m11", "e8m12", "e8m21")
    ),
    *(
        f"fma(a=tf32,acc={acc},datapath=exact)"
        for acc in ("bf16", "bf16x2", "tf32", "e6m9", "e6m9n", "e7m16n", "e4m3fn")
    ),
    *("fma(a=e5m2,acc=e5m2,datapath=exact)", "fma(a=e8m12,b=e8m10,acc=bf16,datapath=exact)"),
]
# Whose sums are bounded by the overflow flag.
OVERFLOWING = [
    *("fmac(fp16)", "fmac(e5m2)", "fmac(e4m3)", "fmac(e2m1)", "fmac(e5m12n)", "fmac(e3m15n)", "fmac(e2m21)"),
    *("fma(a=fp32,acc=e5m12)", "fma(a=fp32,acc=e4m3fn:nan)", "fma(a=fp32,acc=e2m2fn:nan)", "fma(a=bf16,acc=fp16)"),
    *("fma(a=tf32,acc=fp16,datapath=exact)", "fma(a=e4m3fn,acc=e5m2,datapath=exact)"),
    *("mac(fp16)", "mac(e4m3)", "fma(a=fp32,product=fp16,acc=fp32)", "fma(a=bf16,product=e6m9,acc=e5m2)"),
    *("fma(a=fp32,product=e5m2,acc=bf16)", "fma(a=bf16,product=fp32,acc=fp16)"),
]


def limits_of(fma: Fma, isa: InstructionSet) -> Guard | None:
    return Kernel(fma=fma, tile=isa.tile, isa=isa).limits


def compiled(fma: Fma, isa: InstructionSet, cheap: Cheap = cheap_step) -> Compiled:
    width = isa.width
    code = Code(width, Text("s"))
    x, y, z = (Value(name, code.ty("f32")) for name in ("%x", "%y", "%z"))
    a, b = (emit_parts(code, v, to.format) for v, to in ((x, fma.a), (y, fma.b)))
    result = cheap(code, fma, isa, a, b, z, NOTHING, None)
    kind, lanes = "memref<?xf32>", f"vector<{width}xf32>"
    loads = "\n".join(f"    %{v} = vector.load %{m}[%i] : {kind}, {lanes}" for m, v in zip("abc", "xyz", strict=True))
    return Compiled(
        f"""
func.func @main(%a: {kind}, %b: {kind}, %c: {kind}, %out: {kind}) attributes {{llvm.emit_c_interface}} {{
  %zero = arith.constant 0 : index
  %step = arith.constant {width} : index
  %n = memref.dim %out, %zero : {kind}
  scf.for %i = %zero to %n step %step {{
{loads}
{chr(10).join("    " + line for line in code.lines)}
    vector.store {result}, %out[%i] : {kind}, {lanes}
  }}
  return
}}""",
        *FEATURES[width],
    )


def exponent(x: npt.NDArray[np.floating]) -> npt.NDArray[np.int64]:
    return np.frexp(x)[1].astype(np.int64) - 1


def admitted(fma: Fma, limits: Guard, n: int, seed: int) -> tuple[F32, F32, F32]:
    """Triples a guard admits, most of them as near to one of its limits as the formats allow."""
    rng = np.random.default_rng(seed)

    def significands() -> npt.NDArray[np.float64]:
        far = np.exp2(-rng.integers(1, 24, n))
        kinds = [1 + far, 2 - far, rng.integers(16, 32, n) / 16, 1 + rng.random(n)]
        return np.choose(rng.integers(0, 4, n), kinds) * rng.choice([-1.0, 1.0], n)

    def near(limit: int) -> npt.NDArray[np.int64]:
        return limit + rng.integers(-1, 3, n)

    bottom, top = max(limits.product, -252), limits.largest
    middle = rng.integers(-20, 21, n)
    total = np.choose(rng.integers(0, 3, n), [near(bottom), middle, near(top - 3)])
    half = total // 2 + rng.integers(-3, 4, n)
    with np.errstate(all="ignore"):
        a = reference.round(np.ldexp(significands(), half).astype(np.float32), fma.a)
        b = reference.round(np.ldexp(significands(), total - half).astype(np.float32), fma.b)
        product = a.astype(np.float64) * b
        # Accumulators at any distance, cancelling ones, zeros, values of the format next to its limits.
        far = np.exp2(rng.integers(-40, 41, n))
        c = np.choose(
            rng.integers(0, 5, n),
            [
                significands() * far * np.abs(product),
                -product * (1 + rng.choice([0, 2.0**-7, 2.0**-12], n)),
                np.zeros(n),
                np.ldexp(significands(), np.clip(near(fma.acc.format.emin), -149, 127)),
                np.ldexp(significands(), near(top - 2)),
            ],
        )
        c = reference.round(c.astype(np.float32), fma.acc)
        inside = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & ~(np.signbit(c) & (c == 0))
        inside &= (product == 0) | (exponent(a) + exponent(b) >= limits.product)
        inside &= np.maximum(np.abs(product), np.abs(c)) < 2.0**top
        inside &= np.abs(product + c) < 2.0**top
    return a[inside], b[inside], c[inside]


def check(text: str, isa: InstructionSet, seeds: range) -> None:
    fma = parse_fma(text)
    limits = guard(fma)
    assert limits is not None
    run = compiled(fma, isa)
    for seed in seeds:
        a, b, c = (x[: len(x) // 16 * 16].copy() for x in admitted(fma, limits, 1 << 18, seed))
        assert len(a) > 1 << 14
        got, want = apply(run, a, b, c), reference.fma(a, b, c, fma)
        assert (found := reference.first_mismatch(got, want, a, b, c)) is None, found


def of_set(text: str, instructions: Any) -> Any:
    return pytest.param(text, *instructions.values, id=f"{text}-{instructions.id}", marks=instructions.marks)


@pytest.mark.parametrize(
    ("text", "isa"),
    [
        *(of_set(text, s) for s in SETS for text in [*FP32, *EXACT]),
        *(of_set(text, s) for s in ADDERS for text in FP32 if splits(parse_fma(text))),
    ],
)
def test_exact_inside_of_the_guard(text: str, isa: InstructionSet) -> None:
    check(text, isa, range(1))


@pytest.mark.slow
@pytest.mark.parametrize("isa", [*SETS, *ADDERS])
@pytest.mark.parametrize("text", [*FP32, *EXACT])
def test_more_triples_inside_of_the_guard(text: str, isa: InstructionSet) -> None:
    check(text, isa, range(1, 4))


@pytest.mark.parametrize("isa", [*SETS, *ADDERS])
@pytest.mark.parametrize("text", OVERFLOWING)
def test_exact_or_beyond_the_numbers_of_binary32(text: str, isa: InstructionSet) -> None:
    """Scaled sums near the largest number: an overflow, which raises the flag, leaves no finite result."""
    fma = parse_fma(text)
    kernel = Kernel(fma=fma, tile=isa.tile, isa=isa)
    limits, cheap, scale = kernel.limits, kernel.datapath.cheap, np.float32(kernel.scale)
    assert limits is not None
    assert limits.entry
    assert cheap is not None
    a, b, c = (x[: len(x) // 16 * 16].copy() for x in admitted(fma, limits, 1 << 18, 0))
    with np.errstate(over="ignore"):
        got = apply(compiled(fma, isa, cheap), a, b * scale, c * scale) / scale
    want = reference.fma(a, b, c, fma)
    raised, overflown = ~np.isfinite(got), ~np.isfinite(want)
    assert overflown.any()
    assert not (overflown & ~raised).any()
    inside = ~raised
    found = reference.first_mismatch(got[inside], want[inside], a[inside], b[inside], c[inside])
    assert found is None, found
    if fma.product is None:
        assert not (raised & (np.abs(want) < 2.0**fma.acc.format.emax)).any(), "the flag is raised without need"


@pytest.mark.skipif("fma" not in cpu_features(), reason="needs FMA")
@pytest.mark.parametrize("precision", [8, pytest.param(11, marks=pytest.mark.slow)])
def test_a_split_by_additions_rounds_every_significand(precision: int) -> None:
    """Of one binade and both signs; other binades are these, scaled by a power of two."""
    text = f"fma(a=fp32,acc=e8m{precision - 1})"
    ((adders,),) = (each.values for each in ADDERS)
    x = (np.arange(1 << 23, dtype=np.uint32) | np.uint32(0x3F800000)).view(np.float32)
    x[1::2] *= -1
    run, fma = compiled(parse_fma(text), adders), parse_fma(text)
    got = apply(run, x, np.ones_like(x), np.zeros_like(x))
    assert (found := reference.first_mismatch(got, reference.round(x, fma.acc), x)) is None, found


@pytest.mark.parametrize(
    "text",
    [
        *("fma(a=bf16x2,acc=bf16x2,products=3,datapath=exact)", "fma(a=bf16x2,b=bf16,acc=bf16,datapath=exact)"),
        *("fma(a=fp32,acc=bf16,datapath=exact)", "mac(fp32)", "fma(a=bf16,acc=e6m9:rtz,datapath=exact)"),
        *(
            "mac(bf16:sr8)",
            "fma(a=bf16,acc=bf16x2:sr8)",
            "fmac(e6m9n:sr8)",
            "mac(bf16,datapath=exact)",
            "fma(a=bf16,product=bf16,acc=e6m9)",
            "fma(a=bf16,acc=bf16:sr17,datapath=exact)",
        ),
        *("fma(a=bf16,acc=e8m7n,datapath=exact)", "fma(a=bf16,acc=e8m22,datapath=exact)", "mp", "amx_bf16"),
    ],
)
def test_where_there_is_no_cheap_sequence(text: str) -> None:
    """Several products, or one of more than 24 bits, have no error that one binary32 number holds."""
    assert limits_of(parse_fma(text), AVX512) is None
