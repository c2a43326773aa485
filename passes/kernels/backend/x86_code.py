"""x86-64: what makes LLVM generate a function for one of its targets."""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir

from numc.passes.kernels.backend import CodeGenerator, Target
from numc.passes.kernels.backend.attributes import with_attributes
from numc.passes.kernels.backend.objects import ObjectCode
from numc.passes.kernels.backend.translated import compiler_for
from numc.passes.kernels.backend.vectors import kernel_functions, shared_functions
from numc.passes.kernels.tasks.pack_once import pack_once_text
from numc.passes.kernels.tasks.task import task_text

_TRIPLE = "x86_64-unknown-linux-gnu"


def object_code(target: Target, entry: str, lower: Callable[[ir.Module], None]) -> ObjectCode:
    """Position independent x86-64 code for the runtime's loader, in ELF relocatable objects."""

    cross = None
    if "llvmlite" in target.code_packages:
        cross = compiler_for(target.name, _TRIPLE, target.cpu, _features(target))
    return ObjectCode(with_attributes(lower, _function_attributes(target)), entry, cross)


def _features(target: Target) -> list[str]:
    """LLVM's names of the target's features."""
    # Every processor with SSE4.2 has CMPXCHG16B; SSE2 is what x86-64 begins with.
    least = ("sse4.2", "cx16") if target.features else ("sse2",)
    return [f.replace("_", "-" if f.startswith("amx") else "") for f in (*least, *target.features)]


def _function_attributes(target: Target) -> str:
    """The attributes that make LLVM generate one function for this target, whatever the host is."""
    listed = ", ".join(f'"+{name}"' for name in _features(target))
    width = f'["prefer-vector-width", "{32 * target.isa.width}"]'
    # With a frame pointer LLVM can align the stack for the vectors that it spills: those across two lines of the cache
    # take several times as long.
    return (
        f'{{target_cpu = "{target.cpu}", target_features = #llvm.target_features<[{listed}]>, passthrough = [{width}], '
        "frame_pointer = #llvm.framePointerKind<all>}"
    )


GENERATOR = CodeGenerator(kernel_functions, task_text, pack_once_text, shared_functions)
