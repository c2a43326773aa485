"""The packages of the extra ``numc[search]``, which are imported only where they are needed."""

from __future__ import annotations

from importlib.util import find_spec

from numc.support.errors import NumcError

_FOR = {"optuna": "the samplers tpe and nsga2", "distributed": "workers", "cryptography": "their encrypted connections"}


def need(package: str) -> None:
    """Raise NumcError if a package of the extra is not installed."""
    if find_spec(package) is None:
        raise NumcError(f"search: {package}, for {_FOR[package]}, is not installed: pip install 'numc[search]'")
