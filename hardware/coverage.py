"""Coverage of test vectors: the cases of rounding, cancellation and range that a step of an operator meets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from numc.hardware.encodings import Encoding
from numc.hardware.port import Codes, Interface
from numc.numerics.exact.value import POINT, PRODUCT_POINT, Value, exact_sum
from numc.numerics.formats import Record

_ROUNDING = ("exact", "tie", "below a tie", "above a tie")


@dataclass
class Coverage:
    """Counts of steps by what they meet. made: by what the stimulus was made for."""

    of: Interface
    steps: int = 0
    found: Counter[str] = field(default_factory=Counter)
    made: Counter[str] = field(default_factory=Counter)
    depths: Counter[int] = field(default_factory=Counter)
    patterns: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        fmt, unit = self.of.op.acc.format, 1 << PRODUCT_POINT
        self._largest, self._normal = int(fmt.max_finite * unit), int(fmt.min_normal * unit)

    def add(self, about: str, codes: Codes, result: Value) -> None:
        """Count one step."""
        self.steps += 1
        self.made[about] += 1
        self.found.update(self._kinds(codes, result))

    def rows(self) -> list[tuple[str, int]]:
        """The cases that were met, and how often."""
        rows = [(f"made for {about}", count) for about, count in sorted(self.made.items())]
        rows += sorted(self.found.items())
        if self.patterns:
            patterns = f"last, guard, round and sticky bit: {len(self.patterns)} of 16 patterns"
            rows.append((patterns, sum(self.patterns.values())))
        if self.depths:
            depths = f"cancellation of 1 to {max(self.depths)} bits: {len(self.depths)} depths"
            rows.append((depths, sum(self.depths.values())))
        return rows

    def as_json(self) -> dict[str, object]:
        """All counts."""
        return {
            "steps": self.steps,
            "made": dict(sorted(self.made.items())),
            "met": dict(sorted(self.found.items())),
            "patterns": dict(sorted(self.patterns.items())),
            "cancellation": {str(depth): count for depth, count in sorted(self.depths.items())},
        }

    def _kinds(self, codes: Codes, result: Value) -> Iterator[str]:
        op = self.of.op
        if self.of.register:
            ends = (-(1 << self.of.register - 1), (1 << self.of.register - 1) - 1)
            yield "register: " + (
                "zero" if not result else "an end" if result in ends else ["more", "less"][result < 0]
            )
            return
        if result != result:
            yield "result: NaN"
        elif abs(result) == float("inf"):
            yield "result: infinity"
        elif result == 0:
            yield "result: zero"
        elif isinstance(op.acc.format, Record) and abs(int(result)) << POINT < self._normal:
            yield "result: subnormal"
        elif abs(int(result)) << POINT == self._largest:
            yield "result: the largest finite number"
        if op.groups is not None:
            return
        x, y, c = self._operands(codes)
        pairs = [(i, j) for a, b in zip(x, y, strict=True) for i in a for j in b]
        if any(type(v) is float and v != 0 for pair in pairs for v in pair) or (type(c) is float and c != 0):
            yield "operands: an infinity or a NaN"
            return
        if any(v == 0 for pair in pairs for v in pair) or c == 0:
            yield "operands: a zero"
        exact = exact_sum(pairs, c)
        largest = max([abs(int(c)) << POINT, *(abs(int(i) * int(j)) for i, j in pairs)])
        if type(exact) is not int or not exact:
            yield "sum: an exact zero"
            return
        lost = largest.bit_length() - abs(exact).bit_length()
        if lost > 0:
            self.depths[lost] += 1
        yield from self._rounding(abs(exact), result)

    def _operands(self, codes: Codes) -> tuple[list[tuple[Value, ...]], list[tuple[Value, ...]], Value]:
        op = self.of.op
        a, b, c = (Encoding(to.format) for to in (*op.singles, op.acc))
        x, y = ([each.split(each.decode(code)) for code in codes[name]] for name, each in (("a", a), ("b", b)))
        return x, y, c.decode(codes["c"][0])

    def _rounding(self, exact: int, result: Value) -> Iterator[str]:
        """Where the exact sum lies between two values of the accumulator."""
        fmt = self.of.op.acc.format
        if not isinstance(fmt, Record) or fmt.parts > 1:
            return
        normal = fmt.emin + PRODUCT_POINT
        ulp = max(exact.bit_length() - 1, normal) - fmt.significand_bits
        if exact > self._largest:
            yield "sum: beyond the largest number"
        if exact.bit_length() - 1 < normal:
            yield "sum: subnormal"
            if type(result) is int and abs(result) << POINT >= self._normal:
                yield "sum: subnormal, rounded to the smallest normal number"
        if ulp < 2:
            return
        rest, half = exact & (1 << ulp) - 1, 1 << ulp - 1
        yield "sum: " + _ROUNDING[0 if not rest else 1 if rest == half else 2 if rest < half else 3]
        if type(result) is int and abs(result) << POINT == 1 << exact.bit_length() and rest:
            yield "sum: rounded to the next power of two"
        sticky = exact & (1 << ulp - 2) - 1
        self.patterns[f"{exact >> ulp & 1}{exact >> ulp - 1 & 1}{exact >> ulp - 2 & 1}{int(sticky > 0)}"] += 1
