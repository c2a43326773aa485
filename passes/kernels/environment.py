"""The floating-point environment of emitted code: functions of the runtime, which know the control register."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from numc.passes.kernels.builder import Function
from numc.passes.kernels.ssa import Value

DECLARATIONS = """
func.func private @numc_ftz_begin() -> i32
func.func private @numc_ftz_end(i32)
func.func private @numc_toward_zero_begin() -> i32
func.func private @numc_toward_zero_end(i32)
func.func private @numc_plain_begin() -> i32
func.func private @numc_plain_end(i32)
func.func private @numc_exceptions_begin() -> i32
func.func private @numc_exceptions_end(i32) -> i32
"""


@contextmanager
def subnormals_flushed(f: Function) -> Iterator[None]:
    """Code that runs with subnormal operands and results replaced by zeros."""
    (mode,) = f.call("numc_ftz_begin", results="i32")
    yield
    f.call("numc_ftz_end", mode)


@contextmanager
def toward_zero(f: Function) -> Iterator[None]:
    """Code that runs with results rounded toward zero."""
    (mode,) = f.call("numc_toward_zero_begin", results="i32")
    yield
    f.call("numc_toward_zero_end", mode)


@contextmanager
def plain(f: Function) -> Iterator[None]:
    """Code within that of the above that runs as if it were not.

    It has to get its operands from memory, and to leave its results there: a compiler may move what does neither.
    """
    (mode,) = f.call("numc_plain_begin", results="i32")
    yield
    f.call("numc_plain_end", mode)


def watch_exceptions(f: Function) -> Value:
    """Begin to watch for results that overflow, or are tiny and inexact; `raised` takes what this returns."""
    (flags,) = f.call("numc_exceptions_begin", results="i32")
    return flags


def raised(f: Function, flags: Value) -> Value:
    """Whether there was such a result since (i32, 0 if there was none)."""
    (lost,) = f.call("numc_exceptions_end", flags, results="i32")
    return lost
