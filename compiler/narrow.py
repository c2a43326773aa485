"""``--pack-weights``: weights in the bytes of their format, wherever that is shorter and gives back every bit."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from numc.compiler.arrays import F32Array
from numc.compiler.errors import NumcError
from numc.compiler.formats import Format
from numc.compiler.packed import pack
from numc.passes.packing import Layout
from numc.runtime.storage import Panels, Storage


def narrow(
    memory: F32Array, values: F32Array, fmt: Format, layout: Layout | None
) -> tuple[Storage, npt.NDArray[np.uint8]] | None:
    """Return how to store a weight in the bytes of `fmt`, and these bytes; None where it is to stay as it is.

    memory: the weight as the program's code reads it. values: what it is made from, already in the format, of shape
    (batches, rows or lanes, k) where there is a layout. A weight stays float32 where the bytes are not fewer,
    and where expanding them would change a bit: a NaN with a payload, a format without NaN.
    """
    if fmt.bits >= 32 * fmt.parts or not values.size:
        return None
    shape = values.shape if layout is not None else (1, math.prod(values.shape[:-1]), *(values.shape[-1:] or (1,)))
    panels = None if layout is None else Panels(layout.side, layout.width, layout.count, layout.k_block)
    storage = Storage(
        fmt.exponent_bits,
        fmt.significand_bits,
        fmt.subnormals,
        fmt.finite,
        fmt.parts,
        (shape[0], shape[1], shape[2]),
        memory.size,
        panels,
    )
    if storage.stored_bytes >= memory.nbytes:
        return None
    try:
        stored = np.frombuffer(pack(values, fmt.name).data, np.uint8)
    except NumcError:  # a NaN that the format has no encoding for
        return None
    same = np.array_equal(storage.expand(stored).view(np.uint32), memory.reshape(-1).view(np.uint32))
    return (storage, stored) if same else None
