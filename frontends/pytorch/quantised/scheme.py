"""A scheme of quantised weights says which stored tensors make one weight, and makes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from numc.support.errors import NumcError, quoted, shortened

Settings = Mapping[str, Any]
"""The object `quantization_config` of config.json."""


@dataclass(frozen=True)
class Layer:
    """One weight as a checkpoint stores it.

    name: the weight, as the model calls it. parts: its tensors, by the ending of their names. settings: of the
    checkpoint. about: what the file says of this weight, nothing in most schemes. dtype: that of the model by its
    configuration.
    """

    name: str
    parts: Mapping[str, torch.Tensor]
    settings: Settings
    about: str
    dtype: torch.dtype

    def part(self, ending: str) -> torch.Tensor:
        """Return a tensor of the layer. Raises NumcError if it is missing."""
        if ending not in self.parts:
            has = ", ".join(sorted(self.parts))
            raise NumcError(f"weight {quoted(self.name)}: {ending} is missing, there is {has}: the files are not whole")
        return self.parts[ending]

    def scale(self, ending: str) -> torch.Tensor:
        """Return a tensor of scales. Raises NumcError if it is missing, or if one of them is no finite number."""
        scale = self.part(ending)
        if not scale.is_floating_point() and scale.dtype != torch.uint8:
            raise self.misfit()
        if scale.dtype == torch.uint8:  # powers of two by their exponents, of which the largest is NaN
            wrong = int((scale == 255).sum())
        else:
            wrong = int((~torch.isfinite(scale.to(torch.float32))).sum())
        if wrong:
            what = f"{wrong} of {scale.numel()} numbers in {ending} are not finite"
            raise NumcError(f"weight {quoted(self.name)}: {what}: want finite scales: take another copy of the files")
        return scale

    def spread(self, scale: torch.Tensor, shape: Sequence[int], block: Sequence[int] | None = None) -> torch.Tensor:
        """Return scales, or zero points, in a shape that multiplies a weight of `shape` element by element.

        They are one, or along each axis one, one for each element, or one for each block: `block` elements, the last
        block may have fewer, or else as many as divide the axis evenly. Raises NumcError for any other number of them.
        """
        if scale.numel() == 1 and (
            block is None or all(size <= length for size, length in zip(shape, block, strict=True))
        ):
            return scale.reshape((1,) * len(shape))  # with its axes, so that types are promoted as the libraries do
        if scale.ndim == 1 and len(shape) > 1:
            scale = scale.reshape(-1, *(1,) * (len(shape) - 1))
        if scale.ndim != len(shape):
            raise self.misfit()
        for axis, size in enumerate(shape):
            count = scale.shape[axis]
            if count in (1, size) and not (block and count != -(-size // block[axis])):
                continue
            length = block[axis] if block else size // max(count, 1)
            if count != -(-size // length) or (not block and size % count):
                raise self.misfit()
            scale = scale.repeat_interleave(length, axis).narrow(axis, 0, size)
        return scale

    def misfit(self) -> NumcError:
        """Return the error of parts whose types or sizes do not belong together."""
        parts = ", ".join(
            f"{ending} {str(part.dtype).removeprefix('torch.')}{list(part.shape)}"
            for ending, part in sorted(self.parts.items())
        )
        return NumcError(f"weight {quoted(self.name)}: {parts} do not fit together by the quantization_config: "
                         "want a checkpoint as its library writes it")  # fmt: skip


@dataclass(frozen=True)
class Scheme:
    """One way in which checkpoints store weights.

    parts: the endings of the names of the tensors that make a weight. weight: makes it, rounded as the library of the
    scheme rounds it. described: says what the settings of a checkpoint are; raises NumcError for those it does not
    know. ignored: endings of tensors that only say how activations or caches are rounded. makes: the ending of the
    weight's own name.
    """

    parts: tuple[str, ...]
    weight: Callable[[Layer], torch.Tensor]
    described: Callable[[Settings], str]
    ignored: tuple[str, ...] = ()
    makes: str = ".weight"


def one_of(settings: Settings, key: str, allowed: Sequence[object], default: object = None) -> Any:
    """Return a setting. Raises NumcError if it is none of those allowed."""
    setting = settings.get(key, default)
    if not any(type(setting) is type(choice) and setting == choice for choice in allowed):
        raise refused(key, setting, f"want {' or '.join(map(str, allowed))}")
    return setting


def matches(key: str, pattern: str, name: str) -> bool:
    """Return whether a name begins with a pattern of a setting. Raises NumcError if it is no regular expression."""
    try:
        return bool(re.match(pattern, name))
    except (re.error, RecursionError, OverflowError):
        raise refused(key, pattern, "want a regular expression for the names of layers") from None


def refused(key: str, setting: object, wanted: str) -> NumcError:
    """Return the error of a setting."""
    return NumcError(f"quantization_config: {key} is {shortened(setting)}: {wanted}")
