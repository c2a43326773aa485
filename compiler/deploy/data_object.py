"""A relocatable ELF object that holds data only: the abi section and the weights of a program, for a linker."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, NamedTuple

ALIGNMENT = 4096
"""Of all data: whole pages, which processes that map the file share."""
_HEADER, _HEADER_BYTES = struct.Struct("<16sHHIQQQIHHHHHH"), 64
_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_IDENT = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")  # 64 bits, little endian
_PROGBITS, _SYMTAB, _STRTAB = 1, 2, 3
_ALLOCATED, _LARGE, _X86_64 = 2, 0x10000000, 62  # SHF_X86_64_LARGE: code need not reach over it
_DATA, _SYMBOLS, _STRINGS = 1, 3, 4  # numbers of sections


class _Section(NamedTuple):
    """A row of the table of sections."""

    name: int = 0
    type: int = 0
    flags: int = 0
    address: int = 0
    offset: int = 0
    size: int = 0
    link: int = 0
    info: int = 0
    alignment: int = 0
    entry: int = 0


class _Symbol(NamedTuple):
    """A row of the table of symbols; 0x11: a global object. other: 2 hides it."""

    name: int = 0
    info: int = 0
    other: int = 0
    section: int = 0
    value: int = 0
    size: int = 0


class _Strings:
    """A section of strings that end with a zero, and where each of them is."""

    def __init__(self, names: Iterable[str]) -> None:
        self.data, self.at = b"\0", dict[str, int]()
        for name in names:
            self.at[name] = len(self.data)
            self.data += name.encode() + b"\0"


def write_data_object(path: Path, machine: int, data: Mapping[str, Iterable[bytes | memoryview]]) -> None:
    """Write an object for a machine (``e_machine``) that defines a hidden symbol for each of `data`, for reading only.

    The bytes of each begin at a multiple of `ALIGNMENT`. Source: System V ABI, chapter 4.
    """
    symbols, names = [_Symbol()], _Strings(data)
    sections = _Strings((".lrodata.numc", ".note.GNU-stack", ".symtab", ".strtab", ".shstrtab"))
    with open(path, "wb") as file:
        file.write(bytes(ALIGNMENT))  # of which the header is a part
        for name, parts in data.items():
            begin = _aligned(file, ALIGNMENT)
            for part in parts:
                file.write(part)
            offset, size = begin - ALIGNMENT, file.tell() - begin
            symbols.append(_Symbol(names.at[name], info=0x11, other=2, section=_DATA, value=offset, size=size))
        size = file.tell() - ALIGNMENT
        flags = _ALLOCATED | (_LARGE if machine == _X86_64 else 0)
        rows = [
            _Section(),
            _Section(type=_PROGBITS, flags=flags, offset=ALIGNMENT, size=size, alignment=ALIGNMENT),
            _Section(type=_PROGBITS, offset=ALIGNMENT, alignment=1),
        ]
        table = b"".join(_SYMBOL.pack(*symbol) for symbol in symbols)
        for content, type_ in ((table, _SYMTAB), (names.data, _STRTAB), (sections.data, _STRTAB)):
            rows.append(_Section(type=type_, offset=_aligned(file, 8), size=len(content), alignment=8))
            file.write(content)
        rows[_SYMBOLS] = rows[_SYMBOLS]._replace(link=_STRINGS, info=1, entry=_SYMBOL.size)
        at = _aligned(file, 8)
        for row, name_at in zip(rows, (0, *sections.at.values()), strict=True):
            file.write(_SECTION.pack(*row._replace(name=name_at)))
        file.seek(0)
        version, sizes = (1, machine, 1), (_HEADER_BYTES, 0, 0, _SECTION.size)  # 1: relocatable, of version 1
        file.write(_HEADER.pack(_IDENT, *version, *(0, 0, at, 0), *sizes, *(len(rows), len(rows) - 1)))


def _aligned(file: IO[bytes], alignment: int) -> int:
    """Write zeros up to a multiple of `alignment`; returns where that is."""
    file.write(bytes(-file.tell() % alignment))
    return file.tell()
