"""The version of numc and of other installed packages, and where numc's own files are."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from functools import cache
from pathlib import Path

from numc.support.errors import NumcError

TORCH_MLIR = "20261001"
"""The version of torch-mlir that numc is made for: its passes, and its IR, are others from day to day."""
ANY_TORCH_MLIR = "NUMC_TORCH_MLIR"
"""The environment variable that accepts other versions, at one's own risk, if it is ``any``."""
UNKNOWN = "unknown"
"""The version of numc where it runs from a source tree that is not installed."""


def version_of(package: str) -> str | None:
    """Return the version of an installed package, or None if it is not installed."""
    # The folder NAME-VERSION.dist-info, which installers write, says it before importlib.metadata is imported, which
    # takes longer than a compiled program needs to come from the cache.
    wanted = re.sub(r"[-_.]+", "-", package).lower()
    for directory in sys.path:
        with contextlib.suppress(OSError):
            for entry in os.listdir(directory or "."):
                name, dash, version = entry.removesuffix(".dist-info").partition("-")
                if dash and entry.endswith(".dist-info") and re.sub(r"[-_.]+", "-", name).lower() == wanted:
                    return version
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@cache
def check_torch_mlir() -> None:
    """Raise NumcError unless torch-mlir is installed in the version TORCH_MLIR, or ANY_TORCH_MLIR accepts any.

    Called before MLIR is imported, since that may already fail in another version.
    """
    override = os.environ.get(ANY_TORCH_MLIR, "")
    if override not in ("", "any"):
        raise NumcError(f"{ANY_TORCH_MLIR}: got {override!r}, want 'any', or nothing for version {TORCH_MLIR} alone")
    version, install = version_of("torch-mlir"), f"pip install torch-mlir=={TORCH_MLIR}"
    if version is None:
        raise NumcError(f"torch-mlir is not installed: {install}")
    if version != TORCH_MLIR and not override:
        risk = f"{ANY_TORCH_MLIR}=any goes on with it at your own risk"
        raise NumcError(f"torch-mlir {version} is installed, numc is made for {TORCH_MLIR}: {install}; {risk}")


def own_version() -> str:
    """Return the version of numc, or UNKNOWN."""
    return version_of("numc") or UNKNOWN


def own_folder() -> Path:
    """Return the folder of the package numc, which has its Python files and grammars."""
    file = sys.modules["numc"].__file__
    assert file is not None
    return Path(file).absolute().parent
