"""Memory that was freed, and that the C library keeps for this process."""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Return it to the system, because what follows needs memory of its own: it takes milliseconds."""
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:  # glibc
        trim(0)
