"""parallel-loops: each linalg.generic on memrefs that is left becomes loops over strided pointers, split over threads.

Loops that are contiguous in every operand are one loop, which LLVM vectorises with the widest registers. A reduction
keeps the order of its sum in every element: it is innermost with its sums in registers, those of several rows in the
lanes of a vector, or it is around a vectorised loop over neighbouring elements. What is contiguous along another loop
than the output, as in transposed copies and in sums over rows, is transposed in registers on its way into the lanes.
Every element belongs to one task: no bit depends on the number of threads.
"""

from __future__ import annotations

from collections.abc import Hashable

from torch_mlir import ir

from numc.passes import facts, linalg
from numc.passes.buffers.loop_nest import Nest, form_of, nest_of
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.parsed import parsed
from numc.passes.vector.call_rows import ROWS
from numc.passes.vector.flat_nests import flat
from numc.passes.vector.loop_code import loops_text
from numc.passes.vector.loop_elements import BODY


def parallel_loops(module: ir.Operation, isa: InstructionSet) -> None:
    """Make every linalg.generic with linear maps loops over memory, ``@loops_N``, split over threads where worth it."""
    with module.context, ir.Location.unknown():
        loops = _Loops(module, isa)
        for generic in linalg.operations(module, "linalg.generic"):
            nest = nest_of(generic, facts.get(generic, ROWS, 0))
            if nest is not None:
                loops.replace(generic, flat(nest, generic))


class _Loops:
    """The functions that were added to a module so far: equal loops around equal bodies are one function."""

    def __init__(self, module: ir.Operation, isa: InstructionSet) -> None:
        self._isa, self._context = isa, module.context
        self._block = module.regions[0].blocks[0]
        self._declared = {ir.StringAttr(op.attributes["sym_name"]).value for op in self._block.operations}
        self._texts: dict[tuple[Hashable, ...], str] = {}
        self._names: dict[tuple[str, str], str] = {}

    def replace(self, generic: ir.Operation, nest: Nest) -> None:
        """Make `generic` a call of its loops."""
        form = form_of(nest)
        if form not in self._texts:
            self._texts[form] = loops_text(nest, self._isa)
        key = self._texts[form], linalg.body_text(generic, nest.captured)
        if key not in self._names:
            self._names[key] = self._added(key[0], generic, nest)
        with ir.InsertionPoint(generic), generic.location:
            callee = {"callee": ir.FlatSymbolRefAttr.get(self._names[key])}
            ir.Operation.create("func.call", operands=[*nest.operands, *nest.captured], attributes=callee)
        generic.erase()

    def _added(self, text: str, generic: ir.Operation, nest: Nest) -> str:
        """Add the functions of a text to the module, with the body of `generic`; returns the name of the first."""
        name = f"loops_{len(self._names)}"
        for op in parsed(text.replace("@loops", f"@{name}"), self._context).body.operations:
            symbol = ir.StringAttr(op.attributes["sym_name"]).value
            if symbol.startswith(BODY) or symbol in self._declared:
                continue
            self._block.append(copy := op.operation.clone())
            self._declared.add(symbol)
            if symbol == f"{name}_task":
                _fill_in(copy.operation, generic, nest)
        return name


def _fill_in(task: ir.Operation, generic: ir.Operation, nest: Nest) -> None:
    """Put the body of `generic` in the places of the calls that stand for it."""
    entry = task.regions[0].blocks[0]
    first = ir.InsertionPoint.at_block_begin(entry)
    constants = {op.results[0]: op.clone(first).operation.results[0] for op in nest.constants}
    block = linalg.body(generic)
    inputs, operands = linalg.input_count(generic), len(generic.operands)
    arguments = list(block.arguments)  # what is looked up comes last
    arguments = [*arguments[:inputs], *arguments[operands:], *arguments[inputs:operands]]
    indices = [op.operation for op in linalg.operations(generic, "linalg.index")]
    for call in list(linalg.operations(task, "func.call")):
        body_values = [*arguments, *nest.captured, *(op.results[0] for op in indices)]
        values = dict(zip(body_values, call.operands, strict=True)) | constants
        operand_type = call.operands[0].type
        with ir.InsertionPoint(call) as point, call.location:
            if isinstance(operand_type, ir.VectorType):
                made = _copy_in_lanes(block, values, operand_type.shape)
            else:
                made = linalg.copy_body(block, point, values)
        linalg.replace(call, made)


def _copy_in_lanes(block: ir.Block, values: dict[ir.Value, ir.Value], shape: list[int]) -> list[ir.Value]:
    """Copy a body, which is on scalars, as one on vectors, `values` replaced; returns what it would yield."""

    def in_lanes(value: ir.Value) -> ir.Value:
        known = values.get(value, value)
        if not isinstance(known.type, ir.VectorType):
            vector_type, maker = ir.VectorType.get(shape, known.type), linalg.maker(known)
            if maker is not None and maker.name == "arith.constant":  # a power asks whether its exponent is one
                number = ir.DenseElementsAttr.get_splat(vector_type, maker.attributes["value"])
                new = ir.Operation.create("arith.constant", results=[vector_type], attributes={"value": number})
            else:
                new = ir.Operation.create("vector.broadcast", results=[vector_type], operands=[known])
            known = values[value] = new.results[0]
        return known

    *ops, terminator = [op.operation for op in block.operations]
    for op in ops:
        if op.name == "arith.constant":
            values[op.results[0]] = op.clone().operation.results[0]
            continue
        attributes = {name: op.attributes[name] for name in op.attributes}
        kinds = [ir.VectorType.get(shape, r.type) for r in op.results]
        new = ir.Operation.create(
            op.name, results=kinds, operands=[in_lanes(v) for v in op.operands], attributes=attributes
        )
        values.update(zip(op.results, new.results, strict=True))
    return [in_lanes(v) for v in terminator.operands]
