"""Kernels compiled for GPUs that are not here: their machine code, as text, and what its inner loop is made of.

Triton brings the assemblers and disassemblers along, so that this needs neither a GPU nor a toolkit. An emulated run
says what every kernel is called with.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource
from triton.runtime import driver

from numc.support.errors import NumcError

ARCHITECTURES = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
"""What kernels are compiled for in tests: Ampere, Hopper, Blackwell, and MI300."""

_POINTERS = {
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.int64: "*i64",
    torch.int32: "*i32",
    torch.int16: "*i16",
    torch.int8: "*i8",
    torch.uint8: "*u8",
    torch.bool: "*i1",
}


_ONE = "1"  # which Triton makes a constant of


@dataclass(frozen=True)
class Launch:
    """A call of a kernel: its name, the types of its arguments, those that are multiples of 16, and its constants."""

    kernel: str
    types: tuple[str, ...]
    aligned: tuple[int, ...]
    constants: tuple[tuple[str, Any], ...]

    @staticmethod
    def of(kernel: Any, arguments: Sequence[Any], constants: dict[str, Any]) -> Launch:
        """The launch of a kernel with these arguments."""
        types = tuple(_type_of(a) for a in arguments)
        aligned = tuple(
            n for n, a in enumerate(arguments) if isinstance(a, torch.Tensor) or (isinstance(a, int) and a % 16 == 0)
        )
        return Launch(kernel.__name__, types, aligned, tuple(constants.items()))


def _type_of(argument: Any) -> str:
    if isinstance(argument, torch.Tensor):
        return _POINTERS[argument.dtype]
    if isinstance(argument, bool):
        return "i1"
    if argument == 1 and isinstance(argument, int):
        return _ONE
    if isinstance(argument, int):
        return "i32" if -(2**31) <= argument < 2**31 else "i64"
    return "fp32"


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A kernel's machine code as text; spills: how many registers go through memory; shared: bytes of shared memory."""

    architecture: str
    text: str
    assembly: str
    spills: int
    registers: int
    shared: int

    def loops(self) -> list[list[str]]:
        """The instructions of every innermost loop, the longest first."""
        return sorted(_loops(self.text, self.architecture), key=len, reverse=True)


def compile_launch(module: ModuleType, launch: Launch, architecture: str) -> Compiled:
    """Compile the kernel of a launch. module: the text of the program, loaded for GPUs. Raises NumcError."""
    if architecture not in ARCHITECTURES:
        raise NumcError(f"unknown architecture '{architecture}': want {', '.join(ARCHITECTURES)}")
    target = ARCHITECTURES[architecture]
    function = getattr(module, launch.kernel)
    names = function.arg_names
    constants = dict(launch.constants)
    if "WARP" in constants:
        constants["WARP"] = target.warp_size
    types = dict(zip(names, launch.types, strict=False))
    constants |= {name: 1 for name, type_ in types.items() if type_ == _ONE}
    signature = types | dict.fromkeys(constants, "constexpr")
    places = {(names.index(name),): value for name, value in constants.items()}
    attributes = {(n,): [["tt.divisibility", 16]] for n in launch.aligned}
    source_type = GluonASTSource if hasattr(function, "is_gluon") and function.is_gluon() else ASTSource
    source = source_type(fn=function, signature=signature, constexprs=places, attrs=attributes)
    options = {"enable_fp_fusion": False, "num_warps": 4}
    with _machine_with(target):
        compiled = triton.compile(source, target=target, options=options)
    if target.backend == "cuda":
        text = _disassembled(compiled.asm["cubin"])
        stack = re.search(r"REG:(\d+) STACK:(\d+)", _usage(compiled.asm["cubin"]))
        registers, spills = (int(stack[1]), int(stack[2])) if stack else (0, 0)
        return Compiled(
            architecture=architecture,
            text=text,
            assembly=compiled.asm["ptx"],
            spills=spills,
            registers=registers,
            shared=compiled.metadata.shared,
        )
    text = compiled.asm["amdgcn"]
    numbers = {
        name: int(match[1]) if (match := re.search(rf"\.{name}:\s+(\d+)", text)) else 0
        for name in ("vgpr_count", "vgpr_spill_count")
    }
    return Compiled(
        architecture=architecture,
        text=text,
        assembly=text,
        spills=numbers["vgpr_spill_count"],
        registers=numbers["vgpr_count"],
        shared=compiled.metadata.shared,
    )


@contextmanager
def _machine_with(target: GPUTarget) -> Iterator[None]:
    """Functions that ask Triton which GPU they are compiled for (gpu_instructions.py) hear of this one."""
    before = driver._active
    driver.set_active(_Driver(target))
    try:
        yield
    finally:
        driver.set_active(before)


@dataclass(frozen=True)
class _Driver:
    target: GPUTarget

    def get_current_target(self) -> GPUTarget:
        """The GPU that is compiled for."""
        return self.target


def _tool(name: str) -> str:
    return str(Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name)


def _disassembled(cubin: bytes) -> str:
    return _run("nvdisasm", cubin)


def _usage(cubin: bytes) -> str:
    return _run("cuobjdump", cubin, "--dump-resource-usage")


def _run(tool: str, cubin: bytes, *options: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([_tool(tool), *options, file.name], capture_output=True, text=True, check=True).stdout


def _loops(text: str, architecture: str) -> list[list[str]]:
    """The innermost loops: what lies between a label and a jump back to it, with no other jump back inside."""
    cuda = architecture.startswith("sm_")
    label = re.compile(r"^\s*(\.L_x_\d+|\.LBB\d+_\d+):")
    jump = re.compile(r"BRA.*?`\((\.L_x_\d+)\)" if cuda else r"s_cbranch_\w+ (\.LBB\d+_\d+)")
    places: dict[str, int] = {}
    loops, last = [], -1
    lines = text.splitlines()
    for n, line in enumerate(lines):
        if match := label.match(line):
            places[match[1]] = n
        elif (match := jump.search(line)) and match[1] in places and places[match[1]] > last:
            begin = places[match[1]]
            loops.append([name for row in lines[begin : n + 1] if (name := _instruction(row, cuda))])
            last = begin
    return loops


def _instruction(line: str, cuda: bool) -> str:
    if cuda:
        match = re.search(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)", line)
        return match[1] if match else ""
    match = re.match(r"^\s+([vsd]\w*_\w+)", line)
    return match[1] if match else ""


def counted(instructions: Sequence[str]) -> Counter[str]:
    """The number of times that each instruction occurs, without what follows its first point."""
    return Counter(name.split(".")[0] for name in instructions)
