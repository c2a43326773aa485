"""Files of installed packages whose suffix says what they are, and the bytes of them that magika's network takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from sources import of_package

PACKAGES = {
    "matplotlib": "matplotlib",
    "mkdocs": "mkdocs",
    "numpy": "numpy",
    "onnx": "onnx",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
}
"""What is installed as what."""
# fmt: off
SUFFIXES = (
    "c", "cc", "cpp", "css", "csv", "f90", "gz", "js", "json", "npy", "npz", "onnx", "pdf", "png", "proto", "py", "rst",
    "svg", "ttf", "woff2",
)
# fmt: on
PER_SUFFIX = 8
PART, BLOCK, PADDING, SMALLEST = 1024, 4096, 256, 8
"""The network takes PART bytes of the first and of the last BLOCK of a file that has SMALLEST bytes or more."""


def files() -> list[Path]:
    """Return at most PER_SUFFIX files of each suffix, evenly spaced in the sorted paths of the packages.

    Raises DataError for a package that is not installed.
    """
    by_suffix: dict[str, list[Path]] = {suffix: [] for suffix in SUFFIXES}
    for package, name in PACKAGES.items():
        folder = of_package(package, install=name)
        for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).parts):
            suffix = path.suffix.removeprefix(".")
            if suffix in by_suffix and path.is_file() and len(path.read_bytes().strip()) >= SMALLEST:
                by_suffix[suffix].append(path)
    chosen = []
    for paths in by_suffix.values():
        count = min(PER_SUFFIX, len(paths))
        chosen += [paths[n * len(paths) // count] for n in range(count)]
    return chosen


def features(content: bytes) -> npt.NDArray[np.int32]:
    """Return the 2 * PART numbers of a file: its first and its last bytes without white space, padded with PADDING."""
    small = len(content) <= BLOCK
    first = content[:BLOCK].strip() if small else content[:BLOCK].lstrip()
    last = content[-BLOCK:].strip() if small else content[-BLOCK:].rstrip()
    numbers = np.full(2 * PART, PADDING, np.int32)
    head, tail = first[:PART], last[-PART:]
    numbers[: len(head)] = list(head)
    numbers[2 * PART - len(tail) :] = list(tail)
    return numbers
