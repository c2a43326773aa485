"""A conversation on the telephone, in pieces, and where in it somebody speaks."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sources import DataError, of_package

INSTALL = "--no-deps pyannote-audio"
RATE, FRAME, CONTEXT = 16000, 512, 64
"""Samples a second, of a frame, and of the end of the frame before that the network takes with it."""
PIECE = 32
"""Frames of a piece, of which there are as many before it, by which the network finds its state."""
NOISE = 0.02
"""The standard deviation of the noise, on samples from -1 to 1."""


def frames() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Return the noisy frames with their contexts, [n, CONTEXT + FRAME], and whether somebody speaks in their middle.

    Raises DataError.
    """
    folder = of_package("pyannote", "audio", "sample", install=INSTALL)
    with wave.open(str(folder / "sample.wav")) as file:
        if (file.getnchannels(), file.getsampwidth(), file.getframerate()) != (1, 2, RATE):
            raise DataError(f"{folder / 'sample.wav'}: want one channel of 16 bits at {RATE} Hz")
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2") / np.float32(2**15)
    noisy = samples + np.float32(NOISE) * np.random.default_rng(0).standard_normal(len(samples), dtype=np.float32)
    padded = np.concatenate([np.zeros(CONTEXT, np.float32), noisy])
    starts = range(0, len(samples) - FRAME + 1, FRAME)
    speaks = _speech(folder / "sample.rttm", len(samples))
    return np.stack([padded[n : n + CONTEXT + FRAME] for n in starts]), speaks[[n + FRAME // 2 for n in starts]]


def pieces() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Return pieces with what is before them, [n, 2 * PIECE, CONTEXT + FRAME], and the labels, [n, PIECE].

    Silence is before the first one. Raises DataError.
    """
    every, speaks = frames()
    count = len(every) // PIECE
    whole = np.concatenate([np.zeros_like(every[:PIECE]), every[: count * PIECE]])
    taken = np.stack([whole[n * PIECE : (n + 2) * PIECE] for n in range(count)])
    return taken, speaks[: count * PIECE].reshape(count, PIECE)


def _speech(file: Path, count: int) -> npt.NDArray[np.bool_]:
    """Return for each sample whether a line of an RTTM file has somebody speak there."""
    speaks = np.zeros(count, bool)
    for line in file.read_text(encoding="utf-8").splitlines():
        start, length = (float(field) for field in line.split()[3:5])
        speaks[round(RATE * start) : round(RATE * (start + length))] = True
    return speaks
