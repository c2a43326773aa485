"""The floating-point environment of emitted code: functions of the runtime, which know the control register."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from numc.passes.kernels.builder import Function
from numc.passes.kernels.ssa import Value

DECLARATIONS = """
func.func private @numc_ftz_begin() -> i32
func.func private @numc_ftz_end(i32)
func.func private @numc_underflow_begin() -> i32
func.func private @numc_underflow_end(i32) -> i32
"""


@contextmanager
def subnormals_flushed(f: Function) -> Iterator[None]:
    """Code that runs with subnormal operands and results replaced by zeros."""
    (mode,) = f.call("numc_ftz_begin", results="i32")
    yield
    f.call("numc_ftz_end", mode)


def watch_underflow(f: Function) -> Value:
    """Begin to watch for results that are tiny and inexact; `underflowed` takes what this returns."""
    (flags,) = f.call("numc_underflow_begin", results="i32")
    return flags


def underflowed(f: Function, flags: Value) -> Value:
    """Whether a result was tiny and inexact since (i32, 0 if none was)."""
    (lost,) = f.call("numc_underflow_end", flags, results="i32")
    return lost
