"""What users give as arrays: numpy's arrays, torch's tensors, lists, and objects of which none becomes an array.

torch is not imported here: a caller with a tensor has done that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.compiler.support.errors import NumcError, shortened


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


def any_tensor(values: Iterable[object]) -> bool:
    """Whether a torch.Tensor is among `values`."""
    return "torch" in sys.modules and any(map(is_tensor, values))


def to_array(what: str, tensor: Any) -> npt.NDArray[Any]:
    """Return an array of a tensor's memory, without gradients; `what` is what messages call it.

    Raises NumcError where that is impossible.
    """
    if tensor.device.type != "cpu":
        raise NumcError(f"{what}: on device {tensor.device}; programs run on the CPU: use .to('cpu')")
    for kind, is_kind, use in (
        ("a nested tensor", tensor.is_nested, "torch.nested.to_padded_tensor"),
        ("a sparse tensor", str(tensor.layout) != "torch.strided", ".to_dense()"),
        ("a quantised tensor", tensor.is_quantized, ".dequantize()"),
    ):
        if is_kind:
            raise NumcError(f"{what}: got {kind}, which no array can hold: use {use}")
    try:
        array: npt.NDArray[Any] = tensor.detach().resolve_conj().resolve_neg().numpy()
    except (TypeError, RuntimeError):
        kind = str(tensor.dtype).removeprefix("torch.")
        shape = ",".join(map(str, tensor.shape))
        raise NumcError(f"{what}: got {kind}[{shape}], which no array can hold: use .float()") from None
    return array


def to_tensor(array: npt.NDArray[Any]) -> Any:
    """Return a tensor of an array's memory."""
    return sys.modules["torch"].from_numpy(np.asarray(array))
