"""Widths that a run chooses give the bits of the operator that has them fixed, for every width of their ranges."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pytest

import arithmetic_vectorised as vectorised
import numc
from numc.compiler.arrays.arrays import matmul
from numc.numerics.grammar import parse_fma
from numc.runtime.program import Program
from numc.support.errors import NumcError
from targets_here import HERE

F32 = npt.NDArray[np.float32]
EVERY = list(itertools.product(range(1, 9), range(1, 24)))
WITHOUT_NAN = [(2, 1), (2, 3), (3, 2)]  # OCP's: no operator of these widths overflows to NaN
SLOW = pytest.mark.slow
MANY = range(3, 12)
NEXT = (":rup", ":odd", ":sr8", ":sr8.lfsr")  # roundings
MINUS_ZERO = np.float32(-0.0)  # a start that changes no product, not even one of -0


def hard() -> F32:
    """Numbers that are hard to round in one of these formats: ties, limits, subnormals, and what is no number."""
    rng = np.random.default_rng(5)
    powers = np.exp2(np.arange(-149, 128, dtype=np.float64))
    near = [powers * (1 + s * 2.0**-k) for k in (1, 2, 4, 11, 23) for s in (1, -1)]
    plain = rng.standard_normal(500) * np.exp2(rng.integers(-140, 127, 500))
    with np.errstate(over="ignore"):
        found = np.concatenate([powers, *near, plain]).astype(np.float32)
    special = np.array([0, np.inf, np.nan, 2**-149, 3 * 2.0**-149, 3.4028235e38], np.float32)
    found = np.concatenate([found, special])
    return np.concatenate([found, -found])


def same(got: F32, want: F32, note: object) -> None:
    assert vectorised.first_mismatch(got, want) is None, f"{note}: {vectorised.first_mismatch(got, want)}"


def check_every_width(operator: str, widths: list[tuple[int, int]]) -> None:
    """A column of hard numbers times 1, and its transpose: nothing happens to them but the rounding."""
    x = hard()
    one = np.ones((1, 1), np.float32)
    start = np.full((len(x), 1), MINUS_ZERO)
    for chosen in widths:
        fixed = parse_fma(operator).at(dict.fromkeys(("a", "b", "product"), chosen))
        want = vectorised.matmul(x[:, None], one, start, fixed)
        same(matmul(x[:, None], one, start, fma=operator, widths=chosen), want, (operator, chosen))
        same(matmul(one, x[None], start.T, fma=operator, widths=chosen), want.T, (operator, chosen, "lanes"))


def test_every_width_of_operands():
    check_every_width("fma(a=e1..8m1..23,acc=fp32)", EVERY)


@pytest.mark.all
@pytest.mark.parametrize("rounding", ["rtz", pytest.param("rup", marks=SLOW), pytest.param("odd", marks=SLOW)])
def test_every_width_of_operands_and_products(rounding):
    check_every_width(f"fma(a=fp32,b=fp32,product=e1..8m1..23:{rounding},acc=fp32)", EVERY)


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ["rne", "rtz", "rna", "rup", "rdn", "odd"])
@pytest.mark.parametrize(("form", "top"), [("", 8), ("n", 8), ("fn", 7), ("fn:nan", 7)])
def test_every_rounding(form, top, rounding):
    name, *overflow = form.split(":")
    least = 2 if name == "n" else 1
    text = ":".join([f"e{least}..{top}m1..23{name}", rounding, *overflow])
    for operator in (f"fma(a={text},acc=fp32)", f"fma(a=fp32,product={text},acc=fp32,datapath=exact)"):
        check_every_width(operator, [w for w in EVERY if least <= w[0] <= top and not (overflow and w in WITHOUT_NAN)])


def products(operator: str, fixed: str, chosen: object, *, seed: int | None = None) -> None:
    """Products of matrices, of which one is packed by vectors and the other by segments, against the fixed operator."""
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((37, 70), (70, 45)))
    a[3, :5] = [np.inf, -np.inf, np.nan, 1e-41, -0.0]
    a[5] *= np.float32(1e-38)
    b[:4, 2] = [1e38, 1e-38, 3e-45, 0]
    got = matmul(a, b, fma=operator, widths=chosen, seed=seed)
    want = vectorised.matmul(a, b, fma=fixed) if seed is None else matmul(a, b, fma=fixed, seed=seed)
    same(got, want, (operator, chosen))


def test_every_width_of_groups():
    """Also with a width of its own for each operand."""
    for ma, mb in itertools.product((2, 3, 4), (2, 4)):
        fixed = f"fma(a=bfp(16,3,{ma}),b=bfp(16,3,{mb}),acc=fp32)"
        products("bfp(16,3,2..4)", fixed, {"*": {"a": ma, "b": mb}})


@pytest.mark.all
@pytest.mark.parametrize(
    ("g", "m", "rounding"),  # groups of 7 are summed in binary64
    [
        (16, range(1, 4), ":sr8"),
        (7, range(3, 12), ":rne"),
        *(pytest.param(7, range(3, 12), r, marks=SLOW) for r in NEXT),
    ],
)
def test_every_width_of_other_groups(g, m, rounding):
    operator = f"fma(a=bfp({g},8,{m[0]}..{m[-1]}){rounding},acc=fp32)"
    for bits in m:
        products(operator, f"fma(a=bfp({g},8,{bits}){rounding},acc=fp32)", bits, seed=4)


@pytest.mark.all
def test_random_bits_and_products_are_those_of_fixed_widths():
    for chosen in ((8, 7), (4, 3)):
        e, m = chosen
        products("macs(e2..8m1..23:sr8)", f"macs(e{e}m{m}:sr8)", chosen, seed=1)
        fixed = f"fma(a=e{e}m{m}:rtz,product=e{e}m{m},acc=e6m9,datapath=exact)"
        products("fma(a=e2..8m1..23:rtz,product=e2..8m1..23,acc=e6m9,datapath=exact)", fixed, chosen)


@pytest.mark.all
def test_discarded_bits():
    """Values are rounded to the widest format with noise, and then cut off."""
    x = np.random.default_rng(0).standard_normal((32, 160)).astype(np.float32)
    one = np.eye(160, dtype=np.float32)
    operator = "fma(a=bfp(16,3,2..4):sr8:discard,b=bfp(16,3,4),acc=fp32)"
    widest = matmul(x, one, fma=operator, seed=4)
    found = matmul(x, one, fma=operator, widths=2, seed=4)
    same(found, matmul(widest, one, fma="fma(a=bfp(16,3,2),b=bfp(16,3,4),acc=fp32)"), "discard")
    same(widest, matmul(x, one, fma="fma(a=bfp(16,3,4):sr8,b=bfp(16,3,4),acc=fp32)", seed=4), "widest")
    assert 0.64 < np.abs(found).sum() / np.abs(x).sum() < 0.68  # so much of their mass is left of normal numbers


MODEL = "examples/digits/cnn.onnx"
MIXED = (
    'default fma=bfp(16,3,2..4); layer "node_conv2d_1" fma=fma(a=e2..8m1..23:rtz,product=e5m1..10,acc=fp32);'
    'layer "node_linear" fma=fma(a=e4m3,b=e2..8m1..7,acc=e6m9)'
)


@pytest.fixture(scope="module")
def program() -> Program:
    return numc.compile(MODEL, policy=MIXED)


def images(count: int = 5) -> F32:
    return np.asarray(np.load("examples/digits/heldout.npz")["images"][:count])


CHOSEN = {
    "node_conv2d": {"a": 3},
    "node_conv2d_2": {"a": 3},
    "node_conv2d_1": {"a": (5, 4), "b": (8, 2), "product": 6},
    "node_linear": {"b": (3, 2)},
    "node_linear_1": 2,
}
FIXED = (
    'default fma=bfp(16,3,4); layer "node_conv2d", "node_conv2d_2" a=bfp(16,3,3);'
    'layer "node_linear_1" fma=bfp(16,3,2);'
    'layer "node_conv2d_1" fma=fma(a=e5m4:rtz,b=e8m2:rtz,product=e5m6,acc=fp32);'
    'layer "node_linear" fma=fma(a=e4m3,b=e3m2,acc=e6m9)'
)


@pytest.mark.all
def test_a_model_whose_layers_choose(program, tmp_path):
    """Weights are converted when their width changes, for each run as it asks for it, also in a file."""
    want = numc.compile(MODEL, policy=FIXED)(images())
    widest = program(images())
    for threads in (1, 2):
        assert np.array_equal(program(images(), widths=CHOSEN, threads=threads), want)
        assert np.array_equal(program(images()), widest)
    program.save(tmp_path / "open.numc")
    loaded = numc.load(tmp_path / "open.numc")
    assert loaded.widths == program.widths
    with ThreadPoolExecutor(4) as pool:  # runs with different widths at the same time
        found = list(pool.map(lambda n: loaded(images(), widths=CHOSEN if n % 2 else None, threads=1), range(8)))
    assert all(np.array_equal(got, want if n % 2 else widest) for n, got in enumerate(found))
    assert not np.array_equal(want, widest)


@pytest.mark.all
def test_a_model_is_verified_and_observed_in_its_widths(program):
    assert numc.verify(program, {"x": images(2)}, samples=100).mismatches == 0
    with numc.collect_stats("denormals") as block:
        program(images(2), widths={"node_linear": {"b": (3, 2)}})
        program(images(2), widths={"node_linear": {"b": (8, 7)}})
    row = next(row for row in block.statistics.rows if row.layer == "node_linear")
    assert row.tensors["b"].format == "e2..8m1..7"
    assert 0.1 < row.tensors["b"].zeros / row.tensors["b"].elements < 0.5  # few in one run, most in the other


@pytest.mark.all
@pytest.mark.parametrize("target", [pytest.param(n, marks=[SLOW] * (n != "portable")) for n in HERE if n != "host"])
def test_other_targets(target):
    a = np.random.default_rng(1).standard_normal((33, 50)).astype(np.float32)
    for operator, fixed, chosen in (
        ("bfp(16,3,2..4)", "bfp(16,3,3)", 3),
        ("macs(e2..8m1..23)", "macs(e8m3)", (8, 3)),
        ("macs(e2..8m1..23)", "macs(e4m3)", (4, 3)),
    ):
        got = matmul(a, a.T, fma=operator, widths=chosen, target=target)
        same(got, matmul(a, a.T, fma=fixed, target=target), (target, operator))


# What a run finds of a tensor: r of FAST (HPCA 2022, equation 2).


def ratio(x: F32, fma: str = "fma(a=bfp(4,3,2..4),b=bfp(4,3,4),acc=fp32)", **given: object) -> numc.WidthByRatio:
    tensor = numc.WidthByRatio(given.pop("epsilon", None))  # type: ignore[arg-type]
    matmul(x, np.ones((x.shape[1], 3), np.float32), fma=fma, widths={"*": {"a": tensor}}, **given)  # type: ignore[arg-type]
    return tensor


def test_the_ratio_of_a_tensor():
    first = np.array([[1, 0.75, 0.25, 0.125]], np.float32)
    second = np.array([[-0.9, 0.6, 0.3, -0.05, 0.2, 0.1, 0, -0.015625]], np.float32)
    found = ratio(first)
    assert (found.ratio, found.width) == (5 / 12, (3, 4))
    assert ratio(second).ratio == pytest.approx(0.133929, abs=5e-7)
    # At iterations 1 and 50 of 100, layer 1 of 5, alpha 0.6 and beta 0.3.
    assert ratio(first, epsilon=0.537).width == (3, 2)
    assert ratio(first, epsilon=0.39).width == (3, 4)
    assert ratio(first, epsilon=5 / 12).width == (3, 4)  # not below
    assert ratio(np.zeros((2, 4), np.float32), epsilon=0.1).ratio == 0
    odd = np.array([[1, 0.75, 0.25, 0.125, np.inf, 1, 1, 1]], np.float32)  # of which one group is NaN
    assert ratio(odd).ratio == 5 / 12


def test_the_ratio_does_not_depend_on_threads_and_decides_for_all_operands_of_a_tensor():
    x = np.random.default_rng(0).standard_normal((300, 1000)).astype(np.float32)
    plain, noisy = (f"fma(a=bfp(16,3,2..4){rounding},b=bfp(16,3,2..4),acc=fp32)" for rounding in ("", ":sr8"))
    assert ratio(x, plain, threads=1).ratio == ratio(x, plain, threads=2).ratio == pytest.approx(0.53, abs=0.01)
    # The low bits of the image with noise, beyond its high bits.
    assert ratio(x, noisy, threads=1, seed=1).ratio == ratio(x, noisy, threads=2, seed=1).ratio
    assert ratio(x, noisy, seed=1).ratio == pytest.approx(0.51, abs=0.01)
    tensor = numc.WidthByRatio(0.6)
    got = matmul(x, x.T, fma=plain, widths={"*": tensor})  # a and b are one tensor, which a decides
    assert tensor.width == (3, 2)
    same(got, matmul(x, x.T, fma="bfp(16,3,2)"), "decided")
    tensor.epsilon = 0.0
    same(matmul(x, x.T, fma=plain, widths=tensor), got, "a decision holds")


@pytest.mark.all
def test_what_no_run_measures(program):
    program(images(1), widths={"node_conv2d": numc.WidthByRatio(1.0)})  # a decides
    for layer in ("node_linear", "node_conv2d"):  # a weight without groups, and one with groups
        with pytest.raises(NumcError) as caught:
            program(images(1), widths={layer: {"b": numc.WidthByRatio(1.0)}})
        assert str(caught.value) == (
            f"widths: layer '{layer}', b: nothing measures it: a run measures operands of contractions in "
            "bfp(g,e,m..n) that are no weights of the program: give a number"
        )


def test_a_bound_that_is_none():
    with pytest.raises(NumcError, match="^epsilon: got x, want a number or None$"):
        numc.WidthByRatio("x")  # type: ignore[arg-type]
