"""Chains of loops and copies: what one of them writes, and only the next ones read, stays in the cache.

Pooling pads images, which fills them and copies the inside, and then looks at windows. Each plane of an image goes
through all of this before the next plane begins.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch_mlir import ir

from numc.passes.plan.fusion import written
from numc.passes.rows.buffer_rows import bytes_of
from numc.passes.rows.chain import FREE, LOOPS, Chain, Stretch

# Elements of a result in a row at least: loops over fewer are faster through many rows at once.
_LEAST_INSIDE = 64
# Bytes of the buffers between the steps at least: fewer stay in the cache anyway.
_LEAST_BETWEEN = 256 << 10


def chains_of_loops(main: ir.Operation) -> None:
    """Compute chains of loops by rows where the buffers between the steps are large."""
    for stretch in list(_stretches(main)):
        start = 0
        while start < len(stretch.ops):
            chain = _longest(stretch, start) if stretch.ops[start].name in LOOPS else None
            if chain is None:
                start += 1
                continue
            end = stretch.at[chain.members[-1]] + 1
            others = [op for op in stretch.ops[start:end] if op not in chain.members]
            chain.move([])
            # Copies among the members have become other operations.
            stretch = Stretch([*stretch.ops[:start], *others, *stretch.ops[end:]])
            start += len(others)


def _stretches(main: ir.Operation) -> Iterator[Stretch]:
    """The operations of @main between those that are neither loops nor copies."""
    ops: list[ir.Operation] = []
    for op in (op.operation for op in main.regions[0].blocks[0].operations):
        if op.name in (*LOOPS, *FREE) or not Stretch([op]).touched(op):
            ops.append(op)
        else:
            yield Stretch(ops)
            ops = []
    yield Stretch(ops)


def _longest(stretch: Stretch, start: int) -> Chain | None:
    """The longest chain that begins with an operation, of these that with the shortest rows; None if there is none."""
    made = written(stretch.ops[start])
    if all(made.isdisjoint(stretch.touched(op)) for op in stretch.ops[start + 1 :] if op.name in LOOPS):
        return None  # most loops: a product reads what they make
    rank = ir.MemRefType(_result(stretch.ops[start]).type).rank
    chains = [chain for rows in range(rank - 1, 0, -1) if (chain := _of_rows(stretch, start, rows)) is not None]
    return max(chains, key=lambda chain: len(chain.members), default=None)


def _of_rows(stretch: Stretch, start: int, dims: int) -> Chain | None:
    """The chain that begins with an operation, of which the first `dims` dimensions are rows; None if there is none."""
    sizes = ir.MemRefType(_result(stretch.ops[start]).type).shape[:dims]
    chain = Chain(stretch, start, _LEAST_INSIDE)
    if not chain.add_loops(stretch.ops[start], [d for d, size in enumerate(sizes) if size != 1]):
        return None
    for op in stretch.ops[start + 1 :]:
        if op.name not in LOOPS:
            continue
        if stretch.touched(op).isdisjoint(chain.rows):
            chain.others.append(op)
        elif not chain.add_loops(op):
            break
    is_chain = len(chain.members) > 1 and chain.is_closed()
    return chain if is_chain and sum(map(bytes_of, chain.between())) >= _LEAST_BETWEEN else None


def _result(op: ir.Operation) -> ir.Value:
    return op.operands[len(op.operands) - 1]
