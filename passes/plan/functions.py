"""Functions that are added to a module: equal ones once, called after the layer that they were first made for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import zip_longest

from torch_mlir import ir

from numc.passes.facts import KERNEL
from numc.passes.kernels.straight import TABLES
from numc.passes.kernels.tasks.interface import SELF
from numc.passes.parsed import parsed

# Names of functions that later passes make begin so.
_RESERVED = ("numc_", "loops_", "region_")
_DEFINITION = re.compile(r"^((?:func|llvm)\.func (?:private )?@(\w+)\([^\n]*\{\n.*?^\}$)", re.M | re.S)
_TABLE = re.compile(rf"^llvm\.mlir\.global internal constant @{TABLES}.*$", re.M)
_SYMBOL = re.compile(r"@(\w+)")


class Functions:
    """The functions to add: texts with their names and locations, those shared by all layers at the end."""

    def __init__(self, module: ir.Operation) -> None:
        self._module = module
        block = module.regions[0].blocks[0]
        names = (op.attributes["sym_name"] for op in block.operations if "sym_name" in op.attributes)
        self._declared = {ir.StringAttr(name).value for name in names}
        self._taken = set(self._declared)
        self._named: dict[str, str] = {}
        self._texts: dict[str, list[tuple[str, ir.Location]]] = {}
        self._shared: list[tuple[str, ir.Location]] = []

    def define(self, text: str, layer: str, what: str, location: ir.Location) -> str:
        """The name of the function `text`, ``<layer>_<what>`` if it is new."""
        if text not in self._named:
            name = self._named[text] = self._free_name(f"{_symbol(layer)}_{what}")
            self._texts.setdefault(what, []).append((text.replace(f"@{SELF}", f"@{name}"), location))
        return self._named[text]

    def add_shared(self, texts: Iterable[str], location: ir.Location) -> None:
        """Add functions that have their names already."""
        self._shared += [(text, location) for text in texts]

    def finish(self, first: Sequence[str]) -> None:
        """Append all functions to the module, after the texts `first`, which belong to no layer.

        Of functions of the runtime it may have a declaration already.
        """
        unknown = ir.Location.unknown()
        texts = [(text, unknown) for text in first]
        texts += [each for group in self._texts.values() for each in group] + self._shared
        text = _needed("\n".join(text for text, _ in texts), self._named.values())
        source = parsed(_once(text), self._module.context)
        block = self._module.regions[0].blocks[0]
        locations, marked = _locations(texts), ir.UnitAttr.get(self._module.context)
        for op in list(source.body.operations):
            name = ir.StringAttr(op.attributes["sym_name"]).value
            if name in self._declared:
                continue
            _locate(op.operation, locations.get(name, unknown))
            if op.operation.regions[0].blocks:
                op.operation.attributes[KERNEL] = marked
            block.append(op)

    def _free_name(self, name: str) -> str:
        free, n = name, 1
        while free in self._taken or any(other.startswith(f"{free}_") for other in self._declared):
            n += 1
            free = f"{name}_{n}"
        self._taken.add(free)
        return free


def _once(text: str) -> str:
    """A text in which every table in memory is defined once."""
    seen: set[str] = set()

    def first(table: re.Match[str]) -> str:
        known = table[0] in seen
        seen.add(table[0])
        return "" if known else table[0]

    return _TABLE.sub(first, text)


def kernels_of(module: ir.Operation) -> dict[str, ir.Operation]:
    """The functions that `emit_kernels` made, by their names."""
    functions = [op.operation for op in module.regions[0].blocks[0].operations if KERNEL in op.operation.attributes]
    return {str(ir.StringAttr(op.attributes["sym_name"]).value): op for op in functions}


def _needed(text: str, kept: Collection[str]) -> str:
    """The functions of a text that those called `kept` need, equal ones once, though they have several names.

    Kernels differ in what only some of their functions depend on, and so do tasks: both have many functions in common.
    Of a kernel's functions that pack operands, a program needs few.
    """
    kept = set(kept)
    pieces = _DEFINITION.split(text)  # in turns: what is between definitions, a definition, its name
    rest, names = pieces[::3], pieces[2::3]
    definitions = {name: piece.replace(f"@{name}(", "@(", 1) for name, piece in zip(names, pieces[1::3], strict=True)}
    users: dict[str, list[str]] = {}
    for name, definition in definitions.items():
        for symbol in set(_SYMBOL.findall(definition)):
            users.setdefault(symbol, []).append(name)
    while True:  # callers may have become equal
        first: dict[str, str] = {}
        same: dict[str, str] = {}
        for name, definition in definitions.items():
            known = name if name in kept else first.setdefault(definition, name)
            if known != name:
                same[name] = known
        if not same:
            break
        for name, known in same.items():
            del definitions[name]
            users.setdefault(known, []).extend(users.get(name, []))
        for user in {user for name in same for user in users.get(name, []) if user in definitions}:
            definitions[user] = _SYMBOL.sub(partial(_renamed, same), definitions[user])
        rest = [_SYMBOL.sub(partial(_renamed, same), piece) for piece in rest]
    used = _reached(definitions, kept)
    definitions = {name: definition for name, definition in definitions.items() if name in used}
    written = (definitions[name].replace("@(", f"@{name}(", 1) if name in definitions else "" for name in names)
    return "".join(piece for pair in zip_longest(rest, written, fillvalue="") for piece in pair)


def _reached(definitions: Mapping[str, str], first: Collection[str]) -> set[str]:
    """The names of the functions that the functions called `first` need."""
    reached, left = set(first), list(first)
    while left:
        called = set(_SYMBOL.findall(definitions.get(left.pop(), ""))) - reached
        reached |= called
        left += called
    return reached


def _renamed(names: Mapping[str, str], symbol: re.Match[str]) -> str:
    return f"@{names.get(symbol[1], symbol[1])}"


def _symbol(layer: str) -> str:
    """A layer's name as a symbol: letters, digits and underscores; a file's name is none."""
    name = re.sub(r"\W+", "_", layer, flags=re.ASCII).strip("_")
    if not name:
        return "layer"
    return f"layer_{name}" if name[0].isdigit() or name.startswith(_RESERVED) else name


def _locations(texts: Iterable[tuple[str, ir.Location]]) -> dict[str, ir.Location]:
    """The location of every function in `texts`, by its name."""
    return {
        name: location
        for text, location in texts
        for name in re.findall(r"^(?:func|llvm)\.func (?:private )?@(\w+)", text, re.M)
    }


def _locate(function: ir.Operation, location: ir.Location) -> None:
    def visit(op: ir.Operation) -> ir.WalkResult:
        op.location = location
        return ir.WalkResult.ADVANCE

    function.walk(visit)
