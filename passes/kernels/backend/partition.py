"""Splits an llvm-dialect module into parts that are compiled on their own, and in parallel.

The split follows from the module alone. Every function has internal linkage in its part; those that other parts call
are visible through an alias, because MLIR's execution engine writes a wrapper for every visible function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO

from torch_mlir import ir

# A part is worth its fixed cost (a context, an engine) from about this many operations on; more parts than this make
# no machine faster that people have on their desk.
_OPERATIONS = 1000
_MOST_PARTS = 16
# The entry runs once, and LLVM's time grows faster than its size: a large one is not optimised, and its blocks are cut.
# Instruction selection and register allocation take half the time for blocks of at most so many operations.
_LARGE_ENTRY = 3000
_LARGE_BLOCK = 1000
_UNOPTIMISED = '["noinline", "optnone"]'
_REFERENCES = {"llvm.call": "callee", "llvm.mlir.addressof": "global_name"}


@dataclass(frozen=True)
class Part:
    """A module in MLIR bytecode. `exported` are the functions it defines for others, `needed` those it does not.

    layer: the first one that a function is for; the name of the first function, if they are for no layer.
    """

    layer: str
    bytecode: bytes
    exported: tuple[str, ...]
    needed: tuple[str, ...]
    opt_level: int = 2


def _operations(root: ir.Operation) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.append(op.operation)
        return ir.WalkResult.ADVANCE

    root.walk(visit, ir.WalkOrder.POST_ORDER)
    return found


class _Symbol:
    """A function or global of the module."""

    def __init__(self, op: ir.Operation) -> None:
        self.op = op
        self.name = str(ir.StringAttr(op.attributes["sym_name"]).value)
        self.is_function = op.name == "llvm.func"
        self.is_declaration = self.is_function and not op.regions[0].blocks
        self.is_constant = op.name == "llvm.mlir.global" and "constant" in op.attributes
        self.size = 0
        self.references: set[str] = set()
        for inner in _operations(op):
            self.size += 1
            attribute = _REFERENCES.get(inner.name)
            if attribute is not None and attribute in inner.attributes:
                self.references.add(str(ir.FlatSymbolRefAttr(inner.attributes[attribute]).value))


def partition(module: ir.Module, entry: str) -> list[Part]:
    """Return the parts of `module`; only the function `entry` is visible from outside of all of them."""
    symbols = {s.name: s for s in (_Symbol(op.operation) for op in module.body.operations)}
    groups = _groups(symbols, entry)
    with module.context, ir.Location.unknown():
        return [_part(symbols, names, entry) for names in groups]


def _groups(symbols: dict[str, _Symbol], entry: str) -> list[list[str]]:
    """Names of the functions and variables of each part. Constants and declarations go wherever they are used."""
    placed = {n: s for n, s in symbols.items() if not s.is_declaration and not s.is_constant}
    users: dict[str, list[str]] = {name: [] for name in placed}
    for symbol in placed.values():
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
                leader[find(user)] = find(name)
    units: dict[str, list[str]] = {}
    for name in placed:
        units.setdefault(find(name), []).append(name)

    def size(names: Sequence[str]) -> int:
        return sum(placed[n].size for n in names)

    total = size(list(placed))
    count = min(_MOST_PARTS, total // _OPERATIONS)
    if count < 2:
        return [list(placed)]
    first = [*units.pop(find(entry))]
    bins: list[list[str]] = [[] for _ in range(count)]
    for unit in sorted(units.values(), key=size, reverse=True):  # stable: equal sizes stay in the module's order
        min(bins, key=size).extend(unit)
    order = {name: n for n, name in enumerate(symbols)}
    return [sorted(names, key=order.__getitem__) for names in (first, *bins) if names]


def _part(symbols: dict[str, _Symbol], names: Sequence[str], entry: str) -> Part:
    inside = set(names)
    used = _closure(symbols, names)
    outside = {n for s in symbols.values() if s.name not in inside and not s.is_constant for n in s.references}
    exported = [n for n in names if symbols[n].is_function and (n == entry or n in outside)]
    needed = [n for n in used if n not in inside and symbols[n].is_function]
    part = ir.Module.create()
    with ir.InsertionPoint(part.body):
        for name in used:
            op = symbols[name].op
            if name in inside and name in exported:
                _exported(op)
            elif name in inside or not symbols[name].is_function:
                _with_linkage(op.clone(), "internal")
            else:
                _declared(op)
    is_large = entry in inside and symbols[entry].size > _LARGE_ENTRY
    if is_large:  # no passes over the IR, and the cheap ones of the code generator
        body = next(op for op in part.body.operations if op.operation.name == "llvm.func" and op.regions[0].blocks)
        body.attributes["passthrough"] = ir.Attribute.parse(_UNOPTIMISED)
        for block in list(body.regions[0].blocks):
            _cut(block)
    stream = BytesIO()
    part.operation.write_bytecode(stream)
    places = [symbols[name].op.location for name in names]
    layers = (str(place.name_str) for place in places if isinstance(place, ir.NameLoc))
    return Part(next(layers, names[0]), stream.getvalue(), tuple(exported), tuple(needed), 0 if is_large else 2)


def _cut(block: ir.Block) -> None:
    """Cut a block into several, each of which jumps to the next."""
    operations = [op.operation for op in block.operations]
    following = None
    for first in reversed(range(0, len(operations), _LARGE_BLOCK)):
        piece = block
        if first:  # what stays is the first piece
            piece = block.create_after()
            for op in operations[first : first + _LARGE_BLOCK]:
                piece.append(op)
        if following is not None:
            with ir.InsertionPoint(piece):
                ir.Operation.create("llvm.br", successors=[following])
        following = piece


def _closure(symbols: dict[str, _Symbol], names: Sequence[str]) -> list[str]:
    """`names` and what they refer to, through constants too, in the module's order."""
    seen: set[str] = set()
    todo = list(names)
    inside = set(names)
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            if name in inside or symbols[name].is_constant:
                todo += symbols[name].references
    return [name for name in symbols if name in seen]


def _attributes(op: ir.Operation, without: Iterator[str] | Sequence[str] = ()) -> dict[str, ir.Attribute]:
    return {name: op.attributes[name] for name in op.attributes if name not in without}


def _with_linkage(op: ir.Operation, linkage: str) -> ir.Operation:
    op.attributes["linkage"] = ir.Attribute.parse(f"#llvm.linkage<{linkage}>")
    return op


def _exported(op: ir.Operation) -> None:
    name = str(ir.StringAttr(op.attributes["sym_name"]).value)
    body = _with_linkage(op.clone(), "internal")
    body.attributes["sym_name"] = ir.StringAttr.get(f"{name}.body")
    attributes = {"sym_name": op.attributes["sym_name"], "alias_type": op.attributes["function_type"]}
    alias = _with_linkage(ir.Operation.create("llvm.mlir.alias", attributes=attributes, regions=1), "external")
    with ir.InsertionPoint(alias.regions[0].blocks.append()):
        target = {"global_name": ir.FlatSymbolRefAttr.get(f"{name}.body")}
        address = ir.Operation.create("llvm.mlir.addressof", results=[ir.Type.parse("!llvm.ptr")], attributes=target)
        ir.Operation.create("llvm.return", operands=[address.result])


def _declared(op: ir.Operation) -> None:
    kept = _attributes(op, without=("passthrough", "sym_visibility"))
    _with_linkage(ir.Operation.create("llvm.func", attributes=kept, regions=1), "external")
