"""The machines that shared objects are made for: what a linker calls them, and what makes code for them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from numc.compiler.targets import TARGETS
from numc.passes.kernels.backend import Lower, Target, aarch64_code, x86_code
from numc.passes.kernels.backend.objects import ObjectCode
from numc.runtime.archive import MAGIC

_ELF = b"\x7fELF"
_MACHINE_AT = 18  # e_machine, in the header of an ELF file


class Machine(NamedTuple):
    """A kind of processor. number: its ``e_machine`` in ELF files.

    emulation, linker: the option -m of a linker, and what a linker for this machine only may be called. target: whose
    code every such processor runs; making: what makes that code.
    """

    name: str
    number: int
    emulation: str
    linker: str
    target: Target
    making: Callable[[Target, str, Lower], ObjectCode]


_ALL = (
    Machine(
        "x86-64",
        62,
        emulation="elf_x86_64",
        linker="x86_64-linux-gnu-ld",
        target=TARGETS["portable"],
        making=x86_code.object_code,
    ),
    Machine(
        "aarch64",
        183,
        emulation="aarch64linux",
        linker="aarch64-linux-gnu-ld",
        target=TARGETS["aarch64"],
        making=aarch64_code.object_code,
    ),
)
MACHINES: Mapping[int, Machine] = MappingProxyType({machine.number: machine for machine in _ALL})


def machine_number(content: bytes) -> int:
    """Return the machine of an ELF file, or of the first one of an archive; 0, that is none, if it is neither."""
    begin = content.find(_ELF) if content.startswith(MAGIC) else 0
    if not content.startswith(_ELF, begin) or len(content) < begin + _MACHINE_AT + 2:
        return 0
    return int(struct.unpack_from("<H", content, begin + _MACHINE_AT)[0])
