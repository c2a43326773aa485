"""Calibration: the scales of intN operands from given data, on which the program is run once."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from numc.numerics.binary32 import INFINITY
from numc.numerics.grammar import stated_fma
from numc.numerics.operators import Fma
from numc.passes.kernels.abi import TASK_CONTEXT
from numc.runtime.program import Program
from numc.support.errors import NumcError

# One (number, rows, lanes) for each contraction: the bits of the largest magnitudes, as binary32, of its two operands.
Calibration = tuple[tuple[int, int, int], ...]

_WORDS = [8 * TASK_CONTEXT.word(name) for name in ("a_largest", "b_largest")]


def check_calibrated(*fmas: Fma) -> None:
    """Raise NumcError if none of the operators has an intN format, whose scales calibration fixes."""
    if not any(_has_scales(fma) for fma in fmas):
        used = ", ".join(f"'{fma}'" for fma in fmas)
        raise NumcError(f"calibration: {used} has no scales to calibrate, only intN has: leave the data out")


def calibrate(program: Program, data: Mapping[str, npt.NDArray[Any]]) -> Calibration:
    """Run `program` on `data`, its inputs by name, and return the largest magnitudes that the scales depend on.

    Raises NumcError if the data does not fit the program, or if an operand has an infinity or a NaN.
    """
    largest: dict[int, tuple[int, int]] = {}
    operators = [(c["id"], stated_fma(c["fma"]), c["swap"]) for c in program.manifest["contractions"]]
    check_calibrated(*dict.fromkeys(fma for _, fma, _ in operators))
    channels = {number: _channels(fma, swap) for number, fma, swap in operators if _has_scales(fma)}

    def observe(kernel: int, operands: int, phase: int) -> None:
        if phase == 0 and kernel in channels:
            rows, lanes = (
                0 if channel else ctypes.c_int64.from_address(operands + word).value
                for word, channel in zip(_WORDS, channels[kernel], strict=True)
            )
            before = largest.get(kernel, (0, 0))
            largest[kernel] = max(before[0], rows), max(before[1], lanes)

    try:
        with program.observe(observe):
            program.by_name(data)
    except NumcError as error:
        raise NumcError(f"calibration data: {error}") from None
    if any(word >= INFINITY for words in largest.values() for word in words):
        raise NumcError("calibration data: an operand has an infinity or a NaN, which gives no scale: use finite data")
    return tuple((kernel, *words) for kernel, words in sorted(largest.items()))


def _has_scales(fma: Fma) -> bool:
    """Whether an operand has a scale for the whole tensor, which data can fix."""
    return any(to is not None and to.format.sums_integers for to in fma.grouped)


def _channels(fma: Fma, swap: bool) -> tuple[bool, bool]:
    """Whether the operands of rows and of lanes have one scale per channel, or none.

    Such scales are computed in every execution and are not calibrated.
    """
    a, b = (to is None or to.channel for to in fma.grouped)
    return (b, a) if swap else (a, b)
