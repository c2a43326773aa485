"""Python for AArch64 where no such machine is: Debian's, under qemu-aarch64, with pip.

``python tests/shared/emulated_python.py FOLDER`` makes the new folder, in which ``usr/bin/python3`` starts it. It needs
qemu-aarch64 (Debian's qemu-user), apt-get with Debian's archive, and pip with a package index. Nothing of the system is
changed, and the folder cannot be moved.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

EMULATOR = "qemu-aarch64"
NEEDED = {EMULATOR: "qemu-user", "apt-get": "apt", "dpkg-deb": "dpkg"}
PACKAGES = ("python3", "libstdc++6", "ca-certificates")  # apt finds what they need


def make(folder: Path) -> Path:
    """Make a Python in a new folder and return the command that starts it.

    Raises CalledProcessError, with what a command said, without the commands and places that it needs.
    """
    root = folder.resolve()
    own, packages = root / "apt", root / "apt" / "archives"
    (packages / "partial").mkdir(parents=True)
    (own / "status").touch()  # nothing is installed
    settings = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Dir::State": own,
        "Dir::State::status": own / "status",
        "Dir::Cache": own,
        "Dir::Cache::archives": packages,
    }
    apt = ["apt-get", "--quiet", "--yes", *(f"--option={name}={value}" for name, value in settings.items())]
    _run([*apt, "update"])
    _run([*apt, "install", "--download-only", *PACKAGES])
    for package in sorted(packages.glob("*.deb")):
        _run(["dpkg-deb", "--extract", package, root])
    shutil.rmtree(own)
    python = root / "usr" / "bin" / "python3"
    start = shlex.join([EMULATOR, "-L", str(root), "-0", str(python), str(python.resolve())])
    python.unlink()
    python.write_text(f'#!/bin/sh\nexec {start} "$@"\n')  # programs that Python starts by its own name run so, too
    python.chmod(0o755)
    for rule in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        rule.unlink()
    installed = root / "usr" / "lib" / "python3" / "dist-packages"
    _run([sys.executable, "-m", "pip", "install", "--quiet", "--target", installed, "pip"])
    return python


def _run(command: Sequence[object]) -> None:
    subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)


def main() -> int:
    """Run the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="a new folder")
    folder: Path = parser.parse_args().folder
    if folder.exists():
        parser.error(f"{folder}: is there already: name another one")
    for command, package in NEEDED.items():
        if shutil.which(command) is None:
            parser.error(f"needs {command}, of Debian's package {package}")
    try:
        print(make(folder))
    except subprocess.CalledProcessError as error:
        print(f"{error.stdout}{error.stderr}{shlex.join(error.cmd)}: exit status {error.returncode}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
