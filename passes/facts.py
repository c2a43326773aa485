"""Facts about a module, as attributes whose names begin with ``numc.``: known at import, or found by a pass for others.

They are a part of the text of the IR, so a dumped file can be resumed without anything beside it. Attributes of the
module and of the arguments of @main survive every pass; those of an operation, until a pass replaces the operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch_mlir import ir

_ARGUMENTS = "arg_attrs"
_KEPT = "numc.arguments"  # on the entry that takes the place of @main: the attributes of main's arguments

KERNEL = "numc.kernel"
"""On a function that `emit_kernels` makes: no pass changes it before the stage ``llvm``."""


def attribute(data: Any) -> ir.Attribute:
    """Write None, a bool, an int, a float, a string, or a list or dict of these (keys are strings) as an attribute.

    Needs a context and a location: ``with module.context, ir.Location.unknown()``. None becomes ``unit``, an int an
    i64, a float an f64.
    """
    if data is None:
        return ir.UnitAttr.get()
    if isinstance(data, bool):
        return ir.BoolAttr.get(data)
    if isinstance(data, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), data)
    if isinstance(data, float):
        return ir.FloatAttr.get(ir.F64Type.get(), data)
    if isinstance(data, str):
        return ir.StringAttr.get(data)
    if isinstance(data, dict):
        return ir.DictAttr.get({key: attribute(value) for key, value in data.items()})
    return ir.ArrayAttr.get([attribute(value) for value in data])


def data_of(written: ir.Attribute) -> Any:
    """Return what `attribute` wrote: lists come back as lists, dicts with their keys in alphabetical order."""
    if isinstance(written, ir.UnitAttr):
        return None
    if isinstance(written, (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr, ir.StringAttr)):
        return written.value
    if isinstance(written, ir.DictAttr):
        return {named.name: data_of(named.attr) for named in written}
    if isinstance(written, ir.ArrayAttr):
        return [data_of(each) for each in written]
    raise TypeError(f"{written}: not the attribute of a fact")


def get(op: ir.Operation, name: str, default: Any = None) -> Any:
    """Return the fact `name` of an operation (a module is one), or `default` where there is none."""
    return data_of(op.attributes[name]) if name in op.attributes else default


def put(op: ir.Operation, name: str, data: Any) -> None:
    """Give an operation (a module is one) the fact `name`."""
    with op.context, ir.Location.unknown():
        op.attributes[name] = attribute(data)


def drop(op: ir.Operation, name: str) -> None:
    """Take the fact `name` away from an operation, if it has it."""
    if name in op.attributes:
        del op.attributes[name]


def of_arguments(module: ir.Operation, name: str) -> dict[int, Any]:
    """Return the fact `name` of the arguments of @main that have it, by their numbers.

    Once packed-entry has replaced @main, these are still the arguments that @main had.
    """
    listed = map(ir.DictAttr, _listed(*_described(module)))
    return {number: data_of(each[name]) for number, each in enumerate(listed) if name in each}


def put_arguments(module: ir.Operation, name: str, data: Mapping[int, Any]) -> None:
    """Make `data` the fact `name` of the arguments of @main, by their numbers; other arguments do not have it then."""
    function, attribute_name = _described(module)
    if function is None:
        if data:
            raise ValueError(f"{name}: the module has no function @main")
        return
    with module.context, ir.Location.unknown():
        before = [ir.DictAttr(each) for each in _listed(function, attribute_name)]
        count = max(len(before), len(function.regions[0].blocks[0].arguments) if attribute_name == _ARGUMENTS else 0)
        before += [ir.DictAttr.get({})] * (count - len(before))
        kept = [{named.name: named.attr for named in each if named.name != name} for each in before]
        for number, value in data.items():
            kept[number][name] = attribute(value)
        if any(kept) or _listed(function, attribute_name):
            function.attributes[attribute_name] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in kept])


def keep_arguments(main: ir.Operation, entry: ir.Operation) -> None:
    """Give the facts of the arguments of `main` to `entry`, a function without these arguments that takes its place."""
    if _ARGUMENTS in main.attributes:
        entry.attributes[_KEPT] = main.attributes[_ARGUMENTS]


def _described(module: ir.Operation) -> tuple[ir.Operation | None, str]:
    """The function that has the attributes of the arguments of @main, and under which name; None if there is none."""
    for op in module.regions[0].blocks[0].operations:
        if op.operation.name == "func.func" and ir.StringAttr(op.attributes["sym_name"]).value == "main":
            return op.operation, _ARGUMENTS
        if _KEPT in op.operation.attributes:
            return op.operation, _KEPT
    return None, _ARGUMENTS


def _listed(function: ir.Operation | None, place: str) -> list[ir.Attribute]:
    if function is None or place not in function.attributes:
        return []
    return list(ir.ArrayAttr(function.attributes[place]))
