"""The state of an optimizer, its momentum or its moments, in the bytes of a format between the steps."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from numc.compiler.arrays.codes import narrowing, widening
from numc.numerics.formats import Conversion
from numc.numerics.grammar import parse_conversion
from numc.support.arguments import checked, checked_integer
from numc.support.errors import NumcError, quoted, shortened

KEY = "numc"
"""Of what this adds to ``optimizer.state``, where torch saves and loads it as it is."""
_MOST_BITS = 16
_STEP, _PARAMETER = 1 << 32, 1 << 8
"""How far the seeds of two steps, and of two parameters, lie apart."""
_LINE = 16
"""The float32 numbers of a cache line."""
_with_formats: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()


@dataclass
class _Held:
    """A tensor of a state: `wide` is in the state while the optimizer steps, and empty between the steps; `codes` else.

    Both stay the same objects, because a graph that torch has traced asks for the same tensors.
    """

    wide: Tensor
    codes: Tensor
    to: Conversion


class OptimizerState:
    """Holds the state of an optimizer of torch in a narrow format between the steps.

        optimizer = torch.optim.AdamW(model.parameters())
        held = numc.train.OptimizerState(optimizer, "bf16:sr16")

    After every step, each float32 tensor of the state that has the shape of its parameter is rounded to the format, and
    ``optimizer.state`` has its codes, as uint8 or uint16. The next step begins with their values, in float32. It may be
    compiled, with numc or otherwise, or not. ``optimizer.state_dict()`` has the values as float32, and what a run needs
    to go on from there with the same bits.

    Tensor k of the state of parameter p is rounded after step t, from 1, as
    ``numc.round(x, format, seed=(seed + 2**32 * t + 256 * p + k) % 2**64)``. Parameters are numbered as in the groups
    of the optimizer.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, state: str | Mapping[str, str], *, seed: int = 0) -> None:
        """Round the state that there is, and from now on what every step makes.

        optimizer: of parameters in the memory of the CPU. state: a format of single values of at most 16 bits, with its
        rounding, such as ``bf16`` or ``e4m3:sr8``; or formats by the names that the optimizer gives its tensors, such
        as ``{"exp_avg": "bf16:sr16", "exp_avg_sq": "fp32"}``: those with fp32 or without a format stay as they are.
        seed: of stochastic rounding, 0 to 2^64 - 1.
        Raises NumcError for other formats, and if the optimizer has an OptimizerState; the first step raises it if the
        optimizer keeps no tensor of these names.
        """
        self._optimizer = checked(optimizer, "OptimizerState: optimizer", torch.optim.Optimizer, "one of torch")
        self._formats = _conversions(state)
        self._seed = checked_integer(seed, "OptimizerState: seed", 0, 2**64 - 1)
        if optimizer in _with_formats:
            raise NumcError("OptimizerState: the optimizer has one already: make one for each optimizer")
        for parameter in self._parameters():
            if parameter.device.type != "cpu":
                raise NumcError(f"OptimizerState: a parameter is on {parameter.device}, want all of them on the CPU")
        self._held: dict[tuple[Tensor, str], _Held] = {}
        self._begin()
        self._narrow()
        optimizer.register_step_pre_hook(self._before_step)
        optimizer.register_step_post_hook(self._after_step)
        optimizer.register_state_dict_post_hook(self._saved)
        optimizer.register_load_state_dict_pre_hook(self._before_load)
        optimizer.register_load_state_dict_post_hook(self._after_load)
        _with_formats.add(optimizer)

    @property
    def bytes(self) -> int:
        """The bytes of the tensors in the optimizer's state."""
        values = (value for state in self._optimizer.state.values() for value in state.values())
        return sum(value.nbytes for value in values if isinstance(value, Tensor))

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _before_step(self, *_: Any) -> None:
        self._narrow()  # what others have put into the state
        entries = list(self._in_codes(self._optimizer.state.values()))
        for (state, name, held), room in zip(entries, _rooms([held.codes for _, _, held in entries]), strict=True):
            held.wide.data = room.copy_(_values(held.codes, held.to))
            state[name] = held.wide

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _after_step(self, *_: Any) -> None:
        self._optimizer.state[KEY]["steps"] += 1
        self._narrow(made_in_step=True)
        self._check_names()

    def _saved(self, _: Any, saved: dict[str, Any]) -> None:
        """Put values in place of codes, in what state_dict returns."""
        saved["state"] = {parameter: dict(state) for parameter, state in saved["state"].items()}
        for state, name, held in self._in_codes(saved["state"].values()):
            state[name] = torch.empty_like(held.codes, dtype=torch.float32).copy_(_values(held.codes, held.to))

    def _before_load(self, _: Any, given: dict[str, Any]) -> None:
        mine, theirs = self._optimizer.state[KEY], given.get("state", {}).get(KEY)
        if theirs is None:
            return  # of a training in float32
        checked(theirs, "OptimizerState: checkpoint", Mapping, "what state_dict returns")
        for name in "formats", "seed":
            if theirs.get(name) != mine[name]:
                raise NumcError(
                    f"OptimizerState: checkpoint: its {name} is {shortened(theirs.get(name))}, want "
                    f"{shortened(mine[name])}: make it as it was made for the run"
                )
        checked_integer(theirs.get("steps"), "OptimizerState: checkpoint: steps", 0, 2**63 - 1)

    def _after_load(self, _: Any) -> None:
        self._begin()
        self._narrow()

    def _begin(self) -> None:
        """Make the part of the state that says how the rest is held, unless it is loaded."""
        formats = {name: str(to or "fp32") for name, to in self._formats.items()}
        self._optimizer.state.setdefault(KEY, {"formats": formats, "seed": self._seed, "steps": 0})

    def _narrow(self, made_in_step: bool = False) -> None:
        """Round what is in float32 to its format, and put codes in its place.

        made_in_step: a new tensor is that of a graph, and of nothing else; others may be of a checkpoint, too.
        """
        first = self._seed + _STEP * self._optimizer.state[KEY]["steps"]
        for number, parameter in enumerate(self._parameters()):
            state = self._optimizer.state.get(parameter, {})
            tensors = {name: value for name, value in state.items() if _is_wide(value, parameter)}
            for index, (name, value) in enumerate(tensors.items()):
                if (to := self._formats.get(name, self._formats.get(""))) is not None:
                    codes = _codes(value, to, (first + _PARAMETER * number + index) % 2**64)
                    wide = value if made_in_step else value.new_empty(0)
                    new = _Held(wide, torch.empty_like(value, dtype=codes.dtype), to)
                    held = self._held.setdefault((parameter, name), new)
                    state[name] = held.codes.copy_(codes)
                    held.wide.data = value.new_empty(0)

    def _check_names(self) -> None:
        """Raise NumcError for formats that the state of the optimizer has no tensors for."""
        states = (self._optimizer.state.get(parameter, {}) for parameter in self._parameters())
        known = sorted({name for state in states for name in state})
        type_name = type(self._optimizer).__name__
        for name in self._formats:
            if name and known and name not in known:
                raise NumcError(f"OptimizerState: {type_name} keeps no {quoted(name)}: want some of {', '.join(known)}")
        if not self._held and any(self._formats.values()) and any(p.grad is not None for p in self._parameters()):
            raise NumcError(
                f"OptimizerState: {type_name} keeps no float32 tensor of the shape of its parameter: want an optimizer "
                "with such a state, as SGD with momentum or Adam"
            )

    def _parameters(self) -> Iterator[Tensor]:
        for group in self._optimizer.param_groups:
            yield from group["params"]

    def _in_codes(self, states: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str, _Held]]:
        """Yield the states and the names in them whose values are codes now, with these."""
        known = {id(held.codes): held for held in self._held.values()}
        for state in states:
            for name, value in list(state.items()):
                if (held := known.get(id(value))) is not None:
                    yield state, name, held


