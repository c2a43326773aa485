"""Operands as the words of a unit's ports, on whole arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import numc
from numc.hardware.port import TOP_BITS, Port
from numc.numerics.codes import bits_of_codes
from numc.numerics.float_arrays import F32Array
from numc.numerics.formats import Conversion, Format
from numc.numerics.groups import GroupConversion
from numc.numerics.kinds import Bfp, Mx
from numc.numerics.numpy_groups import convert_operand, largest_magnitude

Codes = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]


def of_values(fmt: Format, x: F32Array) -> Codes:
    """The codes of values of a format; of a compound one, the first part lowest, all of them special if it is."""
    packed = numc.pack(x, fmt.name)
    every = np.unpackbits(np.frombuffer(packed.data, np.uint8), bitorder="little")[: x.size * fmt.bits]
    codes = every.reshape(*x.shape, fmt.bits) @ (1 << np.arange(fmt.bits, dtype=np.int64))
    if fmt.parts == 1:
        return np.asarray(codes)
    width = fmt.bits // fmt.parts
    repeated = (codes & (1 << width) - 1) * sum(1 << n * width for n in range(fmt.parts))
    return np.where(np.isfinite(x), codes, repeated)


def of_operand(name: str, to: Conversion | GroupConversion, x: F32Array) -> dict[str, Codes]:
    """The codes of an operand (rows, K) by its ports: of its elements, of the scales of groups, and of its tensor."""
    if isinstance(to, Conversion):
        return {name: of_values(to.format, x)}
    fmt, largest = to.format, largest_magnitude(x, to.format)
    shared = fmt.shared_by(float(largest))
    made = convert_operand(x, to, largest, factors="elements")
    tensor = np.full((1, 1), shared, np.float32)
    if isinstance(fmt, Bfp):
        signs = np.signbit(made.values).astype(np.int64) << fmt.magnitude_bits
        bottom = int(shared) - fmt.window - (fmt.magnitude_bits - 1)
        nan = np.isnan(made.units)
        exponents = np.frexp(np.where(nan, 1, made.units))[1] - 1 - bottom
        return {
            name: signs | np.abs(made.values).astype(np.int64),
            f"{name}_exponent": np.where(nan, fmt.window, exponents).astype(np.int64),
            f"{name}_top": np.full((1, 1), int(shared) & (1 << TOP_BITS) - 1),
        }
    if fmt.sums_integers:
        integers = made.values.astype(np.int64) & (1 << fmt.code_bits) - 1
        return {name: integers, f"{name}_scale": tensor.view(np.uint32).astype(np.int64)}
    if fmt.single is None:
        assert isinstance(fmt, Mx)
        units = np.ldexp(made.values, fmt.significand_bits).astype(np.int64)
        elements = units & (1 << fmt.element_bits) - 1
    else:
        elements = fmt.single.encode_array(made.values)
    assert fmt.scales is not None
    scales = {f"{name}_scale": fmt.scales.encode_array(made.units)}
    return {name: elements, **scales, f"{name}_tensor": tensor.view(np.uint32).astype(np.int64)}


def words(port: Port, codes: Codes) -> Words:
    """Codes (rows, count) of a port as words of 32 bits, the lowest first."""
    bits = bits_of_codes(codes.astype(np.int64), port.bits) if port.bits <= 32 else _wide(codes, port.bits)
    padded = np.zeros((len(bits), -(-bits.shape[1] // 32) * 32), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint32)


def _wide(codes: Codes, width: int) -> npt.NDArray[np.uint8]:
    return (codes[:, :, None] >> np.arange(width) & 1).astype(np.uint8).reshape(len(codes), -1)


def steps(port: Port, codes: Codes, count: int) -> Codes:
    """Codes (rows, ...) as those of `count` steps of every row (rows * count, port.count), what a tensor shares too."""
    if codes.shape == (1, 1):
        return np.broadcast_to(codes, (1, port.count))
    if codes.shape[1] == count * port.count:
        return codes.reshape(-1, port.count)
    # Several steps lie in one group.
    return np.repeat(codes, count // codes.shape[1], axis=1).reshape(-1, port.count)
