"""The generators of stochastic rounding: known answers, independence along every axis, what the noise does."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from numc.numerics.exact.value import POINT
from numc.numerics.formats import Noise, floor_log2
from numc.numerics.formats.rounding import rounder
from numc.numerics.grammar import parse_conversion, parse_group_conversion
from numc.numerics.numpy_groups import round_groups
from numc.numerics.reference import random, round_real
from numc.numerics.reference import round_groups as reference_groups
from tiers import by_default

ONES = 0xFFFFFFFF


def words(*counter: int) -> tuple[npt.NDArray[np.uint64], ...]:
    return tuple(np.array([word], np.uint64) for word in counter)


@pytest.mark.parametrize(
    ("counter", "key", "want"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES, ONES, ONES, ONES), (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_known_answers(counter: tuple[int, ...], key: tuple[int, int], want: tuple[int, ...]) -> None:
    """Random123's kat_vectors, philox4x32 with 10 rounds."""
    assert tuple(int(x[0]) for x in random.philox(words(*counter), key[0] | key[1] << 32)) == want


def test_streams_differ() -> None:
    keys = {
        random.stream(s, o, t, n) for s in (0, 1, 1 << 63) for o in range(4) for t in (0, 1, 1 << 33) for n in (0, 1)
    }
    assert len(keys) == 3 * 4 * 3 * 2


