"""The program file: code, weights and their description. runtime/src/program/container.hpp defines the layout."""

from __future__ import annotations

import contextlib
import hashlib
import math
import mmap
import os
import stat
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from numc.runtime.abi import WEIGHT_ALIGNMENT, Abi, aligned, decode_abi, encode_abi, weight_offsets
from numc.runtime.manifest import decode_manifest, encode_manifest
from numc.runtime.signature import Signer, Verifier
from numc.runtime.signature import verifier as verifier_of
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError
from numc.support.files import write_whole

if TYPE_CHECKING:  # numpy is imported only where there are arrays: a program in the cache is copied without it
    from numc.runtime.abi import Array

MAGIC = b"NUMC\r\n\x1a\n"
VERSION = 7
_HEADER = struct.Struct("<8sIIQI36x")
_CHECKSUM_AT = 24
_ENTRY = struct.Struct("<24sQQII")
_MAX_SECTIONS = 64
_PAGE = 4096
SIGNATURE_BYTES = 64
MAX_IR = 1 << 28
"""The largest size of the text of the IR, in bytes."""


@dataclass(frozen=True)
class Description:
    """The description of a program in its file, without its code and its weights."""

    abi: Abi
    manifest: dict[str, Any]
    code_bytes: int


@dataclass(frozen=True)
class Contents:
    """All parts of a program file, which write_program writes and read_program reads.

    weights: as in abi.weights. packed_ir: the IR as pack_ir makes it.
    """

    abi: Abi
    code: bytes
    weights: tuple[Array, ...]
    manifest: dict[str, Any]
    packed_ir: bytes = b""

    @property
    def description(self) -> Description:
        """The description in a program file of these contents."""
        return Description(self.abi, self.manifest, len(self.code))

    @property
    def ir(self) -> str:
        """The IR after the stage ``numc``, expanded in every use. Raises NumcError if it is damaged or too long."""
        if not self.packed_ir:
            return ""
        try:
            expander = zlib.decompressobj()
            text = expander.decompress(self.packed_ir, MAX_IR)
            if not expander.eof:
                what = f"is longer than {MAX_IR >> 20} MiB" if len(text) == MAX_IR else "ends early"
                raise NumcError(f"program: its IR {what}: the file is damaged")
            return text.decode()
        except (zlib.error, ValueError) as error:
            raise NumcError(f"program: its IR is damaged ({error})") from None


def pack_ir(text: str) -> bytes:
    """Return the IR as program files hold it."""
    return zlib.compress(text.encode(), 6)


@in_default_environment
def write_program(path: str | os.PathLike[str], contents: Contents, sign: Signer | None = None) -> None:
    """Write a program file, completely or not at all: an existing file is replaced only by a complete one.

    sign: signature.signer of a private key, which signs the file. Raises NumcError when the disk is full, the folder is
    not writable, or the weights do not fit the description.
    """
    parts = _parts(contents, sign is not None)

    def write(file: IO[bytes]) -> None:
        if sign is None:
            file.writelines(parts)
            return
        whole = b"".join(parts)
        file.writelines((whole, sign(whole)))

    write_whole(Path(path), write)


def _parts(contents: Contents, signed: bool) -> Iterator[bytes | memoryview]:
    """Return the bytes of a program file, except for the signature. Raises NumcError for contents that do not fit."""
    import numpy as np

    weights = [np.ascontiguousarray(w) if w.ndim else w for w in contents.weights]
    in_section, weights_size = weight_places(weights)
    sections = {
        "abi": encode_abi(contents.abi, weights),
        "code": contents.code,
        "manifest": encode_manifest(contents.manifest),
        "ir": contents.packed_ir,
    }
    count = len(sections) + (2 if signed else 1)
    end = _HEADER.size + _ENTRY.size * count
    entries, places = b"", []
    for name, data in sections.items():
        at = aligned(end, 64)
        entries += _ENTRY.pack(name.encode(), at, len(data), zlib.crc32(data), 1)
        places.append((at, memoryview(data)))
        end = at + len(data)
    at = aligned(end, _PAGE)
    entries += _ENTRY.pack(b"weights", at, weights_size, 0, 0)
    places += [(at + offset, data) for offset, data in in_section]
    end = at + weights_size
    size = end + SIGNATURE_BYTES if signed else end
    if signed:
        entries += _ENTRY.pack(b"signature", end, SIGNATURE_BYTES, 0, 0)
    header = _HEADER.pack(MAGIC, VERSION, count, size, 0)
    header = _HEADER.pack(MAGIC, VERSION, count, size, zlib.crc32(entries, zlib.crc32(header)))
    return padded([(0, memoryview(header + entries)), *places], end)


