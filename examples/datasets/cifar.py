"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009) from the folders of their binary versions, which hold no code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from arrays import Images
from sources import DataError, checked_folder

SIDE = 32
_FILES = {
    "CIFAR-10": ([f"data_batch_{n}.bin" for n in range(1, 6)], ["test_batch.bin"], 1, 10),
    "CIFAR-100": (["train.bin"], ["test.bin"], 2, 100),
}
"""Name -> the files to train with, those held out, the bytes of labels before an image, of which the last counts, and
the number of classes."""


def is_cifar(folder: Path) -> str:
    """Return which of both a folder has, "" if none."""
    return next((name for name, (train, *_) in _FILES.items() if (folder / train[0]).exists()), "")


def cifar(folder: Path, name: str = "CIFAR-10") -> Images:
    """Return the images of ``cifar-10-batches-bin`` or ``cifar-100-binary``. Raises DataError for any other folder."""
    train, test, labels, classes = _FILES[name]
    checked_folder(folder, name, *train, *test)
    parts = [_read([folder / file for file in files], labels, classes) for files in (train, test)]
    return Images(name, classes, *parts[0], *parts[1])


def _read(paths: list[Path], labels: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    size = labels + 3 * SIDE * SIDE
    rows = []
    for path in paths:
        data = np.fromfile(path, np.uint8)
        if not len(data) or len(data) % size:
            raise DataError(f"{path}: {len(data)} bytes: want images of {size} bytes each: is it the binary version?")
        rows.append(data.reshape(-1, size))
        if rows[-1][:, labels - 1].max() >= classes:
            raise DataError(f"{path}: a class of {rows[-1][:, labels - 1].max()}: want 0 to {classes - 1}")
    found = np.concatenate(rows)
    return found[:, labels:].reshape(-1, 3, SIDE, SIDE), found[:, labels - 1].astype(np.int64)
