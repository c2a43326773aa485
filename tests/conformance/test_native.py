"""Generated code against the second implementation of the definition, bit for bit."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

import arithmetic_vectorised as reference
import numc
from numc.compiler.arrays.arrays import matmul
from numc.frontends.imported import Imported
from numc.numerics.operators import FMAS
from targets_here import HERE, some_variants, variants
from tiers import by_default, one_in, pairs

F32 = npt.NDArray[np.float32]
TRIPLES = 10_000_000
BLOCK = 1 << 20
OPERATORS = (
    *FMAS,
    *reference.SOME_FMAS,
    *(
        "fmac(e6m9n)",
        "fmac(fp16)",
        "fmac(fp8_e5m2)",
        "fmac(fp8_e4m3)",
        "fmac(e8m12)",
        "fmac(e5m10:rtz)",
        "fmac(e6m9:odd)",
    ),
    *("fmac(e4m3:rup)", "fmac(e4m3:rdn)", "fmac(e6m9:rna)", "fmac(e4m3fn:nan)"),
    *("fma(a=e6m9,acc=e6m9,datapath=exact)", "fma(a=e6m9n,acc=e6m9n,datapath=exact)"),
    *("mac(bf16)", "mac(fp16)", "mac(e6m9n)", "fma(a=fp8_e4m3,product=bf16,acc=fp32)"),
)


def roundings(conversions: list[str]) -> numc.Program:
    """A program that rounds its argument to each of the conversions: one compilation instead of one for each."""
    kind, results = "tensor<?xf32>", ", ".join(["tensor<?xf32>"] * len(conversions))
    maps = ", ".join(["affine_map<(i) -> (i)>"] * (len(conversions) + 1))
    rounded = "\n".join(
        f'    %r{n} = "numc.round"(%a) {{to = "{to}"}} : (f32) -> f32' for n, to in enumerate(conversions)
    )
    numbers = range(len(conversions))
    return numc.compile(
        Imported(
            mlir=f"""
