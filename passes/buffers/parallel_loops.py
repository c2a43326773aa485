"""parallel-loops: each linalg.generic on memrefs that is left becomes loops over strided pointers, split over threads.

Loops that are contiguous in every operand are one loop, which LLVM vectorises with the widest registers. A reduction
keeps the order of its sum in every element: it is innermost with its sums in registers, several rows at a time so that
the latency of an addition does not count, or it is around a vectorised loop over neighbouring elements, as in pooling.
Every element belongs to one task: no bit depends on the number of threads.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.buffers.loop_code import BODY, loops_text
from numc.passes.buffers.loop_nest import Nest, nest_of


def parallel_loops(module: ir.Operation) -> None:
    """Make every linalg.generic with linear maps loops over memory, ``@loops_N``, split over threads where worth it."""
    known: dict[str, str] = {}
    with module.context, ir.Location.unknown():
        for generic in linalg.operations(module, "linalg.generic"):
            nest = nest_of(generic)
            if nest is not None:
                _replace(module, generic, nest, known)


def _replace(module: ir.Operation, generic: ir.Operation, nest: Nest, known: dict[str, str]) -> None:
    text = loops_text(nest)
    key = text + _body_text(generic, nest.captured)
    block = module.regions[0].blocks[0]
    if key not in known:
        name = known[key] = f"loops_{len(known)}"
        declared = {ir.StringAttr(op.attributes["sym_name"]).value for op in block.operations}
        for op in ir.Module.parse(text.replace("@loops", f"@{name}"), module.context).body.operations:
            symbol = ir.StringAttr(op.attributes["sym_name"]).value
            if symbol == BODY or symbol in declared:
                continue
            block.append(copy := op.operation.clone())
            if symbol == f"{name}_task":
                _fill_in(copy.operation, generic, nest)
    with ir.InsertionPoint(generic), generic.location:
        callee = {"callee": ir.FlatSymbolRefAttr.get(known[key])}
        ir.Operation.create("func.call", operands=[*generic.operands, *nest.captured], attributes=callee)
    generic.erase()


def _body_text(generic: ir.Operation, captured: list[ir.Value]) -> str:
    """The body as text in which captured values are numbered, so that equal loops are found."""
    block = linalg.body(generic)
    names = {argument: f"a{n}" for n, argument in enumerate(block.arguments)}
    names.update({value: f"c{n}" for n, value in enumerate(captured)})
    lines = []
    for op in linalg.operations(generic):
        if op == generic:
            continue
        operands = [names.get(v) or str(v.owner.attributes["value"]) for v in op.operands]
        names.update({r: f"r{len(names)}" for r in op.results})
        attributes = [f"{a}={op.attributes[a]}" for a in op.attributes]
        lines.append(f"{op.name} {operands} {attributes} {[str(r.type) for r in op.results]} {op.parent.name}")
    return "\n".join(lines)


def _fill_in(task: ir.Operation, generic: ir.Operation, nest: Nest) -> None:
    """Put the body of `generic` in the places of the calls that stand for it."""
    entry = task.regions[0].blocks[0]
    first = ir.InsertionPoint.at_block_begin(entry)
    constants = {op.results[0]: op.clone(first).operation.results[0] for op in nest.constants}
    block = linalg.body(generic)
    indices = [op.operation for op in linalg.operations(generic, "linalg.index")]
    for call in list(linalg.operations(task, "func.call")):
        operands = list(call.operands)
        given = [*block.arguments, *nest.captured, *(op.results[0] for op in indices)]
        values = dict(zip(given, operands, strict=True)) | constants
        linalg.replace(call, linalg.copy_body(block, ir.InsertionPoint(call), values))
