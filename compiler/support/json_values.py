"""Conversion of values to types that JSON has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def json_values(value: Any) -> Any:
    """Return `value` with mappings as dict and sequences as list; NaN and infinities become "nan", "inf" and "-inf"."""
    if isinstance(value, Mapping):
        return {key: json_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
