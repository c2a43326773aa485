"""The linker of the machine: GNU ld or LLVM's lld, which makes a shared object of relocatable ones."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from numc.compiler.deploy.data_object import write_data_object
from numc.compiler.deploy.glue import REDIRECTED
from numc.compiler.deploy.machines import Machine
from numc.runtime.library import FILE_NAME
from numc.support.errors import NumcError, shortened

VARIABLE = "NUMC_LINKER"


def linker(machine: Machine) -> str:
    """Return the command of the linker: NUMC_LINKER, ld.lld, or ld. Raises NumcError if there is none."""
    named = os.environ.get(VARIABLE)
    names = [named] if named else ["ld.lld", machine.linker, "ld"]
    for name in names:
        if (path := shutil.which(name)) is not None:
            return path
    if named:
        raise NumcError(f"{VARIABLE}={shortened(named, 100)}: no such command: want the name of GNU ld or of lld")
    raise NumcError(
        f"no linker ({', '.join(names)}): install binutils or lld, or name one by the environment variable {VARIABLE}"
    )


def link_shared(out: Path, machine: Machine, objects: Sequence[Path], *, visible: Iterable[str], folder: Path) -> None:
    """Link objects, and archives as a whole, to the shared object `out`, which shows the symbols `visible` only.

    When it is loaded, libnumc_runtime.so is looked for beside it. folder: for what the linker reads. Raises NumcError,
    with the first line of the linker, if it fails.
    """
    script = folder / "exports.map"
    script.write_text(f"{{ global: {' '.join(f'{name};' for name in visible)} local: *; }};\n")
    options = ["-z", "noexecstack", "-z", "relro", "-z", "now", "--hash-style=gnu", "--enable-new-dtags"]
    options += [f"--version-script={script}", "-rpath", "$ORIGIN", "--eh-frame-hdr"]
    options += [f"--wrap={name}" for name in REDIRECTED]
    archives = ["--whole-archive", *map(str, objects), "--no-whole-archive"]
    _link(machine, out, *options, *archives, str(_runtime(machine, folder)))


def _runtime(machine: Machine, folder: Path) -> Path:
    """An empty library with the name of the runtime: of that of another machine nothing else need be here."""
    nothing, runtime = folder / "nothing.o", folder / FILE_NAME
    write_data_object(nothing, machine.number, {})
    _link(machine, runtime, str(nothing))
    return runtime


def _link(machine: Machine, out: Path, *arguments: str) -> None:
    command = [linker(machine), "-shared", "-m", machine.emulation, "-o", str(out), f"-soname={out.name}"]
    command += ["--build-id=none", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        line = next((line for line in done.stderr.splitlines() if line.strip()), f"exit status {done.returncode}")
        raise NumcError(
            f"{command[0]}: cannot link for {machine.emulation}: {shortened(line.strip(), 300)}: want GNU ld or lld "
            f"with this emulation, which {VARIABLE} can name"
        )
