"""Derive the constants of math_tables.py: minimax polynomials by Remez exchange, and the bits of 2/pi.

Run ``python tools/math_coefficients.py > passes/kernels/values/math_tables.py``. A test runs `table_text` and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import mpmath
from mpmath import mp, mpf

Function = Callable[[mpf], mpf]


def _relative(f: Function) -> Function:
    return lambda x: 1 / abs(f(x))


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A polynomial for `f` on [low, high]: `narrow` is its degree for f32 results, `wide` for f64 results.

    The error that is made small is ``(p(x) - f(x)) * weight(x)``; no weight means the relative error.
    """

    f: Function
    low: mpf
    high: mpf
    narrow: int
    wide: int
    weight: Function | None = None


def remez(f: Function, low: mpf, high: mpf, powers: Sequence[int], weight: Function) -> tuple[list[mpf], mpf]:
    """Return the coefficients of these powers in the minimax polynomial of `f`, and its largest weighted error."""
    count = len(powers) + 1
    grid = [(low + high) / 2 - (high - low) / 2 * mpmath.cos(mp.pi * i / (24 * count)) for i in range(24 * count + 1)]
    values, weights = [f(x) for x in grid], [weight(x) for x in grid]
    chosen = [round(24 * count * i / (count - 1)) for i in range(count)]
    coefficients: list[mpf] = []
    largest = mpf(0)
    for _ in range(12):
        matrix = mpmath.matrix(count, count)
        for row, i in enumerate(chosen):
            for j, power in enumerate(powers):
                matrix[row, j] = grid[i] ** power
            matrix[row, count - 1] = (-1) ** row / weights[i]
        solution = mpmath.lu_solve(matrix, mpmath.matrix([values[i] for i in chosen]))
        coefficients = [solution[j] for j in range(count - 1)]
        fitted = [sum(c * x**power for c, power in zip(coefficients, powers, strict=True)) for x in grid]
        errors = [(p - v) * w for p, v, w in zip(fitted, values, weights, strict=True)]
        largest = max(abs(e) for e in errors)
        # Keep one extremum for each run of equal sign. If there are too many runs, drop the end with the smaller error.
        peaks: list[int] = []
        for i, error in enumerate(errors):
            if peaks and (error > 0) == (errors[peaks[-1]] > 0):
                if abs(error) > abs(errors[peaks[-1]]):
                    peaks[-1] = i
            else:
                peaks.append(i)
        while len(peaks) > count:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        if len(peaks) < count or largest <= abs(solution[count - 1]) * mpf("1.01"):
            break
        chosen = peaks
    return coefficients, largest


def _sinc(z: mpf) -> mpf:
    return mpmath.sin(mpmath.sqrt(z)) / mpmath.sqrt(z) if z else mpf(1)


def _cos(z: mpf) -> mpf:
    return mpmath.cos(mpmath.sqrt(z))


def _expm1(r: mpf) -> mpf:
    return mpmath.expm1(r) / r if r else mpf(1)


def _log(z: mpf) -> mpf:
    """log((1+s)/(1-s)) / s of z = s * s."""
    s = mpmath.sqrt(z)
    return 2 * mpmath.atanh(s) / s if s else mpf(2)


def _atan(z: mpf) -> mpf:
    return mpmath.atan(mpmath.sqrt(z)) / mpmath.sqrt(z) if z else mpf(1)


def _asin(z: mpf) -> mpf:
    return mpmath.asin(mpmath.sqrt(z)) / mpmath.sqrt(z) if z else mpf(1)


def _erf(z: mpf) -> mpf:
    return mpmath.erf(mpmath.sqrt(z)) / mpmath.sqrt(z) if z else 2 / mpmath.sqrt(mp.pi)


def _log_erfc(x: mpf) -> mpf:
    return mpmath.log(mpmath.erfc(x))


ERFC_CENTRE = 3


