"""x86-64: what makes LLVM generate a function for one of its targets."""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir

from numc.passes.kernels.backend import CodeGenerator, Target
from numc.passes.kernels.backend.objects import ObjectCode
from numc.passes.kernels.backend.vectors import kernel_functions, shared_functions
from numc.passes.kernels.tasks.pack_once import pack_once_text
from numc.passes.kernels.tasks.task import task_text


def object_code(target: Target, entry: str, lower: Callable[[ir.Module], None]) -> ObjectCode:
    """Position independent x86-64 code for the runtime's loader, in ELF relocatable objects."""

    def lower_for_target(module: ir.Module) -> None:
        lower(module)
        with module.context, ir.Location.unknown():
            attributes = ir.DictAttr(ir.Attribute.parse(_function_attributes(target)))
            for op in module.body.operations:
                if op.operation.name == "llvm.func" and op.operation.regions[0].blocks:
                    _for_target(op.operation, attributes)

    return ObjectCode(lower_for_target, entry)


def _function_attributes(target: Target) -> str:
    """The attributes that make LLVM generate one function for this target, whatever the host is."""
    # Every processor with SSE4.2 has CMPXCHG16B; SSE2 is what x86-64 begins with.
    least = ("sse4.2", "cx16") if target.features else ("sse2",)
    names = (f.replace("_", "-" if f.startswith("amx") else "") for f in (*least, *target.features))
    listed = ", ".join(f'"+{name}"' for name in names)
    width = f'["prefer-vector-width", "{32 * target.isa.width}"]'
    # With a frame pointer LLVM can align the stack for the vectors that it spills: those across two lines of the cache
    # take several times as long.
    return (
        f'{{target_cpu = "{target.cpu}", target_features = #llvm.target_features<[{listed}]>, passthrough = [{width}], '
        "frame_pointer = #llvm.framePointerKind<all>}"
    )


def _for_target(function: ir.Operation, attributes: ir.DictAttr) -> None:
    for named in attributes:
        if named.name == "passthrough" and "passthrough" in function.attributes:
            existing = list(ir.ArrayAttr(function.attributes["passthrough"]))
            function.attributes["passthrough"] = ir.ArrayAttr.get([*existing, *ir.ArrayAttr(named.attr)])
        else:
            function.attributes[named.name] = named.attr


GENERATOR = CodeGenerator(kernel_functions, task_text, pack_once_text, shared_functions, object_code)
