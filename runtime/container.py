"""The program file: code, weights and their description. runtime/src/program/container.hpp defines the layout."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from numc.compiler.support.errors import NumcError, did_you_mean
from numc.runtime.library import MAX_RANK, feature_names
from numc.runtime.storage import Storage, read_storage

MAGIC = b"NUMC\r\n\x1a\n"
VERSION = 1
_HEADER = struct.Struct("<8sIIQI36x")
_CHECKSUM_AT = 24
_ENTRY = struct.Struct("<24sQQII")
_PAGE = 4096
_WEIGHT_ALIGNMENT = 64
# Kinds of arguments in a file; 0 is an input.
_WEIGHT, _STORED = 1, 2
# In the order of numc_dtype (numc.h).
DTYPES: tuple[str, ...] = ("float32", "float64", "bool", "int8", "int16", "int32", "int64", "uint8")

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TensorSpec:
    """Name, dtype (one of DTYPES) and shape of a tensor. The caller chooses the size of a dimension that is None."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join('?' if d is None else str(d) for d in self.shape)}]"


@dataclass(frozen=True)
class Input(TensorSpec):
    """An argument of the entry that the caller passes."""


@dataclass(frozen=True)
class Weight(TensorSpec):
    """An argument of the entry that the program file holds; its shape has no free dimension.

    storage: None, or how the file holds it in fewer bytes: its array in Contents is these bytes.
    """

    storage: Storage | None = None

    @property
    def nbytes(self) -> int:
        """The size in bytes that the weight has in memory."""
        return int(np.prod([d or 0 for d in self.shape], dtype=np.int64)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Abi:
    """What the runtime needs to call the code: the entry `void f(void **args)`, its arguments in order, its results."""

    entry: str
    arguments: tuple[Input | Weight, ...]
    results: tuple[TensorSpec, ...]
    features: frozenset[str] = frozenset()
    target: str = ""
    # By number: result -> the input whose memory it may overwrite.
    updates: Mapping[int, int] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[Input, ...]:
        return tuple(a for a in self.arguments if isinstance(a, Input))

    @property
    def weights(self) -> tuple[Weight, ...]:
        return tuple(a for a in self.arguments if isinstance(a, Weight))


@dataclass(frozen=True)
class Contents:
    """All parts of a program file, which write_program writes and read_program reads. Weights: as in abi.weights."""

    abi: Abi
    code: bytes
    weights: tuple[Array, ...]
    manifest: dict[str, Any]
    ir: str = ""


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<I", len(data)) + data


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def feature_bits(features: Iterable[str]) -> int:
    """Return the bit set of features, given their names. Raises NumcError for an unknown name."""
    names, bits = feature_names(), 0
    for feature in sorted(features):
        if feature not in names:
            known = ", ".join(names)
            raise NumcError(f"CPU feature '{feature}' is unknown{did_you_mean(feature, names)}: one of {known}")
        bits |= 1 << names.index(feature)
    return bits


def _value(spec: TensorSpec, kind: int) -> bytes:
    if spec.dtype not in DTYPES:
        raise NumcError(f"'{spec.name}': dtype {spec.dtype} is not one of {', '.join(DTYPES)}")
    if len(spec.shape) > MAX_RANK:
        raise NumcError(f"'{spec.name}': rank {len(spec.shape)}, at most {MAX_RANK} is supported")
    head = struct.pack("<BBBB", kind, DTYPES.index(spec.dtype), len(spec.shape), 0)
    return head + struct.pack(f"<{len(spec.shape)}q", *(-1 if d is None else d for d in spec.shape))


def weight_offsets(weights: Sequence[Array]) -> tuple[list[int], int]:
    """Return the offset in bytes of each weight in the weights section, and the size of the section."""
    offsets, end = [], 0
    for weight in weights:
        offsets.append(_aligned(end, _WEIGHT_ALIGNMENT))
        end = offsets[-1] + weight.nbytes
    return offsets, end


def encode_abi(abi: Abi, weights: Sequence[Array]) -> bytes:
    """Return the `abi` section. Raises NumcError for what it cannot hold and for weights that do not fit it."""
    if len(weights) != len(abi.weights):
        raise NumcError(f"program: got {len(weights)} weights, want {len(abi.weights)}")
    offsets = iter(zip(weight_offsets(weights)[0], weights, strict=True))
    parts = [struct.pack("<IQ", 1, feature_bits(abi.features)), _text(abi.entry), _text(abi.target)]
    parts.append(struct.pack("<II", len(abi.arguments), len(abi.results)))
    for argument in abi.arguments:
        offset = kind = size = 0
        storage = None
        if isinstance(argument, Weight):
            offset, array = next(offsets)
            size, storage = array.nbytes, argument.storage
            kind = _WEIGHT if storage is None else _STORED
            want: TensorSpec = argument
            if storage is not None:
                want = TensorSpec(argument.name, "uint8", (storage.stored_bytes,))
            if array.dtype.name != want.dtype or array.shape != want.shape:
                got = TensorSpec(argument.name, array.dtype.name, array.shape)
                raise NumcError(f"weight '{argument.name}': got {got}, want {want}")
        parts += [_value(argument, kind), struct.pack("<QQ", offset, size), _text(argument.name)]
        if storage is not None:
            parts.append(storage.record())
    for result in abi.results:
        parts += [_value(result, 0), _text(result.name)]
    if abi.updates:
        parts += [struct.pack("<I", len(abi.updates)), *(struct.pack("<II", *pair) for pair in abi.updates.items())]
    return b"".join(parts)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file, which replaces `path` on success and is deleted otherwise."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:64]}.", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            # mkstemp makes files private, but a program gets the permissions of any output file.
            os.chmod(temporary, 0o666 & ~umask)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise NumcError(f"'{path}': cannot be written ({error.strerror or error}): nothing was changed") from None


def write_program(path: str | os.PathLike[str], contents: Contents) -> None:
    """Write a program file, completely or not at all: an existing file is replaced only by a complete one.

    Raises NumcError when the disk is full, the folder is not writable, or the weights do not fit the description.
    """
    weights = [np.ascontiguousarray(w) if w.ndim else w for w in contents.weights]
    offsets, weights_size = weight_offsets(weights)
    small = {
        "abi": encode_abi(contents.abi, weights),
        "code": contents.code,
        "manifest": json.dumps(contents.manifest, ensure_ascii=False, sort_keys=True).encode(),
        "ir": zlib.compress(contents.ir.encode(), 6),
    }
    cursor = _HEADER.size + _ENTRY.size * (len(small) + 1)
    entries, places = b"", []
    for name, data in small.items():
        cursor = _aligned(cursor, 64)
        entries += _ENTRY.pack(name.encode(), cursor, len(data), zlib.crc32(data), 1)
        places.append((cursor, data))
        cursor += len(data)
    weights_at = _aligned(cursor, _PAGE)
    entries += _ENTRY.pack(b"weights", weights_at, weights_size, 0, 0)
    end = weights_at + weights_size
    header = _HEADER.pack(MAGIC, VERSION, len(small) + 1, end, 0)
    header = _HEADER.pack(MAGIC, VERSION, len(small) + 1, end, zlib.crc32(entries, zlib.crc32(header)))
    with _replacing(Path(path)) as file:
        file.write(header + entries)
        for at, data in places:
            file.seek(at)
            file.write(data)
        for offset, weight in zip(offsets, weights, strict=True):
            file.seek(weights_at + offset)
            file.write(weight.data)
        file.truncate(end)


class _Cursor:
    """Reads numbers and texts from a section, one after the other. Raises NumcError if the section ends early."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def unpack(self, form: str) -> tuple[Any, ...]:
        layout = struct.Struct("<" + form)
        values = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return values

    def text(self) -> str:
        (size,) = self.unpack("I")
        return bytes(self.unpack(f"{size}s")[0]).decode()


def _decode_value(cursor: _Cursor) -> tuple[int, str, tuple[int | None, ...]]:
    kind, dtype, rank, _ = cursor.unpack("BBBB")
    dims = cursor.unpack(f"{rank}q")
    return kind, DTYPES[dtype], tuple(None if d < 0 else d for d in dims)


def decode_abi(data: bytes) -> tuple[Abi, list[int]]:
    """Decode an `abi` section, which the runtime has checked: returns the Abi and the offset of each weight."""
    cursor = _Cursor(data)
    _, bits = cursor.unpack("IQ")
    entry, target = cursor.text(), cursor.text()
    argument_count, result_count = cursor.unpack("II")
    arguments: list[Input | Weight] = []
    results, offsets = [], []
    for _ in range(argument_count):
        kind, dtype, shape = _decode_value(cursor)
        offset, size = cursor.unpack("QQ")
        name = cursor.text()
        if not kind:
            arguments.append(Input(name, dtype, shape))
            continue
        weight = Weight(name, dtype, shape)
        if kind == _STORED:
            weight = replace(weight, storage=read_storage(cursor.unpack, size, weight.nbytes // 4))
        arguments.append(weight)
        offsets.append(offset)
    for _ in range(result_count):
        _, dtype, shape = _decode_value(cursor)
        results.append(TensorSpec(cursor.text(), dtype, shape))
    features = frozenset(name for bit, name in enumerate(feature_names()) if bits >> bit & 1)
    updates = {}
    if cursor.at < len(data):
        (pairs,) = cursor.unpack("I")
        updates = dict(cursor.unpack("II") for _ in range(pairs))
    return Abi(entry, tuple(arguments), tuple(results), features, target, updates), offsets


def _sections(path: Path, data: mmap.mmap) -> dict[str, tuple[int, int]]:
    """Return offset and size of each section, after a check of all checksums."""
    if data[: len(MAGIC)] != MAGIC:
        if data[:4] == MAGIC[:4]:
            raise NumcError(f"'{path}': damaged program file (header; was it transferred as text, or cut off?)")
        raise NumcError(f"'{path}': not a numc program file")
    _, version, count, size, checksum = _HEADER.unpack(data[: _HEADER.size])
    if version != VERSION:
        found = f"program file of version {version}"
        raise NumcError(f"'{path}': {found}, this numc reads version {VERSION}: compile it again")
    if size != len(data):
        raise NumcError(f"'{path}': damaged program file (got {len(data)} bytes of {size})")
    table = data[_HEADER.size : _HEADER.size + _ENTRY.size * count]
    blank = data[:_CHECKSUM_AT] + bytes(4) + data[_CHECKSUM_AT + 4 : _HEADER.size]
    if zlib.crc32(table, zlib.crc32(blank)) != checksum:
        raise NumcError(f"'{path}': damaged program file (checksum of the header)")
    sections = {}
    for raw, offset, length, crc, summed in _ENTRY.iter_unpack(table):
        name = raw.rstrip(b"\0").decode("utf-8", "replace")
        if offset + length > size or (summed and zlib.crc32(data[offset : offset + length]) != crc):
            raise NumcError(f"'{path}': damaged program file (checksum of section {name})")
        sections[name] = (offset, length)
    for name in ("abi", "code", "weights", "manifest", "ir"):
        if name not in sections:
            raise NumcError(f"'{path}': damaged program file (no section {name})")
    return sections


def read_program(path: str | os.PathLike[str]) -> Contents:
    """Read a program file without loading its code. The weights are read-only views of the mapped file.

    Raises NumcError (one line) when it cannot be opened, is cut off, damaged, or no program file.
    """
    path = Path(path)
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size < _HEADER.size:
                raise NumcError(f"'{path}': not a numc program file")
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise NumcError(f"'{path}': {error.strerror or error}") from None
    found = _sections(path, data)

    def section(name: str) -> bytes:
        offset, length = found[name]
        return data[offset : offset + length]

    try:
        abi, offsets = decode_abi(section("abi"))
        manifest = json.loads(section("manifest"))
        if not isinstance(manifest, dict):
            raise ValueError("manifest is no object")
        ir = zlib.decompress(section("ir")).decode()
        start, length = found["weights"]
        weights = []
        for spec, offset in zip(abi.weights, offsets, strict=True):
            shape, dtype = tuple(d or 0 for d in spec.shape), spec.dtype
            if spec.storage is not None:
                shape, dtype = (spec.storage.stored_bytes,), "uint8"
            count = int(np.prod(shape, dtype=np.int64))
            if offset + count * np.dtype(dtype).itemsize > length:
                raise ValueError(f"weight '{spec.name}' is not in it")
            view = np.frombuffer(data, dtype, count, start + offset) if count else np.empty(0, dtype)
            weights.append(view.reshape(shape))
    except (ValueError, IndexError, OverflowError, MemoryError, struct.error, zlib.error) as error:
        what = " ".join(str(error).split())  # names in a damaged file may hold line breaks
        raise NumcError(f"'{path}': damaged program file ({what})") from None
    return Contents(abi, section("code"), tuple(weights), manifest, ir)
