"""Operators of numc in torch, which frontends/loops.py lowers to loops. torch can run them, too."""

from __future__ import annotations

import torch

_library = torch.library.Library("numc", "DEF")
_library.define("put_along(Tensor value, int dim, Tensor index, Tensor new, bool accumulate) -> Tensor")
_library.define("grouped_mm(Tensor rows, Tensor matrices, Tensor ends) -> Tensor")


def _put_along(value: torch.Tensor, dim: int, index: torch.Tensor, new: torch.Tensor, accumulate: bool) -> torch.Tensor:
    """Return `value` with the slices of `new` along `dim` written, or added, one after another at the places `index`.

    index: int64 of rank 1, as many as `new` has slices. Its numbers may be negative, as in torch.
    """
    return torch.ops.aten.index_put(value, [None] * dim + [index], new, accumulate)


def _grouped_mm(rows: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Return the products of groups of rows, one after another, each with its own matrix; rows after the last are 0.

    rows: [m, k]. matrices: [groups, k, n]. ends: for every group, the number of the row after its last one.
    """
    found = rows.new_zeros(rows.shape[0], matrices.shape[2])
    for matrix, start, end in zip(matrices, [0, *ends.tolist()], ends.tolist(), strict=False):
        found[start:end] = rows[start:end] @ matrix
    return found


_library.impl("put_along", _put_along, "CPU")
_library.impl("put_along", lambda value, *_: torch.empty_like(value), "Meta")
_library.impl("grouped_mm", _grouped_mm, "CPU")
_library.impl("grouped_mm", lambda rows, matrices, _: rows.new_empty(rows.shape[0], matrices.shape[2]), "Meta")

put_along = torch.ops.numc.put_along.default
grouped_mm = torch.ops.numc.grouped_mm.default
