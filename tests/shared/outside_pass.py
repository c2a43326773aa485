"""A pass as a package from outside has it."""

from torch_mlir import ir


def count(module: ir.Operation) -> None:
    """Count the multiply-adds of a module."""
    found = 0

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found += op.name == "numc.fma"
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    with module.context:
        module.attributes["test.products"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), found)
