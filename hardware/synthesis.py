"""Area, depth and registers of operators, from Yosys and an open library of cells (OSU, 0.18 um)."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from numc.hardware.circuits.operator_circuit import circuit, surrounding_circuits
from numc.hardware.circuits.part_circuits import conversion, links, products
from numc.hardware.ports import interface
from numc.hardware.systemverilog import Module
from numc.numerics.circuits import Circuit
from numc.numerics.formats import Conversion
from numc.numerics.operators import Fma
from numc.support.errors import NumcError

LIBRARY = "/usr/share/qflow/tech/osu018/osu018_stdcells.lib"
CELLS = "OSU 0.18 um"
_NAND2, _REGISTER = 24, 96  # areas of NAND2X1 and DFFPOSX1 in this library
_OLDEST = (0, 23)
_SECONDS = 1800
# -noshare: the search for operators that exclude each other took most of the time, and found none in any unit.
_SCRIPT = (
    "read_verilog -sv {file}; synth -flatten -noabc -noshare -top {top}; dfflibmap -liberty {library}; "
    "abc -liberty {library} -script {abc}; opt_clean; stat -liberty {library}"
)
_ABC = "strash\nifraig\nscorr\ndc2\nstrash\n&get -n\n&nf\n&put\nbuffer\nupsize\ndnsize\nprint_stats\nstime\n"


@dataclass(frozen=True)
class Size:
    """A module after synthesis: area in NAND2 gates, levels of cells, delay in picoseconds."""

    gates: int
    levels: int
    picoseconds: int


@dataclass(frozen=True)
class Synthesized:
    """An operator after synthesis, in NAND2 gates.

    products: its decoders and multipliers. adder: all else of the step: alignment, sum, rounding. accumulator: its
    register. conversion: of the operands, from binary32, for all products of a step; 0 for groups, whose conversions
    are no part of a unit. taken: the products of a step. levels, picoseconds: of the step. registers: bits of the
    accumulator.
    """

    operator: str
    taken: int
    products: int
    adder: int
    accumulator: int
    conversion: int
    levels: int
    picoseconds: int
    registers: int

    @property
    def total(self) -> int:
        """All gates."""
        return self.products + self.adder + self.accumulator + self.conversion

    @property
    def gates(self) -> int:
        """The gates for one product."""
        return max(round(self.total / self.taken), 1)

    def as_json(self) -> dict[str, object]:
        """In types that JSON has."""
        return {**asdict(self), "total": self.total}


@cache
def synthesized(op: Fma, *, seconds: int = _SECONDS) -> Synthesized:
    """Return an operator after synthesis, whose modules may take Yosys so many seconds each.

    Raises NumcError if it has no circuit, or if a tool is missing or too old.
    """
    check_tools()
    of = interface(op)
    step, multipliers = _step(op, seconds)
    around = sum(_size(each, seconds).gates for each in surrounding_circuits(op).values())
    single = [to for to in (op.a, op.b) if isinstance(to, Conversion)]
    made = [conversion(to) for to in single]
    bits = of.output.bits + (32 if op.datapath.chunk is not None else 0) + (of.start.bits if of.begins_at_zero else 0)
    return Synthesized(
        operator=str(op),
        taken=of.products,
        products=multipliers.gates,
        adder=max(step.gates - multipliers.gates, 0) + around,
        accumulator=math.ceil(bits * _REGISTER / _NAND2),
        conversion=of.products * sum(_size(each, seconds).gates for each in made if each is not None),
        levels=step.levels,
        picoseconds=step.picoseconds,
        registers=bits,
    )


def _step(op: Fma, seconds: int) -> tuple[Size, Size]:
    """A step, and its products alone. A sum that rounds behind each product is so many times one of its links."""
    parts = links(op)
    if parts is None:
        return _size(circuit(op), seconds), _size(products(op), seconds)
    taken = parts.count
    product, link, rest = (_size(each, seconds) for each in (parts.product, parts.link, parts.rest))
    step = Size(
        taken * link.gates + rest.gates,
        taken * link.levels + rest.levels,
        taken * link.picoseconds + rest.picoseconds,
    )
    return step, Size(taken * product.gates, product.levels, product.picoseconds)


def check_tools() -> None:
    """Raise NumcError if Yosys or the library of cells is missing or too old."""
    if shutil.which("yosys") is None:
        raise NumcError("yosys is not on this machine, which --synthesize runs: install it (apt install yosys)")
    told = subprocess.run(["yosys", "-V"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"Yosys (\d+)\.(\d+)", told)
    if match is None or (int(match[1]), int(match[2])) < _OLDEST:
        version = match[0] if match else "yosys of no version"
        raise NumcError(f"{version} is too old, want 0.23 and more")
    if not os.path.exists(LIBRARY):
        raise NumcError(
            f"{LIBRARY} is not on this machine, the cells that --synthesize maps to: install qflow-tech-osu018"
        )


def _size(of: Circuit, seconds: int) -> Size:
    return _size_of(Module(of, "unit").text([]), of.name, seconds)


@cache
def _size_of(text: str, name: str, seconds: int) -> Size:
    with tempfile.TemporaryDirectory(prefix="numc-synthesis-") as folder:
        file, abc = Path(folder) / "unit.sv", Path(folder) / "script.abc"
        file.write_text(text)
        abc.write_text(_ABC)
        script = _SCRIPT.format(file=file, top="unit", library=LIBRARY, abc=abc)
        try:
            done = subprocess.run(["yosys", "-p", script], capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            raise NumcError(f"yosys takes more than {seconds} seconds for '{name}': want a smaller operator") from None
    area = re.search(r"Chip area for module '\\unit': ([\d.]+)", done.stdout)
    if done.returncode or area is None:
        raise NumcError(f"yosys failed for '{name}': {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    levels, delay = (re.findall(text, done.stdout) for text in (r"lev\s*=\s*(\d+)", r"Delay\s*=\s*([\d.]+) ps"))
    return Size(
        math.ceil(float(area[1]) / _NAND2), int(levels[-1]) if levels else 0, round(float(delay[-1])) if delay else 0
    )
