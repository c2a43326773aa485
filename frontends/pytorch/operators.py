"""Operators of numc in torch, which frontends/lowering/loops.py lowers to loops. torch can run them, too."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.fx

_library = torch.library.Library("numc", "DEF")
_library.define("put_along(Tensor value, int dim, Tensor index, Tensor new, int how) -> Tensor")
_library.define("bit_cast(Tensor value) -> Tensor")
_library.define("erfc(Tensor value) -> Tensor")
_library.define("order(Tensor keys, int count) -> Tensor")
_library.define("places(Tensor mask) -> Tensor")
_library.define("repeats(Tensor counts) -> Tensor")
_library.define("size_of(Tensor value, int dim) -> Tensor")
_library.define("require(Tensor condition, int why) -> Tensor")
_library.define("grouped_mm(Tensor left, Tensor right, Tensor ends) -> Tensor")
_library.define("kept_boxes(Tensor boxes, Tensor limit, Tensor classes) -> Tensor")
_library.define(
    "pooled_regions(Tensor image, Tensor which, Tensor rows, Tensor columns, Tensor sizes, int samples) -> Tensor"
)
_library.define("inserted(Tensor value) -> Tensor")
_library.define("gcd(Tensor one, Tensor other) -> Tensor")


WRITE, ADD, MULTIPLY, LARGEST, SMALLEST = range(5)
"""What put_along does with an element and what was there before."""
OF_MODEL, OF_NONE = range(2)
"""Why a run needs a condition: the model checks it, or an operation has no result without elements."""
_REDUCED = {MULTIPLY: "prod", LARGEST: "amax", SMALLEST: "amin"}


def _put_along(value: torch.Tensor, dim: int, index: torch.Tensor, new: torch.Tensor, how: int) -> torch.Tensor:
    """Return `value` with the slices of `new` along `dim` written, or combined, one after another at places `index`.

    index: int64 of rank 1, as many as `new` has slices. how: WRITE, ADD and so on.
    """
    if how in _REDUCED:
        return torch.ops.aten.index_reduce(value, dim, index, new, _REDUCED[how])
    if how == ADD:
        return torch.ops.aten.index_add(value, dim, index, new)
    return torch.ops.aten.index_copy(value, dim, index, new)


def _order(keys: torch.Tensor, count: int) -> torch.Tensor:
    """Return where the elements are in ascending order along the last dimension, int64; of equal ones the first first.

    keys: integers. count: how many of the first elements are wanted; 0 for all.
    """
    positions = torch.ops.aten.sort.stable(keys, stable=True, dim=-1, descending=False)[1]
    return positions[..., :count].contiguous() if count else positions


def _order_shape(keys: torch.Tensor, count: int) -> torch.Tensor:
    return keys.new_empty([*keys.shape[:-1], count or keys.shape[-1]], dtype=torch.int64)


def _grouped_mm(left: torch.Tensor, right: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Return the products of groups of rows of `left`, of columns of `right`, or of both's steps of the contraction.

    An operand of rank 3 has a matrix for every group, one of rank 2 a part: [m, k] and [groups, k, n] give [m, n], as
    do [groups, m, k] and [k, n]; [m, k] and [k, n] give [groups, m, n]. ends: for every group, the number of the row,
    column or step after its last one. What is in no group is 0, as are products of no steps.
    """
    products = left.new_zeros(_grouped_shape(left, right, ends))
    for group, (start, end) in enumerate(pairwise([0, *ends.tolist()])):
        if right.dim() == 3:
            products[start:end] = left[start:end] @ right[group]
        elif left.dim() == 3:
            products[:, start:end] = left[group] @ right[:, start:end]
        else:
            products[group] = left[:, start:end] @ right[start:end]
    return products


def _grouped_shape(left: torch.Tensor, right: torch.Tensor, ends: torch.Tensor) -> list[int]:
    groups = [ends.shape[0]] if left.dim() == right.dim() else []
    return [*groups, left.shape[-2], right.shape[-1]]


