"""Backends: from a plan's kernels to machine code. What is known of processors stands here and in isa/."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numc.passes.kernels.isa.instruction_set import InstructionSet

if TYPE_CHECKING:
    from torch_mlir import ir


@dataclass(frozen=True)
class Backend:
    """A family of processors.

    object_code(module, target, entry): the object code of a module in the llvm dialect, of which the function `entry`
    is visible, as the runtime loads it.
    """

    name: str
    object_code: Callable[[ir.Module, Target, str], bytes]


@dataclass(frozen=True)
class Target:
    """A processor of a backend that code is generated for.

    isa: the instructions that kernels are written with. features: what a processor must have to load the program.
    cpu: LLVM's name of the processor.
    """

    name: str
    backend: Backend
    isa: InstructionSet
    features: tuple[str, ...]
    cpu: str
