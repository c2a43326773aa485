"""The host's side of a program's text: memory, launches, and checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import triton.language as tl

from numc.numerics.binary32 import INFINITY
from numc.numerics.reference.random import stream as stream_of
from numc.runtime.gpu.host_numbers import wrapped
from numc.runtime.gpu.tiled_product import Contraction, contract
from numc.support.errors import NumcError

_MAGNITUDE = 0x7FFFFFFF
_EMULATED_BLOCK = 1 << 16
"""Elements of a program instance of the emulator: so many that numpy works on long arrays."""


@dataclass
class Run:
    """One execution of a program on a device.

    constants, messages: those of the program, the messages by their numbers. seed, step: of random numbers. widths: the
    words of open widths, by slot. launches: a list that receives every kernel with its arguments and a GPU's constants.
    """

    device: torch.device
    constants: Sequence[torch.Tensor]
    messages: Sequence[str]
    seed: int = 0
    step: int = 0
    widths: Sequence[int] = ()
    launches: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] | None = None
    failed: torch.Tensor = field(init=False)
    occurrences: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.failed = torch.zeros((), dtype=torch.int32, device=self.device)

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Memory of a shape, from torch's allocator."""
        return torch.empty(shape, dtype=dtype, device=self.device)

    def launch(self, kernel: Any, arguments: tuple[Any, ...], total: int, block: int = 1024) -> None:
        """Compute `total` elements by a kernel, `block` of them by a program instance, on torch's current stream."""
        if total == 0:
            return
        constants = {"I": index_type(arguments), "BLOCK": block}
        told = (*arguments, total)
        self._note(kernel, told, constants)
        if self.device.type == "cpu":
            block = constants["BLOCK"] = min(_EMULATED_BLOCK, max(16, 1 << (total - 1).bit_length()))
        self._call(kernel, (-(-total // block),), told, constants)

    def call(self, kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: dict[str, Any]) -> None:
        """Launch a kernel."""
        self._note(kernel, arguments, constants)
        self._call(kernel, grid, arguments, constants)

    def _call(self, kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: dict[str, Any]) -> None:
        # Four warps, and no contraction of products and sums.
        kernel[grid](*arguments, **constants, num_warps=4, enable_fp_fusion=False)

    def _note(self, kernel: Any, arguments: tuple[Any, ...], constants: dict[str, Any]) -> None:
        if self.launches is not None:
            self.launches.append((kernel, arguments, dict(constants)))

    def contract(self, **known: Any) -> None:
        """Compute a contraction (tiled_product.py), on torch's current stream."""
        contraction = Contraction(**known)
        kernels = [contraction.rows.kernel, contraction.lanes.kernel, contraction.product]
        every = [a for _, told in kernels for a in told]
        contract(contraction, self, index_type(every))

    def number(self, value: int) -> torch.Tensor:
        """A number that a run does not find, in memory of the device."""
        return torch.full((), value, dtype=torch.int32, device=self.device)

    def stream(self, number: int) -> int:
        """The stream of random bits of operation `number` in this run, each time another one."""
        occurrence = self.occurrences[number]
        self.occurrences[number] += 1
        return wrapped(stream_of(self.seed, number, self.step, occurrence), 64)

    def width(self, slot: int) -> int:
        """The word of the open widths in a slot."""
        return self.widths[slot]

    def finish(self) -> None:
        """Raise NumcError if a kernel has found a failure. It waits for the device, if kernels check anything."""
        if self.messages and (number := int(self.failed.item())):
            raise NumcError(self.messages[number - 1])


def check(holds: bool, message: str) -> None:
    """Raise NumcError unless a condition of a run holds."""
    if not holds:
        raise NumcError(message)


def largest_magnitude(tensor: torch.Tensor, *, finite: bool) -> torch.Tensor:
    """The largest magnitude of a tensor, as an encoding in memory of its device; `finite`: of its finite values."""
    sizes = tensor.view(torch.int32) & _MAGNITUDE
    if finite:
        sizes = torch.where(sizes < INFINITY, sizes, 0)
    return sizes.max() if sizes.numel() else torch.zeros((), dtype=torch.int32, device=tensor.device)


def subview(
    tensor: torch.Tensor,
    offsets: Sequence[int],
    sizes: Sequence[int],
    steps: Sequence[int],
    kept: Sequence[int],
) -> torch.Tensor:
    """A part of memory: from `offsets` on, of `sizes`, by `steps`, without the dimensions that are not `kept`."""
    strides = tensor.stride()
    start = tensor.storage_offset() + sum(o * s for o, s in zip(offsets, strides, strict=True))
    return tensor.as_strided([sizes[n] for n in kept], [strides[n] * steps[n] for n in kept], start)


def index_type(arguments: Sequence[Any]) -> Any:
    """The type of places in the memory of tensors: 32 bits where all of them have so few elements."""
    sizes = (t.untyped_storage().nbytes() // t.element_size() for t in arguments if isinstance(t, torch.Tensor))
    return tl.int32 if max(sizes, default=0) < 2**31 else tl.int64
