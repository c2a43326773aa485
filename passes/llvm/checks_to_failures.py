"""checks-to-failures: a cf.assert ends the run with an error of its own instead of ending the process.

The runtime's ``numc_fail`` takes a number, from 1; the module's `numc.failures` are the texts, in the order of the
numbers, which the program's manifest takes over.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import facts, linalg

FAIL = "numc_fail"


def checks_to_failures(module: ir.Operation) -> None:
    """Make every cf.assert end the run with an error of its own instead of ending the process."""
    known = facts.get(module, "numc.failures", [])
    codes = {text: number for number, text in enumerate(known, 1)}
    i32, i1 = ir.IntegerType.get_signless(32, module.context), ir.IntegerType.get_signless(1, module.context)
    for check in linalg.operations(module, "cf.assert"):
        message = str(ir.StringAttr(check.attributes["msg"]).value)
        place = check.location.name_str if isinstance(check.location, ir.NameLoc) else ""
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
            declaration = ir.Module.parse(f"func.func private @{FAIL}(i32)")
            module.regions[0].blocks[0].append(declaration.body.operations[0].operation.clone())
    if len(codes) > len(known):
        facts.put(module, "numc.failures", list(codes))


def _constant(kind: ir.Type, value: int) -> ir.Value:
    return ir.Operation.create(
        "arith.constant", results=[kind], attributes={"value": ir.IntegerAttr.get(kind, value)}
    ).result
