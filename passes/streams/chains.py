"""Chains of operations as functions of their own, and the call of the runtime that computes them side by side.

What a chain needs from @main lies in one context for all chains of a window. Pure operations, as views of buffers, are
computed again in every chain that uses them. A buffer that one chain alone uses is allocated and freed in it; all other
buffers exist from the beginning of the window to its end, so that chains share no memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.buffers.views import descriptor_type
from numc.passes.kernels.builder import Function
from numc.passes.kernels.ssa import PTR
from numc.passes.parsed import parsed
from numc.passes.streams.units import Stretch, is_pure
from numc.passes.streams.windows import Window

Homes = dict[ir.Operation, int | None]
"""The chain that an operation is in, None for @main."""
_CALL, _CAST = "numc_side_by_side", "builtin.unrealized_conversion_cast"
_DECLARED = f"llvm.func @{_CALL}({PTR}, {PTR}, i64)"
# As @main itself is if it is large: it runs once, and LLVM's time grows faster than its size.
_PLAIN = 'attributes {passthrough = ["noinline", "optnone"]}'


@dataclass(frozen=True)
class Code:
    """The operations of a window. chains: of each chain, in order. last: of the last unit. frees: what @main frees."""

    chains: list[list[ir.Operation]]
    last: ir.Operation
    frees: list[ir.Operation]


def code_of(stretch: Stretch, window: Window) -> Code:
    """Return the operations of a window."""
    of = {unit: n for n, chain in enumerate(window.chains) for unit in chain}
    inside = [n for n, op in enumerate(stretch.ops) if window.first <= stretch.of.get(op, -1) <= window.last]
    first, last = inside[0], inside[-1]
    begin, end = first, last + 1
    while begin > 0 and stretch.ops[begin - 1] not in stretch.of:
        begin -= 1
    while end < len(stretch.ops) and stretch.ops[end] not in stretch.of:
        end += 1
    homes = {op: of.get(stretch.of.get(op, -1)) for op in stretch.ops[begin:end]}
    for op in stretch.ops[begin:end]:
        if op.name == "memref.alloc":
            homes |= _with_buffer(op, homes)
    chains: list[list[ir.Operation]] = [[] for _ in window.chains]
    for op, home in homes.items():
        if home is not None:
            chains[home].append(op)
    between = stretch.ops[first:last]
    frees = [op for op in between if homes[op] is None and op.name == "memref.dealloc"]
    return Code(chains, stretch.ops[last], frees)


def _with_buffer(alloc: ir.Operation, homes: Homes) -> Homes:
    """Where a buffer is allocated and freed, and its views are made, if that is in one chain."""
    made, frees, users = [alloc], [], set()
    for each in made:
        for user in [use.owner.operation for use in each.results[0].uses]:
            if user.name == "memref.dealloc":
                frees.append(user)
            elif user in homes and is_pure(user):
                made.append(user)
            else:
                users.add(homes.get(user))
    inside = frees and all(free in homes for free in frees) and len(users) == 1
    return dict.fromkeys([*made, *frees], users.pop()) if inside else {}


class Chains:
    """The functions of chains that were added to a module so far."""

    def __init__(self, module: ir.Operation) -> None:
        self._block = module.regions[0].blocks[0]
        self._count, self._declared = 0, False

    def make(self, code: Code) -> None:
        """Make the chains of a window functions, and call them after what is left of the window in @main."""
        needs = [_needs(ops) for ops in code.chains]
        places = _places(list(dict.fromkeys(value for _, values in needs for value in values)))
        names = [self._add(ops, *need, places) for ops, need in zip(code.chains, needs, strict=True)]
        self._call(code.last, names, places)
        for free in code.frees:
            free.move_before(code.last)
        for ops in code.chains:
            for op in reversed(ops):
                op.erase()

    def _add(
        self,
        ops: Sequence[ir.Operation],
        again: Sequence[ir.Operation],
        values: Sequence[ir.Value],
        places: Mapping[ir.Value, int],
    ) -> str:
        """Add the function of a chain, and return its name."""
        name = f"chain_{self._count}"
        self._count += 1
        f = Function(name, {"context": PTR}, attributes=_PLAIN)
        for value in values:
            address, lowered_type = f.at(f["context"], places[value], "i64"), _lowered(value.type)
            loaded = f.op(f"llvm.load {address} : {PTR} -> {lowered_type}", lowered_type)
            f.op(f"{_CAST} {loaded} : {lowered_type} to {value.type}", str(value.type))
        made = parsed(f.function(), self._block.owner.context)
        function = made.body.operations[0].operation.clone()
        self._block.append(function)
        *loads, end = [op.operation for op in function.operation.regions[0].blocks[0].operations]
        results = (op.results[0] for op in loads if op.name == _CAST)
        known = dict(zip(values, results, strict=True))
        at = ir.InsertionPoint(end)
        for op in [*again, *ops]:
            linalg.copy(op, at, known)
        return name

    def _call(self, last: ir.Operation, names: Sequence[str], places: Mapping[ir.Value, int]) -> None:
        """Before the last operation of a window, fill the context and call the runtime."""
        values = list(places)
        f = Function("call", {f"of{n}": str(value.type) for n, value in enumerate(values)})
        context = f.alloca(sum(_words(value.type) for value in values), "i64")
        functions = f.alloca(len(names), "i64")
        for n, value in enumerate(values):
            address, lowered_type = f.at(context, places[value], "i64"), _lowered(value.type)
            lowered = f.op(f"{_CAST} {f[f'of{n}']} : {value.type} to {lowered_type}", lowered_type)
            f.line(f"llvm.store {lowered}, {address} : {lowered_type}, {PTR}")
        for n, name in enumerate(names):
            function = f.op(f"func.constant @{name} : ({PTR}) -> ()", PTR)
            address = f.op(f"{_CAST} {function} : ({PTR}) -> () to {PTR}", PTR)
            f.line(f"llvm.store {address}, {f.at(functions, n, 'i64')} : {PTR}, {PTR}")
        f.call(_CALL, functions, context, f.number(len(names)), dialect="llvm")
        declared = [_DECLARED, *(f"func.func private @{name}({PTR})" for name in names)]
        made = parsed("\n".join([*declared, f.function()]), self._block.owner.context)
        declaration, *_, call = [op.operation for op in made.body.operations]
        if not self._declared:
            self._block.append(declaration.clone())
            self._declared = True
        body = call.regions[0].blocks[0]
        known = dict(zip(body.arguments, values, strict=True))
        at = ir.InsertionPoint(last)
        for op in [op.operation for op in body.operations][:-1]:
            linalg.copy(op, at, known)


def _needs(ops: Sequence[ir.Operation]) -> tuple[list[ir.Operation], list[ir.Value]]:
    """The operands of operations from outside: pure operations, which are computed again, in order, and values."""
    inside = {inner for op in ops for inner in linalg.operations(op)}
    again: dict[ir.Operation, None] = {}
    values: dict[ir.Value, None] = {}

    def visit(value: ir.Value) -> None:
        maker = linalg.maker(value)
        if linalg.owner(value) in inside or maker in again:
            return
        if maker is None or not is_pure(maker):
            values[value] = None
        else:
            for operand in maker.operands:
                visit(operand)
            again[maker] = None

    for inner in (inner for op in ops for inner in linalg.operations(op)):
        for operand in inner.operands:
            visit(operand)
    return list(again), list(values)


def _words(kind: ir.Type) -> int:
    """The words of 8 bytes that a value takes in a context."""
    return 3 + 2 * ir.MemRefType(kind).rank if isinstance(kind, ir.MemRefType) else 1


def _places(values: Sequence[ir.Value]) -> dict[ir.Value, int]:
    """The word of a context at which each value begins."""
    return dict(zip(values, accumulate((_words(value.type) for value in values), initial=0), strict=False))


def _lowered(kind: ir.Type) -> str:
    """The type of the LLVM dialect that a value has in memory."""
    return descriptor_type(kind) if isinstance(kind, ir.MemRefType) else str(kind).replace("index", "i64")
