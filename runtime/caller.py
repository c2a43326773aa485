"""The function that runs a program on arrays and tensors as they are: numc_caller of numc.h.

A call from Python takes a microsecond more than one from C. Tensors of torch enter and leave through the C exchange
interface of DLPack.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from numc.runtime.abi import TensorSpec
from numc.runtime.library import MAX_RANK, library_of_python
from numc.runtime.tensors import bits_dtype, is_in_memory, torch_dtype

#: Takes the inputs, the address of the options, whether the results are tensors in any case, and what `orders_of`
#: returns. Returns the results; or the code and the text of a failure; or None, where an input is not as it has to be.
Caller = Callable[[tuple[Any, ...], int, bool, "bytes | None"], "list[Any] | tuple[int, str] | None"]

#: Which dimension of a result is dimension d of its tensor, by number of the result.
Orders = Mapping[int, Sequence[int]]

_MOST_COPIED = 1 << 30  # bytes; whether there is memory for more is checked elsewhere


def caller(handle: Any, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], *, tensors: bool) -> Caller:
    """Return the function of a program, which must not be called after the program is freed.

    handle: of the program. tensors: whether it takes and returns tensors of torch, too, which then has to be loaded.
    """
    formats = "".join(bits_dtype(spec.dtype).char for spec in inputs).encode()
    description: tuple[Any, ...] = (
        np.ndarray,
        _memory_type(),
        formats,
        tuple(bits_dtype(spec.dtype) for spec in outputs),
    )
    if tensors:
        # DLPack has no name for some types of torch, which look like bytes.
        bytes_ = tuple(torch_dtype(spec.dtype) if spec.dtype in ("int8", "uint8") else None for spec in inputs)
        torch = sys.modules["torch"]
        description += (torch.Tensor, torch.nn.Parameter, torch.Tensor.is_neg, bytes_, _exchange())
    call: Caller = library_of_python().numc_caller(handle, description)
    return call


@functools.cache
def _memory_type() -> type:
    """The type of what owns the memory of the arrays that programs return."""
    memory_type: type = library_of_python().numc_memory_type(object.__basicsize__)
    return memory_type


@functools.cache
def _exchange() -> int:
    """The address of the C exchange interface of torch, which is loaded."""
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address: int = pointer_of(sys.modules["torch"].Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    return address


def dense_tensors(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return `values` with copies in place of the tensors that are not dense, which torch makes faster than numpy."""

    def is_scattered(value: Any) -> bool:
        return is_in_memory(value) and not value.is_contiguous() and value.nbytes <= _MOST_COPIED

    return tuple(value.detach().contiguous() if is_scattered(value) else value for value in values)


def orders_of(orders: Orders, count: int) -> bytes | None:
    """Return what a Caller takes, for `count` results; None if all of them are as the program returns them."""
    if not orders:
        return None
    rows = (orders.get(number, range(MAX_RANK)) for number in range(count))
    return b"".join(bytes(row).ljust(MAX_RANK, b"\0") for row in rows)
