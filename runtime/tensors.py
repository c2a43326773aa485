"""Torch tensors as inputs and outputs of programs. torch is not imported here: a caller with a tensor has done that."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.compiler.support.errors import NumcError


def is_tensor(value: object) -> bool:
    """Whether `value` is a torch.Tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def any_tensor(values: Iterable[object]) -> bool:
    """Whether a torch.Tensor is among `values`."""
    return "torch" in sys.modules and any(map(is_tensor, values))


def to_array(name: str, tensor: Any) -> npt.NDArray[Any]:
    """Return an array of a tensor's memory, without gradients. Raises NumcError where that is impossible."""
    if tensor.device.type != "cpu":
        raise NumcError(f"input '{name}': on device {tensor.device}; programs run on the CPU: use .to('cpu')")
    try:
        array: npt.NDArray[Any] = tensor.detach().resolve_conj().resolve_neg().numpy()
    except (TypeError, RuntimeError):
        kind = str(tensor.dtype).removeprefix("torch.")
        shape = ",".join(map(str, tensor.shape))
        raise NumcError(f"input '{name}': got {kind}[{shape}], which no array can hold: use .float()") from None
    return array


def to_tensor(array: npt.NDArray[Any]) -> Any:
    """Return a tensor of an array's memory."""
    return sys.modules["torch"].from_numpy(np.asarray(array))
