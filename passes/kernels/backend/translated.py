"""Objects by target triple: MLIR's engine makes code for the machine that it runs on, LLVM by way of its text for any.

The package llvmlite has the code generators of all machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from types import ModuleType

from torch_mlir import ir
from torch_mlir.dialects import llvm

from numc.passes.kernels.backend import Lower
from numc.passes.kernels.backend.linkage import link
from numc.passes.kernels.backend.llvm_text import older
from numc.passes.kernels.backend.objects import CompilePart
from numc.passes.kernels.backend.partition import Part
from numc.support.errors import NumcError

_LEAST = 22  # the oldest LLVM that reads the text (llvm_text.py)


def compiler_for(target: str, triple: str, cpu: str, features: Sequence[str]) -> CompilePart:
    """Return what compiles a part for a triple, a processor and its features, by LLVM's names of them.

    Raises NumcError, in which the target is called `target`, where llvmlite is missing or too old.
    """
    binding = _binding(target)

    def compile_part(part: Part, lower: Lower, entry: str) -> bytes:
        module = ir.Module.parse(part.bytecode)
        lower(module)
        _, optimise = link(module, part.exported, entry)
        text = older(llvm.translate_module_to_llvmir(module.operation))
        machine = binding.Target.from_triple(triple).create_target_machine(
            cpu=cpu, features=",".join(f"+{f}" for f in features), opt=2 * optimise, reloc="pic", codemodel="small"
        )
        translated = binding.parse_assembly(text, binding.create_context())
        translated.triple, translated.data_layout = triple, str(machine.target_data)
        if optimise:  # as MLIR's engine does
            tuning = binding.create_pipeline_tuning_options(speed_level=2)
            tuning.loop_vectorization = tuning.slp_vectorization = True
            tuning.loop_interleaving = tuning.loop_unrolling = True
            passes = binding.create_pass_builder(machine, tuning)
            passes.getModulePassManager().run(translated, passes)
        code: bytes = machine.emit_object(translated)
        return code

    return compile_part


@cache
def _binding(target: str) -> ModuleType:
    """llvmlite's binding of LLVM, ready for every machine."""
    try:
        binding = import_module("llvmlite.binding")
    except ImportError:
        raise NumcError(
            f"target {target}: its code generator is in the package llvmlite, which is not installed: "
            "pip install 'numc[cross]'"
        ) from None
    version = binding.llvm_version_info[0]
    if version < _LEAST:
        raise NumcError(
            f"target {target}: llvmlite has LLVM {version}, want {_LEAST} or newer: pip install -U 'numc[cross]'"
        )
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding
