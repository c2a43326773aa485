"""Determinants, by elimination with exchanges of rows, which torch-mlir does not make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions by operation."""
    return {
        aten._linalg_det.default: _determinant,
        aten._linalg_slogdet.default: _sign_and_logarithm,
        aten.linalg_slogdet.default: lambda matrix: aten._linalg_slogdet(matrix)[:2],
    }


def _determinant(matrix: torch.Tensor) -> Any:
    """aten._linalg_det: the determinants, the factors, and which rows were exchanged."""
    eliminated = _eliminated(matrix)
    if eliminated is None:
        return NotImplemented
    factors, pivots, sign = eliminated
    determinant = sign
    for n in range(matrix.shape[-1]):
        determinant = determinant * factors[..., n, n]
    return determinant, factors, pivots


def _sign_and_logarithm(matrix: torch.Tensor) -> Any:
    """aten._linalg_slogdet: the signs of determinants, the logarithms of their magnitudes, factors, exchanges."""
    eliminated = _eliminated(matrix)
    if eliminated is None:
        return NotImplemented
    factors, pivots, sign = eliminated
    diagonal = factors.diagonal(0, -2, -1)
    for n in range(matrix.shape[-1]):
        sign = sign * diagonal[..., n].sign()
    return sign, diagonal.abs().log().sum(-1), factors, pivots


def _eliminated(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
    """Return the factors of matrices as LAPACK has them: U and, below its diagonal, L; the exchanges and their sign.

    None if the number of rows is free. In each column the largest magnitude is the pivot. Contiguous matrices are
    transposed first, as in eager torch, whose gradient reads the factors so.
    """
    matrix = matrix.mT if matrix.is_contiguous() else matrix
    size = matrix.shape[-1]
    if not isinstance(size, int):
        return None
    rows = torch.arange(size)
    factors, sign, pivots = matrix, matrix.new_ones(matrix.shape[:-2]), []
    for n in range(size):
        pivot = factors[..., n:, n].abs().argmax(-1, True) + n
        pivots.append(pivot + 1)
        sign = torch.where(pivot.squeeze(-1) == n, sign, -sign)
        order = torch.where(rows == n, pivot, torch.where(rows == pivot, n, rows))
        factors = factors.gather(-2, order.unsqueeze(-1).expand(factors.shape))
        top = factors[..., n : n + 1, :]
        # A pivot of 0 leaves zeros below it, and a determinant of 0.
        head = top[..., n : n + 1]
        factor = torch.where(head == 0, 0.0, factors[..., n : n + 1] / head)
        below = (rows > n).unsqueeze(-1)
        later = torch.where(rows > n, factors - factor * top, torch.where(rows == n, factor, factors))
        factors = torch.where(below, later, factors)
    exchanged = torch.cat(pivots, -1) if pivots else matrix.new_zeros(matrix.shape[:-1])
    return factors, exchanged.to(torch.int32), sign
