"""Loops of scalars, as those of a sort, as a kernel of one program instance, which takes one step after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.gpu.kernel_text import Writing
from numc.passes.gpu.loop_kernels import Kernel
from numc.passes.gpu.tile_operations import UnknownError

_KNOWN = ("scf.for", "scf.if", "scf.while", "scf.yield", "scf.condition", "memref.load", "memref.store", "cf.assert")


def is_nest(op: ir.Operation) -> bool:
    """Whether a loop holds scalars, and loads and stores of memory, alone: nothing that the host has to do."""
    if op.name != "scf.for" or any(isinstance(v.type, ir.MemRefType) for v in op.operands) or op.results:
        return False
    return all(inner.name in _KNOWN or inner.name.startswith("arith.") for inner in linalg.operations(op))


def nest_kernel(op: ir.Operation, message: Callable[[str], int]) -> Kernel:
    """Return the kernel of such a loop. message: the number of a failure, by its words. Raises UnknownError."""
    nest = _Nest(Writing("tl"), message)
    nest.w.line("alive = total == 1")
    nest.operation(op)
    w = nest.w
    told = [*(["failed"] if nest.checks else []), *w.arguments.values(), "total"]
    return Kernel(w.kernel(told, ("I", "BLOCK")), tuple(w.arguments), (1,), nest.checks)


class _Nest:
    def __init__(self, w: Writing, message: Callable[[str], int]) -> None:
        self.w, self.message, self.checks = w, message, False
        self.names: dict[ir.Value, str] = {}

    def operation(self, op: ir.Operation) -> None:
        """Append an operation."""
        w, names = self.w, self.names
        if op.name == "memref.load":
            names[op.results[0]] = w.let(f"tl.load({self._place(*op.operands)}, mask=alive, other=0)", "v")
        elif op.name == "memref.store":
            value, *rest = op.operands
            w.line(f"tl.store({self._place(*rest)}, {w.known(value, names)}, mask=alive)")
        elif op.name == "cf.assert":
            number = self.message(ir.StringAttr(op.attributes["msg"]).value)
            holds = w.known(op.operands[0], names)
            w.line(f"tl.store(failed, {number}, mask=alive & ~({holds}))")
            w.line(f"alive = alive & ({holds})")
            self.checks = True
        elif op.name == "scf.for":
            self._for(op)
        elif op.name == "scf.while":
            self._while(op)
        elif op.name == "scf.if":
            self._if(op)
        else:
            w.arithmetic(op, names)

    def _place(self, memory: ir.Value, *indices: ir.Value) -> str:
        w = self.w
        return f"{w.argument('memory', memory)} + ({w.place(memory, [w.known(i, self.names) for i in indices])})"

    def _block(self, block: ir.Block) -> list[str]:
        """Append a block; returns what it gives."""
        for each in block.operations:
            op = each.operation
            if op.name in ("scf.yield", "scf.condition"):
                return [self.w.known(v, self.names) for v in op.operands]
            self.operation(op)
        return []

    def _carried(self, arguments: Sequence[ir.Value], values: Sequence[ir.Value]) -> list[str]:
        """Variables that begin as values; a number of Python becomes one of Triton."""
        variables = []
        for argument, value in zip(arguments, values, strict=True):
            if str(value.type) not in ("index", "i64", "i32", "i1"):
                raise UnknownError(f"a loop that carries {value.type}")
            variables.append(self.w.let(self.w.known(value, self.names), "w"))
            self.names[argument] = variables[-1]
        return variables

    def _for(self, op: ir.Operation) -> None:
        w, (start, end, step, *initial) = self.w, list(op.operands)
        index, *arguments = op.regions[0].blocks[0].arguments
        carried = self._carried(arguments, initial)
        bounds = ", ".join(w.known(v, self.names) for v in (start, end, step))
        number = f"i{w.count}"
        with w.inside(f"for {number} in range({bounds}):"):
            self.names[index] = w.let(f"tl.full([], 0, tl.int64) + {number}", "i")
            self._assign(carried, self._block(op.regions[0].blocks[0]))
        self.names |= dict(zip(op.results, carried, strict=True))

    def _while(self, op: ir.Operation) -> None:
        w, (before, after) = self.w, (region.blocks[0] for region in op.regions)
        carried = self._carried(before.arguments, op.operands)
        going, *values = self._block(before)
        self.names |= {r: w.let(g, "w") for r, g in zip(op.results, values, strict=True)}
        forwarded = [self.names[r] for r in op.results]
        going = w.let(going, "going")
        with w.inside(f"while {going}:"):
            self.names |= dict(zip(after.arguments, forwarded, strict=True))
            self._assign(carried, self._block(after))
            again, *values = self._block(before)
            self._assign([going, *forwarded], [again, *values])

    def _if(self, op: ir.Operation) -> None:
        w = self.w
        if op.results:
            raise UnknownError("scf.if with results in a loop")
        with w.inside(f"if {w.known(op.operands[0], self.names)}:"):
            self._block(op.regions[0].blocks[0])
        if len(op.regions[1].blocks):
            with w.inside("else:"):
                self._block(op.regions[1].blocks[0])

    def _assign(self, variables: Sequence[str], values: Sequence[str]) -> None:
        """Give variables new values, all at once."""
        fresh = [self.w.let(value, "u") for value in values]
        for variable, value in zip(variables, fresh, strict=True):
            self.w.line(f"{variable} = {value}")
