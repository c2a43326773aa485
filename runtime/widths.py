"""The widths that a run chooses for operands in formats that leave them open, such as ``bfp(16,3,2..4)``."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numc.runtime.abi import WidthRange
from numc.runtime.library import Choice, Width
from numc.support.errors import NumcError, did_you_mean, quoted, shortened

Chosen = tuple[int, int]
"""Exponent bits and significand bits."""


class WidthByRatio:
    """The width of one tensor in a format such as ``bfp(16,3,2..4)``, which the run that first reads it chooses.

    It takes the place of a number in the argument `widths`. The first contraction that reads an operand with it finds
    r = sum |widest - narrowest| / sum |narrowest| over the values of the operand in its widest and in its narrowest
    format, and chooses the narrowest if r < epsilon, else the widest (Zhang et al., FAST, HPCA 2022, algorithm 1).
    Every other operand with the same object has that width, also in later runs, such as those of a backward pass.

    epsilon: None chooses the widest. ratio: r, None before the first run. width: exponent and significand bits, None
    before. Raises NumcError unless epsilon is a number or None.
    """

    def __init__(self, epsilon: float | None = None) -> None:
        if epsilon is not None and (isinstance(epsilon, bool) or not isinstance(epsilon, int | float)):
            raise NumcError(f"epsilon: got {shortened(epsilon)}, want a number or None")
        self.epsilon = epsilon
        self.ratio: float | None = None
        self.width: Chosen | None = None

    def __repr__(self) -> str:
        return f"<WidthByRatio epsilon={self.epsilon} ratio={self.ratio} width={self.width}>"


_KINDS = "a number, a pair (exponent bits, significand bits), or either for each operand, as {'a': 3, 'b': 2}"


def choose(ranges: Sequence[WidthRange], given: Any) -> list[Chosen | WidthByRatio]:
    """Return the widths of every range; those of which `given` says nothing are the widest.

    given: None; a number, for the only open width of a format; a pair of exponent and significand bits; a WidthByRatio;
    or a mapping of layers, by name or pattern (as in a policy, later ones win), to one of these, or to a mapping of
    operands to them. A WidthByRatio that has a width already stands for that. Raises NumcError for a layer or an
    operand that is not there, and for anything else.
    """
    choices: list[Chosen | WidthByRatio] = [(r.exponent[1], r.significand[1]) for r in ranges]
    if given is None:
        return choices
    if not ranges:
        raise NumcError("widths: this program has none to choose: compile it with open ones, such as bfp(16,3,2..4)")
    for pattern, value in (given if isinstance(given, Mapping) else {"*": given}).items():
        layers = layers_like((r.layer for r in ranges), pattern)
        if not layers:
            raise NumcError(f"widths: {_nothing(ranges, pattern)}")
        by_operand = value if isinstance(value, Mapping) else None
        for n in layers:
            if by_operand is None:
                choices[n] = _checked(ranges[n], value)
            elif ranges[n].operand in by_operand:
                choices[n] = _checked(ranges[n], by_operand[ranges[n].operand])
        if by_operand is not None:
            _check_operands(pattern, by_operand, [ranges[n].operand for n in layers])
    return choices


def layers_like(layers: Iterable[str], pattern: Any) -> list[int]:
    """Return the numbers of the layers whose name is `pattern`, or fits it. Raises NumcError if that is no text."""
    if not isinstance(pattern, str):
        raise NumcError(f"widths: got {shortened(pattern)}, want the name of a layer")
    plain = not any(sign in pattern for sign in "*?[")  # comparing is much faster than matching
    return [
        n for n, layer in enumerate(layers) if layer == pattern or (not plain and fnmatch.fnmatchcase(layer, pattern))
    ]


def _nothing(ranges: Sequence[WidthRange], pattern: str) -> str:
    names = list(dict.fromkeys(r.layer for r in ranges))
    listed = ", ".join(map(quoted, names[:12])) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    return f"layer {quoted(pattern)} has none to choose{did_you_mean(pattern, names)}: those that have are {listed}"


def _check_operands(pattern: str, given: Mapping[Any, Any], operands: Sequence[str]) -> None:
    for name in given:
        if name not in operands:
            open_ones = ", ".join(dict.fromkeys(operands))
            raise NumcError(
                f"widths: layer {quoted(pattern)}: operand {shortened(name)} has none to choose: want {open_ones}"
            )


def _checked(range_: WidthRange, value: Any) -> Chosen | WidthByRatio:
    """Return one given value as widths. Raises NumcError if the range does not have them."""
    who = f"widths: layer {quoted(range_.layer)}, {range_.operand}"
    if isinstance(value, WidthByRatio):
        if value.width is None:
            return value
        value = value.width
    ranges = {"exponent": range_.exponent, "significand": range_.significand}
    opened = [name for name, (least, most) in ranges.items() if least < most]
    numbers = list(value) if isinstance(value, tuple | list) else [value]
    if any(isinstance(n, bool) or not isinstance(n, int) for n in numbers) or not 1 <= len(numbers) <= 2:
        raise NumcError(f"{who}: got {shortened(value)}, want {_KINDS}")
    if len(numbers) == 1 and len(opened) > 1:
        raise NumcError(f"{who}: got {shortened(value)}, want a pair: exponent bits and significand bits")
    widths = dict(zip(ranges, numbers, strict=True)) if len(numbers) == 2 else dict.fromkeys(opened, numbers[0])
    for name, got in widths.items():
        least, most = ranges[name]
        if not least <= got <= most:
            want = f"{least} to {most}" if least < most else str(most)
            raise NumcError(f"{who}: got {shortened(got)} {name} bits, want {want}")
    return widths.get("exponent", range_.exponent[1]), widths.get("significand", range_.significand[1])


class Options:
    """The widths that one run is told, as the runtime reads them, and those that it has chosen at its end."""

    def __init__(self, ranges: Sequence[WidthRange], given: Any) -> None:
        """Raises NumcError for widths that the ranges do not have."""
        self._ranges = ranges
        self._chosen = choose(ranges, given)
        self._tensors = list(dict.fromkeys(each for each in self._chosen if isinstance(each, WidthByRatio)))
        widest = [(r.exponent[1], r.significand[1]) for r in ranges]
        fixed = [w if isinstance(each, WidthByRatio) else each for each, w in zip(self._chosen, widest, strict=True)]
        self.widths = (Width * max(len(ranges), 1))(*(Width(*each) for each in fixed))
        self.choices: Any = None
        if self._tensors:
            self.choices = (Choice * len(ranges))(*map(self._choice, self._chosen))

    def _choice(self, chosen: Chosen | WidthByRatio) -> Choice:
        if not isinstance(chosen, WidthByRatio):
            return Choice(-1)
        epsilon = math.nan if chosen.epsilon is None else float(chosen.epsilon)
        return Choice(self._tensors.index(chosen), 0, epsilon)

    def take(self) -> None:
        """Give the WidthByRatio of the run what it found. Raises NumcError for one that nothing measured."""
        for tensor in self._tensors:
            first = next(m for m, each in enumerate(self._chosen) if each is tensor)
            choice = self.choices[first]
            if not choice.decided:
                where = f"layer {quoted(self._ranges[first].layer)}, {self._ranges[first].operand}"
                raise NumcError(
                    f"widths: {where}: nothing measures it: a run measures operands of contractions in bfp(g,e,m..n) "
                    "that are no weights of the program: give a number"
                )
            tensor.ratio, tensor.width = choice.ratio, (choice.width.exponent, choice.width.significand)
