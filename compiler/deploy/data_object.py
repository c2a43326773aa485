"""A relocatable ELF object that holds data only: the abi section and the weights of a program, for a linker."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

ALIGNMENT = 4096
"""Of all data: whole pages, which processes that map the file share."""
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATABLE, _PROGBITS, _SYMTAB, _STRTAB = 1, 1, 2, 3
_ALLOCATED, _LARGE = 2, 0x10000000  # SHF_X86_64_LARGE: code need not reach over it
_GLOBAL_OBJECT, _HIDDEN = 0x11, 2

Bytes = bytes | memoryview


def write_data_object(path: Path, machine: int, data: Mapping[str, Iterable[Bytes]]) -> None:
    """Write an object for a machine (``e_machine``) that defines a hidden symbol for each of `data`, in read-only memory.

    The bytes of each begin at a multiple of `ALIGNMENT`. Source: the System V ABI, chapter 4.
    """
    names = [b"", *(name.encode() for name in data)]
    sections = [b"", b".lrodata.numc", b".note.GNU-stack", b".symtab", b".strtab", b".shstrtab"]
    with open(path, "wb") as file:
        file.write(bytes(ALIGNMENT))
        symbols = [_SYMBOL.pack(0, 0, 0, 0, 0, 0)]
        for number, (name, parts) in enumerate(data.items(), 1):
            file.write(bytes(-file.tell() % ALIGNMENT))
            begin = file.tell()
            for part in parts:
                file.write(part)
            place = len(b"\0".join(names[:number])) + 1 if number > 1 else 1
            assert name
            symbols.append(
                _SYMBOL.pack(place, _GLOBAL_OBJECT, _HIDDEN, 1, begin - ALIGNMENT, file.tell() - begin)
            )
        size = file.tell() - ALIGNMENT
        places = []
        for table in (b"".join(symbols), b"\0".join(names) + b"\0", b"\0".join(sections) + b"\0"):
            file.write(bytes(-file.tell() % 8))
            places.append((file.tell(), len(table)))
            file.write(table)
        file.write(bytes(-file.tell() % 8))
        table_at = file.tell()
        file.write(_SECTION.pack(*[0] * 10))
        at = [len(b"\0".join(sections[:number])) + 1 for number in range(1, len(sections))]
        flags = _ALLOCATED | (_LARGE if machine == 62 else 0)
        file.write(_SECTION.pack(at[0], _PROGBITS, flags, 0, ALIGNMENT, size, 0, 0, ALIGNMENT, 0))
        file.write(_SECTION.pack(at[1], _PROGBITS, 0, 0, ALIGNMENT, 0, 0, 0, 1, 0))
        file.write(_SECTION.pack(at[2], _SYMTAB, 0, 0, *places[0], 4, 1, 8, _SYMBOL.size))
        file.write(_SECTION.pack(at[3], _STRTAB, 0, 0, *places[1], 0, 0, 1, 0))
        file.write(_SECTION.pack(at[4], _STRTAB, 0, 0, *places[2], 0, 0, 1, 0))
        ident = b"\x7fELF\x02\x01\x01" + bytes(9)
        file.seek(0)
        file.write(_HEADER.pack(ident, _RELOCATABLE, machine, 1, 0, 0, table_at, 0, 64, 0, 0, 64, 6, 5))
