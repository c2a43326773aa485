"""Hashes of files, and notes of them: a large file that has not changed since its hash was noted is not read again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

from numc.runtime.library import default_threads
from numc.support.errors import NumcError
from numc.support.files import write_whole
from numc.support.json_values import parsed

_T = TypeVar("_T")
_U = TypeVar("_U")

_PIECE = 16 << 20
"""The bytes of a file that one CPU hashes at a time."""
_NOTED = 1 << 20
"""The bytes from which on a file is worth a note."""
_SETTLED = 60 * 10**9
"""The nanoseconds for which a file has not changed when it gets a note: a change has another time than the one before,
however coarse the clock is, and the system has written the file out."""


class Stamp(NamedTuple):
    """The size and times of a file, in bytes and nanoseconds; only the system itself sets the time `changed`."""

    size: int
    modified: int
    changed: int
    inode: int
    device: int


def stamp(file: IO[bytes]) -> Stamp:
    """Return the stamp of an open file."""
    status = os.fstat(file.fileno())
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)


def hash_of(file: IO[bytes]) -> str:
    """Return the hash of the hashes of a file's pieces, which all CPUs compute."""
    number = file.fileno()
    pieces = range(0, os.fstat(number).st_size, _PIECE)
    digests = on_all_cpus(lambda start: hashlib.sha256(os.pread(number, _PIECE, start)).digest(), pieces)
    return hashlib.sha256(b"".join(digests)).hexdigest()


def noted_hash(path: str | os.PathLike[str], notes: Path) -> str:
    """Return the hash of a file from the note in the folder `notes`, if it fits; otherwise compute and note it.

    Only files on a disk of this machine are noted: of others, the time of a change may be that of another clock, and in
    a file system in memory a process that has mapped a file can change it without changing its times.
    Raises OSError if the file cannot be read, and ValueError for a name that no file has.
    """
    with open(path, "rb") as file:
        before = stamp(file)
        if before.size < _NOTED or not os.major(before.device):
            return hash_of(file)
        note = notes / f"{hashlib.sha256(os.path.abspath(os.fsencode(path))).hexdigest()}.note"
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            content = parsed(note.read_text(encoding="utf-8"))
            if content["stamp"] == list(before):
                with contextlib.suppress(OSError):  # a cache that cannot be written still serves
                    os.utime(note)
                return str(content["sha256"])
        settled = time.time_ns() - before.changed > _SETTLED
        if settled:
            # A process that has mapped the file changes its time when it changes a page that was written out, only.
            os.fdatasync(file.fileno())
        digest = hash_of(file)
        if settled and stamp(file) == before:
            text = json.dumps({"stamp": before, "sha256": digest}).encode()
            with contextlib.suppress(OSError, NumcError):
                notes.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_whole(note, lambda out: out.write(text))
        return digest


def on_all_cpus(function: Callable[[_T], _U], items: Collection[_T]) -> list[_U]:
    """Map a function that works without Python's lock."""
    if len(items) < 2:
        return [function(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(default_threads()) as pool:
        return list(pool.map(function, items))
