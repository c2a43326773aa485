"""Programs that do what generated code must never do, each in one way, where its input `n` asks for it.

``python -m faulty_programs`` runs them under NUMC_CHECK=1 and prints, as JSON, what each run said.
"""

from __future__ import annotations

import json

import numpy as np

import runtime_programs as programs
from numc.runtime import Abi, Input, Program, TensorSpec, Weight
from numc.support.errors import CompilerBug

# y = x, and one access with the index n. The compiler knows malloc and free, but not numc_alloc and numc_free.
TEXT = """
llvm.func @numc_alloc(i64) -> !llvm.ptr
llvm.func @numc_free(!llvm.ptr)
llvm.func @numc_parallel(!llvm.ptr, !llvm.ptr, i64, i64)
llvm.func @add(%%counter: !llvm.ptr, %%begin: i64, %%end: i64) {
  %%zero = llvm.mlir.constant(0 : i64) : i64
  %%whole = llvm.icmp "eq" %%begin, %%zero : i64
  %%v = llvm.sitofp %%end : i64 to f32
  llvm.cond_br %%whole, ^store, ^done
^store:
  llvm.store %%v, %%counter : f32, !llvm.ptr
  llvm.br ^done
^done:
  llvm.return
}
func.func @main(%%x: memref<?xf32>, %%w: memref<20xf32>, %%n: memref<i64>) -> memref<?xf32> {
  %%c0 = arith.constant 0 : index
  %%d = memref.dim %%x, %%c0 : memref<?xf32>
  %%n64 = memref.load %%n[] : memref<i64>
  %%i = arith.index_cast %%n64 : i64 to index
  %%r = memref.alloc(%%d) : memref<?xf32>
  memref.copy %%x, %%r : memref<?xf32> to memref<?xf32>
  %%one = arith.constant 1.0 : f32
  %%bytes = arith.constant 80 : i64
  %s
  return %%r : memref<?xf32>
}
"""
_READ = "{} = memref.load {}[%i] : memref<{}xf32>\n memref.store %v, %r[%c0] : memref<?xf32>"
_TAKE = "%t = llvm.call @numc_alloc(%bytes) : (i64) -> !llvm.ptr\n"
_GIVE = "llvm.call @numc_free(%t) : (!llvm.ptr) -> ()\n"
_USE = """%q = llvm.getelementptr %t[%n64] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %v = llvm.load %q : !llvm.ptr -> f32
  memref.store %v, %r[%c0] : memref<?xf32>
"""
FAULTS = {
    "reads x": _READ.format("%v", "%x", "?"),
    "reads w": _READ.format("%v", "%w", "20"),
    "writes y": "memref.store %one, %r[%i] : memref<?xf32>",
    "writes x": "memref.store %one, %x[%i] : memref<?xf32>",
    "writes w": "memref.store %one, %w[%i] : memref<20xf32>",
    "reads fresh memory": _TAKE + _USE + _GIVE,
    "reads freed memory": _TAKE + _GIVE + _USE,
    "writes beside its buffer": _TAKE + "%q = llvm.getelementptr %t[%n64] : (!llvm.ptr, i64) -> !llvm.ptr, f32\n"
    "llvm.store %one, %q : f32, !llvm.ptr\n" + _GIVE,
    "divides": "%k = arith.constant 10 : i64\n%q = arith.divsi %k, %n64 : i64\n%v = arith.sitofp %q : i64 to f32\n"
    "memref.store %v, %r[%c0] : memref<?xf32>",
    "depends on threads": """%at = memref.extract_aligned_pointer_as_index %r : memref<?xf32> -> index
  %at64 = arith.index_cast %at : index to i64
  %place = llvm.inttoptr %at64 : i64 to !llvm.ptr
  %task = llvm.mlir.addressof @add : !llvm.ptr
  %hidden = arith.constant -1 : i64
  llvm.call @numc_parallel(%task, %place, %bytes, %hidden) : (!llvm.ptr, !llvm.ptr, i64, i64) -> ()""",
}


def program(fault: str) -> Program:
    arguments = (Input("x", "float32", (None,)), Weight("w", "float32", (20,)), Input("n", "int64", ()))
    abi = Abi(entry="numc_entry", arguments=arguments, results=(TensorSpec("y", "float32", (None,)),))
    return Program(programs.make(TEXT % FAULTS[fault], abi, (np.arange(20, dtype=np.float32),)))


def said(fault: str, n: int) -> str:
    """The error of a run with the index n, or "" where there is none."""
    try:
        program(fault)(np.arange(20, dtype=np.float32), np.array(n), threads=2)
    except CompilerBug as error:
        return str(error)
    return ""


if __name__ == "__main__":
    indices = (0, 5, 20, 21, 5000, -1, 1 << 40)
    print(json.dumps({fault: {n: said(fault, n) for n in indices} for fault in FAULTS}))
