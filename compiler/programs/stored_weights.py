"""``--pack-weights``: weights in the bytes of their format, wherever that is shorter and gives back every bit."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from numc.compiler.arrays.arrays import F32Array
from numc.compiler.arrays.pack import element_bytes, pack
from numc.compiler.programs.listed_weights import listed
from numc.numerics.codes import join
from numc.numerics.formats import Format, Record
from numc.numerics.groups import GroupFormat
from numc.passes.kernels.packing.layout import Layout
from numc.passes.kernels.packing.pack_arrays import unpacked
from numc.passes.kernels.values.unpacked import reads_codes
from numc.passes.plan.weights import Packing
from numc.runtime.abi import Weight
from numc.runtime.storage import Encoding, Panels, Storage
from numc.support.errors import NumcError

_WORTH = 0.75  # of dense words: what is expanded takes memory of the process, what is not is mapped from the file
Bytes = npt.NDArray[np.uint8]


def narrow(
    memory: F32Array, fmt: Format | GroupFormat, shape: tuple[int, ...], layout: Layout | None, sums: bool = True
) -> tuple[Storage, Bytes] | None:
    """Return how to store a weight in the bytes of `fmt`, and these bytes; None where it is to stay as it is.

    memory: the weight as the program's code reads it, its values in the format already, or integers where those are
    summed, which `sums` says.
    shape: that of the values, (batches, rows or lanes, k) where there is a layout; groups run along the last axis.
    A weight stays as it is where the bytes are not fewer, or hardly fewer than dense words, where the runtime does not
    read them, and where expanding them would change a bit: a NaN with a payload, a format without NaN.
    """
    if layout is not None and layout.scales:
        return None  # the runtime expands no elements beside their scales
    if not math.prod(shape) or (isinstance(fmt, Format) and fmt.bits >= 32 * fmt.parts):
        return None
    batches, size, depth = shape if layout is not None else (1, math.prod(shape[:-1]), *(shape[-1:] or (1,)))
    values = memory
    if layout is not None:
        parts = unpacked(memory, (batches, size, depth), layout)
        # The parts of bfp are pieces of a magnitude: those of bf16xN end where the first one is zero or not finite.
        add = join if isinstance(fmt, Format) else _sum
        values = add(parts.reshape(-1, layout.parts)) if layout.parts > 1 else parts
    try:
        encoding, stored = _encoded(np.ascontiguousarray(values).reshape(-1, depth), fmt, sums=sums)
        if layout is not None:
            encoding = replace(encoding, parts=layout.parts)
    except NumcError:  # a NaN without an encoding, a format that the runtime does not read
        return None
    panels = None
    if layout is not None:
        tail = memory[batches * layout.batch_words(size, depth) :]
        panels = Panels(
            side=layout.side,
            width=layout.width,
            count=layout.count,
            k_block=layout.k_block,
            dot=layout.dot,
            tail=tail.size,
        )
        stored = np.concatenate([stored, tail.view(np.uint8)])
    if stored.size >= (_WORTH if layout is not None and layout.dense else 1) * memory.nbytes:
        return None
    storage = Storage(encoding, (batches, size, depth), stored.size, memory.size, panels)
    same = np.array_equal(storage.expand(stored).view(np.uint32), memory.reshape(-1).view(np.uint32))
    return (storage, stored) if same else None


def held(weight: Weight, packing: Packing | None, wanted: bool) -> str:
    """Say in what a weight is held in memory, and, if fewer bytes are `wanted`, why not in those of its format."""
    in_file = "" if weight.storage is None else ", fewer bits in the file"
    if packing is None:
        return weight.dtype + in_file
    if packing.layout.code:
        behind = " with the scales of groups" if packing.layout.scales or packing.layout.scaled else ""
        return f"codes of {packing.format.name}{behind}"
    if packing.layout.dot:
        words = "words of two bfloat16 numbers" if packing.layout.alone == "bf16" else "words of integers"
        return words + ("" if packing.layout.dense else " in the room of float32") + in_file
    if not wanted:
        return "float32"
    fmt = packing.format
    element = fmt if isinstance(fmt, Format) else fmt.elements
    if packing.is_open:
        why = "a run chooses its widths"
    elif isinstance(fmt, Format) and fmt.bits >= 32 * fmt.parts:
        why = f"{fmt.name} has as many bits"
    elif isinstance(fmt, Format) and not fmt.has_nan:
        why = f"{fmt.name} has no code for a NaN"
    elif element is None or not reads_codes(element) or (packing.groups and packing.layout.parts > 1):
        why = f"kernels read no codes of {fmt.name}"
    else:
        why = "codes would take no less"
    return f"float32{in_file}: {why}"


def _sum(parts: F32Array) -> F32Array:
    """(n, count) parts as values; a zero has the sign of its first part."""
    values = parts.sum(axis=1, dtype=np.float64)
    signed: F32Array = np.where(values == 0, parts[:, 0], values).astype(np.float32)
    return signed


def _encoded(rows: F32Array, fmt: Format | GroupFormat, *, sums: bool) -> tuple[Encoding, Bytes]:
    """(rows, k) as the bytes of a format. Raises NumcError for what cannot be stored.

    sums: rows are for sums of groups, integers where those are summed.
    """
    if isinstance(fmt, Format):
        if not isinstance(fmt, Record) or not fmt.is_usual or fmt.nan == "none":
            return listed(rows, fmt)
        parameters = fmt.exponent_bits, fmt.significand_bits, fmt.subnormals, fmt.finite, fmt.parts
        return Encoding("float", *parameters), np.frombuffer(pack(rows, fmt.name).data, np.uint8)
    if fmt.encoding is None or (fmt.sums_integers and not sums):
        return listed(rows, fmt)
    name, exponent_bits, significand_bits = fmt.encoding
    if fmt.sums_integers:
        if not np.isfinite(rows).all():
            raise NumcError(f"'{fmt.name}' has no NaN")
        return Encoding(name, exponent_bits, significand_bits), np.frombuffer(element_bytes(rows, fmt), np.uint8)
    packed = pack(rows, fmt.name)
    group, top = fmt.group or 0, int(packed.shared)
    return Encoding(name, exponent_bits, significand_bits, group=group, top=top), np.frombuffer(packed.data, np.uint8)
