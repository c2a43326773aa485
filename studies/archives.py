"""Archives of numpy that would expand to more than anybody who compressed arrays means."""

from __future__ import annotations

import zipfile
from pathlib import Path

from numc.support.errors import NumcError

_RATIO = 100  # by which arrays of a network become smaller at most, unless nearly all of it is one value
_ANY = 256 << 20  # bytes to which a file may expand, however small it is


def check_expansion(path: Path) -> None:
    """Raise NumcError for an .npz file that says that it holds far more than it has; other files are left alone."""
    try:
        with zipfile.ZipFile(path) as archive:
            held = sum(entry.file_size for entry in archive.infolist())
    except Exception:  # no archive: who reads it says so, in its own words
        return
    size = path.stat().st_size
    if held > max(_ANY, _RATIO * size):
        raise NumcError(
            f"{path}: has {size / 1e6:.3g} MB and says that it expands to {held / 1e6:.3g} MB: at most {_RATIO} times "
            f"its size, or {_ANY >> 20} MiB, is read: save it with numpy.savez, which does not compress"
        )
