"""Files of tokens, and the windows in which a model predicts them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.studies.archives import check_expansion
from numc.studies.metrics import NOT_COUNTED
from numc.support.arguments import checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted
from numc.support.files import checked_path

Array = npt.NDArray[Any]
_BINARY = ("uint16", "uint32")


def read_tokens(file: str) -> Array:
    """Return the tokens in a file, int64: ``.npy``, ``.npz`` with one array, or ``.bin``, which has nothing but uint16.

    ``FILE.bin:uint32`` says that its numbers are of 32 bits. Raises NumcError for any other file.
    """
    name, colon, dtype = file.rpartition(":")
    if not colon or os.path.exists(file):
        name, dtype = file, "uint16"
    path = checked_path(name)
    try:
        if path.suffix == ".bin":
            return _binary(path, dtype)
        check_expansion(path)
        tokens = np.load(path, allow_pickle=False)
        if isinstance(tokens, np.lib.npyio.NpzFile):
            if len(tokens.files) != 1:
                raise NumcError(f"{path}: has {len(tokens.files)} arrays: want one, of tokens")
            tokens = tokens[tokens.files[0]]
    except OSError as error:
        raise NumcError(f"{path}: cannot read: {error.strerror or error}: want tokens as .npy, .npz or .bin") from None
    except (NumcError, MemoryError):
        raise
    except Exception:  # numpy and zipfile have no list of what a damaged file may raise
        raise NumcError(f"{path}: not a numpy file of plain numbers: want tokens as .npy, .npz or .bin") from None
    return _checked(tokens, str(path))


def _binary(path: Path, kind: str) -> Array:
    if kind not in _BINARY:
        raise NumcError(f"{path}: tokens of type {quoted(kind)}: want {' or '.join(_BINARY)}")
    data = path.read_bytes()
    size = np.dtype(kind).itemsize
    if len(data) % size:
        raise NumcError(f"{path}: has {len(data)} bytes, which are no whole numbers of type {kind} ({size} bytes each)")
    return np.frombuffer(data, f"<{kind[0]}{size}").astype(np.int64)


def _checked(tokens: Any, what: str) -> Array:
    array = np.asarray(tokens)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise NumcError(f"{what}: got {array.dtype.name} of shape {list(array.shape)}: want integers in one dimension")
    wrong = array[(array < 0) | (array >= 2**31)]
    if wrong.size:
        raise NumcError(f"{what}: token {wrong[0]}: want 0 to 2^31 - 1")
    return array.astype(np.int64)


@in_default_environment
def token_windows(tokens: Any, length: int, stride: int | None = None) -> tuple[Array, Array]:
    """Return windows of tokens and, for each place, the token that follows it, both int64 [windows, length].

    tokens: integers in one dimension, or the name of a file (see `numc compare --help`). length: of a window, at least
    2. stride: from one window to the next, at most length, which is the default.
    A token is predicted once, in the first window that has it, unless it is the first of that window: with a stride
    below the length, all but the very first are. Elsewhere the label is -100, which is not counted. The last window
    ends with the last token.
    Raises NumcError for a file that cannot be read, and if there are fewer tokens than a window has.
    """
    length = checked_integer(length, "length", 2, 2**31 - 1)
    stride = length if stride is None else checked_integer(stride, "stride", 1, length)
    array = read_tokens(os.fspath(tokens)) if isinstance(tokens, (str, os.PathLike)) else _checked(tokens, "tokens")
    if array.size < length:
        raise NumcError(f"tokens: there are {array.size}, a window has {length}: give more, or a smaller --length")
    last = array.size - length
    starts = [*range(0, last, stride), last]
    windows = np.stack([array[start : start + length] for start in starts])
    labels = np.full(windows.shape, NOT_COUNTED)
    done = 1  # tokens that were predicted; the first has nothing before it
    for number, start in enumerate(starts):
        labels[number, max(done, start + 1) - start - 1 : -1] = array[max(done, start + 1) : start + length]
        done = start + length
    return windows, labels
