"""The floating-point environment in which numc computes: that in which a process begins.

A process may change its own: to a directed rounding mode, or so that subnormals are zero, as
``torch.set_flush_denormal`` does, and any library that was linked with ``-ffast-math`` when it is loaded. No result of
numc depends on it. The runtime runs generated code in the default environment. For code in Python, and what it calls of
numpy, MLIR and LLVM, every public function that computes is marked `in_default_environment`. Threads inherit the
environment of who starts them, so that those of such a function have the default one, too.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import sys
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import Any, TypeVar, cast

_T = TypeVar("_T")

_C = ctypes.PyDLL(None)  # a call takes a tenth of a microsecond, for which Python's global lock is not released
_get, _set = _C.fegetenv, _C.fesetenv
_get.argtypes = _set.argtypes = (ctypes.c_void_p,)
_DEFAULT = ctypes.c_void_p(-1)  # FE_DFL_ENV of the C libraries of Linux
_Environment = ctypes.c_int64 * 8  # fenv_t is 32 bytes on x86-64, and smaller on other processors

MARK = "numc_environment"
"""The attribute of functions that run in the default environment."""


class DefaultEnvironment:
    """A ``with`` block in the default environment; the one before is there again at its end."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        """Keep the environment of this thread, and set the default one."""
        self._before = _Environment()
        _get(self._before)
        _set(_DEFAULT)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Set the environment that was kept."""
        _set(self._before)


def in_default_environment(entry: _T) -> _T:
    """Return a function that runs in the default environment; of a class, let its public methods and properties do so.

    The functions that a function is given, such as a metric, run in it as well.
    """
    if isinstance(entry, type):
        for name, member in list(vars(entry).items()):
            if (not name.startswith("_") or name in ("__init__", "__call__", "__add__")) and _computes(member):
                setattr(entry, name, _within(member))
        return entry
    return cast("_T", _within(entry))


def _computes(member: Any) -> bool:
    if isinstance(member, FunctionType) and inspect.isgeneratorfunction(inspect.unwrap(member)):
        return False  # a context manager, whose block is the caller's
    return isinstance(member, FunctionType | classmethod | staticmethod | property | functools.cached_property)


def _within(member: Any) -> Any:
    if isinstance(member, classmethod | staticmethod):
        return type(member)(_within(member.__func__))
    if isinstance(member, property):
        return property(_within(member.fget), member.fset, member.fdel, member.__doc__)
    if isinstance(member, functools.cached_property):
        member.func = _within(member.func)
        return member
    return _function(member)


def _is_traced() -> bool:
    """Return whether torch reads this for a function that it compiles: the compiled one has the default environment."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_dynamo_compiling())


def _function(function: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.isgeneratorfunction(inspect.unwrap(function)):
        raise TypeError(f"{function.__qualname__}: what a generator does between two values is not its caller's")

    @functools.wraps(function)
    def run(*args: Any, **named: Any) -> Any:
        if _is_traced():
            return function(*args, **named)
        with DefaultEnvironment():
            return function(*args, **named)

    setattr(run, MARK, True)
    return run
