"""checks-to-failures: a cf.assert ends the run with an error of its own instead of ending the process.

The runtime's ``numc_fail`` takes a number, from 1; the module's `numc.failures` are the texts, in the order of the
numbers, which the program's manifest takes over.
"""

from __future__ import annotations

import re

from torch_mlir import ir

from numc.passes import facts, linalg
from numc.passes.parsed import parsed

FAIL = "numc_fail"

# What torch-mlir's own checks say, in words that tell what to do.
_MESSAGES = {
    "mismatched size for broadcast": "sizes do not fit: "
    "two operands differ in a dimension in which neither has the fixed size 1; fix it when compiling",
    "mismatching contracting dimension for torch.aten.mm": "sizes do not fit: the left operand of a matrix product has "
    "not as many columns as the right one has rows",
    "mismatching contracting dimension": "sizes do not fit: "
    "the operands of a product differ in the dimension they share",
    "unimplemented: determinants requiring permutations and singular matrices": "a determinant of a free number of "
    "rows divides by 0: fix the number when compiling",
    "negative values not allowed in new dimensions": "a size would be negative",
    "must have at most one inferred (negative) dimension": "a reshape has more than one negative size: one may be -1",
    "index must be smaller than dim size": "an index is out of range",
    "index must be larger or equal to 0": "an index is out of range",
    "onnx.Expand input has a dim that is not statically 1; expected this dim >= dim provided shape.": "sizes do not "
    "fit: a tensor cannot be expanded to a size unless it has that size, or 1",
}


def checks_to_failures(module: ir.Operation) -> None:
    """Make every cf.assert end the run with an error of its own instead of ending the process."""
    known = facts.get(module, "numc.failures", [])
    codes = {text: number for number, text in enumerate(known, 1)}
    i32, i1 = ir.IntegerType.get_signless(32, module.context), ir.IntegerType.get_signless(1, module.context)
    for check in linalg.operations(module, "cf.assert"):
        message = str(ir.StringAttr(check.attributes["msg"]).value)
        message = _MESSAGES.get(message, message)
        # Of several nodes that one became, the later ones are numbered.
        place = re.sub(r"#\d+$", "", check.location.name_str) if isinstance(check.location, ir.NameLoc) else ""
        code = codes.setdefault(f"{message}{f' (in {place!r})' if place else ''}", len(codes) + 1)
        with ir.InsertionPoint(check), check.location:
            true = _constant(i1, -1)
            failed = ir.Operation.create("arith.xori", results=[i1], operands=[check.operands[0], true]).result
            branch = ir.Operation.create("scf.if", operands=[failed], regions=2)
        with ir.InsertionPoint(branch.regions[0].blocks.append()), check.location:
            callee = {"callee": ir.FlatSymbolRefAttr.get(FAIL)}
            ir.Operation.create("func.call", operands=[_constant(i32, code)], attributes=callee)
            ir.Operation.create("scf.yield")
        check.erase()
    if codes and not known:
        with module.context:
            declaration = parsed(f"func.func private @{FAIL}(i32)")
            module.regions[0].blocks[0].append(declaration.body.operations[0].operation.clone())
    if len(codes) > len(known):
        facts.put(module, "numc.failures", list(codes))


def _constant(kind: ir.Type, value: int) -> ir.Value:
    return ir.Operation.create(
        "arith.constant", results=[kind], attributes={"value": ir.IntegerAttr.get(kind, value)}
    ).result