def _conversions(given: Any) -> dict[str, Conversion | None]:
    """Return the conversions by name, "" for every other one; None is fp32. Raises NumcError."""
    checked(given, "OptimizerState: state", (str, Mapping), "a format, or formats by name")
    texts = {"": given} if isinstance(given, str) else dict(given)
    if not texts:
        raise NumcError("OptimizerState: state: got no formats, want a format, or formats by name")
    for name in texts:
        checked(name, "OptimizerState: state: a name", str, "a text such as exp_avg")
    return {name: _conversion(text) for name, text in texts.items()}


def _conversion(text: Any) -> Conversion | None:
    to = parse_conversion(text)
    if str(to) == "fp32":
        return None
    fmt = to.format
    if fmt.parts > 1 or fmt.bits > _MOST_BITS or fmt.precision < 2:
        raise NumcError(
            f"OptimizerState: state {quoted(text)}: a value has {fmt.bits} bits, {fmt.precision - 1} of "
            f"them significand: want fp32, or a format of at most {_MOST_BITS} bits with a significand, such as bf16"
        )
    if not fmt.is_usual or not fmt.has_nan:
        raise NumcError(
            f"OptimizerState: state {quoted(text)}: only codes of IEEE-754's kind that have a NaN are stored: "
            "want fp32, or a format such as bf16 or e4m3fn"
        )
    return to


def _is_wide(value: Any, parameter: Tensor) -> bool:
    """Whether a value of the state of a parameter is a tensor like it, in float32."""
    is_tensor = type(value) is Tensor and value.dtype == torch.float32 and value.numel() > 0
    return is_tensor and value.dim() > 0 and value.shape == parameter.shape


def _codes(value: Tensor, to: Conversion, seed: int) -> Tensor:
    """Return the codes of a float32 tensor, as uint8 or uint16."""
    (codes,) = narrowing(to).run((value.detach().reshape(-1),), seed=seed)
    return codes.view(torch.uint8 if codes.itemsize == 1 else torch.uint16).view(value.shape)


def _values(codes: Tensor, to: Conversion) -> Tensor:
    """Return the values of codes, as float32."""
    numbers = codes.reshape(-1).view(torch.int8 if codes.itemsize == 1 else torch.int16)
    (values,) = widening(to.format).run((numbers,))
    return values.view(codes.shape)


def _rooms(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return float32 tensors with the sizes and strides of others, in one piece of memory.

    Pieces of their own would leave gaps that nothing else fits into. Each has a storage of its own: torch would trace
    tensors of one storage as views of one tensor.
    """
    starts = [0, *itertools.accumulate(-(-tensor.numel() // _LINE) * _LINE for tensor in tensors)]
    memory = np.empty(starts[-1], np.float32)
    flat = (
        torch.frombuffer(memory, dtype=torch.float32, count=tensor.numel(), offset=memory.itemsize * start)
        for start, tensor in zip(starts, tensors, strict=False)
    )
    return [room.as_strided(tensor.shape, tensor.stride()) for room, tensor in zip(flat, tensors, strict=True)]
