"""AArch64: what makes LLVM generate a function for its target."""

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

_TRIPLE, _FEATURES = "aarch64-unknown-linux-gnu", ("fp-armv8", "neon")


def object_code(target: Target, entry: str, lower: Callable[[ir.Module], None]) -> ObjectCode:
    """Position independent AArch64 code for the runtime's loader, in ELF relocatable objects."""
    listed = ", ".join(f'"+{name}"' for name in _FEATURES)
    attributes = f'{{target_cpu = "{target.cpu}", target_features = #llvm.target_features<[{listed}]>}}'
    return ObjectCode(
        with_attributes(lower, attributes), entry, compiler_for(target.name, _TRIPLE, target.cpu, _FEATURES)
    )


GENERATOR = CodeGenerator(kernel_functions, task_text, pack_once_text, shared_functions)
