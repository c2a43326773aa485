"""A linalg.generic as a kernel of Triton: an element of the output for each lane of a tile, reductions in order.

The parallel dimensions are one range, of which a program instance computes `BLOCK` neighbours; the reductions are loops
of the instance, in the order of linalg, so that every element takes its terms in the defined order. `I` is the integer
type of places: 32 bits where all memory is that small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.gpu.kernel_text import Argument, Writing, affine_text, uses
from numc.passes.gpu.tile_operations import UnknownError

Size = int | tuple[ir.Value, int]
"""The size of a loop: a number, or the memref and its dimension that has it."""


@dataclass(frozen=True)
class Kernel:
    """A kernel: its text, what it is called with, and the loops whose sizes say how many elements it computes.

    text: without its name, which stands for ``{name}``. arguments: in the order of the call, `total` and what is
    constant after them. total: the sizes that are multiplied, each a number or the memref and dimension that has it.
    checks: whether it is given where failures are written to, before all else.
    """

    text: str
    arguments: tuple[Argument, ...]
    total: tuple[Size, ...]
    checks: bool


def loop_kernel(generic: ir.Operation, message: Callable[[str], int]) -> Kernel:
    """Return the kernel of a linalg.generic on memrefs. message: the number of a failure, by its words.

    Raises UnknownError for what kernels cannot compute.
    """
    w = Writing("tl", mask="inside")
    iterators, maps, block = linalg.iterator_types(generic), linalg.indexing_maps(generic), linalg.body(generic)
    sizes = sizes_of(generic)
    parallel = [d for d, iterator in enumerate(iterators) if iterator == "parallel"]
    reductions = [d for d, iterator in enumerate(iterators) if iterator == "reduction"]
    extents = [s if isinstance(s, int) else w.size(*s) for s in sizes]
    dims = [f"d{d}" for d in range(len(iterators))]
    w.line("n = tl.program_id(0).to(I) * BLOCK + tl.arange(0, BLOCK).to(I)")
    w.line("inside = n < total")
    _positions(w, parallel, extents)
    inputs = linalg.input_count(generic)
    names: dict[ir.Value, str] = {}
    places: list[str] = []
    for number, (value, map_) in enumerate(zip(generic.operands, maps, strict=True)):
        if not isinstance(value.type, ir.MemRefType):
            places.append("")
            continue
        address = _place(w, value, map_, dims, parallel)
        if not any(dims[d] in address for d in reductions):
            address = w.let(f"{w.argument('memory', value)} + ({address})", "p")
        else:
            address = f"{w.argument('memory', value)} + ({address})"
        places.append(address)
        argument = block.arguments[number]
        if number >= inputs and list(argument.uses):
            names[argument] = w.let(f"tl.load({address}, mask=inside)", "a")
        elif number >= inputs and reductions:
            raise UnknownError("a reduction that does not read what it reduces to")
    body = _Body(w, names, dims, message)
    for d in reductions:
        w.line(f"for d{d} in range(0, {extents[d]}):")
        w.depth += 1
    for number in range(inputs):
        argument, value = block.arguments[number], generic.operands[number]
        if not list(argument.uses):
            continue
        names[argument] = (
            w.let(f"tl.load({places[number]}, mask=inside)", "a") if places[number] else w.known(value, {})
        )
    results = body.block(block)
    outputs = [block.arguments[n] for n in range(inputs, len(generic.operands))]
    if reductions:
        for argument, result in zip(outputs, results, strict=True):
            w.line(f"{names[argument]} = {result}")
        w.depth -= len(reductions)
        results = [names[argument] for argument in outputs]
    for address, result in zip(places[inputs:], results, strict=True):
        w.line(f"tl.store({address}, {result}, mask=inside)")
    told = [*(["failed"] if body.checks else []), *w.arguments.values(), "total"]
    # Constants are tiles, too: the interpreter forgets the type of comparisons between scalars.
    text = w.kernel(told, ("I", "BLOCK"), shape="[BLOCK]")
    total = tuple(sizes[d] for d in parallel)
    return Kernel(text, tuple(w.arguments), total, body.checks)


class _Body:
    """The operations of a body, on tiles."""

    def __init__(
        self, w: Writing, names: dict[ir.Value, str], dims: Sequence[str], message: Callable[[str], int]
    ) -> None:
        self.w, self.names, self.dims, self.message = w, names, dims, message
        self.alive = "inside"
        self.checks = False

    def block(self, block: ir.Block) -> list[str]:
        """Append the operations of a block; returns what it yields."""
        w, names = self.w, self.names
        for each in block.operations:
            op = each.operation
            if op.name == "linalg.yield":
                return [w.known(value, names) for value in op.operands]
            if op.name == "linalg.index":
                d = int(ir.IntegerAttr(op.attributes["dim"]).value)
                names[op.results[0]] = w.let(f"{self.dims[d]} + tl.full([], 0, tl.int64)", "v")
            elif op.name == "memref.load":
                memory, *indices = op.operands
                address = w.place(memory, [w.known(i, names) for i in indices])
                where = f"{w.argument('memory', memory)} + ({address})"
                names[op.results[0]] = w.let(f"tl.load({where}, mask={self.alive})", "v")
            elif op.name == "cf.assert":
                number = self.message(ir.StringAttr(op.attributes["msg"]).value)
                holds = w.known(op.operands[0], names)
                w.line(f"tl.atomic_max(failed + n * 0, {number}, mask={self.alive} & ~({holds}))")
                self.alive = w.let(f"{self.alive} & ({holds})", "alive")
                self.checks = True
            elif op.name in ("memref.dim",):
                made = linalg.maker(op.operands[1])
                assert made is not None
                names[op.results[0]] = str(w.size(op.operands[0], int(ir.IntegerAttr(made.attributes["value"]).value)))
            else:
                w.arithmetic(op, names)
        raise AssertionError("a body yields")


def sizes_of(generic: ir.Operation) -> list[Size]:
    """The size of every loop of a linalg.generic on memrefs. Raises UnknownError if no operand has it."""
    sizes: dict[int, Size] = {}
    maps = linalg.indexing_maps(generic)
    for value, map_ in zip(generic.operands, maps, strict=True):
        if not isinstance(value.type, ir.MemRefType):
            continue
        memref = ir.MemRefType(value.type)
        for n, expr in enumerate(map_.results):
            if isinstance(expr, ir.AffineDimExpr) and not isinstance(sizes.get(expr.position), int):
                sizes[expr.position] = (value, n) if memref.is_dynamic_dim(n) else int(memref.get_dim_size(n))
    if len(sizes) < maps[0].n_dims:
        raise UnknownError("a loop whose size no operand has")
    return [sizes[d] for d in range(maps[0].n_dims)]


def _positions(w: Writing, parallel: Sequence[int], extents: Sequence[int | str]) -> None:
    """The index of every parallel dimension, from the number of the element."""
    rest = "n"
    for d in reversed(parallel[1:]):
        if extents[d] == 1:
            w.line(f"d{d} = {rest} * 0")
            continue
        w.line(f"d{d} = {rest} % {extents[d]}")
        rest = w.let(f"{rest} // {extents[d]}", "q")
    if parallel:
        w.line(f"d{parallel[0]} = {rest}")


def _place(w: Writing, value: ir.Value, map_: ir.AffineMap, dims: Sequence[str], parallel: Sequence[int]) -> str:
    """Where an operand's element is; that of a dense operand with all parallel dimensions in order has number ``n``."""
    memref = ir.MemRefType(value.type)
    order = [e.position if isinstance(e, ir.AffineDimExpr) else -1 for e in map_.results]
    if order == list(parallel) and memref.affine_map == ir.AffineMap.get_identity(memref.rank):
        return "n"
    address = w.place(value, [affine_text(e, dims) for e in map_.results])
    # A mask of lanes takes places of lanes.
    return address if any(uses(e, d) for e in map_.results for d in parallel) else f"{address} + n * 0"
