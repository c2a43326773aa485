"""The arrays of users: numpy's arrays, torch's tensors, lists, and objects of which none becomes an array.

torch is not imported here: a caller with a tensor has done that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.numerics.dtypes import BITS_DTYPES
from numc.support.errors import NumcError, shortened


def array_dtype(name: str) -> np.dtype[Any]:
    """Return the numpy dtype of arrays of a dtype.

    numpy itself has no bfloat16, no float8 and no int4: it is that of ml_dtypes, or integers with the bits of the
    values where ml_dtypes is not installed.
    """
    if hasattr(np, name) or name not in BITS_DTYPES:
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        return bits_dtype(name)
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


def bits_dtype(name: str) -> np.dtype[Any]:
    """Return a dtype of numpy itself for the memory of arrays of a dtype: those of ml_dtypes have no buffers."""
    return np.dtype(name if hasattr(np, name) else BITS_DTYPES.get(name, name))


def as_array(what: str, value: Any, want: str = "numbers of one type") -> npt.NDArray[Any]:
    """Return an array or a tensor as it is, and numbers and lists as an array; messages call it `what` and `want`.

    Raises NumcError for everything else.
    """
    if is_tensor(value):
        return to_array(what, value)
    try:
        array = np.asarray(value)
    except MemoryError:
        raise NumcError(f"{what}: no array: there is not enough memory for it") from None
    except Exception as error:  # an object may raise anything when it is asked for its values
        reason = " ".join(str(error).split()) or type(error).__name__
        raise NumcError(f"{what}: no array ({shortened(reason, 200)}): want {want}") from None
    if array.dtype == object:
        raise NumcError(f"{what}: got {shortened(type(value).__name__)} of objects, want numbers of one type")
    return array


def in_dtype(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Return an array of a dtype that numpy lacks and that came as its bits, or as the bytes that files hold of it.

    Any other array is returned as it is.
    """
    wanted = array_dtype(name)
    if name in BITS_DTYPES and array.dtype in (bits_dtype(name), f"V{wanted.itemsize}"):
        return array.view(wanted)
    return array


def as_numbers(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array of a dtype that numpy has no statistics of as float32; any other as it is."""
    return array.astype(np.float32) if array.dtype.name in BITS_DTYPES and array.dtype.kind != "u" else array


def dense(what: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array whose elements lie one after the other, aligned, in the byte order of this machine.

    That is `array` itself or a copy. Raises NumcError where the machine has less memory than the copy takes, as for an
    array that repeats its elements by strides of 0.
    """
    if array.dtype.isnative and array.flags.c_contiguous and array.flags.aligned:
        return array
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        if array.nbytes > there:
            raise MemoryError
        native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
        return np.require(native, requirements=["C", "A"])
    except MemoryError:
        raise NumcError(
            f"{what}: {array.nbytes} bytes are to be copied, because it is not dense, and this machine has {there}: "
            "give a smaller one, or a dense one"
        ) from None


def is_tensor(value: object) -> bool:
    """Whether `value` is a torch.Tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_on_gpu(value: object) -> bool:
    """Whether `value` is a torch.Tensor on a GPU."""
    return is_tensor(value) and value.is_cuda  # type: ignore[attr-defined]


def is_in_memory(value: object) -> bool:
    """Whether `value` is a torch.Tensor whose elements lie in memory, at strides: no sparse one, none of a GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return False
    return value.is_cpu and value.layout is torch.strided and not value.is_nested


def any_tensor(values: Iterable[object]) -> bool:
    """Whether a torch.Tensor is among `values`."""
    return "torch" in sys.modules and any(map(is_tensor, values))


def to_array(what: str, tensor: Any) -> npt.NDArray[Any]:
    """Return an array of a tensor's memory, without gradients; `what` is what messages call it.

    Raises NumcError where that is impossible.
    """
    torch = sys.modules["torch"]
    if not tensor.is_cpu:
        raise NumcError(f"{what}: on device {tensor.device}; programs run on the CPU: use .to('cpu')")
    if tensor.is_nested:
        raise NumcError(f"{what}: got a nested tensor, which no array can hold: use torch.nested.to_padded_tensor")
    if tensor.layout is not torch.strided:
        raise NumcError(f"{what}: got a sparse tensor, which no array can hold: use .to_dense()")
    if tensor.is_quantized:
        raise NumcError(f"{what}: got a quantised tensor, which no array can hold: use .dequantize()")
    name = dtype_of(tensor)
    try:
        plain = tensor.detach().resolve_conj().resolve_neg()
        if name in BITS_DTYPES and not hasattr(np, name):
            plain = plain.view(getattr(torch, BITS_DTYPES[name].replace("uint16", "int16")))
        array: npt.NDArray[Any] = plain.numpy()
    except (TypeError, RuntimeError):
        shape = ",".join(map(str, tensor.shape))
        raise NumcError(f"{what}: got {name}[{shape}], which no array can hold: use .float()") from None
    return array.view(array_dtype(name)) if name in BITS_DTYPES else array


def dtype_of(tensor: Any) -> str:
    """Return the name of the dtype of a tensor."""
    return str(tensor.dtype).removeprefix("torch.")


def torch_dtype(name: str) -> Any:
    """Return torch's dtype of a name, where torch is loaded."""
    return getattr(sys.modules["torch"], name)


def to_tensor(array: npt.NDArray[Any], name: str) -> Any:
    """Return a tensor of an array's memory; name: its dtype. Values that torch has no tensors of are uint8, as bits."""
    torch, array = sys.modules["torch"], np.asarray(array)
    if name not in BITS_DTYPES or hasattr(np, name):
        return torch.from_numpy(array)
    bits = torch.from_numpy(array.view(BITS_DTYPES[name].replace("uint16", "int16")))
    return bits.view(torch_dtype(name)) if name.startswith(("bfloat", "float8")) else bits
