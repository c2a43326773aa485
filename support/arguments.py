"""Checks of what users give to public functions, and of texts before a parser reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

from numc.support.errors import NumcError, quoted, shortened, shown

if TYPE_CHECKING:  # numpy is imported only where there are arrays
    import numpy as np
    import numpy.typing as npt

T = TypeVar("T")
Fixed = Mapping[str, "tuple[int, ...] | npt.NDArray[np.generic]"]
"""The inputs of a model that are fixed, by name: a shape, or a value, which is an array."""

_NUMBER = re.compile(r"-?[0-9]+")
_DIGITS = 18  # the numbers of 18 digits are those that every 64-bit integer can hold


def checked(value: T, what: str, kind: Any, want: str) -> T:
    """Return `value`, an instance of `kind`, which messages call `what` and `want`. Raises NumcError."""
    if not isinstance(value, kind):
        raise NumcError(f"{what}: got {shortened(type(value).__name__)}, want {want}")
    return value


def checked_integer(value: object, what: str, low: int, high: int) -> int:
    """Return `value`, a whole number from `low` to `high`, of Python or numpy. Raises NumcError."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        raise NumcError(f"{what}: got {shown(value)}, want a whole number from {low} to {high}")
    return int(value)


def checked_texts(value: object, what: str) -> list[str]:
    """Return a sequence of texts, which is not a text itself, as a list. Raises NumcError."""
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise NumcError(f"{what}: got {shortened(value)}, want a sequence of texts")
    return list(value)


def check_function(value: object, what: str) -> None:
    """Raise NumcError unless `value` is something to call, or None."""
    if value is not None and not callable(value):
        raise NumcError(f"{what}: got {shortened(type(value).__name__)}, want a function")


def checked_fixed(shapes: object, values: object = None) -> dict[str, tuple[int, ...] | npt.NDArray[np.generic]]:
    """Return what is fixed of the inputs of a model: shapes by name, of sizes of at least 1, and values by name.

    Arrays among `shapes` are values. None is none. Raises NumcError for anything else, and for a name with both.
    """
    fixed: dict[str, Any] = {}
    by_name: Any = {} if shapes is None else checked(shapes, "shapes", Mapping, "sizes by name")
    for name, shape in by_name.items():
        if type(shape).__name__ == "ndarray":
            fixed[name] = shape
            continue
        if not isinstance(name, str) or not isinstance(shape, list | tuple):
            raise NumcError(f"shapes: got {shortened(shape)} for {quoted(name)}, want a tuple of sizes for a name")
        fixed[name] = tuple(checked_integer(size, f"shapes: {quoted(name)}", 1, 2**63 - 1) for size in shape)
    return {**fixed, **_values(values, fixed)}


def _values(values: object, shapes: Mapping[str, object]) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    by_name: Any = {} if values is None else checked(values, "values", Mapping, "numbers or arrays by name")
    if by_name:
        import numpy as np
    for name, value in by_name.items():
        if name in shapes:
            raise NumcError(f"values: {quoted(name)} has a shape by its value: leave its shape out")
        try:
            arrays[name] = np.asarray(value)
        except (TypeError, ValueError):
            arrays[name] = np.asarray(None)
        if not isinstance(name, str) or arrays[name].dtype.kind not in "biuf":
            raise NumcError(f"values: got {shortened(value)} for {quoted(name)}, want a number or an array for a name")
    return arrays


def checked_text(value: object, what: str, most: int) -> str:
    """Return `value`, a text of at most `most` characters; `what` is what messages call it. Raises NumcError."""
    text = str(checked(value, what, str, "a text"))
    if len(text) > most:
        raise NumcError(f"{what} {quoted(text)}: {len(text)} characters, want at most {most}")
    return text


def whole_number(text: str, what: str) -> int:
    """Return the number that a text writes in decimal ASCII digits; `what` is what messages call it.

    Raises NumcError for anything else, and for more than 18 digits.
    """
    if not _NUMBER.fullmatch(text):
        raise NumcError(f"{what}: got {quoted(text)}, want a whole number")
    if len(text.lstrip("-")) > _DIGITS:
        raise NumcError(f"{what}: got {quoted(text)}, want a number of at most {_DIGITS} digits")
    return int(text)
