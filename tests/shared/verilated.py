"""Modules in Verilator: compiled once, given words of stimulus, and asked for the output of every line."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

needs_verilator = pytest.mark.skipif(
    shutil.which("verilator") is None or shutil.which("g++") is None, reason="no verilator or no g++ on this machine"
)


@dataclass(frozen=True)
class Port:
    name: str
    width: int

    @property
    def words(self) -> int:
        return -(-self.width // 32)


def compiled(text: str, top: str, inputs: Sequence[Port], output: Port, folder: Path, clocked: bool = False) -> Path:
    """Return the program that reads lines of words (the lowest first, input after input) and prints the output of each.

    clocked: the clock rises after each line, and the output is read then.
    """
    folder.mkdir(exist_ok=True)
    (folder / "unit.sv").write_text(text + "\n")
    lines, place = [], 0
    for port in inputs:
        if port.width > 64:
            lines.append(f"for (int n = 0; n < {port.words}; n++) top.{port.name}[n] = w[{place} + n];")
        else:
            high = f" | uint64_t(w[{place + 1}]) << 32" if port.words == 2 else ""
            lines.append(f"top.{port.name} = w[{place}]{high};")
        place += port.words
    clock = "top.clk = 0; top.eval(); top.clk = 1; top.eval();" if clocked else "top.eval();"
    (folder / "main.cpp").write_text(
        '#include "Vunit.h"\n#include <cstdio>\n'
        f"int main() {{ VerilatedContext c; Vunit top(&c); static uint32_t w[{place}];\n"
        f"while (fread(w, 4, {place}, stdin) == {place}) {{ {' '.join(lines)} {clock}"
        f' printf("%llx\\n", (unsigned long long)top.{output.name}); }} }}\n'
    )
    warnings = ["-Wall", "-Wno-UNUSED", "-Wno-DECLFILENAME", "-Wno-VARHIDDEN"]
    names = ["--prefix", "Vunit", "--top-module", top, "--Mdir", "built", "unit.sv", "main.cpp"]
    command = ["verilator", "--cc", "--exe", "--build", "-CFLAGS", "-O0", *warnings, *names]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-1000:]
    return folder / "built" / "Vunit"


def outputs(program: Path, inputs: Sequence[Port], lines: Iterable[Sequence[int]]) -> list[int]:
    """Return the output of each line of numbers, one for each input."""
    data = b"".join(
        number.to_bytes(4 * port.words, "little") for line in lines for port, number in zip(inputs, line, strict=True)
    )
    done = subprocess.run([program], input=data, capture_output=True, check=True)
    return [int(word, 16) for word in done.stdout.split()]


def version() -> tuple[int, ...]:
    """Of the Verilator that is found."""
    told = subprocess.run(["verilator", "--version"], capture_output=True, text=True).stdout
    return tuple(int(n) for n in re.findall(r"\d+", told)[:2])
