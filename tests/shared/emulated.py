"""AArch64 without such a machine: the runtime that CMake builds for it, and qemu-aarch64, which runs programs."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from numc.compiler.options import Options
from numc.compiler.programs.build import build
from numc.frontends.imported import Imported
from numc.runtime import Contents, Program, write_program
from numc.runtime.abi import DTYPES

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = Path("/usr/aarch64-linux-gnu")
COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
NEEDED = {
    COMPILER: "gcc-aarch64-linux-gnu",
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    EMULATOR: "qemu-user",
    "cmake": "cmake",
}
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Emulated:
    """A machine. folder: what was built for it, which is removed when the sources change."""

    folder: Path

    def compiled(self, source: Path, *flags: str) -> Path:
        """A C program, linked to the runtime."""
        made = self.folder / source.stem
        command = [COMPILER, "-O1", "-Wall", "-Werror", str(source), *flags, "-o", str(made)]
        runtime = ["-I", str(ROOT / "runtime" / "include"), "-L", str(self.folder / "runtime"), "-lnumc_runtime"]
        subprocess.run([*command, *runtime], check=True)
        return made

    def execute(self, program: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of it."""
        variables = {"LD_LIBRARY_PATH": str(self.folder / "runtime"), **variables}
        given = [part for name, value in variables.items() for part in ("-E", f"{name}={value}")]
        command = [EMULATOR, "-L", str(SYSTEM), *given, str(program), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def results(
        self, where: Path, contents: Contents, runs: Iterable[Sequence[Array]], threads: int = 1, **variables: str
    ) -> list[Array] | str:
        """The results of some runs of a program, one after the other, or what it was refused or stopped with."""
        path = where / "emulated.numc"
        write_program(path, contents)
        with open(f"{path}.in", "wb") as file:
            for array in (np.asarray(array, order="C") for inputs in runs for array in inputs):
                head = DTYPES.index(array.dtype.name), array.ndim, *array.shape
                file.write(struct.pack(f"<ii{array.ndim}q", *head) + array.tobytes())
        done = self.execute(self.folder / "batch", threads, path, **variables)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        return _tensors(Path(f"{path}.out").read_bytes()) if done.stdout == "ok\n" else done.stdout.rstrip("\n")


def _tensors(data: bytes) -> list[Array]:
    found, at = [], 0
    while at < len(data):
        number, rank = struct.unpack_from("<ii", data, at)
        shape = struct.unpack_from(f"<{rank}q", data, at + 8)
        kind, at = np.dtype(DTYPES[number]), at + 8 + 8 * rank
        found.append(np.frombuffer(data, kind, int(np.prod(shape, dtype=int)), at).reshape(shape))
        at += found[-1].nbytes
    return found


def machine(cache: pytest.Cache) -> Emulated:
    """The machine, built once for each state of the sources; or the test is skipped."""
    pytest.importorskip("llvmlite", reason="needs llvmlite, which has the code generator for aarch64")
    for command, package in NEEDED.items():
        if shutil.which(command) is None:
            pytest.skip(f"needs {command}, of the package {package}")
    batch = ROOT / "tests" / "aarch64" / "batch.c"
    toolchain = ROOT / "runtime" / "toolchains" / "aarch64.cmake"
    sources = sorted(p for p in (ROOT / "runtime").rglob("*") if p.suffix in (".cpp", ".hpp", ".h"))
    sources += [ROOT / "runtime" / "CMakeLists.txt", toolchain, batch]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    folder = Path(cache.mkdir("aarch64")) / digest
    if not folder.exists():
        part = folder.with_name(f"{digest}.{os.getpid()}")
        # Several sources at once: their headers take most of the time.
        options = ["--toolchain", str(toolchain), "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=6"]
        subprocess.run(["cmake", "-S", ROOT, "-B", part, *options], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", part, "-j2"], check=True, stdout=subprocess.DEVNULL)
        Emulated(part).compiled(batch)
        try:
            part.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(part)
    return Emulated(folder)


def both(
    emulated: Emulated, where: Path, model: Imported, runs: Sequence[Sequence[Array]], **options: Any
) -> tuple[list[Array], list[Array]]:
    """The results of a model on that machine, and on this one."""
    theirs = emulated.results(where, build(model, Options(target="aarch64", **options)), runs)
    assert isinstance(theirs, list), theirs
    here, ours = Program(build(model, Options(**options))), []
    for inputs in runs:
        found = here(*inputs, seed=7)
        ours += list(found.values()) if isinstance(found, Mapping) else [found]
    return theirs, [np.asarray(each) for each in ours]


def first_difference(theirs: Sequence[Array], ours: Sequence[Array]) -> str | None:
    """Where results differ, to the bit: all NaN count as equal. None if they do not."""
    if [(a.shape, a.dtype) for a in theirs] != [(b.shape, b.dtype) for b in ours]:
        return f"{[(a.shape, a.dtype) for a in theirs]} and {[(b.shape, b.dtype) for b in ours]}"
    for n, (a, b) in enumerate(zip(theirs, ours, strict=True)):
        bits = f"u{a.dtype.itemsize}"
        differ = np.asarray(np.frombuffer(a.tobytes(), bits) != np.frombuffer(b.tobytes(), bits))
        if a.dtype.kind == "f":
            differ &= ~(np.isnan(a) & np.isnan(b)).ravel()
        if differ.any():
            place = int(differ.argmax())
            return f"result {n}, element {place}: {a.ravel()[place]!r} there, {b.ravel()[place]!r} here"
    return None
