"""Steps of matrix units beside the model of their instructions (PyPI: mmasim): what numc computes and what it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import arithmetic_vectorised as vectorised
import numc
from numc.numerics.groups import GroupConversion
from numc.numerics.kinds.scaled_groups import ScaledGroups
from numc.numerics.numpy_groups import convert_operand, largest_magnitude
from numc.numerics.operators import Fma
from numc.numerics.units import UNITS
from unit_models import DATA, codes, in_torch, instruction, operands, scaled_instruction

F32 = npt.NDArray[np.float32]
# Those whose operands have no scales.
PLAIN = [name for name, fma in UNITS.items() if fma.groups is None]
UNITS_OF_BLOCKS = [name for name, fma in UNITS.items() if fma.multiplies == "elements"]
ONE_LEVEL = "blackwell_nvfp4, one level"


def of_one_level(unit: str) -> str:
    """The unit as its instruction is, which knows no scale of a tensor."""
    return ONE_LEVEL if ONE_LEVEL.startswith(f"{unit},") else unit


def operator(unit: str) -> Fma:
    """A unit's operator; of one level: without the scales of tensors, which the instruction does not know."""
    fma = UNITS[unit.removesuffix(", one level")]
    if not unit.endswith("one level"):
        return fma
    assert isinstance(fma.a, GroupConversion)
    assert isinstance(fma.a.format, ScaledGroups)
    to = GroupConversion(replace(fma.a.format, tensor=False), "rne")
    return replace(fma, name="", a=to, b=to)


def parted(rows: F32, to: GroupConversion) -> tuple[F32, F32, np.float32]:
    """The elements of rows, the scales of their groups, and that of the tensor."""
    largest = largest_magnitude(rows, to.format)
    found = convert_operand(rows, to, largest, factors="elements")
    tensor = to.format.shared_by(float(largest)) if to.format.shares_tensor else 1
    return found.values, found.units, np.float32(tensor)


def as_operand(elements: F32, scales: F32, model: Any, number: int) -> tuple[Any, Any]:
    """The elements and the scales as the model takes them."""
    kind, of = ((model.a_type_ptx, model.a_type), (model.b_type_ptx, model.b_type))[number]
    if model.packing == 2:  # the first one of a pair is in the higher bits
        nibbles = codes(elements, kind) >> 2
        x = torch.tensor(nibbles[:, ::2] << 4 | nibbles[:, 1::2])
    else:
        x = in_torch(elements, of, kind)
    if model.s_type == torch.float8_e8m0fnu:
        exponents = np.frexp(np.where(np.isnan(scales), 1, scales))[1] - 1 + 127
        of_groups = torch.tensor(np.where(np.isnan(scales), 255, exponents).astype(np.uint8)).view(model.s_type)
    else:
        of_groups = torch.tensor(scales).to(model.s_type)
    return x, of_groups


def modelled(unit: str, a: F32, b: F32, c: F32) -> F32:
    """A product of matrices by a chain of the unit's instruction, and what the scales of tensors make of it."""
    fma, model = operator(unit), scaled_instruction(unit.removesuffix(", one level"))
    to_a, to_b = fma.groups or ()
    (x, of_x, tensor_x), (y, of_y, tensor_y) = parted(a, to_a), parted(np.ascontiguousarray(b.T), to_b)
    total, depth = torch.tensor(np.zeros_like(c) if fma.shares_tensor else c), a.shape[1]
    for k in range(0, depth, model.k):
        steps, groups = slice(k, k + model.k), slice(k // model.block_size, (k + model.k) // model.block_size)
        first = as_operand(x[:, steps], of_x[:, groups], model, 0)
        second = as_operand(y[:, steps], of_y[:, groups], model, 1)
        after = model(first[0], second[0].T, total, first[1], second[1].T)
        # The exponent that it takes from a NaN or an infinity is arbitrary.
        lost = ~torch.isfinite(total) & torch.isfinite(after)
        total = torch.where(lost, total, after)
    found: F32 = total.numpy()
    return numc.fma(found, np.float32(tensor_x * tensor_y), c, fma="fp32") if fma.shares_tensor else found


@dataclass(frozen=True)
class Compared:
    """Results of a unit and of the model. steps: how many steps of the unit they took."""

    steps: int
    found: F32
    want: F32

    @property
    def differ(self) -> int:
        """The number of results that have other bits; all NaN are one."""
        other = self.found.view(np.uint32) != self.want.view(np.uint32)
        return int((other & ~(np.isnan(self.found) & np.isnan(self.want))).sum())

    @property
    def first(self) -> str | None:
        """The first difference in words, or None."""
        return vectorised.first_mismatch(self.found, self.want)


def compared(unit: str, data: str, seed: int, size: int) -> Compared:
    """Whole products of operands of one kind of data, by numc and by the model: `size` rows and columns, two blocks."""
    return (_plain if unit in PLAIN else _of_blocks)(unit, data, seed, size)


def many(unit: str, steps: int) -> Iterator[Compared]:
    """Products of all kinds of data in turn, until there were so many steps."""
    seed = 100
    while steps > 0:
        seed += 1
        yield (part := compared(unit, DATA[seed % len(DATA)], seed, 144 if unit in PLAIN else 160))
        steps -= part.steps


def _plain(unit: str, data: str, seed: int, size: int) -> Compared:
    fma, model = UNITS[unit], instruction(unit)
    depth = 2 * model.k
    a, b, c = operands((size, depth, size), data, seed)
    if not all(to.format.has_nan for to in fma.singles):
        a, b = (np.nan_to_num(x, nan=1) for x in (a, b))
    a, b, c = (numc.round(x, str(to)) for x, to in zip((a, b, c), (fma.a, fma.b, fma.acc), strict=True))
    kinds = unit.removesuffix("_into_fp16").split("_")[1:]
    x, y = (
        in_torch(v, of, kind)
        for v, of, kind in zip((a, b), (model.a_type, model.b_type), (kinds[0], kinds[-1]), strict=True)
    )
    want = torch.tensor(c).to(model.c_type)
    for k in range(0, depth, model.k):
        after = model(x[:, k : k + model.k], y[k : k + model.k], want)
        # The exponent that it takes from a NaN or an infinity is arbitrary, and CDNA3's fp8 drops small accumulators.
        lost = ~torch.isfinite(want) & torch.isfinite(after)
        want = torch.where(lost, want, after)
    found = numc.matmul(a, b, c, fma=unit)
    return Compared(size * size * depth // max(fma.datapath["l"], 1), found, want.float().numpy())


def _of_blocks(unit: str, data: str, seed: int, size: int) -> Compared:
    fma = operator(unit)
    depth = 2 * fma.datapath["l"]
    a, b, c = operands((size, depth, size), data, seed)
    with np.errstate(over="ignore", invalid="ignore"):
        want = modelled(unit, a, b, c)
    return Compared(size * size * depth // fma.datapath["l"], numc.matmul(a, b, c, fma=str(fma)), want)
