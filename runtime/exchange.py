"""torch's tensors as inputs and results of programs, through the C exchange interface of DLPack: numc_bind, numc_wrap.

Each tensor takes a tenth of the time that it takes through an array of numpy: a model has hundreds of parameters.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from numc.runtime.library import Exchange, library_of_python
from numc.runtime.tensors import torch_dtype

_Row = ctypes.POINTER(ctypes.c_int32)

_MOST_COPIED = 1 << 30  # bytes; whether there is memory for more is checked elsewhere

#: Which dimension of a result is dimension d of its tensor, by number of the result.
Orders = Mapping[int, Sequence[int]]


@functools.cache
def _torch() -> tuple[Any, Exchange]:
    """What is needed of torch, which is loaded: the types of tensors whose memory is what it seems, and functions."""
    torch, python = sys.modules["torch"], ctypes.pythonapi
    pointer_of = python.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = pointer_of(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    functions = (ctypes.cast(function, ctypes.c_void_p) for function in (python.PyTuple_GetItem, python.PyList_SetItem))
    return frozenset((torch.Tensor, torch.nn.Parameter)), Exchange(address, *functions)


def bound(
    handle: Any, values: tuple[Any, ...], bytes_: Sequence[tuple[int, str]], may_copy: bool, inputs: Any
) -> tuple[Any, ...] | None:
    """Fill in the inputs of a run with `values`, if all of them are tensors of the wanted dtypes and shapes.

    handle: of the program. bytes_: number and dtype of the inputs whose dtype DLPack cannot tell from others of torch.
    may_copy: whether tensors that are not dense are copied. inputs: an array of Tensor. Returns None where that is not
    possible, else what has to be there until the run ends.
    """
    if "torch" not in sys.modules:
        return None
    types, exchange = _torch()
    torch = sys.modules["torch"]
    if not types.issuperset(map(type, values)) or any(map(torch.Tensor.is_neg, values)):
        return None
    for number, name in bytes_:
        if values[number].dtype is not torch_dtype(name):
            return None
    try:
        if library_of_python().numc_bind(handle, ctypes.byref(exchange), values, inputs) == 0:
            return values
        scattered = [value.nbytes for value in values if not value.is_contiguous()]
        if not may_copy or not scattered or sum(scattered) > _MOST_COPIED:
            return None
        values = tuple(value.detach().contiguous() for value in values)
        return values if library_of_python().numc_bind(handle, ctypes.byref(exchange), values, inputs) == 0 else None
    except (RuntimeError, BufferError):  # a tensor without memory
        return None


def tensors_of(handle: Any, inputs: Any, outputs: Any, count: int, orders: Any = None) -> list[Any]:
    """Return the results of a run as tensors, and None for those that were written into inputs.

    handle: of the program. inputs, outputs: arrays of Tensor. orders: from `orders_of`.
    """
    found: list[Any] = [None] * count
    code = library_of_python().numc_wrap(handle, ctypes.byref(_torch()[1]), inputs, outputs, orders, found)
    if code != 0:
        raise MemoryError("torch makes no tensor of the memory of a result")
    return found


def orders_of(orders: Orders, count: int) -> Any:
    """Return what `tensors_of` takes, for `count` results; None if all of them are as the program returns them."""
    if not orders:
        return None
    rows = {number: (ctypes.c_int32 * len(order))(*order) for number, order in orders.items()}
    pointers = (ctypes.cast(rows[n], _Row) if n in rows else _Row() for n in range(count))
    return (_Row * count)(*pointers)
