"""The space of a search: axes of values, the settings that they fill in, and the groups of layers that get them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from math import prod

from numc.numerics.policy.text import parse_policy
from numc.studies.search.groups import Group
from numc.support.arguments import checked_text
from numc.support.errors import NumcError, did_you_mean, quoted

Choice = tuple[int, ...]
"""For each axis, the number of a value."""
Candidate = tuple[Choice, ...]
"""For each group, its choice."""

WIDTHS = "e=2..8 m=1..23"
SETTINGS = "fma = fmacs(e{e}m{m})"
"""Operands in the format, products exact, sums in fp32."""
OPERATOR = "fma"
"""The axis of operators, which has texts in place of numbers."""

_MOST = 4096  # choices: each is parsed before the search starts
_MAX_LENGTH = 2000
_AXIS = re.compile(r"([A-Za-z]\w*)=(\S+)")
_RANGE = re.compile(r"([0-9]{1,4})\.\.([0-9]{1,4})")
_NUMBER = re.compile(r"[0-9]{1,4}")
_FIELD = re.compile(r"\{([A-Za-z]\w*)\}")


@dataclass(frozen=True)
class Axis:
    """A width or an operator. values: the narrowest or cheapest first."""

    name: str
    values: tuple[str, ...]

    def size(self, number: int) -> int:
        """Return the width that a value stands for: its number of bits, or its place among operators."""
        return number if self.name == OPERATOR else int(self.values[number])


@dataclass(frozen=True)
class Space:
    """The choices of a search. settings: those of a policy, in which ``{name}`` stands for a value of an axis."""

    axes: tuple[Axis, ...]
    settings: str
    groups: tuple[Group, ...] = ()

    @property
    def widest(self) -> Choice:
        """The last value of every axis."""
        return tuple(len(axis.values) - 1 for axis in self.axes)

    def choices(self) -> list[Choice]:
        """Return every choice of one group."""
        return list(product(*(range(len(axis.values)) for axis in self.axes)))

    def everywhere(self, choice: Choice) -> Candidate:
        """Return the candidate in which every group has the same choice."""
        return (choice,) * len(self.groups)

    def values(self, choice: Choice) -> dict[str, str]:
        """Return the values of a choice by the name of the axis."""
        return {axis.name: axis.values[n] for axis, n in zip(self.axes, choice, strict=True)}

    def text(self, choice: Choice) -> str:
        """Return the settings of a choice."""
        values = self.values(choice)
        return _FIELD.sub(lambda field: values[field[1]], self.settings)

    def size(self, candidate: Candidate) -> int:
        """Return the sum of all widths of a candidate."""
        return sum(axis.size(n) for choice in candidate for axis, n in zip(self.axes, choice, strict=True))

    def policy(self, candidate: Candidate) -> str:
        """Return a candidate as a policy. What is in no group stays in fp32."""
        return self._policy([self.text(choice) for choice in candidate])

    def open(self) -> str:
        """Return the policy whose formats leave all widths to every run; "" if there is a choice among operators.

        It need not be valid: not everything that is a number in settings is a width that a format can leave open.
        """
        if any(axis.name == OPERATOR for axis in self.axes):
            return ""
        ranges = {axis.name: "..".join(dict.fromkeys((axis.values[0], axis.values[-1]))) for axis in self.axes}
        return self._policy([_FIELD.sub(lambda field: ranges[field[1]], self.settings)] * len(self.groups))

    def _policy(self, settings: Sequence[str]) -> str:
        width = max(len(group.rule) for group in self.groups)
        pairs = zip(self.groups, settings, strict=True)
        return "".join(f"{group.rule:{width}} {text}\n" for group, text in pairs)


def lowered(choice: Choice, axis: int) -> Choice | None:
    """Return a choice with the next narrower value of an axis, or None if there is none."""
    return (*choice[:axis], choice[axis] - 1, *choice[axis + 1 :]) if choice[axis] else None


def replaced(candidate: Candidate, group: int, choice: Choice) -> Candidate:
    """Return a candidate with another choice for one group."""
    return (*candidate[:group], choice, *candidate[group + 1 :])


def width_space(text: str = WIDTHS, settings: str | None = None) -> Space:
    """Return the space of a text such as ``e=2..8 m=1,2,4``. Raises NumcError for a text that is not a space."""
    axes: dict[str, Axis] = {}
    for word in checked_text(text, "space", _MAX_LENGTH).split():
        match = _AXIS.fullmatch(word)
        if match is None:
            raise NumcError(f"space {quoted(word)}: want NAME=LOW..HIGH or NAME=N,N,..., such as {quoted(WIDTHS)}")
        if match[1] in axes or match[1] == OPERATOR:
            why = "is given twice" if match[1] in axes else "is the name of operators"
            raise NumcError(f"space {quoted(word)}: {quoted(match[1])} {why}: name every width once")
        axes[match[1]] = Axis(match[1], tuple(map(str, _numbers(word, match[2]))))
    if not axes:
        raise NumcError(f"space {quoted(text)}: is empty: want widths such as {quoted(WIDTHS)}")
    return _checked(Space(tuple(axes.values()), settings or SETTINGS))


def operator_space(operators: Sequence[str], settings: str | None = None) -> Space:
    """Return the space of a choice among operators. Raises NumcError if one is not an operator."""
    return _checked(Space((Axis(OPERATOR, tuple(dict.fromkeys(operators))),), settings or "fma = {fma}"))


def ordered(space: Space, cost: Mapping[Choice, float]) -> Space:
    """Return a space of operators with the cheapest first."""
    axis = space.axes[0]
    cheapest = sorted(range(len(axis.values)), key=lambda n: (cost[n,], n))
    return replace(space, axes=(Axis(axis.name, tuple(axis.values[n] for n in cheapest)),))


def _numbers(word: str, text: str) -> list[int]:
    if (match := _RANGE.fullmatch(text)) is not None:
        low, high = int(match[1]), int(match[2])
        if low > high:
            raise NumcError(f"space {quoted(word)}: nothing is from {low} to {high}: want the lower end first")
        return list(range(low, high + 1))
    parts = text.split(",")
    if not all(_NUMBER.fullmatch(part) for part in parts):
        raise NumcError(f"space {quoted(word)}: want LOW..HIGH or N,N,... of whole numbers")
    return sorted({int(part) for part in parts})


def _checked(space: Space) -> Space:
    """Return a space whose settings have every axis and parse with every choice. Raises NumcError."""
    names = [axis.name for axis in space.axes]
    fields = _FIELD.findall(checked_text(space.settings, "settings", _MAX_LENGTH))
    for field in fields:
        if field not in names:
            near = did_you_mean(field, names)
            raise NumcError(f"settings {quoted(space.settings)}: {{{field}}} is not in the space{near}: it has {names}")
    for name in names:
        if name not in fields:
            raise NumcError(f"settings {quoted(space.settings)}: have no {{{name}}}, which the space has: use it there")
    count = prod(len(axis.values) for axis in space.axes)
    if count > _MOST:
        raise NumcError(f"space: has {count} choices for one layer, want at most {_MOST}: leave values out")
    for choice in islice(space.choices(), _MOST):
        text = space.text(choice)
        try:
            parse_policy(f"default {text}")
        except NumcError as error:
            reason = str(error).splitlines()[0].removeprefix("policy:1: ")
            raise NumcError(f"space: {quoted(text)}: {reason}") from None
    return space
