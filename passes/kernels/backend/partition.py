"""Splits a module into parts that become machine code on their own, and in parallel.

The split follows from the module alone. Constants and declarations go wherever they are used; variables exist once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from io import BytesIO

from torch_mlir import ir

# A part is worth its fixed cost (a context, an engine) from about this many operations on; more parts than this make
# no machine faster that people have on their desk.
_OPERATIONS = 1000
_MOST_PARTS = 16
_REFERENCES = {
    "func.call": "callee",
    "func.constant": "value",
    "llvm.call": "callee",
    "llvm.mlir.addressof": "global_name",
    "memref.get_global": "name",
}
_FUNCTIONS = ("func.func", "llvm.func")


@dataclass(frozen=True)
class Part:
    """A module in MLIR bytecode. `exported` are the functions it defines for others.

    layer: the first one that a function is for; the name of the first function, if they are for no layer.
    """

    layer: str
    bytecode: bytes
    exported: tuple[str, ...]


def operations(root: ir.Operation) -> list[ir.Operation]:
    """Every operation below `root`, and `root`."""
    visited: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        visited.append(op.operation)
        return ir.WalkResult.ADVANCE

    root.walk(visit, ir.WalkOrder.POST_ORDER)
    return visited


class _Symbol:
    """A function or global of the module."""

    def __init__(self, op: ir.Operation) -> None:
        self.op = op
        self.name = str(ir.StringAttr(op.attributes["sym_name"]).value)
        self.is_function = op.name in _FUNCTIONS
        self.is_declaration = self.is_function and not op.regions[0].blocks
        self.is_constant = not self.is_function and "constant" in op.attributes
        self.size = 0
        self.references: set[str] = set()
        for inner in operations(op):
            self.size += 1
            attribute = _REFERENCES.get(inner.name)
            if attribute is not None and attribute in inner.attributes:
                self.references.add(str(ir.FlatSymbolRefAttr(inner.attributes[attribute]).value))


def partition(module: ir.Module, entry: str, names: Collection[str] | None = None) -> list[Part]:
    """Return the parts of `module`, or of its functions `names` only: of those that others call, and what they use.

    Of the whole only the function `entry` is visible from outside.
    """
    symbols = {s.name: s for s in (_Symbol(op.operation) for op in module.body.operations)}
    inside = {n for n, s in symbols.items() if not s.is_declaration and not s.is_constant}
    if names is not None:
        inside &= set(names)
        others = {n for s in symbols.values() if s.name not in inside for n in s.references}
        inside &= set(_closure(symbols, inside & others, inside))
    with module.context, ir.Location.unknown():
        return [_part(symbols, group, entry) for group in _groups(symbols, inside, entry)]


def _groups(symbols: dict[str, _Symbol], inside: Collection[str], entry: str) -> list[list[str]]:
    """Names of the functions and variables of each part."""
    placed = {n: s for n, s in symbols.items() if n in inside}
    users: dict[str, list[str]] = {name: [] for name in placed}
    for symbol in symbols.values():
        for name in symbol.references & placed.keys():
            users[name].append(symbol.name)
    leader = {name: name for name in placed}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for name, symbol in placed.items():
        # What has one user stays with it, so that LLVM can look through the call; a variable exists once.
        if not symbol.is_function or (len(users[name]) == 1 and users[name][0] != entry):
            for user in users[name]:
                if user in placed:
                    leader[find(user)] = find(name)
    units: dict[str, list[str]] = {}
    for name in placed:
        units.setdefault(find(name), []).append(name)

    def size(names: Sequence[str]) -> int:
        return sum(placed[n].size for n in names)

    count = min(_MOST_PARTS, size(list(placed)) // _OPERATIONS)
    if count < 2:
        return [list(placed)] if placed else []
    first = [*units.pop(find(entry))] if entry in placed else []
    bins: list[list[str]] = [[] for _ in range(count)]
    for unit in sorted(units.values(), key=size, reverse=True):  # stable: equal sizes stay in the module's order
        min(bins, key=size).extend(unit)
    order = {name: n for n, name in enumerate(symbols)}
    return [sorted(names, key=order.__getitem__) for names in (first, *bins) if names]


def _part(symbols: dict[str, _Symbol], names: Sequence[str], entry: str) -> Part:
    inside = set(names)
    outside = {n for s in symbols.values() if s.name not in inside and not s.is_constant for n in s.references}
    exported = [n for n in names if symbols[n].is_function and (n == entry or n in outside)]
    part = ir.Module.create()
    with ir.InsertionPoint(part.body):
        for name in _closure(symbols, names, inside):
            if name in inside or not symbols[name].is_function:
                symbols[name].op.clone()
            else:
                declared(symbols[name].op)
    stream = BytesIO()
    part.operation.write_bytecode(stream)
    locations = [symbols[name].op.location for name in names]
    layers = (str(location.name_str) for location in locations if isinstance(location, ir.NameLoc))
    return Part(next(layers, names[0]), stream.getvalue(), tuple(exported))


def declared(function: ir.Operation) -> ir.Operation:
    """A declaration of a function, where operations are inserted."""
    left_out = ("arg_attrs", "linkage", "passthrough", "res_attrs")
    attributes = {name: function.attributes[name] for name in function.attributes if name not in left_out}
    if function.name == "func.func":
        attributes["sym_visibility"] = ir.StringAttr.get("private")
    else:
        attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<external>")
    return ir.Operation.create(function.name, attributes=attributes, regions=1)


def _closure(symbols: dict[str, _Symbol], names: Collection[str], inside: Collection[str]) -> list[str]:
    """`names` and what they refer to, through those `inside` and constants, in the module's order."""
    seen: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            if name in inside or symbols[name].is_constant:
                todo += symbols[name].references
    return [name for name in symbols if name in seen]
