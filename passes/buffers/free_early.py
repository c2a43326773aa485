"""free-early: every buffer is freed right after its last use.

buffer-deallocation-pipeline frees at the end of the block: the peak would be the sum of all buffers of a network. Freed
early, the runtime's allocator hands the same few blocks out again and again, still warm in the caches.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import linalg


def free_early(module: ir.Operation) -> None:
    """Free every buffer right after its last use."""
    blocks: dict[ir.Block, list[ir.Operation]] = {}
    for free in linalg.operations(module, "memref.dealloc"):
        blocks.setdefault(free.block, []).append(free)
    for block, frees in blocks.items():
        positions = {op.operation: n for n, op in enumerate(block.operations)}
        for free in frees:
            buffer = free.operands[0]
            if not isinstance(buffer.owner, ir.Block) and buffer.owner.operation in positions:
                last = _last_use(free, buffer, positions)
                # What a loop returns is not every buffer that it was given, though it could be: a return may come last.
                if positions[last] < positions[free]:
                    free.move_after(last)


def _last_use(free: ir.Operation, buffer: ir.Value, positions: dict[ir.Operation, int]) -> ir.Operation:
    """The last operation of the block that uses the buffer or what may be a view of it, the buffer's maker at least."""
    last: ir.Operation = buffer.owner.operation
    seen, waiting = {buffer}, [buffer]
    while waiting:
        for use in waiting.pop().uses:
            user = use.owner.operation
            if user == free:
                continue
            # What an operation that was given the buffer returns may be the buffer: views, loops, branches.
            made = list(user.results)
            while user not in positions:
                user = user.parent.operation
                made += user.results
            aliases = [value for value in made if isinstance(value.type, ir.MemRefType) and value not in seen]
            seen.update(aliases)
            waiting += aliases
            if positions[user] > positions[last]:
                last = user
    return last
