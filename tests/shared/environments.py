"""The floating-point environments that a process may set: rounding modes, zeros for subnormal numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

C = ctypes.CDLL(None)
FTZ, DAZ = 0x8000, 0x0040  # bits of MXCSR, which is the last word of glibc's fenv_t on x86-64
MODES = {"down": 0x400, "up": 0x800, "to zero": 0xC00}
ENVIRONMENTS = (*MODES, "nearest", "ftz", "daz", "ftz daz", "ftz daz up")


def registers() -> bytes:
    found = (ctypes.c_uint32 * 8)()
    C.fegetenv(found)
    return bytes(found)[:2] + int(found[7] & ~0x3F).to_bytes(4, "little")  # without the flags of what happened


@contextmanager
def environment(name: str) -> Iterator[None]:
    before = (ctypes.c_uint32 * 8)()
    C.fegetenv(before)
    for mode, number in MODES.items():
        if mode in name:
            C.fesetround(number)
    changed = (ctypes.c_uint32 * 8)()
    C.fegetenv(changed)
    changed[7] |= FTZ * ("ftz" in name) | DAZ * ("daz" in name)
    C.fesetenv(changed)
    kept = registers()
    try:
        yield
        after = registers()
    finally:
        C.fesetenv(before)
    assert after == kept, "the environment of the caller is there again"


def data(value: Any) -> Any:
    """A value in a form in which equal means equal bits."""
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, dict):
        return {name: data(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [data(each) for each in value]
    return value
