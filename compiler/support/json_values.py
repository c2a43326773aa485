"""Values as JSON has them, which has no number that is not finite."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def json_values(value: Any) -> Any:
    """Return dictionaries, lists and plain values; floats that JSON lacks are the strings "nan", "inf" and "-inf"."""
    if isinstance(value, Mapping):
        return {key: json_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
