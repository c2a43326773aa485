"""Series of the UCR and UEA archives with their official splits, from files in the format .ts, as aeon ships some."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sources import DataError, checked_folder, of_package
from text import lines

SHIPPED = ("ACSF1", "ItalyPowerDemand", "JapaneseVowels")
"""Sets that the package aeon has."""


@dataclass(frozen=True)
class Series:
    """Series [n, channels, length] and class numbers [n] of both splits; the names of the classes by number."""

    name: str
    classes: tuple[str, ...]
    train: npt.NDArray[np.float64]
    train_labels: npt.NDArray[np.int64]
    held_out: npt.NDArray[np.float64]
    held_out_labels: npt.NDArray[np.int64]


def series(name: str, folder: Path | None = None) -> Series:
    """Return a set of series of one length.

    folder: has NAME_TRAIN.ts and NAME_TEST.ts, or NAME_eq_TRAIN.ts and NAME_eq_TEST.ts, which come first; None for that
    of aeon. Raises DataError.
    """
    if folder is None:
        folder = of_package("aeon", "datasets", "data", name, install="--no-deps aeon")
    stem = f"{name}_eq" if (folder / f"{name}_eq_TRAIN.ts").exists() else name
    checked_folder(folder, f"series {name}", f"{stem}_TRAIN.ts", f"{stem}_TEST.ts")
    classes, train, labels = _read(folder / f"{stem}_TRAIN.ts")
    others, test, test_labels = _read(folder / f"{stem}_TEST.ts")
    if classes != others or train.shape[1:] != test.shape[1:]:
        raise DataError(f"{folder}: TRAIN and TEST differ in classes, channels or length: want two splits of one set")
    return Series(name, classes, train, labels, test, test_labels)


def _read(path: Path) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    classes: tuple[str, ...] = ()
    rows: list[list[list[float]]] = []
    labels: list[int] = []
    data = False
    for number, line in enumerate(lines(path), 1):
        if not line or line.startswith("#"):
            continue
        if line.startswith("@"):
            word, *rest = line[1:].split()
            if word.lower() == "classlabel" and rest[:1] != ["false"]:
                classes = tuple(rest[1:])
            data = data or word.lower() == "data"
            continue
        *channels, label = line.split(":")
        try:
            if not data or not channels:
                raise ValueError("no data")
            rows.append([[float(value) for value in channel.split(",")] for channel in channels])
            labels.append(classes.index(label.strip()))
        except ValueError:
            raise DataError(
                f"{path}:{number}: not a series: want numbers with commas between, channels and the class with :"
            ) from None
    lengths = {(len(row), len(channel)) for row in rows for channel in row}
    if len(lengths) != 1:
        raise DataError(
            f"{path}: {len(lengths)} shapes of series: want one length: take the set in equal lengths, NAME_eq"
        )
    values = np.array(rows)
    if not np.isfinite(values).all():
        raise DataError(f"{path}: has missing values: want numbers")
    return classes, values, np.array(labels, np.int64)
