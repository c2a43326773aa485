"""Backends: from a plan's kernels to machine code. What is known of processors stands here and in isa/."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numc.passes.kernels.isa.instruction_set import InstructionSet

if TYPE_CHECKING:
    from torch_mlir import ir

    from numc.passes.kernels.backend.objects import ObjectCode
    from numc.passes.kernels.kernel import Kernel
    from numc.passes.kernels.tasks.interface import Task


@dataclass(frozen=True)
class CodeGenerator:
    """From planned contractions to machine code, in five functions.

    kernel_functions(kernel): the functions that all contractions with one kernel share, as MLIR text, as those of the
    next three. task_function(task): the function that computes a part of one contraction with them.
    pack_function(task): the one that packs a part of the lanes of such contractions. shared_functions():
    what all kernels of a module share. object_code(target, entry, lower): what makes the code of a module, of which the
    function `entry` is visible, as the runtime loads it; lower(module) brings a part of it to the dialect of LLVM.
    """

    kernel_functions: Callable[[Kernel], list[str]]
    task_function: Callable[[Task], str]
    pack_function: Callable[[Task], str]
    shared_functions: Callable[[], list[str]]
    object_code: Callable[[Target, str, Callable[[ir.Module], None]], ObjectCode]


@dataclass(frozen=True)
class Backend:
    """A family of processors. generator(): imports what generates their code, which takes time and needs MLIR.

    machine: what `uname -m` calls them. least: the features that all of them have, in a word. by_engine: whether MLIR's
    own engine makes their code, where it runs on one of them; else LLVM does by way of its text (translated.py).
    """

    name: str
    generator: Callable[[], CodeGenerator]
    machine: str
    least: str
    by_engine: bool


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

    @property
    def code_packages(self) -> tuple[str, ...]:
        """The packages that make the code, on this machine: its bytes depend on their versions."""
        by_engine = self.backend.by_engine and platform.machine() == self.backend.machine
        return ("torch-mlir",) if by_engine else ("torch-mlir", "llvmlite")

    def runs_with(self, features: frozenset[str]) -> bool:
        """Whether code for this target runs on this machine, whose processor has these features."""
        return platform.machine() == self.backend.machine and features.issuperset(self.features)
