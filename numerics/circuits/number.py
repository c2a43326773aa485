"""A whole number of a circuit: an operation on others, and the least and the greatest number that it can be."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from weakref import WeakValueDictionary

from numc.support.errors import NumcError

MOST_BITS = 4096
_HERE = str(Path(__file__).parent)


@dataclass(frozen=True)
class Place:
    """The line of the user's file that made a number."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}, line {self.line}"


@dataclass(frozen=True, eq=False, repr=False)
class Number:
    """A number from `low` to `high`, made by `op` from `args`; the same operation on the same numbers is one object.

    op: ``input``, ``constant`` or a key of `OPERATIONS`. data: the name of an input, the value of a constant, the
    values of a table. place: the line that made it first. of: the real number whose ``part`` it is (traced.py).
    Operators are those of Python's int: ``>>`` rounds down, ``&``, ``|`` and ``^`` see negative numbers in two's
    complement, and comparisons give 0 or 1. A number has no truth value: ``if`` and ``and`` cannot be traced.
    """

    op: str
    args: tuple[Number, ...]
    low: int
    high: int
    data: str | int | tuple[int, ...] | None = None
    place: Place | None = field(default=None, compare=False)
    of: object = None

    @property
    def width(self) -> int:
        """The bits that hold it, with a sign if it can be negative; at least one."""
        signed = self.low < 0
        return max(self.high.bit_length(), (-1 - self.low).bit_length() if signed else 0, 0 if signed else 1) + signed

    @property
    def is_constant(self) -> bool:
        """Whether it can be one number only."""
        return self.low == self.high

    def __repr__(self) -> str:
        what = f"({self.data})" if self.op in ("input", "constant") else ""
        return f"<{self.op}{what} from {self.low} to {self.high}>"

    def __bool__(self) -> bool:
        raise NumcError(
            f"{here()}: if, and, or, not, in or while on a number that is traced: a circuit has both ways, "
            "want select(condition, x, y), and & or | between conditions"
        )

    def __index__(self) -> int:
        raise NumcError(
            f"{here()}: a number that is traced as an index or in range(): want lookup(values, index), and loops "
            "of a fixed length"
        )

    __int__ = __index__
    __hash__ = object.__hash__

    def __add__(self, other: Whole) -> Number:
        return make("add", self, other)

    def __radd__(self, other: Whole) -> Number:
        return make("add", other, self)

    def __sub__(self, other: Whole) -> Number:
        return make("sub", self, other)

    def __rsub__(self, other: Whole) -> Number:
        return make("sub", other, self)

    def __mul__(self, other: Whole) -> Number:
        return make("mul", self, other)

    def __rmul__(self, other: Whole) -> Number:
        return make("mul", other, self)

    def __lshift__(self, other: Whole) -> Number:
        return make("shl", self, other)

    def __rlshift__(self, other: Whole) -> Number:
        return make("shl", other, self)

    def __rshift__(self, other: Whole) -> Number:
        return make("shr", self, other)

    def __rrshift__(self, other: Whole) -> Number:
        return make("shr", other, self)

    def __and__(self, other: Whole) -> Number:
        return make("and", self, other)

    def __rand__(self, other: Whole) -> Number:
        return make("and", other, self)

    def __or__(self, other: Whole) -> Number:
        return make("or", self, other)

    def __ror__(self, other: Whole) -> Number:
        return make("or", other, self)

    def __xor__(self, other: Whole) -> Number:
        return make("xor", self, other)

    def __rxor__(self, other: Whole) -> Number:
        return make("xor", other, self)

    def __neg__(self) -> Number:
        return make("sub", 0, self)

    def __pos__(self) -> Number:
        return self

    def __invert__(self) -> Number:
        return make("sub", -1, self)

    def __floordiv__(self, other: object) -> Number:
        raise NumcError(
            f"{here()}: a division, or a power, of a number that is traced: want shifts, * and lookup(values, index)"
        )

    __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __floordiv__

    def __lt__(self, other: Whole) -> Number:
        return make("lt", self, other)

    def __le__(self, other: Whole) -> Number:
        return make("le", self, other)

    def __gt__(self, other: Whole) -> Number:
        return make("lt", other, self)

    def __ge__(self, other: Whole) -> Number:
        return make("le", other, self)

    def __eq__(self, other: object) -> Number:  # type: ignore[override]
        return make("eq", self, other)

    def __ne__(self, other: object) -> Number:  # type: ignore[override]
        return make("ne", self, other)