func.func @main(%x: {kind}) -> ({results}) {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : {kind}
  %e = tensor.empty(%n) : {kind}
  %y:{len(conversions)} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
      ins(%x : {kind}) outs({", ".join("%e" for _ in numbers)} : {results}) {{
  ^bb0(%a: f32, {", ".join(f"%o{n}: f32" for n in numbers)}):
{rounded}
    linalg.yield {", ".join(f"%r{n}" for n in numbers)} : {", ".join("f32" for _ in numbers)}
  }} -> ({results})
  return {", ".join(f"%y#{n}" for n in numbers)} : {results}
}}"""
        )
    )


BY_FORMAT = {
    name: [to for to in reference.conversions() if to.split(":")[0] == name] for name in reference.SOME_FORMATS
}


@pytest.mark.parametrize("name", BY_FORMAT)
def test_round(name: str) -> None:
    """Every rounding of a format; the first one through numc.round as well."""
    x = reference.samples(1 << 16, 1)
    program = roundings(BY_FORMAT[name])
    result = program(x)
    outputs = list(result.values()) if isinstance(result, dict) else [result]
    for to, got in zip(BY_FORMAT[name], outputs, strict=True):
        assert (found := reference.first_mismatch(got, reference.round(x, to), x)) is None, f"{to}: {found}"
    to = BY_FORMAT[name][0]
    assert (found := reference.first_mismatch(numc.round(x, to), reference.round(x, to), x)) is None, found


@pytest.mark.slow
@pytest.mark.parametrize("to", reference.conversions())
def test_round_every_float(to: str) -> None:
    for start in range(0, 1 << 32, 1 << 24):
        x = np.arange(start, start + (1 << 24), dtype=np.uint32).view(np.float32)
        assert (found := reference.first_mismatch(numc.round(x, to), reference.round(x, to), x)) is None, found


def check_fma(fma: str, triples: int) -> None:
    for seed in range(-(-triples // BLOCK)):
        a, b, c = triple(min(triples, BLOCK), seed)
        got, want = numc.fma(a, b, c, fma), reference.fma(a, b, c, fma)
        assert (found := reference.first_mismatch(got, want, a, b, c)) is None, found


triple = cache(reference.operands)


@pytest.mark.parametrize("fma", OPERATORS)
def test_fma(fma: str) -> None:
    check_fma(fma, 1 << 15)


@pytest.mark.all
@pytest.mark.parametrize("fma", one_in(16, FMAS))
def test_many_fma(fma: str) -> None:
    check_fma(fma, TRIPLES)


def matrices(kind: str, m: int, k: int, n: int) -> tuple[F32, F32, F32]:
    """Operands of a matmul; `kind` chooses what makes the guards of the cheap sequences fail."""
    rng = np.random.default_rng(m * 1000 + k * 10 + n)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n), (m, n)))
    if kind == "wide":
        a *= np.exp2(rng.integers(-40, 40, a.shape)).astype(np.float32)
    elif kind == "tiny":
        # Sums below the subnormal grid of bf16; +0 to start from, so that only the bound on products sees it.
        a, b, c = a * np.float32(2.0**-70), b * np.float32(2.0**-66), np.zeros_like(c)
    elif kind == "overflow_e6":  # sums, not operands, beyond 2^32
        a, b = a * np.float32(2.0**15), b * np.float32(2.0**14)
    elif kind == "overflow_e5":
        a, b = a * np.float32(2.0**7), b * np.float32(2.0**6)
    elif kind == "huge":
        a, b, c = a * np.float32(2.0**62), b * np.float32(2.0**62.5), c * np.float32(2.0**120)
    elif kind == "small":
        a, b = a * np.float32(2.0**-9), b * np.float32(2.0**-9)
    elif kind == "special":
        for x in (a, b, c):
            flat = x.reshape(-1)
            if flat.size:
                places = rng.integers(0, flat.size, max(1, flat.size // 300))
                flat[places] = rng.choice(
                    np.array([np.inf, -np.inf, np.nan, 0, -0.0, 1e-42, 3e38], np.float32), places.size
                )
    elif kind == "minus_zero":
        # Products that are all -0, and a start of -0: the sum stays -0.
        a, b, c = np.abs(a) * (np.arange(m) % 2)[:, None].astype(np.float32), -np.abs(b), np.full_like(c, -0.0)
    return a, b, c


KINDS = ("plain", "wide", "tiny", "overflow_e5", "overflow_e6", "huge", "small", "special", "minus_zero")


# With operands of every kind.
FIRST = ("fp32", "bf16_1_1", "bf16_1_2", "bf16_2_2{3}", "avx512_bf16", "fmac(e6m9)", "fmac(fp16)")
OF_DEFAULT = product((*FMAS, *FIRST, *OPERATORS[::3]), KINDS)


@pytest.mark.parametrize(("fma", "kind"), one_in(3, pairs(OPERATORS, KINDS, lambda fma, _: fma in FIRST), *OF_DEFAULT))
def test_matmul(fma: str, kind: str) -> None:
    a, b, c = matrices(kind, 19, 67, 41)
    got = numc.matmul(a, b, c, fma=fma)
    assert (found := reference.first_mismatch(got, reference.matmul(a, b, c, fma))) is None, found


@pytest.mark.parametrize(
    ("fma", "shape"),
    pairs(
        ["fp32", "bf16_1_1", "bf16_1_2", "bf16_2_2{3}", "fmac(e6m9)", "amx_bf16", "avx512_bf16"],
        [(1, 1, 1), (3, 0, 5), (0, 4, 3), (3, 4, 0), (1, 300, 1), (1, 513, 70), (130, 3, 1), (9, 257, 33)],
        lambda fma, shape: fma == "bf16_1_1" or (fma, shape) == ("bf16_2_2{3}", (130, 3, 1)),
    ),
    ids=lambda each: each if isinstance(each, str) else "-".join(map(str, each)),
)
def test_matmul_shapes(fma: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b, c = matrices("plain", m, k, n)
    got = numc.matmul(a, b, c, fma=fma)
    assert got.shape == (m, n)
    assert (found := reference.first_mismatch(got, reference.matmul(a, b, c, fma))) is None, found


@cache
def of_every_class() -> tuple[F32, F32, F32]:
    a, b, c = (reference.samples(n, seed) for n, seed in ((200 * 2, 1), (2 * 300, 2), (200 * 300, 3)))
    return a.reshape(200, 2), b.reshape(2, 300), c.reshape(200, 300)


def check_targets(fma: str, chosen: list[tuple[str, bool]]) -> None:
    a, b, c = of_every_class()
    want = reference.matmul(a, b, c, fma)
    for target, fast in chosen:
        got = matmul(a, b, c, fma=fma, target=target, fast=fast)
        assert (found := reference.first_mismatch(got, want)) is None, f"{target}, fast={fast}: {found}"


@pytest.mark.parametrize("fma", one_in(12, OPERATORS))
def test_targets(fma: str) -> None:
    """Operands of every class, subnormal ones included, over two steps: with and without an FMA instruction."""
    check_targets(fma, some_variants(fma, OPERATORS.index(fma)))


@pytest.mark.slow
@pytest.mark.parametrize("fma", OPERATORS)
def test_every_target(fma: str) -> None:
    check_targets(fma, variants(fma))


EVERYWHERE = [*FMAS, *(f"fma(a=bf16,acc={acc},datapath=exact)" for acc in ("bf16", "bf16x2"))]


def check_everywhere(fma: str, kind: str, chosen: list[tuple[str, bool]]) -> None:
    a, b, c = matrices(kind, 150, 290, 300)
    want = matmul(a, b, c, fma=fma, threads=1, target=HERE[0], fast=False)
    for threads in (1, 2, 3, 8):
        assert (found := reference.first_mismatch(matmul(a, b, c, fma=fma, threads=threads), want)) is None, found
    for target, fast in chosen:
        got = matmul(a, b, c, fma=fma, target=target, fast=fast)
        assert (found := reference.first_mismatch(got, want)) is None, f"{target}, fast={fast}: {found}"


@pytest.mark.parametrize(
    ("fma", "kind"),
    by_default(
        one_in(4, pairs(EVERYWHERE, KINDS)),
        [("bf16_1_1", "tiny"), ("fma(a=bf16,acc=bf16x2,datapath=exact)", "huge")],
    ),
)
def test_same_bits_for_any_number_of_threads(fma: str, kind: str) -> None:
    """Threads, and the exact sequence of the plainest target in place of the cheap one: one result."""
    check_everywhere(fma, kind, [])


@pytest.mark.slow
@pytest.mark.parametrize(("fma", "kind"), pairs(EVERYWHERE, KINDS))
def test_same_bits_everywhere(fma: str, kind: str) -> None:
    check_everywhere(fma, kind, variants(fma)[1:])
