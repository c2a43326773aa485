"""Compile one math operation over an array, with a chosen set of CPU features, and run it."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from torch_mlir import ir
from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.passmanager import PassManager
from torch_mlir.runtime import get_ranked_memref_descriptor

from numc.passes.kernels.isa.avx2 import AVX2
from numc.passes.kernels.isa.avx512 import AVX512
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.isa.portable import PORTABLE
from numc.passes.vector.lower_math import cheaper, lower_math
from numc.runtime.library import cpu_features

LOWER = (
    "builtin.module(convert-scf-to-cf,convert-vector-to-llvm,convert-math-to-llvm,convert-index-to-llvm,convert-arith-to-llvm,convert-cf-to-llvm,"
    "finalize-memref-to-llvm,convert-func-to-llvm,canonicalize,cse,"
    "reconcile-unrealized-casts)"
)
V3 = ["+avx", "+avx2", "+bmi", "+bmi2", "+f16c", "+fma", "+lzcnt", "+movbe"]
V4 = [*V3, "+avx512f", "+avx512bw", "+avx512cd", "+avx512dq", "+avx512vl"]
V3_ONLY = [*V3, "-avx512f"]


def loop_text(op: str, operands: int, element: str = "f32", exponent: str | None = None) -> str:
    """A function that applies math.`op` to every element of its first memrefs and stores into its last one."""
    kinds = [element] * operands if exponent is None else [element, exponent]
    parameters = ", ".join(f"%a{i}: memref<?x{kind}>" for i, kind in enumerate(kinds))
    loads = "\n".join(f"    %v{i} = memref.load %a{i}[%i] : memref<?x{kind}>" for i, kind in enumerate(kinds))
    values = ", ".join(f"%v{i}" for i in range(len(kinds)))
    types = ", ".join(kinds) if exponent else element
    return f"""
func.func @main({parameters}, %out: memref<?x{element}>) attributes {{llvm.emit_c_interface}} {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = memref.dim %out, %zero : memref<?x{element}>
  scf.for %i = %zero to %n step %one {{
{loads}
    %r = math.{op} {values} : {types}
    memref.store %r, %out[%i] : memref<?x{element}>
  }}
  return
}}"""


def vector_text(op: str, lanes: int) -> str:
    """A function that applies math.`op` to the vectors of its first memref, whose size is a multiple of `lanes`."""
    kind = f"vector<{lanes}xf32>"
    return f"""
func.func @main(%a: memref<?xf32>, %out: memref<?xf32>) attributes {{llvm.emit_c_interface}} {{
  %zero = arith.constant 0 : index
  %step = arith.constant {lanes} : index
  %n = memref.dim %out, %zero : memref<?xf32>
  scf.for %i = %zero to %n step %step {{
    %v = vector.load %a[%i] : memref<?xf32>, {kind}
    %r = math.{op} %v : {kind}
    vector.store %r, %out[%i] : memref<?xf32>, {kind}
  }}
  return
}}"""


class Compiled:
    """`text` (a module with one @main over memrefs) compiled through lower_math; call it with arrays."""

    def __init__(
        self,
        text: str,
        features: list[str] | None = None,
        cpu: str = "x86-64-v4",
        isa: InstructionSet = PORTABLE,
    ) -> None:
        with ir.Context():
            module = ir.Module.parse(text)
            lower_math(module, isa=isa)
            PassManager.parse(LOWER).run(module.operation)
            if features is not None:
                for op in module.body.operations:
                    if op.operation.name == "llvm.func":
                        listed = ", ".join(f'"{f}"' for f in features)
                        # The engine's own wrapper is compiled for the host: inlined there, so would this be.
                        op.attributes["no_inline"] = ir.UnitAttr.get()
                        op.attributes["target_cpu"] = ir.StringAttr.get(cpu)
                        op.attributes["target_features"] = ir.Attribute.parse(f"#llvm.target_features<[{listed}]>")
            self.engine = ExecutionEngine(module, opt_level=2, enable_pic=True)

    def __call__(self, *arrays: NDArray[Any]) -> None:
        """Run @main on `arrays`; the last is the output."""
        descriptors = [ctypes.pointer(ctypes.pointer(get_ranked_memref_descriptor(a))) for a in arrays]
        self.engine.invoke("main", *descriptors)


# For cheaper code with checks: what the processor has to have, features for LLVM, its processor, the instructions.
_CHECKED = {
    "avx2": ("avx2", V3_ONLY, "x86-64-v3", AVX2),
    "avx512": ("avx512dq", V4, "x86-64-v4", AVX512),
}
WITH_CHECKS = [
    (isa, n.removeprefix("math.")) for isa, (*_, instructions) in _CHECKED.items() for n in cheaper(instructions)
]


def with_checks(isa: str, name: str, vectors: int = 1) -> Compiled:
    """math.`name` on so many vectors of registers, with its cheaper code for an instruction set."""
    needed, features, cpu, instructions = _CHECKED[isa]
    if needed not in cpu_features():
        pytest.skip(f"needs a CPU with {isa.upper()}")
    return Compiled(vector_text(name, vectors * instructions.width), features, cpu, instructions)


def apply(compiled: Compiled, *inputs: NDArray[Any]) -> NDArray[Any]:
    """Run an elementwise function on `inputs`, all of one length."""
    out = np.empty_like(inputs[0])
    compiled(*inputs, out)
    return out