def test_register_is_the_recurrence_and_has_the_full_period() -> None:
    """Its bits, drawn 24 at a time; x^(2^32 - 1) is 1 and no x^((2^32 - 1) / p) is, modulo its polynomial."""
    seed = 0x12345678
    bits = [seed >> n & 1 for n in range(32)]
    while len(bits) < 16 * 24:
        n = len(bits) - 32
        bits.append(bits[n] ^ bits[n + 1] ^ bits[n + 2] ^ bits[n + 22])
    drawn = random.register(np.uint32([seed]), np.arange(16, dtype=np.uint32), 24)
    assert drawn.tolist() == [sum(bits[24 * n + i] << i for i in range(24)) for n in range(16)]
    polynomial = 1 << 32 | 1 << 22 | 1 << 2 | 1 << 1 | 1

    def times(a: int, b: int) -> int:
        total = 0
        while b:
            total ^= a * (b & 1)
            a, b = a << 1, b >> 1
            a ^= polynomial * (a >> 32)
        return total

    def power(n: int) -> int:
        result, square = 1, 2
        while n:
            result = times(result, square) if n & 1 else result
            square, n = times(square, square), n >> 1
        return result

    assert power(ONES) == 1
    assert all(power(ONES // p) != 1 for p in (3, 5, 17, 257, 65537))


def by_definition(x: Fraction, to: str, noise: int) -> Fraction:
    """A finite x under arithmetic.md: the noise right below the kept bits, then truncation of the magnitude."""
    conversion = parse_conversion(to)
    assert conversion.noise is not None
    if x == 0:
        return x
    exponent = max(floor_log2(abs(x)), conversion.format.emin)
    quantum = Fraction(2) ** (exponent - conversion.format.significand_bits)
    units = abs(x) + noise * quantum / 2**conversion.noise.bits
    return (units // quantum) * quantum * (1 if x > 0 else -1)


@pytest.mark.parametrize("to", ["e3m2:sr3", "e3m0:sr4", "e2m3:sr1"])
def test_every_value_and_every_noise(to: str) -> None:
    conversion = parse_conversion(to)
    assert conversion.noise is not None
    fmt, bits = conversion.format, conversion.noise.bits
    step = fmt.min_subnormal / 2 ** (bits + 1)
    for n in range(-int(fmt.max_finite / step), int(fmt.max_finite / step) + 1):
        x = n * step
        for noise in range(1 << bits):
            want = by_definition(x, to, noise)
            got = round_real(x, to, noise)
            assert got == want if abs(want) <= fmt.max_finite else got in (np.inf, -np.inf), (x, noise)


@pytest.mark.parametrize("to", ["e5m2:sr4", "bf16:sr6", "e4m3:sr7"])
def test_noise_of_r_bits_has_that_many_outcomes(to: str) -> None:
    """A value j / 2^r of the way to its upper neighbour gets there for exactly j of the 2^r noises."""
    conversion = parse_conversion(to)
    assert conversion.noise is not None
    count, to_format = 1 << conversion.noise.bits, rounder(conversion, 2 * POINT)
    for exponent in (0, 3, conversion.format.emin - 1):
        quantum = 1 << (2 * POINT + max(exponent, conversion.format.emin) - conversion.format.significand_bits)
        for j in range(count):
            x = (1 << (2 * POINT + exponent)) + quantum * j // count
            low = to_format(x - quantum * j // count, 0)
            results = [to_format(x, noise) for noise in range(count)]
            assert sum(y != low for y in results) == j
            assert len(set(results)) == 1 + (j > 0)


@pytest.mark.parametrize(
    "to", ["bfp(4,3,4):sr8", "bfp(5,1,2):sr3", "mxfp4:sr2", "mxint8:sr8.lfsr", "mxfp6_e3m2:sr24", "int5:sr8"]
)
@pytest.mark.parametrize("axis", [-1, 0])
def test_groups(to: str, axis: int) -> None:
    conversion = parse_group_conversion(to)
    assert conversion.noise is not None
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((7, 37)) * np.exp2(rng.integers(-9, 9, (7, 37)))).astype(np.float32)
    x[0, :3] = 0, -0.0, np.inf if "int" not in to else 1
    stream = random.stream(9, 0)
    noise = random.draws(stream, x.size, conversion.noise).reshape(x.shape)
    got = round_groups(x, conversion, None if to.startswith("int") else axis, noise)
    want = reference_groups(x, conversion, axis, stream=stream)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


# --- statistics ---------------------------------------------------------------


def normal(drawn: npt.NDArray[np.int64], noise: Noise) -> npt.NDArray[np.float64]:
    """Uniform integers as numbers of mean 0 and variance 1."""
    size = float(1 << noise.bits)
    return (drawn - (size - 1) / 2) / np.sqrt((size * size - 1) / 12)


def assert_independent(x: npt.NDArray[np.float64], along: int) -> None:
    """No correlation between places 1 to 8 apart, and 64: each within 4.5 sigma (18 tests in all)."""
    x = np.moveaxis(x, along, 0)
    for lag in (n for n in (*range(1, 9), 64) if 2 * n <= len(x)):
        both = x[lag:] * x[:-lag]
        assert abs(both.mean()) * np.sqrt(both.size) < 4.5, lag


NOISES = [Noise(8, False), Noise(16, False), Noise(24, False), Noise(8, True)]


@pytest.mark.parametrize("rounding", by_default(NOISES, NOISES[:3:2]))
@pytest.mark.all
def test_accumulators_draw_independently(rounding: Noise) -> None:
    """Elements along rows and columns, steps of k, executions; the words of pairs of steps too, over all elements."""
    k = np.arange(512)
    found = [
        np.array([random.accumulator_draws(random.stream(3, 7, step), e, k, rounding) for e in range(1024)])
        for step in (0, 1)
    ]
    x, y = (normal(drawn, rounding) for drawn in found)
    assert abs(x.mean()) * np.sqrt(x.size) < 4
    assert abs((x * x).mean() - 1) * np.sqrt(x.size / 0.8) < 4
    assert_independent(x, 0)
    assert_independent(x.reshape(32, 32, -1), 0)
    assert_independent(x, 1)
    for other in (y, normal(np.array(found[1])[::-1], rounding)):
        assert abs((x * other).mean()) * np.sqrt(x.size) < 4
    assert abs(x.T @ x / 32 - np.eye(512) * 32)[np.triu_indices(512, 1)].max() < 6  # 130816 pairs of steps
    assert abs(x @ x.T / np.sqrt(512))[np.triu_indices(1024, 1)].max() < 6.5
    top = found[0] >> rounding.bits - min(rounding.bits, 8)
    counts = np.bincount(top.ravel(), minlength=256)
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 255 + 4.5 * np.sqrt(2 * 255)


@pytest.mark.parametrize("rounding", [Noise(8, False), Noise(24, False), Noise(8, True)])
def test_conversions_draw_independently(rounding: Noise) -> None:
    x, y = (
        normal(random.draws(random.stream(0, 1, step), 1 << 19, rounding).astype(np.int64), rounding) for step in (0, 1)
    )
    assert abs(x.mean()) * np.sqrt(x.size) < 4
    assert_independent(x, 0)
    assert_independent(x.reshape(-1, 512), 0)
    assert abs((x * y).mean()) * np.sqrt(x.size) < 4