def _erfcx(t: mpf) -> mpf:
    """(1 + 2x) exp(x*x) erfc(x) of t = (x - 3) / (x + 3)."""
    if t == 1:
        return 2 / mpmath.sqrt(mp.pi)
    x = ERFC_CENTRE * (1 + t) / (1 - t)
    if x > 60:  # the asymptotic series, because exp(x*x) overflows
        series = 1 - 1 / (2 * x**2) + 3 / (4 * x**4) - 15 / (8 * x**6) + 105 / (16 * x**8)
        return (1 + 2 * x) / (x * mpmath.sqrt(mp.pi)) * series
    return (1 + 2 * x) * mpmath.exp(x * x) * mpmath.erfc(x)


def fits() -> dict[str, Fit]:
    """Return every polynomial of the table. The precision of mpmath has to be set before."""
    half_ln2, z_trig = mpmath.log(2) / 2 * mpf("1.001"), (mp.pi / 4) ** 2 * mpf("1.001")
    z_log = ((mpmath.sqrt(2) - 1) / (mpmath.sqrt(2) + 1)) ** 2 * mpf("1.001")
    zero = mpf(0)
    return {
        "EXP": Fit(f=mpmath.exp, low=-half_ln2, high=half_ln2, narrow=8, wide=11),
        "EXPM1": Fit(f=_expm1, low=-half_ln2, high=half_ln2, narrow=7, wide=11),
        "LOG": Fit(f=_log, low=zero, high=z_log, narrow=4, wide=8),
        "SIN": Fit(f=_sinc, low=zero, high=z_trig, narrow=5, wide=7),
        "COS": Fit(f=_cos, low=zero, high=z_trig, narrow=5, wide=7),
        "ATAN": Fit(f=_atan, low=zero, high=mpf(1), narrow=14, wide=20),
        "ASIN": Fit(f=_asin, low=zero, high=mpf("0.25"), narrow=8, wide=13),
        "ERF": Fit(f=_erf, low=zero, high=mpf(1), narrow=8, wide=12),
        "LOG_ERFC": Fit(f=_log_erfc, low=mpf(1), high=mpf(6), narrow=10, wide=18, weight=mpmath.erfc),
        "ERFCX": Fit(f=_erfcx, low=mpf(-1), high=mpf(1), narrow=16, wide=24),
    }


@dataclass(frozen=True)
class Pieces:
    """How erf(x) / x, which is even, is cut up: the polynomial of piece n is of x - n * `step`."""

    step: mpf
    degree: int
    short_square: bool = False


# With many pieces, distances are so small that one f32 number is enough for the square.
ERF_PIECES = {32: Pieces(mpf("0.125"), 6, short_square=True), 8: Pieces(mpf("0.5"), 9)}
# Beyond this, erf is 1 in f32.
ERF_ONE = mpf("3.93")


