"""TestFloat's layout of the vectors of mulAdd: A, B, C, the result and IEEE-754's exceptions, in hexadecimal."""

from __future__ import annotations

from numc.hardware.encodings import Encoding
from numc.hardware.port import Codes, Interface
from numc.numerics.exact.multiples import to_multiple
from numc.numerics.exact.value import PRODUCT_POINT, exact_sum
from numc.numerics.formats import Record
from numc.numerics.operators import Fma

_INEXACT, _UNDERFLOW, _OVERFLOW, _INVALID = 1, 2, 4, 16


def has_layout(op: Fma) -> bool:
    """Whether a step is IEEE-754's fused multiply-add of one format, rounded once."""
    fmt = op.acc.format
    once = op.is_one_fma or op.datapath.name == "exact"
    alone = op.grouped == (None, None) and op.product is None and op.acc.noise is None and op.datapath.chunk is None
    usual = isinstance(fmt, Record) and fmt.is_usual and fmt.subnormals and not fmt.finite and fmt.parts == 1
    return once and alone and usual and not op.acc.saturates and op.singles[0].format == op.singles[1].format == fmt


def mul_add_line(of: Interface, codes: Codes, result: int) -> str:
    """Return one line, as `testfloat_gen f32_mulAdd` prints them; tininess is detected after rounding."""
    digits = -(-of.output.bits // 4)
    numbers = [codes[name][0] for name in "abc"] + [result]
    return " ".join([*(f"{number:0{digits}X}" for number in numbers), f"{_flags(of.op, codes, result):02X}"])


def _flags(op: Fma, codes: Codes, result: int) -> int:
    fmt, encoding = op.acc.format, Encoding(op.acc.format)
    assert isinstance(fmt, Record)
    x, y, z = (encoding.decode(codes[name][0]) for name in "abc")
    value = encoding.decode(result)
    quiet = fmt.significand_bits and 1 << fmt.significand_bits - 1
    signalling = any(v != v and not codes[name][0] & quiet for name, v in zip("abc", (x, y, z), strict=True))
    if any(v != v for v in (x, y, z)):
        invalid_product = {abs(x), abs(y)} == {0, float("inf")}
        return _INVALID if signalling or invalid_product else 0
    exact = exact_sum([(x, y)], z)
    if exact != exact:
        return _INVALID
    if type(exact) is not int or not exact:
        return 0
    if type(value) is float and abs(value) == float("inf"):
        return _OVERFLOW | _INEXACT
    inexact = int(value) << PRODUCT_POINT // 2 != exact
    if abs(exact) > int(fmt.max_finite * (1 << PRODUCT_POINT)) and inexact and _overflows(op, abs(exact)):
        return _OVERFLOW | _INEXACT
    return (_INEXACT | (_UNDERFLOW if _tiny(op, exact) else 0)) if inexact else 0


def _overflows(op: Fma, exact: int) -> bool:
    """Whether a magnitude is beyond the largest number when it is rounded with an unbounded exponent."""
    return _unbounded(op, exact) > int(op.acc.format.max_finite * (1 << PRODUCT_POINT))


def _tiny(op: Fma, exact: int) -> bool:
    return _unbounded(op, exact) < int(op.acc.format.min_normal * (1 << PRODUCT_POINT))


def _unbounded(op: Fma, exact: int) -> int:
    """The magnitude of a number, rounded to the significant bits of the format."""
    shift = abs(exact).bit_length() - op.acc.format.precision
    return abs(exact) if shift <= 0 else to_multiple(abs(exact), shift, op.acc.rounding, exact < 0)
