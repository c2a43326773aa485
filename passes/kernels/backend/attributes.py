"""The attributes that make LLVM generate functions for a target, whatever the machine is."""

from __future__ import annotations

from torch_mlir import ir

from numc.passes.kernels.backend import Lower


def with_attributes(lower: Lower, attributes: str) -> Lower:
    """Return what lowers a module and then gives its functions these attributes, a dictionary as text."""

    def lower_for_target(module: ir.Module) -> None:
        lower(module)
        with module.context, ir.Location.unknown():
            parsed = ir.DictAttr(ir.Attribute.parse(attributes))
            for op in module.body.operations:
                if op.operation.name == "llvm.func" and op.operation.regions[0].blocks:
                    _for_target(op.operation, parsed)

    return lower_for_target


def _for_target(function: ir.Operation, attributes: ir.DictAttr) -> None:
    for named in attributes:
        if named.name == "passthrough" and "passthrough" in function.attributes:
            existing = list(ir.ArrayAttr(function.attributes["passthrough"]))
            function.attributes["passthrough"] = ir.ArrayAttr.get([*existing, *ir.ArrayAttr(named.attr)])
        else:
            function.attributes[named.name] = named.attr