def erf_pieces(count: int) -> Iterator[tuple[list[mpf], mpf]]:
    """Yield the coefficients, lowest first, of each piece of erf(x) / x, and its error before one is rounded."""
    how = ERF_PIECES[count]
    half, degree = how.step / 2, how.degree
    even, error = remez(_erf, mpf(0), half**2, range(degree // 2 + 1), _relative(_erf))
    found = [even[n // 2] if n % 2 == 0 else mpf(0) for n in range(degree + 1)]
    for n in range(count):
        if n:
            # The last piece goes on where there is no other.
            high = max(half, ERF_ONE - n * how.step) if n == count - 1 else half
            f = _shifted(n * how.step)
            found, error = remez(f, -half, high, range(degree + 1), _relative(f))
        yield _with_short_square(found, half) if how.short_square else found, error


def _with_short_square(piece: list[mpf], half: mpf) -> list[mpf]:
    """The piece with a coefficient of x^2 of 24 bits: other even powers make up for what it is rounded by."""
    with mp.workprec(24):
        short = +piece[2]
    powers = 0, 2, 3
    instead, _ = remez(lambda z: z, mpf(0), half**2, powers, lambda _: mpf(1))
    found = [*piece[:2], short, *piece[3:]]
    for power, factor in zip(powers, instead, strict=True):
        found[2 * power] += (piece[2] - short) * factor
    return found


def _shifted(by: mpf) -> Function:
    return lambda x: _erf((by + x) ** 2)


def exp_powers() -> Iterator[tuple[mpf, mpf]]:
    """Yield 2^(n / 32) for n from 0 to 31 in 24 bits, and by how much less than n ln(2) / 32 its logarithm is."""
    for n in range(32):
        with mp.workprec(24):
            power = mpf(2) ** (mpf(n) / 32)
        yield power, n * mpmath.log(2) / 32 - mpmath.log(power)


def two_over_pi_words(count: int, zeros: int) -> list[int]:
    """Return `count` 64-bit words, most significant first: `zeros` zero bits, then the fraction of 2/pi."""
    with mp.workprec(64 * count + 64):
        scaled = int(mpmath.floor(mpf(2) ** (64 * count - zeros) * 2 / mp.pi))
    return [(scaled >> (64 * (count - 1 - i))) & (2**64 - 1) for i in range(count)]


def table_text(report: Callable[[str], None] = lambda _: None) -> str:
    """Return the text of passes/kernels/values/math_tables.py; `report` receives one line per polynomial."""
    lines = [
        '"""Constants of math_functions.py, derived by tools/math_coefficients.py: do not edit."""',
        "",
        "from __future__ import annotations",
        "",
        "# name -> coefficients, lowest power first, for f32 results and for f64 results",
        "POLYNOMIALS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {",
    ]
    with mp.workdps(50):
        for name, fit in fits().items():
            weight = fit.weight or _relative(fit.f)
            lines.append(f'    "{name}": (')
            for degree in (fit.narrow, fit.wide):
                coefficients, error = remez(fit.f, fit.low, fit.high, range(degree + 1), weight)
                report(f"{name} degree {degree}: 2^{float(mpmath.log(error, 2)):.1f}")
                lines += ["        (", *(f"            {float(c)!r}," for c in coefficients), "        ),"]
            lines.append("    ),")
        powers = [(float(power), float(rest)) for power, rest in exp_powers()]
        pieces: dict[int, list[list[float]]] = {count: [] for count in ERF_PIECES}
        for count, found in pieces.items():
            for n, (coefficients, error) in enumerate(erf_pieces(count)):
                found.append([float(c) for c in coefficients])
                report(f"ERF piece {n} of {count}: 2^{float(mpmath.log(error, 2)):.1f}")
    lines += [
        "}",
        "",
        "# erf(x) / x in so many pieces: how far they are apart, and the coefficients of each power, the lowest first",
        "ERF_PIECES: dict[int, tuple[float, tuple[tuple[float, ...], ...]]] = {",
    ]
    for count, found in pieces.items():
        lines += [f"    {count}: (", f"        {float(ERF_PIECES[count].step)!r},", "        ("]
        for power in zip(*found, strict=True):
            lines += ["            (", *(f"                {c!r}," for c in power), "            ),"]
        lines += ["        ),", "    ),"]
    lines += ["}", "", "# 2^(n / 32) in f32, and by how much less than n ln(2) / 32 its logarithm is"]
    for name, numbers in zip(("EXP_POWERS", "EXP_RESTS"), zip(*powers, strict=True), strict=True):
        lines += [f"{name}: tuple[float, ...] = (", *(f"    {number!r}," for number in numbers), ")"]
    lines.append("")
    for comment, name, words, zeros in (
        ("26 zero bits, then 2/pi", "TWO_OVER_PI", 5, 26),
        ("90 zero bits, then 2/pi", "TWO_OVER_PI_WIDE", 20, 90),
    ):
        lines += [f"# {comment}, in 64-bit words, most significant first", f"{name}: tuple[int, ...] = ("]
        lines += [*(f"    0x{w:016X}," for w in two_over_pi_words(words, zeros)), ")"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    import sys

    print(table_text(lambda line: print(line, file=sys.stderr)), end="")
