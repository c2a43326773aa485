"""The cache of compiled programs: a folder of program files, each named by a hash of everything that determines it.

Beside them it keeps texts: the linalg of graphs that torch.compile traced, and how programs read what is kept for them;
and notes of the hashes of models.

Processes share the folder without locks: a file appears complete, by a rename, and equal keys have equal contents. If
the folder or a file in it is damaged, not writable or full, compilation takes longer, but does not fail.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import stat
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from numc.compiler.cache.file_hashes import hash_of, noted_hash, on_all_cpus, stamp
from numc.compiler.options import Options
from numc.frontends.imported import Imported
from numc.runtime.container import VERSION, Contents, Description, read_description, read_open_program, write_program
from numc.support.arguments import Fixed
from numc.support.errors import NumcError, quoted
from numc.support.files import TEMPORARY, copy_whole, write_whole
from numc.support.json_values import parsed
from numc.support.switches import switched_off
from numc.support.versions import own_folder, version_of

if TYPE_CHECKING:
    import numpy.typing as npt

_T = TypeVar("_T")

_DEFAULT_SIZE = 2 << 30
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
ROOFLINE = "roofline.json"
"""The file of the folder that keeps what this machine can reach (studies/profile/roofline.py)."""
_NAME = re.compile(rf"[0-9a-f]{{64}}\.(numc|json|text|note)|{re.escape(ROOFLINE)}")
_DIGEST = 32
"""The bytes of the hash before a text."""
_ABANDONED = 3600.0  # seconds after which the writer of a temporary file is assumed to have died


def folder() -> Path | None:
    """Return NUMC_CACHE_DIR, or ``numc`` in the user's cache folder (XDG); None if the user has no home folder."""
    if configured := os.environ.get("NUMC_CACHE_DIR"):
        return Path(configured)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification says to ignore a relative path
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base, "numc") if os.path.isabs(base) else None


def limit() -> int:
    """Return the largest size of the cache in bytes: NUMC_CACHE_SIZE, 2 GiB by default; 0 means no cache.

    Raises NumcError if NUMC_CACHE_SIZE is not a size.
    """
    text = os.environ.get("NUMC_CACHE_SIZE", "").strip()
    if not text:
        return _DEFAULT_SIZE
    match = re.fullmatch(r"(\d{1,18})([KMGT]?)", text.upper(), re.ASCII)
    if match is None:
        raise NumcError(
            f"NUMC_CACHE_SIZE: got {quoted(text)}, want a number of bytes such as 500M or 2G, or 0 for no cache"
        )
    return int(match[1]) * _UNITS[match[2]]


@dataclass(frozen=True)
class Entry:
    """The two files of one program: ``KEY.numc``, and ``KEY.json`` with its hash and those of external weight files.

    ``KEY.json`` has the stamp of the program file, too, which is not hashed again while it has that one. Its own time
    is when the program was last used.
    """

    program: Path

    @property
    def about(self) -> Path:
        """The file ``KEY.json``."""
        return self.program.with_suffix(".json")

    def load(self) -> Contents | None:
        """Return the program, or None if the cache does not have it. A damaged entry is removed."""
        if (opened := self._read(read_open_program)) is None:
            return None
        file, (contents, _) = opened
        file.close()
        return contents

    def copy(self, path: Path) -> Description | None:
        """Write the program file to `path`, and return what it says; None if the cache does not have it.

        A damaged entry is removed. Raises NumcError if `path` cannot be written.
        """
        if (opened := self._read(read_description)) is None:
            return None
        file, description = opened
        with file:
            copy_whole(file, path)
        return description

    def _read(self, read: Callable[[int, Path], _T]) -> tuple[IO[bytes], _T] | None:
        """Return the program file, open, and what `read` reads from it."""
        try:
            about = parsed(self.about.read_text(encoding="utf-8"))
            directory = self.program.parent
            if any(noted_hash(name, directory) != digest for name, digest in about["files"].items()):
                return None  # a file of weights beside the model has changed
            with contextlib.ExitStack() as opened:
                file = opened.enter_context(open(self.program, "rb"))
                self._check(file, about)
                content = read(file.fileno(), self.program)
                opened.pop_all()
            return file, content
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, NumcError):
            _remove([self.about, self.program])
            return None

    def _check(self, file: IO[bytes], about: dict[str, Any]) -> None:
        """Raise ValueError if the program file is not what was stored; note that it is used."""
        now = stamp(file)
        known = about["stamp"] == list(now)
        if not known and hash_of(file) != about["sha256"]:
            raise ValueError("damaged")
        with contextlib.suppress(OSError, NumcError):  # a cache that cannot be written still serves
            if known:
                os.utime(self.about)
            else:
                self._describe({**about, "stamp": now})

    def store(self, contents: Contents) -> None:
        """Store a program, then remove the least recently used ones until all fit. A failure to write is ignored."""
        directory = self.program.parent
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The first source is the model, whose hash is in the key.
            files = {name: noted_hash(name, directory) for name in contents.manifest["sources"][1:]}
            write_program(self.program, contents)
            with open(self.program, "rb") as file:
                about = {"stamp": stamp(file), "sha256": hash_of(file), "files": files}
            about |= {name: contents.manifest[name] for name in ("sources", "fma", "ops", "target")}
            self._describe(about)
            _evict(directory, limit())
        except (OSError, NumcError):
            _remove([self.about, self.program])

    def _describe(self, about: Mapping[str, Any]) -> None:
        text = json.dumps(about).encode()
        write_whole(self.about, lambda file: file.write(text))


