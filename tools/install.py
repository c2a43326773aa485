"""pip, with a line that says what it does: ``python tools/install.py PACKAGE...``; all of its output if it fails.

An installation takes minutes in which a silent pip looks like one that hangs, and a talkative one hides what matters.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Sequence

_STEPS = re.compile(
    r"\s*(?:(Collecting|Downloading|Using cached|Processing|Installing collected packages|Building wheel for) ?)(.*)"
)
_WORDS = {"Installing collected packages": "installing", "Building wheel for": "building", "Processing": "reading"}


def main(arguments: Sequence[str]) -> int:
    """Install packages. Returns the exit status of pip."""
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off", *arguments]
    print(f"installing {' '.join(arguments)} with its dependencies into {sys.prefix}", flush=True)
    begin, said, changes, before = time.monotonic(), list[str](), sys.stdout.isatty(), ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            said.append(line)
            step = step_of(line)
            if step in ("", before):
                continue
            before = step
            if changes:
                print(f"\r\033[2K  {time.monotonic() - begin:3.0f} s  {step[:90]}", end="", flush=True)
            elif not step.startswith(("collecting", "using cached")):
                print(f"  {step[:90]}", flush=True)
    if changes:
        print("\r\033[2K", end="")
    if pip.returncode:
        print("".join(said), end="", file=sys.stderr)
    return pip.returncode


def step_of(line: str) -> str:
    """Return what a line of pip says it does; "" for other lines."""
    match = _STEPS.match(line)
    if match is None:
        return ""
    name = match[2].split(" ")[0].rsplit("/", 1)[-1].removesuffix(".metadata")
    if match[1] == "Installing collected packages":
        name = f"{match[2].count(',') + 1} packages"
    return f"{_WORDS.get(match[1], match[1].lower())} {name}".strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
