"""Distinct elements: those of a sorted or of a given order that differ from the one before."""

from __future__ import annotations

from typing import Any

import torch

from numc.frontends.pytorch.operators import WRITE, put_along

Found = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def unique(
    value: torch.Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Found:
    """aten._unique2: distinct elements in ascending order."""
    ordered, origin = value.reshape([-1]).sort(stable=True)
    distinct, places, number = _runs(ordered)
    inverse = put_along(torch.zeros_like(origin), 0, origin, number, WRITE).reshape(value.shape)
    return distinct, _if(return_inverse, inverse), _if(return_counts, _lengths(places, ordered))


def unique_consecutive(
    value: torch.Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """aten.unique_consecutive: one of several equal elements that follow each other."""
    if dim is not None:
        return NotImplemented
    flat = value.reshape([-1])
    distinct, places, number = _runs(flat)
    return distinct, _if(return_inverse, number.reshape(value.shape)), _if(return_counts, _lengths(places, flat))


def _runs(row: torch.Tensor) -> Found:
    """The first element of each run of equal ones, its place, and for every element the number of its run."""
    starts = torch.cat([row.new_ones([1], dtype=torch.bool), row[1:] != row[:-1]])
    places = starts.nonzero().squeeze(1)
    return row.index_select(0, places), places, starts.long().cumsum(0) - 1


def _lengths(places: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    return torch.cat([places[1:], places.new_full([1], row.shape[0])]) - places


def _if(wanted: bool, value: torch.Tensor) -> torch.Tensor:
    return value if wanted else value.new_empty([0])
