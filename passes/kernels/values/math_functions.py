"""Elementary functions as straight-line, branch-free code on binary64 lanes: the same bits on every machine.

A function takes binary64 values and returns one, by IEEE basic operations, fused multiply-adds, integer operations and
selects only. With `wide` it serves f64 operands: the full range, and longer polynomials. Without, operands are f32
values and the result is rounded to f32, which also gives subnormal results, overflow and underflow their f32 meaning.
Special cases follow C99 Annex F.
"""

from __future__ import annotations

import math

from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.math_tables import POLYNOMIALS, TWO_OVER_PI, TWO_OVER_PI_WIDE

INF, NAN = math.inf, math.nan
# Adding this to a double below 2^51 rounds it to an integer, which the low bits of the sum then hold.
MAGIC = 1.5 * 2.0**52
LOW_32 = 2**32 - 1
# ln 2 as the nearest double and the nearest double of the rest.
LN2, LN2_REST = 0.6931471805599453, 2.3190468138462996e-17
HALF_PI = 1.5707963267948966
LOG2_E, LOG10_E, LOG10_2 = 1.4426950408889634, 0.4342944819032518, 0.3010299956639812


class Lanes:
    """Code on binary64 lanes, with the few idioms that the functions share."""

    def __init__(self, code: Code, wide: bool) -> None:
        """Append to `code`; `wide` says that operands are any binary64 values, not just f32 ones."""
        self.code, self.wide = code, wide

    def c(self, value: float) -> Value:
        """A constant."""
        return self.code.f64(value)

    def add(self, a: Value, b: Value) -> Value:
        """a + b."""
        return self.code.binary("addf", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        """a - b."""
        return self.code.binary("subf", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """a * b."""
        return self.code.binary("mulf", a, b)

    def div(self, a: Value, b: Value) -> Value:
        """a / b."""
        return self.code.binary("divf", a, b)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c, rounded once."""
        return self.code.fma(a, b, c)

    def _math(self, name: str, a: Value) -> Value:
        return self.code.unary(f"math.{name}", a)

    def sqrt(self, a: Value) -> Value:
        """The correctly rounded square root."""
        return self._math("sqrt", a)

    def abs(self, a: Value) -> Value:
        """|a|."""
        return self._math("absf", a)

    def floor(self, a: Value) -> Value:
        """The largest integer not above a."""
        return self._math("floor", a)

    def trunc(self, a: Value) -> Value:
        """The integer part of a."""
        return self._math("trunc", a)

    def copysign(self, a: Value, b: Value) -> Value:
        """|a| with the sign of b."""
        return self.code.op(f"math.copysign {a}, {b} : {a.type}", a.type)

    def neg(self, a: Value) -> Value:
        """-a."""
        return self.code.unary("arith.negf", a)

    def test(self, predicate: str, a: Value, b: Value | float) -> Value:
        """A comparison; `b` may be a number."""
        return self.code.compare(predicate, a, b if isinstance(b, Value) else self.c(b))

    def both(self, a: Value, b: Value) -> Value:
        """Logical and."""
        return self.code.binary("andi", a, b)

    def sel(self, condition: Value, a: Value, b: Value) -> Value:
        """condition ? a : b."""
        return self.code.select(condition, a, b)

    def at_zero(self, x: Value, result: Value) -> Value:
        """`result`, but `x` itself where x is a zero (the sign of zero)."""
        return self.sel(self.test("oeq", x, 0.0), x, result)

    def at_most(self, x: Value, high: float) -> Value:
        """min(x, high); NaN stays."""
        return self.sel(self.test("ogt", x, high), self.c(high), x)

    def clamp(self, x: Value, low: float, high: float) -> Value:
        """x limited to [low, high]; NaN stays."""
        return self.at_most(self.sel(self.test("olt", x, low), self.c(low), x), high)

    def bits(self, x: Value) -> Value:
        """The encoding, as i64."""
        return self.code.cast("bitcast", x, "i64")

    def value(self, bits: Value) -> Value:
        """The number with this encoding."""
        return self.code.cast("bitcast", bits, "f64")

    def i(self, value: int) -> Value:
        """An i64 constant."""
        return self.code.int(value, "i64")

    def int(self, name: str, a: Value, b: Value | int) -> Value:
        """An i64 operation; `b` may be a number."""
        return self.code.binary(name, a, b if isinstance(b, Value) else self.i(b))

    def poly(self, name: str, x: Value, wide: bool | None = None) -> Value:
        """The polynomial `name` of the table at x, by Horner's rule."""
        narrow_terms, wide_terms = POLYNOMIALS[name]
        terms = wide_terms if (self.wide if wide is None else wide) else narrow_terms
        result = self.c(terms[-1])
        for term in reversed(terms[:-1]):
            result = self.fma(result, x, self.c(term))
        return result

    def small_int(self, k: Value) -> Value:
        """The i64 k, |k| < 2^51, as a number (hardware before AVX-512 has no such conversion)."""
        magic = int(MAGIC - 2.0**52) + (1075 << 52)
        return self.sub(self.value(self.int("addi", k, magic)), self.c(MAGIC))

    def power_of_two(self, k: Value) -> Value:
        """2^k for k in the normal range, given in the low 12 bits of an i64."""
        return self.value(self.int("shli", self.int("addi", k, 1023), 52))


# --- exponentials -----------------------------------------------------------------------------------------------------


def _reduce_exp(m: Lanes, x: Value) -> tuple[Value, Value]:
    """x = n ln2 + r, |r| <= ln2 / 2: returns r and an i64 whose low bits are those of n."""
    shifted = m.fma(x, m.c(LOG2_E), m.c(MAGIC))
    n = m.sub(shifted, m.c(MAGIC))
    r = m.fma(n, m.c(-LN2), x)
    if m.wide:
        r = m.fma(n, m.c(-LN2_REST), r)
    return r, m.bits(shifted)


def _scale(m: Lanes, x: Value, n: Value) -> Value:
    """x * 2^n, n in the low bits of an i64; in two steps where 2^n itself may not be a normal number."""
    if not m.wide:
        return m.mul(x, m.power_of_two(n))
    n = m.int("shrsi", m.int("shli", n, 16), 16)
    half = m.int("shrsi", n, 1)
    return m.mul(m.mul(x, m.power_of_two(half)), m.power_of_two(m.int("subi", n, half)))


def exp(m: Lanes, x: Value) -> Value:
    """e^x."""
    x = m.clamp(x, -746.0, 710.0) if m.wide else m.clamp(x, -110.0, 90.0)
    r, n = _reduce_exp(m, x)
    return _scale(m, m.poly("EXP", r), n)


def exp2(m: Lanes, x: Value) -> Value:
    """2^x."""
    x = m.clamp(x, -1080.0, 1025.0) if m.wide else m.clamp(x, -160.0, 130.0)
    shifted = m.add(x, m.c(MAGIC))
    r = m.sub(x, m.sub(shifted, m.c(MAGIC)))
    return _scale(m, m.poly("EXP", m.mul(r, m.c(LN2))), m.bits(shifted))


def _quarter_expm1(m: Lanes, x: Value) -> Value:
    """(e^x - 1) / 4: the quarter keeps 2^n and the results of sinh and cosh in range."""
    r, n = _reduce_exp(m, x)
    scale = m.power_of_two(m.int("subi", n, 2))
    return m.fma(m.mul(r, m.poly("EXPM1", r)), scale, m.sub(scale, m.c(0.25)))


def expm1(m: Lanes, x: Value) -> Value:
    """e^x - 1."""
    limited = m.clamp(x, -100.0, 710.0 if m.wide else 90.0)
    return m.at_zero(x, m.mul(_quarter_expm1(m, limited), m.c(4.0)))


def tanh(m: Lanes, x: Value) -> Value:
    """Hyperbolic tangent: e / (e + 2), e = e^2x - 1."""
    twice = m.clamp(m.add(x, x), -44.0, 44.0)
    e = _quarter_expm1(m, twice)
    return m.at_zero(x, m.div(e, m.add(e, m.c(0.5))))


def sinh(m: Lanes, x: Value) -> Value:
    """Hyperbolic sine: (e + e / (e + 1)) / 2, e = e^|x| - 1."""
    e = _quarter_expm1(m, m.at_most(m.abs(x), 710.6 if m.wide else 91.0))
    twice = m.add(e, e)
    return m.copysign(m.add(twice, m.div(e, m.add(twice, m.c(0.5)))), x)


def cosh(m: Lanes, x: Value) -> Value:
    """Hyperbolic cosine: (e + 1 / e) / 2, e = e^|x|."""
    r, n = _reduce_exp(m, m.at_most(m.abs(x), 710.6 if m.wide else 91.0))
    e = m.mul(m.poly("EXP", r), m.power_of_two(m.int("subi", n, 2)))
    return m.add(m.add(e, e), m.div(m.c(0.125), e))


# --- logarithms -------------------------------------------------------------------------------------------------------


def _split_log(m: Lanes, x: Value, wide: bool | None = None) -> tuple[Value, Value]:
    """x = 2^k y, y in [sqrt(1/2), sqrt(2)): returns k and log y, for x positive and finite."""
    if m.wide:
        tiny = m.test("olt", x, 2.0**-1022)
        x = m.sel(tiny, m.mul(x, m.c(2.0**54)), x)
    bits = m.bits(x)
    k = m.int("shrsi", m.int("subi", bits, 0x3FE6A09E667F3BCD), 52)
    f = m.sub(m.value(m.int("subi", bits, m.int("shli", k, 52))), m.c(1.0))
    s = m.div(f, m.add(f, m.c(2.0)))
    exponent = m.small_int(k)
    if m.wide:
        exponent = m.sel(tiny, m.sub(exponent, m.c(54.0)), exponent)
    # log y = 2 atanh(s) = s P(s^2). As 2s = f - s f, it is also f - s (f - (P - 2)), where the error of s counts less.
    p = m.poly("LOG", m.mul(s, s), wide)
    if not (m.wide if wide is None else wide):
        return exponent, m.mul(s, p)
    return exponent, m.fma(m.neg(s), m.sub(f, m.sub(p, m.c(2.0))), f)


def _log_specials(m: Lanes, x: Value, result: Value) -> Value:
    result = m.sel(m.test("oeq", x, INF), x, result)
    result = m.sel(m.test("oeq", x, 0.0), m.c(-INF), result)
    return m.sel(m.test("ult", x, 0.0), m.c(NAN), result)


def log(m: Lanes, x: Value) -> Value:
    """Natural logarithm."""
    k, y = _split_log(m, x)
    return _log_specials(m, x, m.fma(k, m.c(LN2), y))


def log2(m: Lanes, x: Value) -> Value:
    """Logarithm to base 2; exact for powers of two."""
    k, y = _split_log(m, x)
    return _log_specials(m, x, m.fma(y, m.c(LOG2_E), k))


def log10(m: Lanes, x: Value) -> Value:
    """Logarithm to base 10."""
    k, y = _split_log(m, x)
    return _log_specials(m, x, m.fma(k, m.c(LOG10_2), m.mul(y, m.c(LOG10_E))))


def log1p(m: Lanes, x: Value) -> Value:
    """log(1 + x): the part of x that 1 + x loses is put back; it only counts where 1 + x is about 1."""
    u = m.add(x, m.c(1.0))
    lost = m.sel(m.test("olt", m.abs(x), 1.0), m.sub(x, m.sub(u, m.c(1.0))), m.c(0.0))
    return m.at_zero(x, m.add(log(m, u), lost))


def asinh(m: Lanes, x: Value) -> Value:
    """Inverse hyperbolic sine."""
    a = m.abs(x)
    big = m.test("ogt", a, 2.0**64)
    square = m.mul(a, a)
    near = m.add(a, m.div(square, m.add(m.sqrt(m.add(square, m.c(1.0))), m.c(1.0))))
    y = m.add(log1p(m, m.sel(big, a, near)), m.sel(big, m.c(LN2), m.c(0.0)))
    return m.copysign(y, x)


def acosh(m: Lanes, x: Value) -> Value:
    """Inverse hyperbolic cosine; NaN below 1."""
    big = m.test("ogt", x, 2.0**64)
    t = m.sub(x, m.c(1.0))
    near = m.add(t, m.sqrt(m.mul(t, m.add(t, m.c(2.0)))))
    y = m.add(log1p(m, m.sel(big, x, near)), m.sel(big, m.c(LN2), m.c(0.0)))
    return m.sel(m.test("ult", x, 1.0), m.c(NAN), y)


def atanh(m: Lanes, x: Value) -> Value:
    """Inverse hyperbolic tangent; NaN outside [-1, 1]."""
    a = m.abs(x)
    y = m.mul(log1p(m, m.div(m.add(a, a), m.sub(m.c(1.0), a))), m.c(0.5))
    return m.copysign(y, x)


# --- powers and roots -------------------------------------------------------------------------------------------------


def pow(m: Lanes, x: Value, y: Value) -> Value:
    """x^y = 2^(y log2 |x|) with the sign of an odd power."""
    a = m.abs(x)
    k, log_y = _split_log(m, a, wide=True)
    base = _log_specials(m, a, m.fma(log_y, m.c(LOG2_E), k))
    # A finite y keeps 1^inf from being NaN; 1e30 is beyond any exponent that gives a finite result.
    limited = m.clamp(y, -1e30, 1e30)
    r = exp2(m, m.mul(limited, base))
    half = m.mul(y, m.c(0.5))
    whole = m.test("oeq", m.floor(y), y)
    negative = m.code.compare("slt", m.bits(x), m.i(0))
    odd_power = m.both(m.both(negative, whole), m.test("one", m.floor(half), half))
    r = m.sel(odd_power, m.neg(r), r)
    fraction = m.code.binary("xori", whole, m.code.int(1, "i1"))
    invalid = m.both(fraction, m.both(m.test("olt", x, 0.0), m.test("ogt", x, -INF)))
    r = m.sel(invalid, m.c(NAN), r)
    r = m.sel(m.test("uno", y, y), y, r)
    r = m.sel(m.test("oeq", x, 1.0), x, r)
    return m.sel(m.test("oeq", y, 0.0), m.c(1.0), r)


def integer_power(m: Lanes, x: Value, n: int) -> Value:
    """x^n by repeated squaring; f32 values cannot leave the range of binary64 before x^n leaves that of f32."""
    result: Value | None = None
    square = x
    for bit in range(abs(n).bit_length()):
        square = m.mul(square, square) if bit else x
        if abs(n) >> bit & 1:
            result = square if result is None else m.mul(result, square)
    if result is None:
        return m.c(1.0)
    return m.div(m.c(1.0), result) if n < 0 else result


def rsqrt(m: Lanes, x: Value) -> Value:
    """1 / sqrt(x)."""
    return m.div(m.c(1.0), m.sqrt(x))


def cbrt(m: Lanes, x: Value) -> Value:
    """Cube root: a third of the exponent, then Halley's iteration."""
    a = m.abs(x)
    if m.wide:
        small, large = m.test("olt", a, 2.0**-900), m.test("ogt", a, 2.0**900)
        before = m.sel(small, m.c(2.0**300), m.sel(large, m.c(2.0**-300), m.c(1.0)))
        after = m.sel(small, m.c(2.0**-100), m.sel(large, m.c(2.0**100), m.c(1.0)))
        a = m.mul(a, before)
    third = m.int("shrui", m.int("muli", m.int("shrui", m.bits(a), 32), 0x55555556), 32)
    y = m.value(m.int("shli", m.int("addi", third, 0x2A9F7893), 32))
    for _ in range(3 if m.wide else 2):
        cube = m.mul(m.mul(y, y), y)
        # y * (cube + 2a) / (2 cube + a), as a correction to y
        y = m.fma(y, m.div(m.sub(a, cube), m.fma(cube, m.c(2.0), a)), y)
    if m.wide:
        y = m.mul(y, after)
    y = m.sel(m.test("olt", m.abs(x), INF), m.copysign(y, x), x)
    return m.at_zero(x, y)


# --- trigonometry -----------------------------------------------------------------------------------------------------


def _multiply_window(m: Lanes, whole: Value, offset: Value, words: tuple[int, ...]) -> tuple[Value, Value]:
    """`whole` (below 2^24) times the 96 bits of `words` from bit `offset` on, modulo 2^96: upper 64 bits, lower 32."""
    index = m.int("shrui", offset, 6)
    parts = [m.i(w) for w in words[-3:]]
    for position in reversed(range(len(words) - 3)):
        here = m.code.compare("eq", index, m.i(position))
        parts = [m.code.select(here, m.i(w), p) for w, p in zip(words[position : position + 3], parts, strict=True)]
    shift = m.int("andi", offset, 63)
    back = m.int("subi", m.i(63), shift)

    def funnel(high: Value, low: Value) -> Value:
        # Two shifts: a shift by 64 has no value.
        return m.int("ori", m.int("shli", high, shift), m.int("shrui", m.int("shrui", low, 1), back))

    first, second = funnel(parts[0], parts[1]), funnel(parts[1], parts[2])
    p2 = m.int("muli", whole, m.int("shrui", second, 32))
    p1 = m.int("addi", m.int("muli", whole, m.int("andi", first, LOW_32)), m.int("shrui", p2, 32))
    p0 = m.int("addi", m.int("muli", whole, m.int("shrui", first, 32)), m.int("shrui", p1, 32))
    return m.int("ori", m.int("shli", p0, 32), m.int("andi", p1, LOW_32)), m.int("andi", p2, LOW_32)


def _reduce_trig(m: Lanes, x: Value) -> tuple[Value, Value]:
    """x = q pi/2 + r, |r| <= pi/4, for any finite x (Payne and Hanek, in integers): returns r and q (modulo 4, i64)."""
    bits = m.bits(x)
    exponent = m.int("andi", m.int("shrui", bits, 52), 0x7FF)
    fraction = m.int("ori", m.int("andi", bits, 2**52 - 1), 2**52)
    # Offset in the words for a 24-bit integer in front; an |x| below 1/2 does not use the result.
    lead = 64 if m.wide else 0
    words = TWO_OVER_PI_WIDE if m.wide else TWO_OVER_PI
    offset = m.code.binary("maxsi", m.int("subi", exponent, 1022 - lead), m.i(lead))
    top, low = _multiply_window(m, m.int("shrui", fraction, 29), offset, words)
    if m.wide:
        # The other 29 bits: 24 and 5. All sums are modulo 2^96.
        middle = m.int("andi", m.int("shrui", fraction, 5), 2**24 - 1)
        for piece, distance in ((middle, 24), (m.int("andi", fraction, 31), 29)):
            top_piece, low_piece = _multiply_window(m, piece, m.int("subi", offset, distance), words)
            low = m.int("addi", low, low_piece)
            top = m.int("addi", m.int("addi", top, top_piece), m.int("shrui", low, 32))
            low = m.int("andi", low, LOW_32)
    # Two bits of quadrant, then a fraction of a quadrant; taken as signed it lies in [-1/2, 1/2).
    q = m.int("addi", m.int("shrui", top, 62), m.int("andi", m.int("shrui", top, 61), 1))
    signed = m.int("ori", m.int("shli", top, 2), m.int("shrui", low, 30))
    rest = m.small_int(m.int("andi", low, 2**30 - 1))
    number = m.fma(rest, m.c(2.0**-30), m.code.cast("sitofp", signed, "f64"))
    r = m.mul(number, m.c(HALF_PI * 2.0**-64))
    negative = m.code.compare("slt", bits, m.i(0))
    r = m.sel(negative, m.neg(r), r)
    q = m.code.select(negative, m.int("subi", m.i(0), q), q)
    near = m.test("ole", m.abs(x), HALF_PI / 2)
    r = m.sel(near, x, r)
    q = m.code.select(near, m.i(0), q)
    return m.sel(m.test("olt", m.abs(x), INF), r, m.c(NAN)), q


def _sin_cos(m: Lanes, r: Value) -> tuple[Value, Value]:
    z = m.mul(r, r)
    if not m.wide:
        return m.mul(r, m.poly("SIN", z)), m.poly("COS", z)
    # The leading term is added last, so that one rounding remains.
    return m.fma(r, m.sub(m.poly("SIN", z), m.c(1.0)), r), m.poly("COS", z)


def _quadrant(m: Lanes, sine: Value, cosine: Value, q: Value) -> Value:
    """The sine of an angle in quadrant q."""
    odd = m.code.compare("ne", m.int("andi", q, 1), m.i(0))
    y = m.sel(odd, cosine, sine)
    return m.value(m.int("xori", m.bits(y), m.int("shli", m.int("andi", q, 2), 62)))


def sin(m: Lanes, x: Value) -> Value:
    """Sine of any finite angle."""
    r, q = _reduce_trig(m, x)
    sine, cosine = _sin_cos(m, r)
    return m.at_zero(x, _quadrant(m, sine, cosine, q))


def cos(m: Lanes, x: Value) -> Value:
    """Cosine of any finite angle."""
    r, q = _reduce_trig(m, x)
    sine, cosine = _sin_cos(m, r)
    return _quadrant(m, sine, cosine, m.int("addi", q, 1))


def tan(m: Lanes, x: Value) -> Value:
    """Tangent of any finite angle."""
    r, q = _reduce_trig(m, x)
    sine, cosine = _sin_cos(m, r)
    odd = m.code.compare("ne", m.int("andi", q, 1), m.i(0))
    y = m.div(m.sel(odd, m.neg(cosine), sine), m.sel(odd, sine, cosine))
    return m.at_zero(x, y)


def _asin_halves(m: Lanes, x: Value) -> tuple[Value, Value]:
    """The test |x| > 1/2, and asin of |x|, or of sqrt((1 - |x|) / 2) where the test holds."""
    a = m.abs(x)
    big = m.test("ogt", a, 0.5)
    z = m.sel(big, m.fma(a, m.c(-0.5), m.c(0.5)), m.mul(a, a))
    return big, m.mul(m.sel(big, m.sqrt(z), a), m.poly("ASIN", z))


def asin(m: Lanes, x: Value) -> Value:
    """Inverse sine; NaN outside [-1, 1]."""
    big, y = _asin_halves(m, x)
    return m.copysign(m.sel(big, m.fma(y, m.c(-2.0), m.c(HALF_PI)), y), x)


def acos(m: Lanes, x: Value) -> Value:
    """Inverse cosine; NaN outside [-1, 1]."""
    big, y = _asin_halves(m, x)
    twice = m.add(y, y)
    positive = m.test("ogt", x, 0.0)
    far = m.sel(positive, twice, m.sub(m.c(2 * HALF_PI), twice))
    return m.sel(big, far, m.sub(m.c(HALF_PI), m.copysign(y, x)))


def atan(m: Lanes, x: Value) -> Value:
    """Inverse tangent."""
    a = m.abs(x)
    big = m.test("ogt", a, 1.0)
    t = m.sel(big, m.div(m.c(1.0), a), a)
    y = m.mul(t, m.poly("ATAN", m.mul(t, t)))
    return m.copysign(m.sel(big, m.sub(m.c(HALF_PI), y), y), x)


def atan2(m: Lanes, y: Value, x: Value) -> Value:
    """The angle of the point (x, y)."""
    ay, ax = m.abs(y), m.abs(x)
    steep = m.test("ogt", ay, ax)
    small, large = m.sel(steep, ax, ay), m.sel(steep, ay, ax)
    t = m.div(small, large)
    t = m.sel(m.test("oeq", large, 0.0), large, t)
    t = m.sel(m.test("oeq", small, INF), m.c(1.0), t)
    angle = m.mul(t, m.poly("ATAN", m.mul(t, t)))
    angle = m.sel(steep, m.sub(m.c(HALF_PI), angle), angle)
    left = m.code.compare("slt", m.bits(x), m.i(0))
    angle = m.sel(left, m.sub(m.c(2 * HALF_PI), angle), angle)
    return m.sel(m.test("uno", x, y), m.c(NAN), m.copysign(angle, y))


# --- error function ---------------------------------------------------------------------------------------------------


def erf(m: Lanes, x: Value) -> Value:
    """Error function: x P(x^2) up to 1, then 1 - e^Q(|x|)."""
    a = m.abs(x)
    near = m.mul(a, m.poly("ERF", m.mul(a, a)))
    beyond = m.clamp(a, 1.0, 6.0)
    far = m.sub(m.c(1.0), exp(m, m.poly("LOG_ERFC", beyond)))
    return m.copysign(m.sel(m.test("olt", a, 1.0), near, far), x)


def erfc(m: Lanes, x: Value) -> Value:
    """Complementary error function: e^(-x^2) P((|x| - 3) / (|x| + 3)) / (1 + 2 |x|), reflected for x < 0."""
    a = m.at_most(m.abs(x), 28.0 if m.wide else 11.0)
    # One division: 1 / ((a + 3) (1 + 2a)) serves both quotients.
    plus, scale = m.add(a, m.c(3.0)), m.fma(a, m.c(2.0), m.c(1.0))
    inverse = m.div(m.c(1.0), m.mul(plus, scale))
    t = m.mul(m.sub(a, m.c(3.0)), m.mul(inverse, scale))
    square = m.mul(a, a)  # exact for f32 values
    y = m.mul(m.mul(m.poly("ERFCX", t), m.mul(inverse, plus)), exp(m, m.neg(square)))
    if m.wide:
        y = m.fma(m.neg(y), m.fma(a, a, m.neg(square)), y)
    return m.sel(m.test("olt", x, 0.0), m.sub(m.c(2.0), y), y)


# --- rounding ---------------------------------------------------------------------------------------------------------


def round(m: Lanes, x: Value) -> Value:
    """The nearest integer, halves away from zero: trunc(x + the largest double below a half)."""
    shifted = m.add(x, m.copysign(m.c(0.49999999999999994), x))
    return m.copysign(m.trunc(shifted), x)
