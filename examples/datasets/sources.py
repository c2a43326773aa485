"""Where data sets come from: files of installed packages, which are not imported, and folders that a person has."""

from __future__ import annotations

import importlib.util
from pathlib import Path


class DataError(Exception):
    """A data set that is not there, or is not what it should be. The message is one line that says what to do."""


def of_package(package: str, *parts: str, install: str) -> Path:
    """Return a file or a folder of an installed package, which is not imported: it may need others that are missing.

    install: the arguments of ``pip install`` that bring it. Raises DataError if it is not there.
    """
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise DataError(f"{package} has the data and is not installed: pip install {install}")
    path = Path(next(iter(found.submodule_search_locations))).joinpath(*parts)
    if not path.exists():
        raise DataError(f"{path}: not there: this version of {package} has other data: pip install --upgrade {install}")
    return path


def checked_folder(path: Path, what: str, *wanted: str) -> Path:
    """Return a folder that has the files or folders `wanted`. what: the data set. Raises DataError if it has not."""
    if not path.is_dir():
        state = "is a file" if path.exists() else "there is no such folder"
        raise DataError(f"{path}: {state}: want the folder of {what}, which has {', '.join(wanted)}")
    missing = [name for name in wanted if not (path / name).exists()]
    if missing:
        raise DataError(f"{path}: no {what}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not there")
    return path
