"""Contractions of an operand with zeros between its elements: transposed convolutions, and gradients of strided ones.

Along each spread dimension, the outputs of one residue class of the stride meet true elements at the same taps of the
kernel, and zeros at all others: they are a phase, a contraction of its own with these taps and without those zeros.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from torch_mlir import ir

from numc.numerics.datapaths import Steps
from numc.numerics.operators import Fma
from numc.passes import linalg
from numc.passes.dialect import contracted

# Every phase is code of its own, and the fewer outputs it has, the worse they fill vectors.
_MOST_PHASES = 32


@dataclass(frozen=True, kw_only=True)
class Insertion:
    """A tensor, `whole`, that is +0 but for the elements of `source`: they begin at `offsets`, `strides` apart.

    source_sizes, sizes: those of the source and of the whole that are not known now. view: the tensor.expand_shape of
    other dimensions that follows, if any.
    """

    source: ir.Value
    whole: ir.Value
    offsets: tuple[int, ...]
    strides: tuple[int, ...]
    source_sizes: tuple[ir.Value, ...] = ()
    sizes: tuple[ir.Value, ...] = ()
    view: ir.Operation | None = None

    @property
    def viewed_sizes(self) -> tuple[ir.Value, ...]:
        """Sizes of the view that are not known now."""
        return self.sizes if self.view is None else tuple(self.view.operands)[1:]

    def dimension(self, viewed: int) -> int | None:
        """The dimension of the whole that dimension `viewed` of the view is; None where the view splits it."""
        if self.view is None:
            return viewed
        for n, group in enumerate(ir.ArrayAttr(self.view.attributes["reassociation"])):
            dims = [int(ir.IntegerAttr(dim).value) for dim in ir.ArrayAttr(group)]
            if viewed in dims:
                return n if len(dims) == 1 else None
        return None


@dataclass(frozen=True)
class Taps:
    """The taps of one phase along a dimension: from `first` on, `step` apart.

    start, stride: of what they read, for the first output: in elements of the source, counted from the first place that
    is a true element or would be one.
    """

    first: int
    step: int
    count: int
    start: int
    stride: int


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A spread dimension: those of the operand (`place` after its view), the output and the kernel (None: one tap).

    o, k: the loops. An output reads places output + dilation * tap + start of `size` ones; there are `outputs`, `taps`.
    Elements are at places offset + n * stride.
    """

    dim: int
    place: int
    o: int
    k: int | None
    out_dim: int
    kernel_dim: int | None
    dilation: int
    start: int
    size: int
    offset: int
    stride: int
    outputs: int
    taps: int

    @property
    def low(self) -> int:
        """Zeros before the first element once those between elements are gone."""
        return self.offset // self.stride

    @property
    def compact(self) -> int:
        """The size without the zeros between elements."""
        return (self.size - 1 - self.offset % self.stride) // self.stride + 1

    def outputs_of(self, phase: int) -> int:
        """The number of outputs of a phase."""
        return max(0, -(-(self.outputs - phase) // self.stride))

    def taps_of(self, phase: int) -> Taps | None:
        """The taps that meet elements; None if no tap does."""
        first_place = self.offset % self.stride
        positions = [phase + self.dilation * tap + self.start - first_place for tap in range(self.taps)]
        met = [tap for tap, position in enumerate(positions) if position % self.stride == 0]
        if not met:
            return None
        step = met[1] - met[0] if len(met) > 1 else 1
        return Taps(met[0], step, len(met), positions[met[0]] // self.stride, self.dilation * step // self.stride)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A contraction by phases: the number of its spread operand, the insertion, the axes, the operator.

    limit: up to which magnitude elements of the other operand are finite numbers in their format, whatever its widths.
    """

    generic: ir.Operation
    number: int
    insertion: Insertion
    axes: tuple[Axis, ...]
    fma: Fma
    limit: float

    def phases(self) -> Iterator[tuple[int, ...]]:
        """The residues of every phase that has outputs."""
        for phase in product(*(range(axis.stride) for axis in self.axes)):
            if all(axis.outputs_of(r) for axis, r in zip(self.axes, phase, strict=True)):
                yield phase


def find(generic: ir.Operation) -> Spread | None:
    """The phases of a linalg.generic on tensors, if it is a contraction of a spread operand in a fitting operator."""
    contraction = contracted(generic)
    if contraction is None or sorted(contraction.numbers) != [0, 1, 2] or len(generic.results) != 1:
        return None
    fma = contraction.fma
    if fma.stochastic or not isinstance(fma.order, Steps) or not all(to.format.has_zero for to in fma.singles):
        return None
    for number in (0, 1):
        insertion = inserted(generic.operands[number])
        if insertion is None or max(insertion.strides) == 1:
            continue
        axes = _axes(generic, number, insertion)
        if axes is not None and math.prod(axis.stride for axis in axes) <= _MOST_PHASES and _shares(generic, number):
            limit = float(fma.singles[contraction.numbers.index(1 - number)].least_range.max_finite)
            return Spread(generic=generic, number=number, insertion=insertion, axes=axes, fma=fma, limit=limit)
    return None


def _shares(generic: ir.Operation, number: int) -> bool:
    """Whether an element of the spread operand has products for several outputs.

    A depthwise convolution takes as long as its memory: more passes over its output cost more than the products.
    """
    spread, kernel = (
        {e.position for e in linalg.indexing_maps(generic)[n].results if isinstance(e, ir.AffineDimExpr)}
        for n in (number, 1 - number)
    )
    sizes, kinds = linalg.loop_sizes(generic), linalg.iterator_types(generic)
    return any(kinds[d] == "parallel" and sizes[d] != 1 for d in kernel - spread)


def inserted(value: ir.Value) -> Insertion | None:
    """The insertions into zeros that made a tensor, if any did."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    if op.name == "tensor.expand_shape":
        inner = inserted(op.operands[0])
        if inner is None or inner.view is not None:
            return None
        viewed = replace(inner, view=op)
        kept = {viewed.dimension(n) for n in range(ir.RankedTensorType(value.type).rank)}
        return viewed if {n for n, stride in enumerate(inner.strides) if stride > 1} <= kept else None
    outer = _padded(op) if op.name == "tensor.insert_slice" else _widened(op)
    inner = None if outer is None else inserted(outer.source)
    if outer is None or inner is None or inner.view is not None:
        return outer
    offsets = (o + s * i for o, s, i in zip(outer.offsets, outer.strides, inner.offsets, strict=True))
    strides = (s * i for s, i in zip(outer.strides, inner.strides, strict=True))
    return replace(inner, whole=value, offsets=tuple(offsets), strides=tuple(strides), sizes=outer.sizes)


def _padded(op: ir.Operation) -> Insertion | None:
    """A tensor.insert_slice into zeros."""
    source, into, *dynamic = op.operands
    fill = linalg.maker(into)
    if fill is None or not linalg.fills_zero(fill):
        return None
    offsets, strides = _numbers(op, "static_offsets"), _numbers(op, "static_strides")
    unknown = ir.ShapedType.get_dynamic_size()
    if unknown in (*offsets, *strides) or ir.RankedTensorType(source.type).rank != len(offsets):
        return None
    room = fill.operands[len(fill.operands) - 1]
    if isinstance(room.owner, ir.Block) or room.owner.name != "tensor.empty":
        return None
    return Insertion(
        source=source,
        whole=op.results[0],
        offsets=offsets,
        strides=strides,
        source_sizes=tuple(dynamic),
        sizes=tuple(room.owner.operands),
    )


def _widened(op: ir.Operation) -> Insertion | None:
    """Zeros behind every element of one dimension, which front ends write as a dimension of its own.

    It is split in two, the second of which is padded from one to the stride; they are joined again, and what is behind
    the last element may be cut off.
    """
    cut: ir.Operation | None = op
    whole = op.results[0] if op.results else None
    if op.name == "tensor.extract_slice":
        if len(op.operands) != 1 or any(_numbers(op, "static_offsets")) or set(_numbers(op, "static_strides")) != {1}:
            return None
        cut = linalg.maker(op.operands[0])
    if whole is None or cut is None or cut.name != "tensor.collapse_shape":
        return None
    insert = linalg.maker(cut.operands[0])
    pad = _padded(insert) if insert is not None and insert.name == "tensor.insert_slice" else None
    split = None if pad is None else linalg.maker(pad.source)
    if pad is None or split is None or split.name != "tensor.expand_shape":
        return None
    if any(pad.offsets) or set(pad.strides) != {1}:
        return None
    source, joined = split.operands[0], ir.ArrayAttr(cut.attributes["reassociation"])
    tensor_types = [ir.RankedTensorType(v.type) for v in (source, split.results[0], pad.whole, cut.results[0], whole)]
    if not all(tensor_type.has_static_shape for tensor_type in tensor_types):
        return None
    before, narrow, wide, after, ends = (list(tensor_type.shape) for tensor_type in tensor_types)
    pairs = [dim for dim, group in enumerate(joined) if len(ir.ArrayAttr(group)) == 2]
    if len(pairs) != 1 or len(wide) != len(before) + 1:
        return None
    (dim,) = pairs
    stride = wide[dim + 1]
    if narrow != [*before[: dim + 1], 1, *before[dim + 1 :]] or wide != [
        *before[: dim + 1],
        stride,
        *before[dim + 1 :],
    ]:
        return None
    if any(end != n for d, (end, n) in enumerate(zip(ends, after, strict=True)) if d != dim):
        return None
    if ends[dim] <= (before[dim] - 1) * stride:
        return None  # an element is cut off
    strides = tuple(stride if d == dim else 1 for d in range(len(before)))
    return Insertion(source=source, whole=whole, offsets=(0,) * len(before), strides=strides)


def _numbers(op: ir.Operation, name: str) -> tuple[int, ...]:
    return tuple(ir.DenseI64ArrayAttr(op.attributes[name]))


def _axes(generic: ir.Operation, number: int, insertion: Insertion) -> tuple[Axis, ...] | None:
    """The spread dimensions of operand `number`, if outputs and taps are what addresses them."""
    maps = linalg.indexing_maps(generic)
    linear = [[linalg.linear(e) for e in m.results] for m in maps]
    if any(x is None for m in linear for x in m):
        return None
    places = [[x for x in m if x is not None] for m in linear]
    kinds, sizes = linalg.iterator_types(generic), linalg.loop_sizes(generic)
    whole = ir.RankedTensorType(insertion.whole.type)
    kernel = ir.RankedTensorType(generic.operands[1 - number].type)
    if not kernel.has_static_shape:
        return None
    axes = []
    for viewed, (coefficients, start) in enumerate(places[number]):
        dim = insertion.dimension(viewed)
        if dim is None or insertion.strides[dim] == 1:
            continue
        outputs = [d for d in coefficients if kinds[d] == "parallel"]
        taps = [d for d in coefficients if kinds[d] == "reduction"]
        if len(outputs) != 1 or len(taps) > 1 or coefficients[outputs[0]] != 1:
            return None
        (o,), k = outputs, taps[0] if taps else None
        out_dim, kernel_dim = _only(places[2], o), None if k is None else _only(places[1 - number], k)
        # Nothing else is addressed by these loops.
        if _uses(places, o) != 2 or (k is not None and _uses(places, k) != 2):
            return None
        if out_dim is None or (k is not None and kernel_dim is None):
            return None
        of_o, of_k = sizes[o], 1 if k is None else sizes[k]
        if of_o is None or of_k is None or whole.is_dynamic_dim(dim):
            return None
        axes.append(
            Axis(
                dim=dim,
                place=viewed,
                o=o,
                k=k,
                out_dim=out_dim,
                kernel_dim=kernel_dim,
                dilation=0 if k is None else coefficients[k],
                start=start,
                size=whole.get_dim_size(dim),
                offset=insertion.offsets[dim],
                stride=insertion.strides[dim],
                outputs=of_o,
                taps=of_k,
            )
        )
    return tuple(axes) or None


def _only(places: list[linalg.Linear], loop: int) -> int | None:
    """The dimension that is the loop `loop` itself."""
    dims = [n for n, linear in enumerate(places) if linear == ({loop: 1}, 0)]
    return dims[0] if len(dims) == 1 else None


def _uses(places: list[list[linalg.Linear]], loop: int) -> int:
    return sum(loop in coefficients for m in places for coefficients, _ in m)