def weight_places(weights: Sequence[Array]) -> tuple[list[tuple[int, memoryview]], int]:
    """Return where each weight, a contiguous array, is in the weights section and its bytes, and the section's size."""
    import numpy as np

    offsets, size = weight_offsets(weights)
    data = (weight.reshape(-1).view(np.uint8).data for weight in weights)
    return list(zip(offsets, data, strict=True)), size


def padded(places: list[tuple[int, memoryview]], end: int) -> Iterator[bytes | memoryview]:
    """Yield data for ascending offsets, with zeros between them and up to the end."""
    cursor = 0
    for at, data in places:
        yield bytes(at - cursor)
        yield data
        cursor = at + len(data)
    yield bytes(end - cursor)


class _File:
    """An open program file. Its weights are mapped, unless the file is copied; every other byte is read once."""

    def __init__(self, descriptor: int, copy: bool) -> None:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NumcError("not a file")
        self._descriptor, self.size = descriptor, status.st_size
        self._copy: memoryview | None = None
        if copy and self.size:
            whole = memoryview(mmap.mmap(-1, self.size))
            self._fill(whole, 0)
            self._copy = whole.toreadonly()

    def _fill(self, buffer: memoryview, offset: int) -> None:
        done = 0
        while done < len(buffer):
            count = os.preadv(self._descriptor, [buffer[done:]], offset + done)
            if count == 0:
                raise _damaged("it became shorter while it was read")
            done += count

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the file, which nobody can change any more."""
        if self._copy is not None:
            return bytes(self._copy[offset : offset + size])
        data = bytearray(size)
        self._fill(memoryview(data), offset)
        return bytes(data)

    def weights(self, offset: int, size: int) -> memoryview:
        """Return the weights section, as large as `size`, at a multiple of a page."""
        if self._copy is not None:
            return self._copy[offset : offset + size]
        return memoryview(mmap.mmap(self._descriptor, size, access=mmap.ACCESS_READ, offset=offset) if size else b"")

    def check_signature(self, fits: Verifier, section: _Section | None) -> None:
        """Check the signature, which is the end of a file that was copied. Raises NumcError if it does not fit."""
        assert self._copy is not None
        if section is None:
            raise NumcError("not signed: sign it (numc compile --sign KEY), or load it without verification")
        if (section.offset, section.size) != (self.size - SIGNATURE_BYTES, SIGNATURE_BYTES):
            raise _damaged("the signature is not at its end")
        if not fits(self._copy[-SIGNATURE_BYTES:], self._copy[:-SIGNATURE_BYTES]):
            raise NumcError("its signature does not fit: it was changed, or signed with another key")


@dataclass(frozen=True)
class _Section:
    offset: int
    size: int
    checksum: int | None


def _damaged(what: str) -> NumcError:
    return NumcError(f"damaged program file ({what})")


def _sections(file: _File) -> dict[str, _Section]:
    """Return the table of sections, after a check of the header."""
    head = file.read(0, min(file.size, _HEADER.size + _ENTRY.size * _MAX_SECTIONS))
    if len(head) < _HEADER.size or not head.startswith(MAGIC):
        if head.startswith(MAGIC[:4]):
            raise _damaged("header; was it transferred as text, or cut off?")
        raise NumcError("not a numc program file")
    _, version, count, size, checksum = _HEADER.unpack_from(head)
    if version != VERSION:
        raise NumcError(f"program file of version {version}, this numc reads version {VERSION}: compile it again")
    if size != file.size:
        raise _damaged(f"got {file.size} bytes of {size}")
    table = head[_HEADER.size : _HEADER.size + _ENTRY.size * count]
    if len(table) != _ENTRY.size * count:
        raise _damaged("section table")
    blank = head[:_CHECKSUM_AT] + bytes(4) + head[_CHECKSUM_AT + 4 : _HEADER.size]
    if zlib.crc32(table, zlib.crc32(blank)) != checksum:
        raise _damaged("checksum of the header")
    sections = {}
    for raw, offset, length, crc, summed in _ENTRY.iter_unpack(table):
        name = raw.rstrip(b"\0").decode("utf-8", "replace")
        if offset + length > size:
            raise _damaged(f"section {name}")
        sections[name] = _Section(offset, length, crc if summed else None)
    for name in ("abi", "code", "weights", "manifest", "ir"):
        if name not in sections:
            raise _damaged(f"no section {name}")
    return sections


def _section(file: _File, sections: Mapping[str, _Section], name: str) -> bytes:
    section = sections[name]
    data = file.read(section.offset, section.size)
    if section.checksum is not None and zlib.crc32(data) != section.checksum:
        raise _damaged(f"checksum of section {name}")
    return data


def _weights(file: _File, section: _Section, abi: Abi, offsets: Sequence[int]) -> Iterator[Array]:
    """Yield the weights as read-only views."""
    import numpy as np

    from numc.numerics.dtypes import BITS_DTYPES

    if section.offset % _PAGE:
        raise _damaged("section weights")
    data = file.weights(section.offset, section.size)
    for spec, offset in zip(abi.weights, offsets, strict=True):
        if spec.dtype in BITS_DTYPES:
            raise ValueError(f"weight '{spec.name}' is {spec.dtype}, of which programs have no weights")
        shape, dtype = tuple(d or 0 for d in spec.shape), np.dtype(spec.dtype)
        if spec.storage is not None:
            shape, dtype = (spec.storage.stored_bytes,), np.dtype(np.uint8)
        end = offset + math.prod(shape) * dtype.itemsize
        if offset % WEIGHT_ALIGNMENT or end > section.size:
            raise _damaged(f"weight '{spec.name}' is not in it")
        yield np.frombuffer(data[offset:end], dtype).reshape(shape) if end > offset else np.empty(shape, dtype)


@contextlib.contextmanager
def _named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Make what goes wrong while a file is read a NumcError of one line that names the file."""
    try:
        yield
    except NumcError as error:
        what = " ".join(str(error).split())  # names in a damaged file may hold line breaks
    except (ValueError, IndexError, OverflowError, struct.error) as error:
        what = " ".join(str(_damaged(str(error))).split())
    except MemoryError:
        what = "there is not enough memory for it"
    except OSError as error:
        what = str(error.strerror or error)
    else:
        return
    raise NumcError(f"'{path}': {what}") from None


