"""Straight-line code of kernels on tiles: what emitters append on scalars (kernels/builder.py), read back as Triton's.

So conversions and datapaths are written once, for vectors and for tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from numc.passes.gpu.kernel_text import Writing
from numc.passes.kernels.builder import Function
from numc.passes.kernels.ssa import Value
from numc.passes.parsed import parsed

Emit = Callable[[Function], Sequence[Value]]
"""Appends code to a function, of whose arguments it makes results."""


def tile_lines(w: Writing, arguments: Mapping[str, tuple[str, str]], emit: Emit) -> list[str]:
    """Append code to a kernel; returns its results. arguments: by name their types in MLIR, and their texts."""
    module = parsed(_function({name: type_ for name, (type_, _) in arguments.items()}, emit))
    (main,) = (op.operation for op in module.body.operations if op.operation.name == "func.func")
    for each in module.body.operations:
        if each.operation.name == "llvm.mlir.global":
            w.table(ir.StringAttr(each.attributes["sym_name"]).value, str(each))
    block = main.regions[0].blocks[0]
    names: dict[ir.Value, str] = dict(zip(block.arguments, (text for _, text in arguments.values()), strict=True))
    for each in block.operations:
        op = each.operation
        if op.name == "func.return":
            return [w.known(v, names) for v in op.operands]
        w.arithmetic(op, names)
    raise AssertionError("a function returns")


@dataclass(frozen=True)
class TileFunction:
    """A function of Gluon with one result: its name, its text, and the tables that it takes behind its arguments."""

    name: str
    text: str
    tables: Mapping[str, str]

    def call(self, w: Writing, *arguments: str) -> str:
        """The text of a call in a kernel, which takes the tables too."""
        told = [w.table(symbol, definition) for symbol, definition in self.tables.items()]
        return f"{self.name}({', '.join([*arguments, *told])})"


def tile_function(name: str, arguments: Mapping[str, str], emit: Emit) -> TileFunction:
    """Write a function. arguments: by name their types in MLIR."""
    w = Writing("gl")
    (result,) = tile_lines(w, {each: (type_, each) for each, type_ in arguments.items()}, emit)
    w.line(f"return {result}")
    text = w.kernel([*arguments, *w.tables], ()).replace("{name}", name, 1)
    return TileFunction(name, text, w.tables)


def _function(arguments: Mapping[str, str], emit: Emit) -> str:
    """A function of MLIR whose results have the types that it finds out."""
    types = [str(value.type) for value in emit(Function("f", arguments, attributes=""))]
    f = Function("f", arguments, ", ".join(types), attributes="")
    return f.function(*emit(f))
