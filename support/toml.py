"""TOML that others may have written."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

_TOML: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


def parsed(text: str) -> dict[str, Any]:
    """Return the table of a TOML text.

    Raises ValueError, and nothing else, if it is no TOML, has too long a number, or is nested too deeply.
    """
    try:
        table: dict[str, Any] = _TOML.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return table