def read_open_program(
    descriptor: int, path: str | os.PathLike[str], *, verifier: Verifier | None = None, copy_weights: bool | None = None
) -> tuple[Contents, bytes]:
    """Return what a program file holds, and its `abi` section as it is. For the arguments and errors see read_program.

    descriptor: of the file, open for reading. path: what errors call the file.
    """
    if copy_weights is None:
        copy_weights = os.environ.get("NUMC_COPY_WEIGHTS", "") not in ("", "0")
    with _named(path):
        file = _File(descriptor, copy_weights or verifier is not None)
        sections = _sections(file)
        if verifier is not None:
            file.check_signature(verifier, sections.get("signature"))
        described, code, manifest, ir = (_section(file, sections, n) for n in ("abi", "code", "manifest", "ir"))
        abi, offsets = decode_abi(described)
        weights = tuple(_weights(file, sections["weights"], abi, offsets))
        contents = Contents(abi, code, weights, decode_manifest(manifest), ir)
        if contents.manifest["code"] != hashlib.sha256(code).hexdigest():
            raise _damaged("manifest: it describes other code")
        return contents, described


def read_description(descriptor: int, path: str | os.PathLike[str]) -> Description:
    """Return what a program file says of the program. For the arguments and errors see read_open_program."""
    with _named(path):
        file = _File(descriptor, copy=False)
        sections = _sections(file)
        described, manifest = (_section(file, sections, name) for name in ("abi", "manifest"))
        return Description(decode_abi(described)[0], decode_manifest(manifest), sections["code"].size)


def read_program_and_abi(
    path: str | os.PathLike[str], verify_with: str | os.PathLike[str] | None, copy_weights: bool | None
) -> tuple[Contents, bytes]:
    """Open a file and return what read_open_program returns."""
    verifier = None if verify_with is None else verifier_of(verify_with)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # opening a pipe does not wait
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise NumcError(f"'{path!s}': {getattr(error, 'strerror', None) or error}") from None
    try:
        return read_open_program(descriptor, path, verifier=verifier, copy_weights=copy_weights)
    finally:
        os.close(descriptor)


@in_default_environment
def read_program(
    path: str | os.PathLike[str],
    *,
    verify_with: str | os.PathLike[str] | None = None,
    copy_weights: bool | None = None,
) -> Contents:
    """Read a program file without loading its code. The weights are read-only.

    verify_with: a PEM file with the public key by which the file has to be signed; such a file is copied into memory.
    copy_weights: whether weights are copied into memory, and not mapped; None leaves that to the environment variable
    NUMC_COPY_WEIGHTS. Raises NumcError (one line) when the file cannot be opened, is cut off, damaged, or no program
    file, and when its signature does not fit.
    """
    return read_program_and_abi(path, verify_with, copy_weights)[0]
