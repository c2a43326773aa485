"""Fourier transforms as products with the matrix of their cosines and sines."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def transform(size: int, bins: int, parts: int, length: int, *, inverse: bool) -> npt.NDArray[np.float64]:
    """Return the matrix, not normalised, that transforms numbers, of the shape [size, parts, bins, 2].

    parts: 1 for real numbers, 2 for real and imaginary parts. Of `size` numbers the first `length` are transformed, or
    all, followed by zeros; the result has the first `bins` of `length` numbers.
    """
    angle = 2 * np.pi * np.outer(np.arange(size), np.arange(bins)) / length
    cosine, sine = np.cos(angle), (1.0 if inverse else -1.0) * np.sin(angle)
    cosine[length:], sine[length:] = 0, 0
    of_real, of_imaginary = np.stack([cosine, sine], axis=-1), np.stack([-sine, cosine], axis=-1)
    return np.stack([of_real, of_imaginary][:parts], axis=1)


def of_half(bins: int, length: int) -> npt.NDArray[np.float64]:
    """Return the matrix, not normalised, of the shape [bins, 2, length], that makes real numbers of half a spectrum.

    The half has ``length // 2 + 1`` complex numbers, or fewer, followed by zeros.
    """
    k, n = np.arange(bins), np.arange(length)
    angle = 2 * np.pi * np.outer(k, n) / length
    count = np.where((k == 0) | (2 * k == length), 1.0, np.where(2 * k < length, 2.0, 0.0))[:, None]
    return np.stack([np.cos(angle) * count, -np.sin(angle) * count], axis=1)
