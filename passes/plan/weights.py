"""Weights that a contraction reads in packed form: packed once, when the program is built.

A packed weight is an argument of @main of its own; its attribute ``numc.packing`` says how it is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch_mlir import ir

from numc.numerics.formats import Format
from numc.numerics.grammar import parse_operand_conversion
from numc.numerics.groups import Factors, GroupConversion, GroupFormat
from numc.numerics.numpy_groups import convert_operand, largest_magnitude, magnitude_chunks
from numc.passes import facts, linalg
from numc.passes.buffers.views import VIEWS
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.layout import Layout, stored_layout
from numc.passes.kernels.packing.pack_arrays import in_codes, packed, packed_groups
from numc.passes.plan import records
from numc.passes.plan.contraction import Found, Operand, static_sizes

#: The attributes of arguments: a weight's name; how a packed weight is made; that a weight is used in packed form only.
WEIGHT, PACKING, EMPTY = "numc.weight", "numc.packing", "numc.empty"

Directions = tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Packing:
    """The packing of a weight, an argument of @main by its number.

    start: the offset of its first element; then sizes and strides along batch, rows or lanes, and k. conversion: what
    its values need first, or nothing. groups: the conversion that follows, if its format has groups; what that depends
    on is the largest value of the operand, which is at `origin` and along `operand`. factors: what the contraction
    multiplies. stored: what the values are in then. Conversions are texts, as in a policy. Values of open widths stay
    as they are: runs convert them.
    """

    weight: int
    start: int
    batch: Directions
    across: Directions
    k: Directions
    layout: Layout
    conversion: str
    groups: str
    factors: Factors
    origin: int
    operand: Directions
    stored: str

    @property
    def shape(self) -> tuple[int, int, int]:
        """Batches, rows or lanes, depth."""
        batch, across, k = (math.prod(size for size, _ in d) for d in (self.batch, self.across, self.k))
        return batch, across, k

    @property
    def words(self) -> int:
        """The size of the packed weight, in f32 numbers."""
        return self.layout.words(*self.shape)

    @property
    def format(self) -> Format | GroupFormat:
        """The format of the packed values; of open widths the widest."""
        return parse_operand_conversion(self.stored).format

    @property
    def is_open(self) -> bool:
        """Whether the values wait for the widths that a run chooses."""
        return parse_operand_conversion(self.stored).open is not None

    def __call__(self, weight: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Pack `weight`, whose values are converted already, except to groups."""
        if self.groups and self.layout.code:
            of_numbers = replace(self, layout=replace(self.layout, code="", scaled=False))
            return in_codes(of_numbers(weight), *self._parted(weight), self.layout)
        largest: np.float32 | npt.NDArray[np.float32]
        flat = weight.reshape(-1)
        values = _elements(flat, self.start, (*self.batch, *self.across, *self.k))
        if not self.groups:
            return packed(values.reshape(self.shape), self.layout)
        groups = parse_operand_conversion(self.groups)
        assert isinstance(groups, GroupConversion)
        if self.is_open:
            largest = largest_magnitude(_elements(flat, self.origin, self.operand), groups.format)
            return packed(values.reshape(self.shape), self.layout, largest)
        rows = values.reshape(-1, self.shape[2])
        largest = self._largest(flat, rows, groups)
        operand = convert_operand(rows, groups, largest, factors=self.factors)
        if self.factors == "values":
            return packed(operand.values.reshape(self.shape), self.layout, largest)
        chunks = magnitude_chunks(operand.values, groups, largest, self.layout.parts)  # of bfp
        return packed_groups(operand, chunks, self.shape, self.layout, largest)

    def _largest(
        self, flat: npt.NDArray[np.float32], rows: npt.NDArray[np.float32], groups: GroupConversion
    ) -> np.float32 | npt.NDArray[np.float32]:
        """The largest magnitude of the operand, or of each of its channels."""
        if groups.channel:
            return np.array([largest_magnitude(row, groups.format) for row in rows], np.float32)
        return largest_magnitude(_elements(flat, self.origin, self.operand), groups.format)

    def _parted(self, weight: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Elements (batch, rows or lanes, k), and what those of each group, or of a block of k, are multiplied by."""
        flat, groups = weight.reshape(-1), parse_operand_conversion(self.groups)
        assert isinstance(groups, GroupConversion)
        rows = _elements(flat, self.start, (*self.batch, *self.across, *self.k)).reshape(-1, self.shape[2])
        apart: Factors = "elements" if self.factors == "elements" else "parts"
        operand = convert_operand(rows, groups, self._largest(flat, rows, groups), factors=apart)
        count = -(-self.shape[2] // self.layout.scale_steps)
        units = np.broadcast_to(operand.units, (len(rows), count))  # the tensor or a row may have one for all groups
        return operand.values.reshape(self.shape), units.reshape(*self.shape[:2], count)


def _elements(flat: npt.NDArray[np.float32], start: int, directions: Directions) -> npt.NDArray[np.float32]:
    """The elements from `start` on along these directions, the last one fastest: a view."""
    reach = [(size - 1) * stride for size, stride in directions]
    low, high = (start + sum(limit(0, steps) for steps in reach) for limit in (min, max))
    if low < 0 or high >= flat.size:
        raise IndexError(f"elements {low} to {high} of {flat.size}")
    sizes, steps = [size for size, _ in directions], [stride * flat.itemsize for _, stride in directions]
    return np.lib.stride_tricks.as_strided(flat[start:], sizes, steps, writeable=False)


def packing_of(weight: int, found: Found, kernel: Kernel, side: str) -> Packing | None:
    """The packing of the operand of one side of a kernel, a view of a weight, if its sizes and strides are known."""
    operand, across = (found.rows, found.shape.rows) if side == "rows" else (found.lanes, found.shape.lanes)
    view_type = ir.MemRefType(operand.value.type)
    strides_of_view, start = view_type.get_strides_and_offset()
    sizes = static_sizes(operand, view_type)
    batch = packed_batch(found, operand)
    dims = (*batch, *across, *found.shape.k)
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    if any(d not in sizes for d in dims) or dynamic in (*strides_of_view, start):
        return None
    origin, of_operand = start, tuple(zip(view_type.shape, strides_of_view, strict=True))
    strides = dict.fromkeys(dims, 0)
    for (coefficients, constant), stride in zip(operand.places, strides_of_view, strict=True):
        start += constant * stride
        for d, factor in coefficients.items():
            strides[d] += factor * stride

    def directions(group: Iterable[int]) -> Directions:
        return tuple((sizes[d], strides[d]) for d in group)

    places, to = (directions(batch), directions(across), directions(found.shape.k)), stored_layout(kernel, side)
    if to.channel and math.prod(size for size, _ in places[0]) != 1:
        return None  # a packed weight has one list of channels
    groups = kernel.grouped(side)
    if groups is not None and groups.noise is not None:
        return None  # random bits are drawn anew in every execution
    stored = str(kernel.conversion(side) if groups is None else groups)
    text = "" if groups is None else str(groups)
    before = "" if kernel.is_open(side) else operand.conversion
    return Packing(
        weight=weight,
        start=start,
        batch=places[0],
        across=places[1],
        k=places[2],
        layout=to,
        conversion=before,
        groups=text,
        factors=kernel.fma.multiplies,
        origin=origin,
        operand=of_operand,
        stored=stored,
    )


def packed_batch(found: Found, operand: Operand) -> list[int]:
    """The batch dimensions along which an operand differs: its packed form has them in this order."""
    return [d for d in found.shape.batch if d in operand.dims()]


def weights_of(module: ir.Operation) -> dict[ir.Value, int]:
    """The arguments of @main whose values are known when the program is built, with their numbers."""
    numbers = facts.of_arguments(module, WEIGHT)
    arguments = linalg.main(module).regions[0].blocks[0].arguments if numbers else []
    return {arguments[n]: n for n in numbers}


def read_only_arguments(module: ir.Operation) -> dict[ir.Value, int]:
    """The arguments of functions that nothing writes, with their numbers, while all operations are those of linalg."""
    arguments = {}
    for function in linalg.operations(module, "func.func"):
        for n, value in enumerate(argument for block in list(function.regions[0])[:1] for argument in block.arguments):
            if isinstance(value.type, ir.MemRefType) and _is_only_read(value):
                arguments[value] = n
    return arguments


def _is_only_read(buffer: ir.Value) -> bool:
    """Whether all that uses a buffer are views of it, and operations that read it."""
    for use in buffer.uses:
        op = use.owner.operation
        reads = op.name == "linalg.generic" and use.operand_number < linalg.input_count(op)
        if op.name in VIEWS and not _is_only_read(op.results[0]):
            return False
        if op.name not in (*VIEWS, "memref.dim") and not reads:
            return False
    return True


def packings_of(module: ir.Operation) -> dict[int, Packing]:
    """The making of the packed weights among the arguments of @main, by the numbers of the arguments."""
    listed = facts.of_arguments(module, PACKING)
    return {n: records.of_data(Packing, data, f"{PACKING} of argument {n}") for n, data in listed.items()}


def empty_weights_of(module: ir.Operation) -> list[int]:
    """The numbers of the weights among the arguments of @main that nothing reads but in packed form: they are empty."""
    return list(facts.of_arguments(module, EMPTY))


class PackedWeights:
    """The packed arguments that are added to @main, one for each packing."""

    def __init__(self, module: ir.Operation) -> None:
        self._module = module
        self._known: dict[Packing, ir.Value] = {}
        self._added: dict[int, Any] = {}

    def argument(self, packing: Packing) -> ir.Value:
        """The argument that holds a weight in this packing."""
        if packing not in self._known:
            main = linalg.main(self._module)
            block = main.regions[0].blocks[0]
            packed_type = ir.MemRefType.get([packing.words], ir.F32Type.get())
            self._known[packing] = block.add_argument(packed_type, ir.Location.unknown())
            self._added[len(block.arguments) - 1] = records.data_of(packing)
        return self._known[packing]

    def finish(self) -> None:
        """Write the types and the packings of the new arguments into @main."""
        if self._added:
            linalg.retype(linalg.main(self._module))
            facts.put_arguments(self._module, PACKING, self._added)


def empty_unused(module: ir.Operation, weights: Mapping[ir.Value, int]) -> None:
    """Make the weights empty arguments that are used in packed form only."""
    empty = {}
    for weight, number in weights.items():
        _erase_dead_views(weight)
        if linalg.uses(weight) == 0 and str(ir.MemRefType(weight.type).element_type) == "f32":
            weight.set_type(ir.MemRefType.get([0], ir.F32Type.get()))
            empty[number] = True
    if empty:
        linalg.retype(linalg.main(module))
        facts.put_arguments(module, EMPTY, empty)


def _erase_dead_views(value: ir.Value) -> None:
    for use in list(value.uses):
        user = use.owner.operation
        if user.name in VIEWS:
            _erase_dead_views(user.results[0])
            if linalg.uses(user.results[0]) == 0:
                user.erase()
