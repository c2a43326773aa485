"""Reading files that users name, and writing files so that a failure leaves no incomplete file."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from numc.support.errors import NumcError, shortened


def checked_path(name: object) -> Path:
    """Return the path of a file that a user names, which need not be there.

    Raises NumcError for what no file can be called by: another type, a NUL, characters that the system cannot encode.
    """
    if not isinstance(name, (str, os.PathLike)):
        raise NumcError(f"got {type(name).__name__} for the name of a file: want a text or a path")
    try:
        path = Path(name)
        if b"\0" in os.fsencode(path):
            raise ValueError
    except (TypeError, ValueError):  # TypeError: a path of bytes
        raise NumcError(f"'{shortened(name, 300)}': no file has such a name: name another one") from None
    return path


GGUF = ".gguf"

#: The names of files that write_whole has not completed. Only a writer that was killed leaves one.
TEMPORARY = re.compile(r"\.numc-[0-9a-f]{16}\.tmp")


def check_writable(path: Path) -> None:
    """Raise NumcError if no file can be created at `path`. Commands call this before work that takes long."""
    folder = checked_path(path).parent
    if path.is_dir():
        raise NumcError(f"{path}: is a folder: name a file for the output")
    if not folder.is_dir():
        raise NumcError(f"{path}: cannot write: there is no folder {folder}: create it first")
    if not os.access(folder, os.W_OK | os.X_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise NumcError(f"{path}: cannot write: {why_not(folder)}: name another place for the output")


def why_not(folder: Path) -> str:
    """Return why nothing can be written in a folder that is there."""
    is_read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
    return "its file system is read-only" if is_read_only else "permission denied"


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` fill a temporary file, which replaces `path` when it is complete. Raises NumcError if it cannot."""
    try:
        if path.exists() and not path.is_file():  # a device such as /dev/null cannot be replaced
            with open(path, "wb") as stream:
                write(stream)
            return
        temporary = path.with_name(f".numc-{os.urandom(8).hex()}.tmp")
        try:
            with open(temporary, "xb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise NumcError(f"{path}: cannot write: {error.strerror or error}") from None


def check_new_folder(path: Path) -> None:
    """Raise NumcError if no new folder can be made at `path`; one that is empty can be replaced."""
    path = checked_path(path)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise NumcError(f"{path}: exists: name a new folder for the output")
    if not path.parent.is_dir():
        raise NumcError(f"{path}: cannot write: there is no folder {path.parent}: create it first")


def write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a new folder, which appears when all of them are complete. Raises NumcError if it cannot."""
    check_new_folder(path)
    temporary = path.with_name(f".numc-{os.urandom(8).hex()}.tmp")
    try:
        temporary.mkdir()
        for name, content in files.items():
            (temporary / name).write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        raise NumcError(f"{path}: cannot write: {error.strerror or error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def copy_whole(file: IO[bytes], path: Path) -> None:
    """Let what an open file holds replace `path` when the copy is complete. Raises NumcError if it cannot."""
    size = os.fstat(file.fileno()).st_size

    def write(copy: IO[bytes]) -> None:
        done = 0
        # The system copies, or shares blocks where the file system can.
        with contextlib.suppress(AttributeError, OSError):  # Python or the system cannot, here
            while count := os.copy_file_range(file.fileno(), copy.fileno(), size - done, done):
                done += count
        file.seek(done)
        shutil.copyfileobj(file, copy, 1 << 20)
        if file.tell() != size:
            raise OSError(errno.EIO, "the file that is copied became shorter")

    write_whole(path, write)


def read_bytes(path: str, offset: int, size: int) -> memoryview:
    """Return bytes of a file, which are read, not mapped: a mapped file that became shorter would end the process.

    Raises NumcError if they cannot be read.
    """
    # Memory that is not filled twice.
    buffer, done = memoryview(mmap.mmap(-1, max(1, size), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))[:size], 0
    try:
        with open(path, "rb", buffering=0) as file:
            while done < size:
                count = os.preadv(file.fileno(), [buffer[done:]], offset + done)
                if not count:
                    raise OSError(errno.EIO, "it became shorter while it was read")
                done += count
    except OSError as error:
        raise NumcError(f"{path}: cannot read: {error.strerror or error}") from None
    return buffer.toreadonly()


def keep(texts: Mapping[str, str]) -> Path:
    """Write texts about a failure, by file name, into a new folder among the system's temporary ones; return it.

    Raises OSError if there is no place for it.
    """
    folder = Path(tempfile.mkdtemp(prefix="numc-failure-"))
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
    return folder


def is_language_model(model: object) -> bool:
    """Whether a model is the name of a folder or of a GGUF file, which hold language models."""
    if not isinstance(model, (str, os.PathLike)):
        return False
    return os.path.isdir(model) or os.fspath(model).endswith(GGUF)
