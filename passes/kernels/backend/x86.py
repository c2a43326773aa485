"""x86-64: its targets, and what makes LLVM generate a function for one of them."""

from __future__ import annotations

from torch_mlir import ir

from numc.passes.kernels.backend import Backend, Target
from numc.passes.kernels.backend.objects import compiled
from numc.passes.kernels.isa.avx2 import AVX2
from numc.passes.kernels.isa.avx512 import AVX512
from numc.passes.kernels.isa.avx512_vnni import AVX512_VNNI
from numc.passes.kernels.isa.portable import PORTABLE
from numc.passes.kernels.isa.sse42 import SSE42


def object_code(module: ir.Module, target: Target, entry: str) -> bytes:
    """Return an llvm-dialect module as position independent x86-64 code for the runtime's loader.

    The code is an ELF relocatable object, or an ``ar`` archive of several that refer to each other.
    """
    with module.context, ir.Location.unknown():
        attributes = ir.DictAttr(ir.Attribute.parse(_function_attributes(target)))
        for op in module.body.operations:
            if op.operation.name == "llvm.func" and op.operation.regions[0].blocks:
                _for_target(op.operation, attributes)
    return compiled(module, entry)


def _function_attributes(target: Target) -> str:
    """The attributes that make LLVM generate one function for this target, whatever the host is."""
    # Every processor with SSE4.2 has CMPXCHG16B; SSE2 is what x86-64 begins with.
    least = ("sse4.2", "cx16") if target.features else ("sse2",)
    listed = ", ".join(f'"+{f.replace("_", "")}"' for f in (*least, *target.features))
    width = f'["prefer-vector-width", "{32 * target.isa.width}"]'
    return (
        f'{{target_cpu = "{target.cpu}", target_features = #llvm.target_features<[{listed}]>, passthrough = [{width}]}}'
    )


def _for_target(function: ir.Operation, attributes: ir.DictAttr) -> None:
    for named in attributes:
        if named.name == "passthrough" and "passthrough" in function.attributes:
            existing = list(ir.ArrayAttr(function.attributes["passthrough"]))
            function.attributes["passthrough"] = ir.ArrayAttr.get([*existing, *ir.ArrayAttr(named.attr)])
        else:
            function.attributes[named.name] = named.attr


X86 = Backend("x86-64", object_code)

_V2 = ("popcnt", "sse4.1", "sse4.2")
_V3 = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

# From the least to the most: a host gets the last that it can run.
TARGETS = (
    Target("portable", X86, PORTABLE, (), "x86-64"),
    Target("x86-64-v2", X86, SSE42, _V2, "x86-64-v2"),
    Target("x86-64-v3", X86, AVX2, _V3, "x86-64-v3"),
    Target("x86-64-v4", X86, AVX512, _V4, "x86-64-v4"),
    Target("x86-64-v4-vnni", X86, AVX512_VNNI, (*_V4, "avx512_vnni"), "x86-64-v4"),
)
