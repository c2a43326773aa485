"""A unit in Verilator: compiled once, fed with lines that name rows of two tables of operands, and an accumulator."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from numc.hardware.port import Port
from tools.proofs.codes import Words

_MAIN = """\
#include "Vunit.h"
#include <cstdint>
#include <cstdio>
#include <vector>
using Words = std::vector<uint32_t>;
static Words file(const char *name) {
  std::FILE *f = std::fopen(name, "rb");
  std::fseek(f, 0, SEEK_END);
  Words found(std::ftell(f) / 4);
  std::rewind(f);
  if (std::fread(found.data(), 4, found.size(), f) != found.size()) found.clear();
  std::fclose(f);
  return found;
}
// A line is a row of A, a row of B, whether it is the first step of a sum and the last one, and the accumulator.
int main() {
  VerilatedContext context;
  Vunit top(&context);
  const Words a_rows = file("a.bin"), b_rows = file("b.bin"), lines = file("lines.bin");
  std::vector<uint64_t> found;
  top.valid = 1;
  for (size_t n = 0; n < lines.size(); n += 4 + C_WORDS) {
    const uint32_t *line = &lines[n], *w = &a_rows[size_t(line[0]) * A_WORDS];
    A_PORTS
    w = &b_rows[size_t(line[1]) * B_WORDS];
    B_PORTS
    top.first = line[2];
    w = line + 4;
    C_PORTS
    top.clk = 0;
    top.eval();
    top.clk = 1;
    top.eval();
    if (line[3]) found.push_back(top.d);
  }
  std::FILE *out = std::fopen("found.bin", "wb");
  std::fwrite(found.data(), 8, found.size(), out);
  std::fclose(out);
}
"""
_FLAGS = ("-std=c++17", "-O1", "-w", "-pthread")
_VERILATE = ("--cc", "-Wno-fatal", "-Wno-lint", "-O3", "--x-assign", "fast", "--prefix", "Vunit", "--Mdir", ".")


@dataclass(frozen=True)
class Bench:
    """A compiled unit in a folder: its ports are in the order of the words of a row."""

    folder: Path

    def outputs(self, a: Words, b: Words, lines: Words) -> npt.NDArray[np.uint64]:
        """Return `d` after the clock edge of each line that is a last step."""
        for name, each in (("a", a), ("b", b), ("lines", lines)):
            np.ascontiguousarray(each, np.uint32).tofile(self.folder / f"{name}.bin")
        subprocess.run(["./unit"], cwd=self.folder, check=True)
        return np.fromfile(self.folder / "found.bin", np.uint64)


def compiled(text: str, top: str, sides: Sequence[Sequence[Port]], start: Port, folder: Path) -> Bench:
    """Return the unit `top` of a SystemVerilog text; sides: the ports that belong to A, and those that belong to B."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "unit.sv").write_text(text)
    main = _MAIN
    for name, ports in zip("ABC", (*sides, [start]), strict=True):
        setting, place = [], 0
        for port in ports:
            setting.append(_set(port, place))
            place += -(-port.width // 32)
        main = main.replace(f"{name}_PORTS", "\n    ".join(setting)).replace(f"{name}_WORDS", str(place))
    (folder / "main.cpp").write_text(main)
    _run(["verilator", *_VERILATE, "--top-module", top, "unit.sv"], folder)
    root = _root()
    sources = sorted(path.name for path in folder.glob("Vunit*.cpp"))
    (folder / "all.cpp").write_text("".join(f'#include "{name}"\n' for name in [*sources, "main.cpp"]))
    _run(["g++", *_FLAGS, f"-I{root}/include", "-o", "unit", "all.cpp", *_library(root, folder.parent)], folder)
    return Bench(folder)


def _set(port: Port, place: int) -> str:
    if port.width > 64:
        return f"for (int n = 0; n < {-(-port.width // 32)}; n++) top.{port.name}[n] = w[{place} + n];"
    high = f" | uint64_t(w[{place + 1}]) << 32" if port.width > 32 else ""
    return f"top.{port.name} = w[{place}]{high};"


def _root() -> str:
    command = ["verilator", "--getenv", "VERILATOR_ROOT"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _library(root: str, folder: Path) -> list[str]:
    """Verilator's own code, which is the same for all units."""
    made = []
    for name in ("verilated", "verilated_threads"):
        if not (folder / f"{name}.o").exists():
            _run(["g++", *_FLAGS, f"-I{root}/include", "-c", f"{root}/include/{name}.cpp"], folder)
        made.append(str(folder / f"{name}.o"))
    return made


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]} in {folder}: {(done.stderr or done.stdout)[-2000:]}")
