"""index-tables: what a gathering loop computes of some of its loops alone is computed before it, once, into a table.

Where an image is resized, the row and the column that an element is read from depend on one loop each, and so do their
factors and the check that they are inside. Moved out, they are computed for every row and every column instead of every
element, and what is left of the body is read in vectors (passes/buffers/loop_lookups.py). The operations stay the same,
so no bit changes. What draws random bits, and multiply-adds, which are counted, stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from numc.passes import linalg
from numc.passes.dialect import varies

_Loops = frozenset[int]
_LARGEST = 2**31  # indices below it are kept in 32 bits, as the elements that they choose


def index_tables(module: ir.Operation) -> None:
    """Compute before a loop that gathers elements what depends on some of its loops alone: indices, factors, checks."""
    with module.context, ir.Location.unknown():
        for generic in list(linalg.operations(module, "linalg.generic")):
            if not linalg.reduces(generic) and any(
                op.operation.name == "tensor.extract" for op in linalg.body(generic).operations
            ):
                _Body(generic).move()


class _Body:
    """The body of a linalg.generic: which loops every value depends on."""

    def __init__(self, generic: ir.Operation) -> None:
        self.generic, self.block = generic, linalg.body(generic)
        self.maps, self.sizes = linalg.indexing_maps(generic), linalg.loop_sizes(generic)
        self.inputs = linalg.input_count(generic)
        self.all: _Loops = frozenset(d for d, size in enumerate(self.sizes) if size != 1)
        self.loops: dict[ir.Value, _Loops | None] = {}
        for argument, map_ in zip(self.block.arguments, self.maps, strict=True):
            used = frozenset(d for d in self.all if any(_uses(e, d) for e in map_.results))
            self.loops[argument] = used if ir.BlockArgument(argument).arg_number < self.inputs else None
        self.ops = [op.operation for op in self.block.operations]
        self.inside = set(self.ops)
        for op in self.ops:
            self.loops.update(dict.fromkeys(op.results, self._of(op)))

    def _of(self, op: ir.Operation) -> _Loops | None:
        """The loops that the result of an operation depends on; None if it has to stay."""
        if op.name == "linalg.index":
            return self.all & {ir.IntegerAttr(op.attributes["dim"]).value}
        kinds = op.name.split(".")[0] in ("arith", "math") or (op.name == "numc.round" and not varies(op))
        operand_loops = [self.loops.get(v, frozenset()) for v in op.operands]
        if not kinds or op.regions or len(op.results) != 1 or None in operand_loops:
            return None
        return frozenset().union(*(f for f in operand_loops if f is not None))

    def _maker(self, value: ir.Value) -> ir.Operation | None:
        """The operation of the body that makes a value, if one does."""
        maker = linalg.maker(value)
        return maker if maker is not None and maker in self.inside else None

    def _some(self, value: ir.Value) -> _Loops | None:
        """The loops of a value that can be in a table, which may have one element only; None if it cannot."""
        loops = self.loops.get(value)
        return loops if loops is not None and loops < self.all else None

    def move(self) -> None:
        """Move what depends on some loops alone to tables."""
        roots: dict[ir.Value, _Loops] = {}
        for op in self.ops:
            for value in op.operands:
                maker, loops = self._maker(value), self._some(value)
                stays = not op.results or self.loops[op.results[0]] != loops
                if loops is None or maker is None or op.name == "cf.assert" or not stays or _counts(maker):
                    continue
                if maker.name not in ("arith.constant", "linalg.index") or loops:
                    roots[value] = loops
        checks = [op for op in self.ops if op.name == "cf.assert" and self._some(op.operands[0]) is not None]
        checks = [op for op in checks if self._some(op.operands[0]) in roots.values()]
        if not roots:
            return
        tables, maps, left = [], [], list(checks)
        for root, loops in roots.items():
            here = [op for op in left if self._some(op.operands[0]) == loops]
            left = [op for op in left if op not in here]
            order = sorted(loops)
            tables.append(self._table(root, order, here))
            maps.append(ir.AffineMap.get(len(self.sizes), 0, [ir.AffineDimExpr.get(d) for d in order]))
        for op in checks:
            op.erase()
        self._rebuild(list(roots), tables, maps)

    def _table(self, root: ir.Value, order: Sequence[int], checks: list[ir.Operation]) -> ir.Value:
        """A tensor of the values of `root` for every step of the loops `order`; checks are made on the way."""
        needed, waiting = set(checks), [root, *(op.operands[0] for op in checks)]
        while waiting:
            maker = self._maker(waiting.pop())
            if maker is not None and maker not in needed:
                needed.add(maker)
                waiting += list(maker.operands)
        needed_ops = [op for op in self.ops if op in needed]
        taken = [
            n for n in range(self.inputs) if any(self.block.arguments[n] in list(op.operands) for op in needed_ops)
        ]
        places = [
            ir.AffineDimExpr.get(order.index(d)) if d in order else ir.AffineConstantExpr.get(0)
            for d in range(len(self.sizes))
        ]
        to_order = ir.AffineMap.get(len(order), 0, places)
        maps = [ir.AffineMap.get(len(order), 0, [e.compose(to_order) for e in self.maps[n].results]) for n in taken]
        is_index = isinstance(root.type, ir.IndexType)
        entry_type = self._kept(root) if is_index else root.type
        with ir.InsertionPoint(self.generic), self.generic.location:
            sizes = [self._size(d) for d in order]
            empty = tensor.EmptyOp(sizes, entry_type).result
            new, block = linalg.generic_like(
                self.generic,
                [*(self.generic.operands[n] for n in taken), empty],
                [*maps, ir.AffineMap.get_identity(len(order))],
                arguments=[*(self.block.arguments[n].type for n in taken), entry_type],
                results=[empty.type],
                kinds=["parallel"] * len(order),
            )
            values = dict(zip((self.block.arguments[n] for n in taken), block.arguments, strict=False))
            with ir.InsertionPoint(block) as point:
                for op in needed_ops:
                    if op.name == "linalg.index":
                        d = ir.IntegerAttr(op.attributes["dim"]).value
                        values[op.results[0]] = _index(order.index(d)) if d in order else _zero()
                    else:
                        linalg.copy(op, point, values)
                entry = values[root]
                if is_index:
                    entry = arith.IndexCastOp(entry_type, entry).result
                ir.Operation.create("linalg.yield", operands=[entry])
        return new.results[0]

    def _kept(self, root: ir.Value) -> ir.Type:
        """The integers that an index is kept as: small ones if it only chooses elements of tensors of fixed sizes."""
        users = [use.owner.operation for use in root.uses]
        sources = [ir.RankedTensorType(op.operands[0].type) for op in users if op.name == "tensor.extract"]
        small = all(source.has_static_shape and max(source.shape, default=0) < _LARGEST for source in sources)
        checked = all(op.name in ("tensor.extract", "arith.cmpi") for op in users)
        return ir.IntegerType.get_signless(32 if small and checked else 64)

    def _size(self, d: int) -> int | ir.Value:
        """The trip count of a loop, a number or an index."""
        if self.sizes[d] is not None:
            return int(self.sizes[d] or 0)
        for value, map_ in zip(self.generic.operands, self.maps, strict=True):
            for n, e in enumerate(map_.results):
                if e == ir.AffineDimExpr.get(d):
                    return tensor.DimOp(value, arith.ConstantOp(ir.IndexType.get(), n).result).result
        raise AssertionError("no operand has the size of a loop")

    def _rebuild(self, roots: list[ir.Value], tables: list[ir.Value], maps: list[ir.AffineMap]) -> None:
        """The generic with tables as further inputs, in the places of `roots`."""
        old, n = self.generic, self.inputs
        operands = [*list(old.operands)[:n], *tables, *list(old.operands)[n:]]
        kinds = [ir.RankedTensorType(t.type).element_type for t in tables]
        arguments = [a.type for a in self.block.arguments]
        new, block = linalg.generic_like(
            old,
            operands,
            [*self.maps[:n], *maps, *self.maps[n:]],
            [*arguments[:n], *kinds, *arguments[n:]],
            [r.type for r in old.results],
        )
        new_arguments = list(block.arguments)
        values = dict(zip(self.block.arguments, [*new_arguments[:n], *new_arguments[n + len(tables) :]], strict=True))
        with ir.InsertionPoint(block) as point, old.location:
            for root, argument in zip(roots, new_arguments[n : n + len(tables)], strict=True):
                is_index = isinstance(root.type, ir.IndexType)
                values[root] = arith.IndexCastOp(ir.IndexType.get(), argument).result if is_index else argument
            yielded = linalg.copy_body(self.block, point, values)
            ir.Operation.create("linalg.yield", operands=yielded)
        for op in reversed([op.operation for op in block.operations]):
            dialect = op.name.split(".")[0]
            unused = op.results and all(linalg.is_unused(r) for r in op.results)
            if unused and (dialect in ("arith", "math") or op.name in ("linalg.index", "numc.round")):
                op.erase()
        linalg.replace(old, new.results)


def _uses(expr: ir.AffineExpr, d: int) -> bool:
    """Whether an expression depends on loop `d`."""
    if isinstance(expr, ir.AffineDimExpr):
        return bool(expr.position == d)
    return isinstance(expr, ir.AffineBinaryExpr) and (_uses(expr.lhs, d) or _uses(expr.rhs, d))


def _counts(op: ir.Operation) -> bool:
    """Whether an operation is the number of a step of a loop, or a conversion of it: cheaper than a table."""
    if op.name == "linalg.index":
        return True
    return op.name == "arith.index_cast" and getattr(linalg.maker(op.operands[0]), "name", "") == "linalg.index"


def _index(d: int) -> ir.Value:
    attributes = {"dim": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), d)}
    return ir.Operation.create("linalg.index", results=[ir.IndexType.get()], attributes=attributes).results[0]


def _zero() -> ir.Value:
    return arith.ConstantOp(ir.IndexType.get(), 0).result
