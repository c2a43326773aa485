"""Programs of MLIR texts, from the cache where it has them: what functions on arrays run."""

from __future__ import annotations

from functools import cache
from typing import Any

from numc.compiler.cache import cache as cached
from numc.compiler.options import Options
from numc.frontends.imported import Imported
from numc.runtime.any_program import program_of
from numc.runtime.container import Contents
from numc.runtime.program import Program
from numc.support.environment import in_default_environment
from numc.support.versions import check_torch_mlir


@in_default_environment
def compiled_text(text: str, **options: Any) -> Program:
    """Return the program of an MLIR text without weights, from the cache if it is there."""
    source, chosen = Imported(mlir=text, sources=("<numc>",)), Options(**options)

    def made() -> Contents:
        check_torch_mlir()
        from numc.compiler.assemble import assemble  # MLIR is not needed for what the cache has

        return assemble(source, chosen)

    return program_of(cached.through(cached.entry(source, chosen, None), made)[0])  # type: ignore[no-any-return]


@cache
def elementwise(operation: str, inputs: int, element: str = "f32", target: str = "host") -> Any:
    """A program that applies one numc operation, written without its leading ``"``, to 1-D arrays of `element`."""
    operand, result = f"tensor<?x{element}>", "tensor<?xf32>"
    maps = ", ".join(["affine_map<(i) -> (i)>"] * (inputs + 1))
    arguments = ", ".join(f"%x{n}: {operand}" for n in range(inputs))
    names = ", ".join(f"%x{n}" for n in range(inputs))
    block = ", ".join(f"%a{n}: {element}" for n in range(inputs))
    last = 0 if inputs == 1 else 3
    return compiled_text(
        f"""
func.func @main({arguments}) -> {result} {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x0, %c0 : {operand}
  %e = tensor.empty(%n) : {result}
  %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
      ins({names} : {", ".join([operand] * inputs)}) outs(%e : {result}) {{
  ^bb0({block}, %out: f32):
    %v0 = "{operation}
    linalg.yield %v{last} : f32
  }} -> {result}
  return %r : {result}
}}""",
        target=target,
    )
