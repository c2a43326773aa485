"""Backends: from a plan's kernels to machine code. What is known of processors stands here and in isa/."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from numc.passes.kernels.isa.instruction_set import InstructionSet

if TYPE_CHECKING:
    from types import TracebackType

    from torch_mlir import ir

    from numc.passes.kernels.kernel import Kernel
    from numc.passes.kernels.tasks.interface import Task


@dataclass(frozen=True)
class CodeGenerator:
    """From planned contractions to functions of MLIR, in four functions.

    kernel_functions(kernel): the functions that all contractions with one kernel share, as MLIR text, as those of the
    next three. task_function(task): the function that computes a part of one contraction with them.
    pack_function(task): the one that packs a part of the lanes of such contractions. shared_functions():
    what all kernels of a module share.
    """

    kernel_functions: Callable[[Kernel], list[str]]
    task_function: Callable[[Task], str]
    pack_function: Callable[[Task], str]
    shared_functions: Callable[[], list[str]]


Lower = Callable[["ir.Module"], None]
"""Brings a part of a module to the dialect of LLVM, for its processor. Several threads call it at once."""


class Making(Protocol):
    """A maker of the code of a module: a context manager, which waits for its threads."""

    def __enter__(self) -> Making: ...

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None: ...

    def begin(self, module: ir.Module, complete: Collection[str]) -> None:
        """Begin with the functions `complete`, which no pass will change."""

    def finish(self, module: ir.Module) -> bytes:
        """Return the code of what has begun and of `module`, as the runtime loads it."""


@dataclass(frozen=True)
class Backend:
    """A family of processors. generator(): imports what generates kernels for them, which takes time and needs MLIR.

    making(): what makes the code of a module, given the target, the function that is visible, and what lowers its
    parts. machine: what `uname -m` calls them, or nothing if they are no host's. least: the features that all of them
    have, in a word. by_engine: whether MLIR's own engine makes their code, where it runs on one of them; else LLVM does
    by way of its text (translated.py). packages: what makes their code, other than that.
    """

    name: str
    generator: Callable[[], CodeGenerator]
    making: Callable[[], Callable[[Target, str, Lower], Making]]
    machine: str
    least: str
    by_engine: bool = False
    packages: tuple[str, ...] = ("torch-mlir", "llvmlite")


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
        return ("torch-mlir",) if by_engine else self.backend.packages

    def runs_with(self, features: frozenset[str]) -> bool:
        """Whether code for this target runs on this machine, whose processor has these features."""
        return platform.machine() == self.backend.machine and features.issuperset(self.features)
