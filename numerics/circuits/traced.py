"""Numbers that leave a graph: what a definition does with them is written down, for kernels and for hardware."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from numc.numerics.circuits.number import Number, constant, here, make
from numc.numerics.circuits.real import Real
from numc.numerics.formats import Conversion
from numc.numerics.formats.format import floor_log2
from numc.support.errors import NumcError

PARTS = ("sign", "exponent", "significand", "code", "nan", "infinite", "zero")
"""Parts of a real number, as a number of a circuit with the `op` ``part`` names them in its data."""


@dataclass(frozen=True, eq=False, repr=False)
class Traced(Real):
    """A number of the graph.

    op: ``operand``, whose data is its name; ``constant``, a float; ``product`` and ``sum``, exact; ``rounded``;
    ``scaled``, whose args are whole numbers n and e of ``n * 2^e``; ``decoded``, whose arg is a code; ``chosen``, whose
    args are a condition and two numbers. finite: of an operand, whether it is known to be no infinity and no NaN.
    below: then the exponent that its magnitude is known to be below, if there is one beside that of its format.
    """

    op: str
    args: tuple[Traced | Number, ...] = ()
    to: Conversion | None = None
    data: Any = None
    finite: bool = False
    below: int | None = None
    place: str = field(default_factory=here)

    def __repr__(self) -> str:
        return f"<{self.op}{'' if self.to is None else f' in {self.to.format.name}'}>"

    @property
    def sign(self) -> Number:
        """1 if it is negative, -0 too, else 0; 0 of a NaN."""
        return self._part("sign", 0, 1)

    @property
    def exponent(self) -> Number:
        """The exponent of the highest bit of its significand."""
        fmt = self._format("exponent").format
        most = floor_log2(max(fmt.max_finite, -fmt.least))  # of fixed point, the least number's is above
        most = most if self.below is None else min(most, self.below - 1)
        return self._part("exponent", fmt.emin, max(most, fmt.emin))

    @property
    def significand(self) -> Number:
        """Its magnitude as a whole number, of at most p bits."""
        return self._part("significand", 0, (1 << self._format("significand").format.precision) - 1)

    @property
    def code(self) -> Number:
        """Its encoding in the format."""
        return self._part("code", 0, (1 << self._format("code").format.bits) - 1)

    @property
    def is_nan(self) -> Number:
        """1 if it is a NaN, else 0."""
        return constant(0) if self.finite else self._part("nan", 0, 1)

    @property
    def is_infinite(self) -> Number:
        """1 if it is an infinity, else 0."""
        return constant(0) if self.finite else self._part("infinite", 0, 1)

    @property
    def is_zero(self) -> Number:
        """1 if it is a zero, else 0."""
        return self._part("zero", 0, 1)

    def _part(self, name: str, low: int, high: int) -> Number:
        self._format(name)
        return make("part", data=name, to=(low, high), of=self)

    def made(self, op: str, *args: Real) -> Traced:
        """Return the exact ``product`` or ``sum`` of this number and another."""
        return Traced(op, tuple(each for each in args if isinstance(each, Traced)))

    def rounded(self, to: Conversion) -> Traced:
        """Return it rounded to a format."""
        return Traced("rounded", (self,), to)

    def constant(self, value: float) -> Traced:
        """Return a float of Python as a number of the same kind."""
        return Traced("constant", data=value)


EXACT_BITS = 53
"""The bits that exact products, and the addends of exact sums, may have: the significand of binary64."""


def check_exact(node: Number | Traced) -> None:
    """Raise NumcError for an exact product or sum that no rounding of numc takes."""
    if not isinstance(node, Traced) or node.op not in ("product", "sum"):
        return
    if node.op == "product":
        bits = sum(map(_bits, node.args))
        if bits > EXACT_BITS:
            raise NumcError(
                f"{node.place}: an exact product of {bits} bits, want at most {EXACT_BITS}: rounded(x, format) before, "
                "or whole numbers and scaled(n, exponent)"
            )
    elif any(isinstance(arg, Traced) and arg.op in ("sum", "chosen") and arg.to is None for arg in node.args):
        raise NumcError(
            f"{node.place}: an exact sum of more than two terms, want one of two: rounded(x, format) in between, or "
            "whole numbers and scaled(n, exponent)"
        )
    elif max(map(_bits, node.args)) > EXACT_BITS:
        raise NumcError(
            f"{node.place}: a term of an exact sum has more than {EXACT_BITS} bits, want rounded(x, format)"
        )


def _bits(node: Number | Traced) -> int:
    """The significant bits that a number can have."""
    assert isinstance(node, Traced)
    if node.to is not None:
        return node.to.format.precision
    if node.op == "constant":
        numerator = abs(node.data.as_integer_ratio()[0]) if math.isfinite(node.data) else 0
        return (numerator // (numerator & -numerator)).bit_length() - 1 if numerator else 0
    if node.op == "scaled":
        n = node.args[0]
        assert isinstance(n, Number)
        return n.width - (n.low < 0)
    return sum(map(_bits, node.args)) if node.op == "product" else EXACT_BITS + 1
