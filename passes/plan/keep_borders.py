"""keep-borders: padded images of one geometry share memory, one after the other, and its border is filled once.

A convolution reads an image from memory with a border of zeros around it. What the border holds does not change, so
that the next image with such a border can take the place of one that nobody reads any more. A sum with a residual stays
where the residual was (write-over), with the border that the next convolution needs: it is not copied there.

This comes after plan-kernels, because a kernel reads its operands as long as it writes its results: what it does as a
whole is one operation then.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.buffers.views import buffers
from numc.passes.plan.fusion import ancestor, overwrites, written
from numc.passes.plan.plan import PLAN

_SLICE = ("static_offsets", "static_sizes", "static_strides")


@dataclass(kw_only=True)
class _Padded:
    """A buffer that is filled with zeros, and images that are written into the same part of it.

    places: of the operations of the block that read or write it after the fill. writers: of images.
    """

    buffer: ir.Operation
    fill: ir.Operation
    free: ir.Operation
    images: list[ir.Operation]
    geometry: tuple[object, ...]
    places: list[int]
    writers: list[tuple[int, ir.Operation]]

    @property
    def first(self) -> int:
        return self.places[0]

    @property
    def last(self) -> int:
        return self.places[-1]


def keep_borders(module: ir.Operation) -> None:
    """Let padded images take the places of others, with the borders of these."""
    order = [op.operation for op in linalg.main(module).regions[0].blocks[0].operations]
    places = {op: n for n, op in enumerate(order)}
    products = list(itertools.accumulate((PLAN in op.attributes for op in order), initial=0))
    images = [
        padded for op in order if op.name == "memref.alloc" and (padded := _padded(op, order, places)) is not None
    ]
    waiting: list[_Padded] = []
    unused: list[ir.Operation] = []
    for new in sorted(images, key=lambda padded: padded.first):
        like = [old for old in reversed(waiting) if old.geometry == new.geometry]
        # Behind another product, the memory would have left the cache, and would have been free for something else.
        near = [old for old in like if old.last < new.first and products[old.last + 1] == products[new.first]]
        copied = next((old for old in like if _copies(new, old, order)), None)
        if old := copied or next((old for old in near if _follows(new, old, order)), None):
            unused += _join(old, new, order, old is copied)
            waiting.remove(old)
            new = old
        waiting.append(new)
    for op in unused:
        op.erase()


def _padded(buffer: ir.Operation, order: Sequence[ir.Operation], places: Mapping[ir.Operation, int]) -> _Padded | None:
    """The buffer, if it is nothing but a border of zeros around images."""
    fills, frees, images = [], [], []
    uses: dict[ir.Operation, bool] = {}  # whether the operation writes an image
    for use in buffer.results[0].uses:
        user = use.owner.operation
        if user.name == "memref.subview":
            images.append(user)
        elif user.name == "memref.dealloc" and user in places:
            frees.append(user)
        elif linalg.fills_zero(user) and user in places:
            fills.append(user)
        elif user.name == "linalg.generic" and use.operand_number < linalg.input_count(user):
            uses.setdefault(user, False)
        else:
            return None
    slices = {(*(image.attributes[name] for name in _SLICE), *list(image.operands)[1:]) for image in images}
    if not len(fills) == len(frees) == len(slices) == 1:
        return None
    for image in images:
        for use in image.results[0].uses:
            user = use.owner.operation
            if user.name not in ("linalg.generic", "memref.copy"):
                return None
            ins = 1 if user.name == "memref.copy" else linalg.input_count(user)
            uses[user] = uses.get(user, False) or use.operand_number >= ins
    at = {user: places[top] for user in uses if (top := ancestor(user, buffer.block)) is not None}
    every = sorted(at.values())
    first = next((op for op in linalg.operations(order[every[0]]) if op in uses), None) if every else None
    if first is None or not uses[first] or every[0] < places[fills[0]] or not overwrites(first):
        return None
    writers = sorted(((at[user], user) for user, writes in uses.items() if writes), key=lambda writer: writer[0])
    geometry = (buffer.results[0].type, *buffer.operands, *slices)
    return _Padded(
        buffer=buffer, fill=fills[0], free=frees[0], images=images, geometry=geometry, places=every, writers=writers
    )


def _copies(new: _Padded, old: _Padded, order: Sequence[ir.Operation]) -> bool:
    """Whether the new image is a copy of the old one, which does not change as long as the new one is read."""
    (index, copy), *others = new.writers
    if others or copy.name != "memref.copy" or order[index] != copy:
        return False
    if copy.operands[0] not in [image.results[0] for image in old.images]:
        return False
    return all(writer < index or writer > new.last for writer, _ in old.writers)


def _follows(new: _Padded, old: _Padded, order: Sequence[ir.Operation]) -> bool:
    """Whether the new image waits for the readers of the old one anyway, which come before it."""
    readers = set(old.places)
    needed = _touched(order[new.first])
    for n in range(new.first - 1, old.first - 1, -1):
        if not needed.isdisjoint(written(order[n])):
            readers.discard(n)
            needed |= _touched(order[n])
    return not readers


def _touched(op: ir.Operation) -> set[ir.Value]:
    """The buffers that an operation reads or writes."""
    values = (value for inner in linalg.operations(op) for value in inner.operands)
    return set().union(*(buffers(value) for value in values if isinstance(value.type, ir.MemRefType)))


def _join(old: _Padded, new: _Padded, order: Sequence[ir.Operation], copied: bool) -> list[ir.Operation]:
    """Let the old buffer take all uses of the new one; returns what is left to erase."""
    new.buffer.results[0].replace_all_uses_with(old.buffer.results[0])
    old.images += new.images
    old.writers += new.writers[1:] if copied else new.writers
    old.places = sorted({*old.places, *(new.places[1:] if copied else new.places)})
    old.free.move_after(order[old.last])
    return [new.fill, new.free, *(op for _, op in new.writers[:1] if copied), new.buffer]
