"""The datapath ``fused``: by hand, against exact rationals, generated code on every target, and what passes leave."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import arithmetic_vectorised as vectorised
import numc
from numc.frontends.imported import Imported
from numc.numerics import reference
from numc.numerics.formats.rounding import round_real
from numc.numerics.grammar import parse_fma
from numc.numerics.operators import Fma
from numc.support.errors import NumcError
from targets_here import HERE
from tiers import by_default, one_in

F32 = npt.NDArray[np.float32]


def fused(a: str, acc: str, parameters: str, more: str = "") -> str:
    """The text of an operator."""
    return f"fma(a={a},acc={acc},datapath=fused({parameters}){more})"


# Units of accelerators: instruction by instruction in docs/arithmetic.md.
UNITS = {
    "Volta": fused("fp16", "fp32:rtz", "l=4,bits=23,least=-131"),
    "Ampere": fused("bf16", "fp32:rtz", "l=8,bits=24,least=-132"),
    "Ada, fp8": fused("e4m3fn", "e8m13:rtz", "l=16,bits=13,least=-132"),
    "Hopper": fused("fp16", "fp32:rtz", "l=16,bits=25,least=-133"),
    "Hopper, fp16": fused("fp16", "fp16", "l=16,bits=25,least=-21"),
    "Hopper, fp8": fused("e5m2", "e8m13:rtz", "l=32,bits=13,least=-133"),
}
OPERATORS = [
    *UNITS.values(),
    fused("e4m3fn", "e8m13:rtz", "l=32,bits=13,least=-133", ",chunk=128"),
    fused("fp32", "fp32", "l=3,bits=42"),
    fused("bf16", "bf16", "l=5,bits=3"),
    fused("bf16", "e6m9n", "l=256,bits=20,least=127"),
    fused("e5m2", "e4m3fn:rtz", "l=7,bits=0"),
    fused("fp16", "e5m10:odd", "l=2,bits=11"),
    fused("fp16", "fp16:rdn", "l=6,bits=30,least=-24"),
    fused("fp16", "bf16:sr8", "l=3,bits=30"),
    fused("fp16", "bf16:sr12", "l=4,bits=30", ",chunk=8,total=fp32"),
]


# --- the definition --------------------------------------------------


def by_rationals(op: Fma, a: list[float], b: list[float], c: float) -> float:
    """One reduction of finite numbers that are in their formats, by the page: docs/arithmetic.md."""
    path, (to_a, to_b), to = op.datapath, op.singles, op.acc

    def exponent(x: float, least: int) -> int:
        return max(math.frexp(x)[1] - 1, least)

    for k in range(0, len(a), path["l"]):
        terms = [
            (Fraction(x) * Fraction(y), exponent(x, to_a.format.emin) + exponent(y, to_b.format.emin))
            for x, y in zip(a[k : k + path["l"]], b[k : k + path["l"]], strict=True)
            if x and y
        ]
        terms += [(Fraction(c), exponent(c, to.format.emin))] if c else []
        quantum = Fraction(2) ** (max([path["least"], *(e for _, e in terms)]) - path["bits"])
        total = sum((math.trunc(value / quantum) * quantum for value, _ in terms), Fraction(0))
        beyond = abs(total) >= Fraction(2) ** (to.format.emax + 1) and not to.format.finite
        c = math.copysign(math.inf, total) if beyond else round_real(total, to) or 0.0
        if math.isinf(c):
            break
    return c


def dot(a: npt.ArrayLike, b: npt.ArrayLike, c: float, fma: str) -> float:
    """One dot product, by the reference."""
    return float(reference.dot(np.asarray(a, np.float32), np.asarray(b, np.float32), np.float32(c), fma))


def test_terms_are_cut_below_the_largest_exponent() -> None:
    fma = fused("fp16", "fp32", "l=4,bits=3")
    ones = [1.0, 1.0, 1.0, 1.0]
    assert dot([8, 1, 1, 1], ones, 0, fma) == 11
    assert dot([16, 1, 1, 1], ones, 0, fma) == 16  # units of 2: each of the others is 0, not their sum
    assert dot([16, -1, -3, 1], ones, 0, fma) == 14  # toward zero
    assert dot([1, 1, 1, 1], ones, 16, fma) == 16  # the accumulator is a term as well
    assert dot([1, 1, 1, 1, 16], [1.0] * 5, 0, fma) == 20  # blocks are added in their order
    assert dot([16, 1, 1, 1, 1], [1.0] * 5, 0, fma) == 16


def test_exponents_are_those_of_the_operands() -> None:
    """1.5 * 1.5 has the exponent 0; a subnormal number has that of the least normal one."""
    fma = fused("fp16", "fp32", "l=2,bits=1")
    assert dot([1.5, 0.5], [1.5, 1.0], 0, fma) == 2.5
    assert dot([2.25, 0.5], [1.0, 1.0], 0, fma) == 2
    tiny = fused("fp16", "fp32", "l=1,bits=2")
    assert dot([2.0**-24], [1], 0, tiny) == 0
    assert dot([2.0**-16], [1], 0, tiny) == 2.0**-16
    assert dot([2.0**-17], [1], 0, tiny) == 0


def test_the_least_exponent_and_overflow() -> None:
    assert dot([2.0**-5], [1], 0, fused("fp16", "fp32", "l=1,bits=4")) == 2.0**-5
    assert dot([2.0**-5], [1], 0, fused("fp16", "fp32", "l=1,bits=4,least=0")) == 0
    assert dot([2.0**-4], [1], 0, fused("fp16", "fp32", "l=1,bits=4,least=0")) == 2.0**-4
    big = 2.0**127
    assert dot([1.5 * big], [1], 0, fused("bf16", "fp32:rtz", "l=1,bits=9")) == 1.5 * big
    assert dot([big, big], [1, 1], 0, fused("bf16", "fp32:rtz", "l=2,bits=9")) == math.inf
    assert dot([-big, -big], [1, 1], 0, fused("bf16", "fp32:rup", "l=2,bits=9")) == -math.inf
    assert dot([240, 240, 240], [2, 2, 2], 0, fused("bf16", "e4m3fn:rtz", "l=4,bits=9")) == 448
    assert math.copysign(1, dot([-(2.0**-100)], [2.0**-60], 0, fused("bf16", "fp32", "l=1,bits=9"))) == 1  # underflow
    assert dot([big, -big], [2, 2], 3, fused("bf16", "fp32:rtz", "l=2,bits=9")) == 0  # cut away before it cancels


@pytest.mark.parametrize(
    ("a", "c", "want"),
    [
        ([-0.0, -0.0], -0.0, 0.0),
        ([1.0, -1.0], -0.0, 0.0),
        ([math.inf, 1.0], 0.0, math.inf),
        ([math.inf, -math.inf], 0.0, math.nan),
        ([1.0, 2.0], -math.inf, -math.inf),
        ([math.nan, 2.0], 0.0, math.nan),
        ([-math.inf, 2.0], math.inf, math.nan),
    ],
)
def test_special_values(a: list[float], c: float, want: float) -> None:
    x, y = np.array([a], np.float32), np.ones((2, 1), np.float32)
    for found in (dot(a, [1, 1], c, UNITS["Hopper"]), numc.matmul(x, y, np.float32([[c]]), fma=UNITS["Hopper"]).item()):
        same = found == want and math.copysign(1, found) == math.copysign(1, want)
        assert same or (math.isnan(found) and math.isnan(want))


def test_an_infinity_times_zero() -> None:
    assert math.isnan(dot([math.inf], [0], 0, UNITS["Hopper"]))
    assert np.isnan(numc.matmul(np.float32([[np.inf, 0]]), np.float32([[0], [0]]), fma=UNITS["Hopper"])).all()


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
near = st.builds(math.ldexp, st.integers(-4095, 4095), st.integers(-16, 4))
numbers = st.one_of(near, near, finite, st.sampled_from([0.0, -0.0, 2.0**-149, 2.0**-133, 6e-8, 2.0**-126]))


@settings(max_examples=250, deadline=None)
@given(
    st.sampled_from([op for op in OPERATORS if ":sr" not in op and "chunk" not in op]),
    st.lists(st.tuples(numbers, numbers), max_size=20),
    numbers,
)
@example(OPERATORS[0], [(1.0, 1.0), (-1.0, 1.0), (2.0**-24, 2.0**-24)], 0.0)
def test_the_reference_is_the_page(fma: str, pairs: list[tuple[float, float]], start: float) -> None:
    op = parse_fma(fma)
    x, y = ([round_real(pair[n], to) for pair in pairs] for n, to in enumerate(op.singles))
    c = round_real(start, op.acc)
    if all(map(math.isfinite, [*x, *y, c])):
        found = reference.dot(np.array(x, np.float32), np.array(y, np.float32), np.float32(c), op)
        want = np.float32(by_rationals(op, x, y, c))
        if math.isinf(want):  # later blocks may make a NaN of it
            assert not math.isfinite(found)
        else:
            assert found.tobytes() == (want if x else np.float32(c)).tobytes(), (x, y, c, float(want), float(found))


# --- generated code --------------------------------------------------


def operands(shape: tuple[int, int, int], spread: int, seed: int) -> tuple[F32, F32, F32]:
    """Operands over some exponents; special values are among every third set."""
    rng = np.random.default_rng(seed)
    m, depth, n = shape
    specials = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3e38, 6e-8, 1], np.float32)
    found = []
    for size in ((m, depth), (depth, n), (m, n)):
        x = np.ldexp(rng.uniform(-1, 1, size), rng.integers(-spread, spread + 1, size)).astype(np.float32)
        x[rng.random(size) < 0.1] = 0
        places = rng.integers(x.size, size=x.size // 60) if x.size and seed % 3 == 1 else []
        x.flat[places] = rng.choice(specials, len(places))
        found.append(x)
    return found[0], found[1], found[2]


def check(fma: str, shape: tuple[int, int, int], **how: Any) -> int:
    """Compare generated code with the reference; returns how many results were compared."""
    count = 0
    for seed, spread in enumerate((2, 12, 60)):
        a, b, c = operands(shape, spread, seed)
        want = reference.matmul(a, b, c, fma, seed=seed)
        found = vectorised.first_mismatch(numc.matmul(a, b, c, fma=fma, seed=seed, **how), want)
        assert found is None, f"{fma}, spread {spread}, {how}: {found}"
        count += want.size
    return count


@pytest.mark.parametrize("fma", by_default(one_in(2, OPERATORS), OPERATORS[::4]))
def test_any_operator(fma: str) -> None:
    assert check(fma, (5, 70, 9)) == 3 * 45
    check(fma, (1, 3, 33))


@pytest.mark.slow
@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("fma", OPERATORS)
def test_any_operator_on_every_target(fma: str, target: str) -> None:
    """With more than one block of k."""
    for shape in ((1, 40, 70), (7, 700, 17), (3, 0, 2), (70, 33, 4)):
        check(fma, shape, target=target, threads=2)


@pytest.mark.parametrize("target", by_default([t for t in HERE if t != "host"], ["portable"]))
def test_any_target(target: str) -> None:
    """Blocks of five do not fit into 256 steps of k."""
    check(fused("bf16", "bf16", "l=5,bits=3"), (3, 300, 9), target=target)


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_a_model_of_the_units(unit: str) -> None:
    """The model of their authors (PyPI: mmasim), which is bit for bit what the instructions computed."""
    model = pytest.importorskip("mmasim.arithmetic.fdpa").MMA_T_FDPA
    torch = pytest.importorskip("torch")
    dtypes = {"fp16": torch.float16, "bf16": torch.bfloat16, "e4m3fn": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
    kinds = {"fp32:rtz": "RZ-FP32", "e8m13:rtz": "RZ-E8M13", "fp16": "RNE-FP16"}
    op, compared = parse_fma(UNITS[unit]), 0
    path, acc = op.datapath, str(op.acc)
    multiply = model(path["bits"], kinds[acc], path["l"], path["least"], "", "")
    for seed, spread in enumerate((0, 3, 8, 20, 40)):
        every = zip(operands((64, 64, 64), spread, seed), (str(op.a), str(op.b), acc), strict=True)
        a, b, c = (numc.round(x, to) for x, to in every)
        x, y = (torch.tensor(v).to(dtypes[str(op.a)]) for v in (a, b))
        start = torch.tensor(c).to(torch.float16 if acc == "fp16" else torch.float32)
        want = multiply(x, y, start).float().numpy()
        assert (found := vectorised.first_mismatch(numc.matmul(a, b, c, fma=UNITS[unit]), want)) is None, found
        compared += want.size
    assert compared == 5 * 4096


# --- models ----------------------------------------------------------


def test_a_depthwise_convolution_keeps_its_blocks() -> None:
    """Its few steps of k are not taken one by one: nine products are three blocks of four, the last one short."""
    image, kernel, result = "tensor<2x5x9x9xf32>", "tensor<5x3x3xf32>", "tensor<2x5x7x7xf32>"
    text = f"""
    func.func @main(%a: {image}, %b: {kernel}) -> {result} {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : {result}
      %s = linalg.fill ins(%zero : f32) outs(%e : {result}) -> {result}
      %r = linalg.depthwise_conv_2d_nchw_chw ins(%a, %b : {image}, {kernel}) outs(%s : {result}) -> {result}
      return %r : {result}
    }}"""
    fma = fused("fp16", "fp32:rtz", "l=4,bits=6")
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(size).astype(np.float32) for size in ((2, 5, 9, 9), (5, 3, 3)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3)).reshape(2, 5, 49, 9)
    parts = [reference.matmul(windows[:, n].reshape(98, 9), w[n].reshape(9, 1), fma=fma) for n in range(5)]
    want = np.stack(parts, 1).reshape(2, 49, 5).transpose(0, 2, 1).reshape(2, 5, 7, 7)
    got = np.asarray(numc.compile(Imported(mlir=text), fma=fma)(x, w))
    assert (found := vectorised.first_mismatch(got, np.ascontiguousarray(want))) is None, found


def test_a_step_outside_of_a_reduction_is_a_block_of_one_product() -> None:
    a, b, c = (np.array(x, np.float32) for x in ([1, 1, 3], [16, 1, 1e-3], [1, 16, -1]))
    fma = fused("fp16", "fp32", "l=4,bits=3")
    assert str(parse_fma(fma).step) == fused("fp16", "fp32", "l=1,bits=3")
    got = numc.fma(a, b, c, fma=fma)
    assert got.tolist() == reference.fma(a, b, c, fma).tolist() == [16, 16, -1]


def test_a_reduction_that_does_more_is_refused() -> None:
    text = """
    func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>, %c: tensor<f32>) -> tensor<f32> {
      %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> ()>],
          iterator_types = ["reduction"]} ins(%a, %b : tensor<?xf32>, tensor<?xf32>) outs(%c : tensor<f32>) {
      ^bb0(%x: f32, %y: f32, %z: f32):
        %n = arith.negf %x : f32
        %p = arith.mulf %n, %y : f32
        %s = arith.addf %p, %z : f32
        linalg.yield %s : f32
      } -> tensor<f32>
      return %r : tensor<f32>
    }"""
    with pytest.raises(NumcError) as error:
        numc.compile(Imported(mlir=text), fma=fused("bf16", "fp32", "l=8,bits=9"))
    assert str(error.value).endswith(
        "'fma(a=bf16,acc=fp32,datapath=fused(l=8,bits=9))' needs reductions whose body is one multiply-add, this one "
        "does more: use 'fma(a=bf16,acc=fp32,datapath=fused(l=1,bits=9))'"
    )
