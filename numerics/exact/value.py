"""Binary32 values as Python integers, and the exact sums and products of them.

Every finite binary32 number is a whole number of quanta of 2^-149, every product of two a whole number of 2^-298. So a
`Value` is an int that counts quanta, or one of the floats -0.0, inf, -inf, nan (the int 0 is +0). Exact results count
2^-298 in the same way: the `point` of a number is how many of its bits lie right of the binary point.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # numpy is imported only where there are arrays
    import numpy as np
    import numpy.typing as npt

Value = int | float

POINT = 149  # of values
PRODUCT_POINT = 2 * POINT  # of exact products and sums
ONE = 1 << POINT


def from_bits(bits: int) -> Value:
    """Return the value a binary32 encoding stands for."""
    exponent, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
    negative = bits >> 31
    if exponent == 0xFF:
        return math.nan if fraction else -math.inf if negative else math.inf
    count = fraction if exponent == 0 else (fraction | 1 << 23) << (exponent - 1)
    return (-count or -0.0) if negative else count


def to_float(value: Value) -> float:
    """Return a value as a Python float: exact, a double has every binary32 number."""
    return math.ldexp(value, -POINT) if type(value) is int else value


def bits_of(array: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    """Return the binary32 encodings of an array. Raises TypeError when float32 cannot hold its type exactly."""
    import numpy as np

    numbers: npt.NDArray[Any] = np.asarray(array)
    if not np.can_cast(numbers.dtype, np.float32, "safe") and not _is_literal(array, numbers):
        raise TypeError(f"the reference takes float32, not {numbers.dtype}: convert first, or use round_real")
    return np.ascontiguousarray(numbers.astype(np.float32)).view(np.uint32).reshape(numbers.shape)


def _is_literal(array: npt.ArrayLike, given: npt.NDArray[Any]) -> bool:
    import numpy as np

    # Python numbers and lists arrive as float64 or int64: fine where nothing is lost.
    if isinstance(array, np.ndarray | np.generic):
        return False
    return bool(np.array_equal(given.astype(np.float32).astype(given.dtype), given, equal_nan=given.dtype.kind == "f"))


def to_array(values: Iterable[Value], shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Return values as a float32 array."""
    import numpy as np

    return np.array([to_float(value) for value in values], dtype=np.float32).reshape(shape)


def exact_fma(a: Value, b: Value, c: Value) -> Value:
    """Return ``a * b + c`` as a count of 2^-PRODUCT_POINT, or as one of the floats."""
    if type(a) is int and type(b) is int and type(c) is int:
        return a * b + (c << POINT)  # c is not -0, so a sum of zeros is +0
    return exact_sum(((a, b),), c)


def exact_sum(products: Iterable[tuple[Value, Value]], c: Value) -> Value:
    """Return the sum of products and `c` as a count of 2^-PRODUCT_POINT, or as one of the floats.

    As in IEEE-754 (to nearest): a sum that is zero is -0 only if everything added is -0.
    """
    total, signs = _count(c) << POINT, [_stand_in(c)]
    for a, b in products:
        total += _count(a) * _count(b)
        signs.append(_stand_in(a) * _stand_in(b))
    if not all(map(math.isfinite, signs)):
        return sum(signs)
    all_minus_zero = all(sign == 0 and math.copysign(1.0, sign) < 0 for sign in signs)
    return -0.0 if all_minus_zero else total


def _count(value: Value) -> int:
    return value if type(value) is int else 0


def _stand_in(value: Value) -> float:
    """A float with the sign and the class of a value: products and sums of them follow the rules of IEEE-754."""
    if type(value) is int:
        return float((value > 0) - (value < 0))
    return value