Whole = int | Number
"""A whole number, or a number of a circuit: the functions of circuits take both."""

Range = tuple[int, int]


def _corners(f: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    """The range of an operation whose extremes are at those of its operands."""

    def of(a: Range, b: Range) -> Range:
        corners = [f(x, y) for x in a for y in b]
        return min(corners), max(corners)

    return of


def _bitwise(low: Callable[[Range, Range], Range]) -> Callable[[Range, Range], Range]:
    """The range of an operation on bits, in two's complement if an operand can be negative."""

    def of(a: Range, b: Range) -> Range:
        if a[0] >= 0 and b[0] >= 0:
            return low(a, b)
        bits = max((x if x >= 0 else ~x).bit_length() for x in (*a, *b))
        return -(1 << bits), (1 << bits) - 1

    return of


def _and(a: Range, b: Range) -> Range:
    masks = [high for low, high in (a, b) if low >= 0]
    if masks:
        return 0, min(masks)
    return _bitwise(lambda a, b: (0, 0))(a, b)


def _filled(a: Range, b: Range) -> Range:
    return 0, (1 << max(a[1].bit_length(), b[1].bit_length())) - 1


def _compared(always: Callable[[Range, Range], bool], never: Callable[[Range, Range], bool]) -> Callable[..., Range]:
    return lambda a, b: (1, 1) if always(a, b) else (0, 0) if never(a, b) else (0, 1)


def _apart(a: Range, b: Range) -> bool:
    return a[1] < b[0] or b[1] < a[0]


def _same(a: Range, b: Range) -> bool:
    return a[0] == a[1] == b[0] == b[1]


@dataclass(frozen=True)
class Operation:
    """An operation: its result of whole numbers, and the range of its result from those of its operands."""

    of: Callable[..., int]
    range: Callable[..., Range]


def leading_zero_count(x: int, width: int) -> int:
    """Return the zeros above the highest one of `x` in `width` bits; `width` of zero."""
    return width - x.bit_length()


OPERATIONS: Mapping[str, Operation] = MappingProxyType({
    "add": Operation(lambda x, y: x + y, lambda a, b: (a[0] + b[0], a[1] + b[1])),
    "sub": Operation(lambda x, y: x - y, lambda a, b: (a[0] - b[1], a[1] - b[0])),
    "mul": Operation(lambda x, y: x * y, _corners(lambda x, y: x * y)),
    "shl": Operation(lambda x, n: x << n, _corners(lambda x, n: x << n)),
    "shr": Operation(lambda x, n: x >> n, _corners(lambda x, n: x >> n)),
    "and": Operation(lambda x, y: x & y, _and),
    "or": Operation(lambda x, y: x | y, _bitwise(lambda a, b: (max(a[0], b[0]), _filled(a, b)[1]))),
    "xor": Operation(lambda x, y: x ^ y, _bitwise(_filled)),
    "lt": Operation(lambda x, y: int(x < y), _compared(lambda a, b: a[1] < b[0], lambda a, b: a[0] >= b[1])),
    "le": Operation(lambda x, y: int(x <= y), _compared(lambda a, b: a[1] <= b[0], lambda a, b: a[0] > b[1])),
    "eq": Operation(lambda x, y: int(x == y), _compared(_same, _apart)),
    "ne": Operation(lambda x, y: int(x != y), _compared(_apart, _same)),
    # select(condition, x, y): x where the condition is not zero
    "select": Operation(lambda c, x, y: x if c else y, lambda c, a, b: (min(a[0], b[0]), max(a[1], b[1]))),
    "min": Operation(min, lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
    "max": Operation(max, lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
    # lzc(x, width), of which the width is a constant
    "lzc": Operation(leading_zero_count, lambda a, w: (w[0] - a[1].bit_length(), w[0] - a[0].bit_length())),
})  # fmt: skip


def make(
    op: str,
    *args: object,
    data: str | int | tuple[int, ...] | None = None,
    to: Range | None = None,
    of: object = None,
) -> Number:
    """Return the number that an operation gives; a constant where its operands are, or its range is one number.

    to: the range, where the operation does not tell it (``input``, ``part``, ``lookup``, ``within``).
    Raises NumcError, with the line, for operands that are no whole numbers, and for numbers of more than 4096 bits.
    """
    numbers = tuple(number(arg) for arg in args)
    ranges = [(each.low, each.high) for each in numbers]
    if to is None:
        if op in ("shl", "shr"):
            _check_amount(numbers[1])
        to = OPERATIONS[op].range(*ranges)
        if op == "sub" and to[0] < 0 and (_is_among("max", *numbers) or _is_among("min", *reversed(numbers))):
            to = (0, max(to[1], 0))
        if (same := _operand(op, numbers)) is not None:
            return same
    if to[0] == to[1] and op not in ("input", "part", "constant"):
        return constant(to[0])
    if max(abs(to[0]), abs(to[1])).bit_length() > MOST_BITS:
        bits = max(abs(to[0]), abs(to[1])).bit_length()
        raise NumcError(
            f"{here()}: a number of {bits} bits, want at most {MOST_BITS}: bound it with within(x, low, high)"
        )
    key = (op, tuple(map(id, numbers)), to, data, id(of))
    known = _KNOWN.get(key)
    if known is None:
        made = Number(op, numbers, *to, data=data, place=_place(), of=of)
        known = _KNOWN[key] = made
    return known


def _is_among(op: str, whole: Number, one: Number) -> bool:
    """Whether a number is one of those that another is the greatest, or the smallest, of."""
    waiting = [whole]
    while waiting:
        each = waiting.pop()
        if each is one:
            return True
        waiting += each.args if each.op == op else ()
    return False


def _operand(op: str, args: tuple[Number, ...]) -> Number | None:
    """The operand that the result is in any case, if there is one."""
    if op == "select":
        condition, x, y = args
        return x if x is y or condition.low > 0 or condition.high < 0 else y if condition.is_constant else None
    x, y = args
    if op in ("min", "max"):
        first = x.high <= y.low if op == "min" else x.low >= y.high
        second = y.high <= x.low if op == "min" else y.low >= x.high
        return x if first or x is y else y if second else None
    neutral = {"mul": 1, "and": -1}.get(op, 0)
    if op in ("add", "mul", "and", "or", "xor") and x.low == x.high == neutral:
        return y
    if op in ("add", "sub", "mul", "shl", "shr", "and", "or", "xor") and y.low == y.high == neutral:
        return x
    if op == "and":
        x, y = (y, x) if x.is_constant else (x, y)
        covers = y.is_constant and y.low >= 0 and x.low >= 0 and y.low == (1 << x.high.bit_length()) - 1
        return x if covers else None
    return None


def constant(value: int) -> Number:
    """Return the number of a circuit that is always `value`."""
    return make("constant", data=value, to=(value, value))


# The numbers that exist, by operation and operands: an entry lives as long as its number, which keeps its operands.
_KNOWN: WeakValueDictionary[object, Number] = WeakValueDictionary()


def number(value: object) -> Number:
    """Return a whole number as one of the circuit. Raises NumcError for anything else."""
    if isinstance(value, Number):
        return value
    try:
        return constant(int(value.__index__()))  # type: ignore[attr-defined]
    except AttributeError:
        raise NumcError(
            f"{here()}: an operand of type {type(value).__name__}, want whole numbers and numbers of the circuit"
        ) from None


def _check_amount(n: Number) -> None:
    if n.low < 0:
        raise NumcError(
            f"{here()}: a shift by {n.low} to {n.high} bits, want at least 0: maximum(n, 0) or within(n, 0, high) "
            "bounds it"
        )
    if n.high > MOST_BITS:
        raise NumcError(
            f"{here()}: a shift by up to {n.high} bits, want at most {MOST_BITS}: minimum(n, {MOST_BITS}) bounds it"
        )


def _place() -> Place | None:
    """The line outside of this folder that is being executed."""
    frame = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename.startswith(_HERE) or frame.f_code.co_name == "__init__"):
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else Place(frame.f_code.co_filename, frame.f_lineno)


def here() -> str:
    """Return the line of the user's file that is being executed, as messages begin with it."""
    return str(_place() or "circuit")
