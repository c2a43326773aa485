"""Whether Verilator is on this machine, which the benches of units run in."""

from __future__ import annotations

import re
import shutil
import subprocess

from numc.support.errors import NumcError

_OLDEST = 5


def check_verilator() -> None:
    """Raise NumcError if Verilator, or the compiler of its models, is missing or too old."""
    for tool in ("verilator", "g++"):
        if shutil.which(tool) is None:
            raise NumcError(f"{tool} is not on this machine, which runs RTL: install it (apt install {tool})")
    told = subprocess.run(["verilator", "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"Verilator (\d+)\.(\d+)", told)
    if match is None or int(match[1]) < _OLDEST:
        raise NumcError(f"{match[0] if match else 'Verilator of no version'} is too old, want {_OLDEST}.0 and more")