def _kept_boxes(boxes: torch.Tensor, limit: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """Return which boxes overlap none of their class that is kept before them, as a mask: torchvision's nms.

    boxes: [n, 4], their least x and y and their largest ones, the best box first. limit: of rank 0 and the same dtype,
    the largest share of what two boxes cover that both may cover. classes: int64, [n].
    """
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept = torch.ones(boxes.shape[0], dtype=torch.bool)
    for n, box in enumerate(boxes):
        if kept[n]:
            others = boxes[n + 1 :]
            low = torch.where(box[:2] < others[:, :2], others[:, :2], box[:2])
            high = torch.where(others[:, 2:] < box[2:], others[:, 2:], box[2:])
            common = torch.where(high - low > 0, high - low, 0).prod(1)
            covers = common / (areas[n] + areas[n + 1 :] - common) > limit
            kept[n + 1 :] &= ~(covers & (classes[n + 1 :] == classes[n]))
    return kept


def _pooled_regions(
    image: torch.Tensor,
    which: torch.Tensor,
    rows: torch.Tensor,
    columns: torch.Tensor,
    sizes: torch.Tensor,
    samples: int,
) -> torch.Tensor:
    """Return the means of the samples of each bin of regions, as torchvision's roi_align: [count, *bins, channels].

    image: [n, rows, columns, channels]. which: [count], the number of each region's image, as a float. rows, columns:
    [count, bins], where each bin begins. sizes: [count, 2], of bins. samples: of a bin along a side; 0 for one for each
    element that it covers.
    """
    means = image.new_empty(_pooled_shape(image, which, rows, columns))
    for k, number in enumerate(which.long()):
        lines = []
        for first, size, extent in zip((rows[k], columns[k]), sizes[k], image.shape[1:3], strict=True):
            count = samples if samples > 0 else max(int(size.ceil()), 0)
            lines.append([_corners(first + (n + 0.5) * size / count, extent) for n in range(count)])
        total = image.new_zeros(means.shape[1:])
        for upper in lines[0]:
            for left in lines[1]:
                values = [
                    (a[:, None] * b)[..., None] * image[number][row][:, column]
                    for row, a in upper
                    for column, b in left
                ]
                total = total + (((values[0] + values[1]) + values[2]) + values[3])
        means[k] = total / max(len(lines[0]) * len(lines[1]), 1)
    return means


def _corners(place: torch.Tensor, extent: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The elements before and after places along a side, and what each counts: 0 beyond an element outside."""
    inside = (place >= -1) & (place <= extent)
    bounded = torch.where(inside & (place > 0), place, 0).clamp(max=extent - 1)
    low = bounded.long()
    rest = bounded - low
    return [(low, (1 - rest) * inside), ((low + 1).clamp(max=extent - 1), rest * inside)]


def _pooled_shape(image: torch.Tensor, which: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> list[int]:
    return [which.shape[0], rows.shape[1], columns.shape[1], image.shape[3]]


def _gcd(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return what Euclid's algorithm makes of two tensors of one shape and dtype, both of int32 or int64.

    Their signs are those of torch.gcd's magnitudes, which wrap: of the least integer the magnitude is itself.
    """
    while bool(one.any()):
        divisor = torch.where(one == 0, 1, one)
        one, other = torch.where(one == 0, 0, torch.fmod(other, divisor)), torch.where(one == 0, other, one)
    return other


_OF_SAME_WIDTH = {
    torch.float32: torch.int32,
    torch.float64: torch.int64,
    torch.int32: torch.float32,
    torch.int64: torch.float64,
}


_library.impl("put_along", _put_along, "CPU")
_library.impl("put_along", lambda value, *_: torch.empty_like(value), "Meta")
_library.impl("bit_cast", lambda value: value.view(_OF_SAME_WIDTH[value.dtype]).clone(), "CPU")
_library.impl("bit_cast", lambda value: torch.empty_like(value, dtype=_OF_SAME_WIDTH[value.dtype]), "Meta")
_library.impl("erfc", torch.special.erfc, "CPU")
_library.impl("erfc", torch.empty_like, "Meta")
_library.impl("order", _order, "CPU")
_library.impl("order", _order_shape, "Meta")
_library.impl("places", lambda mask: mask.nonzero().squeeze(1), "CPU")
_library.impl("repeats", torch.repeat_interleave, "CPU")
_library.impl("size_of", lambda value, dim: torch.tensor(value.shape[dim]), "CPU")
_library.impl("size_of", lambda value, dim: value.new_empty([], dtype=torch.int64), "Meta")
_library.impl("require", lambda condition, why: condition.clone(), "CPU")
_library.impl("require", lambda condition, why: torch.empty_like(condition), "Meta")
_library.impl("grouped_mm", _grouped_mm, "CPU")
_library.impl("grouped_mm", lambda left, *others: left.new_empty(_grouped_shape(left, *others)), "Meta")
_library.impl("kept_boxes", _kept_boxes, "CPU")
_library.impl("kept_boxes", lambda boxes, *_: boxes.new_empty(boxes.shape[:1], dtype=torch.bool), "Meta")
_library.impl("pooled_regions", _pooled_regions, "CPU")
_library.impl("pooled_regions", lambda image, *given: image.new_empty(_pooled_shape(image, *given[:3])), "Meta")
_library.impl("inserted", lambda value: value.clone(), "CPU")
_library.impl("inserted", torch.empty_like, "Meta")
_library.impl("gcd", _gcd, "CPU")
_library.impl("gcd", lambda one, _: torch.empty_like(one), "Meta")

bits = torch.ops.numc.bit_cast.default
"""The bits of a float32 or float64 as an integer of its width, and the number whose bits an int32 or int64 has."""
erfc = torch.ops.numc.erfc.default
"""aten.erfc of float32 and float64, as one function: aten.erfc itself, torch-mlir writes as 1 - erf."""
gcd = torch.ops.numc.gcd.default
"""Euclid's algorithm on two tensors of one shape and dtype, int32 or int64."""
put_along = torch.ops.numc.put_along.default
grouped_mm = torch.ops.numc.grouped_mm.default
inserted = torch.ops.numc.inserted.default
"""The image of a convolution whose zeros between and around elements are none of the model's."""
kept_boxes = torch.ops.numc.kept_boxes.default
pooled_regions = torch.ops.numc.pooled_regions.default
order = torch.ops.numc.order.default
places = torch.ops.numc.places.default
"""Where a mask of rank 1 is true, int64 in ascending order. selections.py knows its size, which depends on data."""
repeats = torch.ops.numc.repeats.default
"""Every place as often as a tensor of integers says, in ascending order; the same is true of its size."""
size_of = torch.ops.numc.size_of.default
"""A size of a tensor, as an int64 tensor of rank 0."""
require = torch.fx.node.has_side_effect(torch.ops.numc.require.default)
"""End a run unless a tensor of rank 0 is true."""
