"""The functions of a shared object that a program is called by, as code that a linker joins to the program's own."""

from __future__ import annotations

from io import BytesIO

from torch_mlir import ir

from numc.compiler.deploy.machines import Machine
from numc.passes.kernels.backend.partition import Part

#: What code means by names of the C library, or of numc's own functions, in the runtime (numc/generated.h).
REDIRECTED = {
    "malloc": ("numc_code_buffer", "(i64) -> !llvm.ptr"),
    "aligned_alloc": ("numc_code_aligned_buffer", "(i64, i64) -> !llvm.ptr"),
    "free": ("numc_code_free", "(!llvm.ptr) -> ()"),
    "numc_alloc": ("numc_code_alloc", "(i64) -> !llvm.ptr"),
    "abort": ("numc_code_abort", "() -> ()"),
    "memrefCopy": ("numc_code_memref_copy", "(i64, !llvm.ptr, !llvm.ptr) -> ()"),
}
_MADE = "!llvm.struct<(ptr, ptr, i64, ptr, i64, ptr, ptr)>"  # numc_linked of numc/generated.h


def functions_of(name: str) -> tuple[str, str]:
    """Return the names of the functions that a shared object shows."""
    return f"{name}_program", f"{name}_run"


def glue(machine: Machine, name: str, version: str, entry: str, sizes: tuple[int, int]) -> bytes:
    """Return an object that defines the functions of `functions_of`, and wrappers of `REDIRECTED`.

    It needs ``numc_abi`` and ``numc_weights``, which have these sizes, and the entry of the program.
    """
    wrappers = [_wrapper(f"__wrap_{key}", *to) for key, to in REDIRECTED.items()]
    program, run = functions_of(name)
    made = _made(version, f"@{entry}", *sizes)
    text = "\n".join([*wrappers, f"llvm.func @{entry}(!llvm.ptr)", made, _calls(program, run)])
    exported = (*(f"__wrap_{key}" for key in REDIRECTED), program, run)
    with ir.Context() as context:
        context.enable_multithreading(False)
        stream = BytesIO()
        ir.Module.parse(text).operation.write_bytecode(stream)
    with machine.making(machine.target, "", lambda module: None) as code:
        return code.of_part(Part("glue", stream.getvalue(), exported))


def _wrapper(name: str, to: str, signature: str) -> str:
    parameters, result = signature.split(" -> ")
    types = [each for each in parameters.strip("()").split(", ") if each]
    arguments = ", ".join(f"%{n}: {each}" for n, each in enumerate(types))
    passed = ", ".join(f"%{n}" for n in range(len(types)))
    returned = "" if result == "()" else f" -> {result}"
    value, back = ("", "llvm.return") if result == "()" else ("%r = ", f"llvm.return %r : {result}")
    return (
        f"llvm.func @{to}({', '.join(types)}){returned}\n"
        f"llvm.func @{name}({arguments}){returned} {{\n"
        f"  {value}llvm.call @{to}({passed}) : ({', '.join(types)}) -> {result}\n  {back}\n}}"
    )


def _made(version: str, entry: str, abi_size: int, weights_size: int) -> str:
    """The record numc_linked of the object."""
    fields = ("@version", "@numc_abi", abi_size, "@numc_weights", weights_size, entry, None)
    lines = [f"  %0 = llvm.mlir.undef : {_MADE}"]
    for n, each in enumerate(fields):
        if isinstance(each, int):
            value = f"llvm.mlir.constant({each} : i64) : i64"
        else:
            value = "llvm.mlir.zero : !llvm.ptr" if each is None else f"llvm.mlir.addressof {each} : !llvm.ptr"
        lines += [f"  %v{n} = {value}", f"  %{n + 1} = llvm.insertvalue %v{n}, %{n}[{n}] : {_MADE}"]
    initial = "\n".join(lines)
    return f"""
llvm.func @numc_abi()
llvm.func @numc_weights()
llvm.mlir.global internal constant @version("{version}\\00")
llvm.mlir.global internal @made() : {_MADE} {{
{initial}
  llvm.return %{len(fields)} : {_MADE}
}}"""


def _calls(program: str, run: str) -> str:
    """The functions that users call."""
    return f"""
llvm.func @numc_linked_program(!llvm.ptr, !llvm.ptr) -> !llvm.ptr
llvm.func @numc_linked_run(!llvm.ptr, !llvm.ptr, !llvm.ptr, i32, !llvm.ptr) -> i32
llvm.func @{program}(%error: !llvm.ptr) -> !llvm.ptr {{
  %made = llvm.mlir.addressof @made : !llvm.ptr
  %r = llvm.call @numc_linked_program(%made, %error) : (!llvm.ptr, !llvm.ptr) -> !llvm.ptr
  llvm.return %r : !llvm.ptr
}}
llvm.func @{run}(%inputs: !llvm.ptr, %outputs: !llvm.ptr, %threads: i32, %error: !llvm.ptr) -> i32 {{
  %made = llvm.mlir.addressof @made : !llvm.ptr
  %r = llvm.call @numc_linked_run(%made, %inputs, %outputs, %threads, %error)
    : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i32, !llvm.ptr) -> i32
  llvm.return %r : i32
}}
"""
