"""JSON that others may have written, and conversion of values to types that JSON has."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

_DEPTH = 100  # of lists and objects; what numc and torch write has less than 20
_DIGITS = 308  # of a whole number: each is a float, too


def parsed(text: str | bytes, *, digits: int = _DIGITS, finite: bool = False) -> Any:
    """Return the value of JSON that anybody may have written.

    digits: the most that a whole number may have. finite: whether NaN and infinities, which are no JSON, are refused.
    Raises ValueError, and nothing else, if the text is no JSON, has larger numbers, or is nested too deeply.
    """

    def whole(number: str) -> int:
        if len(number.lstrip("-")) > digits:
            raise ValueError(f"a number of more than {digits} digits")
        return int(number)

    try:
        document = json.loads(text, parse_int=whole, parse_constant=_no_number if finite else None)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check_depth(document)
    return document


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number of JSON")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_DEPTH):
        level = [
            each
            for container in level
            if isinstance(container, dict | list)
            for each in (container.values() if isinstance(container, dict) else container)
        ]
        if not level:
            return
    raise ValueError("nested too deeply")


def json_values(value: Any) -> Any:
    """Return `value` with mappings as dict and sequences as list; NaN and infinities become "nan", "inf" and "-inf"."""
    if isinstance(value, Mapping):
        return {key: json_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