def entry(source: str | os.PathLike[str] | Imported, options: Options, shapes: Fixed | None) -> Entry | None:
    """Return the entry for a model, a file or imported text, under these options; None if nothing is to be cached.

    Raises NumcError for unknown options, a bad NUMC_CACHE_SIZE, a bad NUMC_DISABLE, or a folder that is not safe.
    """
    directory = folder()
    if limit() == 0 or directory is None:
        return None
    _check_safe(directory)
    policy, target = options.resolved()
    hashed = hashlib.sha256()
    if isinstance(source, Imported):
        named = [sorted(names.items()) for names in (source.nodes, source.roles, source.ranges, source.updates)]
        named += [sorted(formats.items()) for formats in (source.stored_inputs, source.stored_outputs)]
        what = [source.mlir, *source.sources, repr((source.inputs, source.outputs, named, source.quantised))]
        digests = on_all_cpus(_array_hash, [weight for _, weight in source.weights.values()])
        what += [
            f"{n} {name} {w.dtype} {w.shape} {digest}"
            for (n, (name, w)), digest in zip(source.weights.items(), digests, strict=True)
        ]
    else:
        what = [os.fspath(source)]
        try:
            what.append(noted_hash(source, directory))
        except (OSError, ValueError):
            return None  # reading the model reports the error
    fixed = {
        name: list(value) if isinstance(value, tuple) else [str(value.dtype), value.tolist()]
        for name, value in sorted((shapes or {}).items())
    }
    made_by = [VERSION, own_sources(), *map(version_of, target.code_packages), version_of("onnx")]
    # Lines too: the table of layers in a program names the line of each rule.
    arithmetic = [str(policy), [rule.line for rule in policy.rules], policy.strict]
    how = [options.fast, options.pack_weights, options.statistics, options.calibration]
    how += [options.respect_dtypes, options.streams, sorted(switched_off())]
    chosen = [arithmetic, target.name, *how, fixed]
    hashed.update(json.dumps([what, chosen, made_by]).encode())
    return Entry(directory / f"{hashed.hexdigest()}.numc")


def through(found: Entry | None, make: Callable[[], Contents]) -> tuple[Contents, bool]:
    """Return what the cache has under an entry, and True; else what `make` makes, which is stored, and False.

    Without an entry, everything is made.
    """
    if found is not None and (known := found.load()) is not None:
        return known, True
    made = make()
    if found is not None:
        found.store(made)
    return made, False


def text_of(described: str, make: Callable[[], str]) -> str:
    """Return the text that `make` makes of what is described, or what the cache has kept of it.

    A damaged file is replaced, and a failure to write one is ignored. Raises NumcError for a bad NUMC_CACHE_SIZE, and
    for a folder that is not safe.
    """
    directory = folder()
    if limit() == 0 or directory is None:
        return make()
    _check_safe(directory)
    made_by = [VERSION, own_sources(), version_of("torch-mlir"), version_of("torch")]
    key = hashlib.sha256(json.dumps([described, made_by, sorted(switched_off())]).encode()).hexdigest()
    path = directory / f"{key}.text"
    with contextlib.suppress(OSError, ValueError, zlib.error):
        packed = path.read_bytes()
        if hashlib.sha256(packed[_DIGEST:]).digest() == packed[:_DIGEST]:
            with contextlib.suppress(OSError):
                os.utime(path)
            return zlib.decompress(packed[_DIGEST:]).decode()
    text = make()
    packed = zlib.compress(text.encode(), 1)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, lambda file: file.write(hashlib.sha256(packed).digest() + packed))
        _evict(directory, limit())
    except (OSError, NumcError):
        _remove([path])
    return text


