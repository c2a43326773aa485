"""The linker of the machine: GNU ld or LLVM's lld, which makes a shared object of relocatable ones."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from numc.compiler.deploy.glue import REDIRECTED
from numc.support.errors import NumcError, shortened

#: By ``e_machine`` of an object: the emulation of a linker, and what a linker for this machine only may be called.
MACHINES: Mapping[int, tuple[str, str]] = MappingProxyType({62: ("elf_x86_64", "x86_64-linux-gnu-ld")})
VARIABLE = "NUMC_LINKER"


def linker(machine: int) -> str:
    """Return the command of the linker: NUMC_LINKER, ld.lld, or ld. Raises NumcError if there is none."""
    named = os.environ.get(VARIABLE)
    names = [named] if named else ["ld.lld", MACHINES[machine][1], "ld"]
    for name in names:
        if (path := shutil.which(name)) is not None:
            return path
    if named:
        raise NumcError(f"{VARIABLE}={shortened(named, 100)}: no such command: want the name of GNU ld or of lld")
    raise NumcError(
        f"no linker ({', '.join(names)}): install binutils or lld, or name one by the environment variable {VARIABLE}"
    )


def link_shared(
    out: Path, machine: int, objects: Sequence[Path], *, visible: Iterable[str], libraries: Path, folder: Path
) -> None:
    """Link objects, and archives as a whole, to the shared object `out`, which shows the symbols `visible` only.

    libraries: the folder of libnumc_runtime.so, which is looked for beside `out` when it is loaded. folder: for what
    the linker reads. Raises NumcError, with the first line of the linker, if it fails.
    """
    script = folder / "exports.map"
    script.write_text(f"{{ global: {' '.join(f'{name};' for name in visible)} local: *; }};\n")
    command = [linker(machine), "-shared", "-m", MACHINES[machine][0], "-o", str(out), f"-soname={out.name}"]
    command += [f"--version-script={script}", "-z", "noexecstack", "-z", "relro", "-z", "now", "--build-id=none"]
    command += ["--hash-style=gnu", "--enable-new-dtags", "-rpath", "$ORIGIN", "--eh-frame-hdr"]
    command += [f"--wrap={name}" for name in REDIRECTED]
    command += ["--whole-archive", *map(str, objects), "--no-whole-archive", f"-L{libraries}", "-lnumc_runtime"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        line = next((line for line in done.stderr.splitlines() if line.strip()), f"exit status {done.returncode}")
        raise NumcError(
            f"{command[0]}: cannot link for {MACHINES[machine][0]}: {shortened(line.strip(), 300)}: want GNU ld or lld "
            f"with this emulation, which {VARIABLE} can name"
        )
