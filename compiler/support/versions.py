"""The version of numc and of other installed packages, and where numc's own files are."""

from __future__ import annotations

import sys
from pathlib import Path

UNKNOWN = "unknown"
"""The version of numc where it runs from a source tree that is not installed."""


def version_of(package: str) -> str | None:
    """Return the version of an installed package, or None if it is not installed."""
    from importlib import metadata  # takes longer to import than most commands' help takes to print

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def own_version() -> str:
    """Return the version of numc, or UNKNOWN."""
    return version_of("numc") or UNKNOWN


def own_folder() -> Path:
    """Return the folder of the package numc, which has its Python files and grammars."""
    file = sys.modules["numc"].__file__
    assert file is not None
    return Path(file).absolute().parent