def _check_safe(place: Path) -> None:
    """Raise NumcError if others than this user and root can put files, which would be executed, into the folder.

    Who may write to a folder on the way to it could replace it; only those are safe that have the sticky bit, as /tmp.
    """
    try:
        status = place.stat()
    except OSError:
        return  # it will be made for this user alone, or cannot be read at all
    if status.st_uid not in (0, os.geteuid()):
        what = f"it belongs to user {status.st_uid}"
    elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        what = f"others may write to it (mode {stat.S_IMODE(status.st_mode):o})"
    else:
        return
    raise NumcError(
        f"cache folder {place}: {what}, and what is in it would be executed: chmod go-w, name another folder with "
        "NUMC_CACHE_DIR, or set NUMC_CACHE_SIZE=0 for no cache"
    )


@functools.cache
def own_sources() -> str:
    """Return a hash of numc's own Python files and grammars, so that a changed compiler does not use old programs."""
    hashed = hashlib.sha256()
    root = own_folder()
    for where, folders, names in os.walk(root, followlinks=True):
        folders.sort()
        below = os.path.relpath(where, root)
        for name in sorted(names):
            if name.endswith((".py", ".lark")):
                hashed.update(f"{below}/{name}\0".encode())
                with open(os.path.join(where, name), "rb", buffering=0) as file:
                    hashed.update(hashlib.sha256(file.read()).digest())
    return hashed.hexdigest()


def _array_hash(array: npt.NDArray[Any]) -> str:
    import numpy as np

    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()


def _files(place: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files of the cache; a file that another process removes meanwhile is left out."""
    with contextlib.suppress(OSError), os.scandir(place) as listing:
        for item in listing:
            if _NAME.fullmatch(item.name) or TEMPORARY.fullmatch(item.name):
                with contextlib.suppress(OSError):
                    yield Path(item.path), item.stat()


def _evict(place: Path, most: int) -> None:
    files = list(_files(place))
    _remove(p for p, status in files if p.name[0] == "." and status.st_mtime < time.time() - _ABANDONED)
    # A process that has mapped a program keeps it: the system frees the file when the last one closes it.
    total = sum(status.st_size for _, status in files)
    times = {path: status.st_mtime_ns for path, status in files}
    kept = (
        (times.get(path.with_suffix(".json"), times[path]), path, status.st_size)
        for path, status in files
        if path.suffix in (".numc", ".text", ".note")
    )
    for _, path, size in sorted(kept):
        if total <= most:
            break
        _remove([path.with_suffix(".json"), path] if path.suffix == ".numc" else [path])
        total -= size


def info() -> dict[str, Any]:
    """Return the folder, the limit and the size in bytes, and the programs, the most recently used first."""
    directory = folder()
    files = list(_files(directory)) if directory is not None else []
    rows = []
    for path, status in files:
        if path.suffix != ".numc":
            continue
        try:
            described = path.with_suffix(".json")
            about, used = parsed(described.read_text(encoding="utf-8")), described.stat().st_mtime
            row = {"model": about["sources"][0], "fma": about["fma"], "ops": about["ops"], "target": about["target"]}
        except (OSError, ValueError, KeyError, IndexError, TypeError):
            continue
        rows.append({**row, "bytes": status.st_size, "used": used})
    rows.sort(key=lambda row: -row["used"])
    return {
        "folder": None if directory is None else str(directory),
        "limit": limit(),
        "bytes": sum(status.st_size for _, status in files),
        "programs": rows,
    }


def clear() -> tuple[int, int]:
    """Remove all programs; return their number and the number of bytes freed. Raises NumcError if files remain."""
    directory = folder()
    files = list(_files(directory)) if directory is not None else []
    _remove(path for path, _ in files)
    left = [path for path, _ in files if path.exists()]
    if left:
        raise NumcError(f"{directory}: cannot remove {len(left)} files: permission denied: remove the folder yourself")
    return sum(path.suffix == ".numc" for path, _ in files), sum(status.st_size for _, status in files)
