"""The types and the sizes that tensors of an ONNX file may have."""

from __future__ import annotations

import math

import onnx

from numc.support.errors import NumcError

MAX_ELEMENTS = 2**31 - 1
"""The largest number of elements of a tensor, so that sizes and indices stay within 32 bits."""

NAMES = {number: name.lower() for name, number in onnx.TensorProto.DataType.items()}
_OTHERS = {"string", "complex64", "complex128", "undefined"}
NUMBERS = frozenset(number for number, name in NAMES.items() if name not in _OTHERS)
"""The types of elements that tensors may have."""


def check_tensor(tensor: onnx.TensorProto, what: str) -> None:
    """Raise NumcError unless the type is allowed and the data has the size of the shape."""
    check_dtype(tensor.data_type, what)
    count = elements(list(tensor.dims), what)
    bits = _bits(tensor.data_type)
    if tensor.HasField("raw_data"):
        length, wanted = len(tensor.raw_data), (count * bits + 7) // 8
        unit = "bytes"
    else:
        field = onnx.helper.tensor_dtype_to_field(tensor.data_type)
        length, wanted, unit = len(getattr(tensor, field)), count if bits >= 8 else -(-count * bits // 8), "elements"
    if length != wanted:
        raise NumcError(f"{what} is damaged: its shape {list(tensor.dims)} needs {wanted} {unit}, found {length}")


def _bits(data_type: int) -> int:
    name = NAMES[data_type]
    if name.endswith(("int4", "int2")) or name == "float4e2m1":
        return 2 if name.endswith("int2") else 4
    return int(onnx.helper.tensor_dtype_to_np_dtype(data_type).itemsize) * 8


def elements(dims: list[int], what: str) -> int:
    """Return how many elements a shape has. Raises NumcError for a negative size, and for too many."""
    if any(dim < 0 for dim in dims):
        raise NumcError(f"{what} has a negative size in its shape {dims}; sizes start at 0")
    count = math.prod(dims)
    if count > MAX_ELEMENTS:
        raise NumcError(f"{what} has shape {dims}: {count} elements, want at most {MAX_ELEMENTS}")
    return count


def check_dtype(data_type: int, what: str) -> None:
    """Raise NumcError unless tensors may have elements of a type, a number of onnx.TensorProto."""
    name = NAMES.get(data_type, f"number {data_type}")
    if data_type not in NUMBERS:
        raise NumcError(f"{what} is of type {name}: want tensors of floats, integers and bool")
