"""The data of a comparison: checked against the inputs of the model and cut into batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.compiler.options import Reading
from numc.runtime.abi import Input, TensorSpec
from numc.runtime.tensors import as_array, as_numbers, in_dtype
from numc.studies.metrics import NOT_COUNTED
from numc.support.arguments import checked_integer
from numc.support.errors import NumcError, did_you_mean, quoted, shortened
from numc.support.keywords import about

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Data:
    """Inputs by name, labels, and the batches.

    axis: for each input, the axis along which batches are cut; None for an input that every batch takes whole. steps:
    the first and the last sample of each batch, where samples are counted along the axis of the first input that is
    cut. fixed: the number of samples that the model takes at once; 1 if it leaves that free.
    """

    inputs: Mapping[str, Array]
    labels: Array | None
    axis: Mapping[str, int | None]
    steps: tuple[tuple[int, int], ...]
    fixed: int = 1

    @property
    def samples(self) -> int:
        """The number of samples."""
        return self.steps[-1][1]

    @property
    def kind(self) -> str:
        """The kind of labels: "classes", "values", or "" if there are none."""
        return "" if self.labels is None else "classes" if self.labels.dtype.kind in "iu" else "values"

    def __iter__(self) -> Iterator[tuple[dict[str, Array], Array | None]]:
        for start, end in self.steps:
            batch = {name: _cut(array, self.axis[name], start, end) for name, array in self.inputs.items()}
            first = next((axis for axis in self.axis.values() if axis is not None), None)
            labels = self.labels
            if labels is not None and first is not None:
                labels = _cut(labels, min(first, labels.ndim - 1), start, end)
            yield batch, labels

    def sha256(self) -> str:
        """Return a hash of all values and of the batches."""
        hashed = hashlib.sha256(repr((self.steps, sorted(self.axis.items(), key=str))).encode())
        arrays = dict(self.inputs) if self.labels is None else {**self.inputs, "": self.labels}
        for name, array in sorted(arrays.items()):
            hashed.update(repr((name, array.dtype.str, array.shape)).encode())
            hashed.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return hashed.hexdigest()


BATCH = 64  # the number of samples that run at once by default


ABOUT_DATA = about(
    "arrays or tensors by name of the input, where other names are ignored; or one array, if the model has one input"
)


@dataclass(frozen=True, kw_only=True)
class Samples:
    """The samples that a study runs a model on."""

    data: Any = field(kw_only=False, metadata=ABOUT_DATA)
    labels: Any = field(
        default=None, metadata=about("of the samples: class numbers, or values of the shape of the output")
    )
    batch: int = field(
        default=BATCH, metadata=about("the samples that run at once, where the model leaves their number free")
    )
    threads: int | None = field(default=None, metadata=about("that a program runs on; no bit depends on it"))

    def checked_threads(self) -> int | None:
        """Return the number of threads. Raises NumcError if it is none."""
        return None if self.threads is None else checked_integer(self.threads, "threads", 1, 1024)


@dataclass(frozen=True, kw_only=True)
class Judged(Reading, Samples):
    """A model, which is read as numc.compile reads it, on samples by which an output of it is judged."""

    output: str | None = field(default=None, metadata=about("the name of the output that is judged, or the first"))
    commands: Sequence[str] = field(default=(), metadata=about("command lines that the report shows"))


def check_batch(batch: int) -> None:
    """Raise NumcError if `batch` is less than 1."""
    if not isinstance(batch, int) or batch < 1:
        raise NumcError(f"batch: got {shortened(batch)}, want at least 1")


def check_data(
    given: Any,
    labels: Any,
    inputs: Sequence[Input],
    output: TensorSpec,
    symbols: Mapping[str, Sequence[str]],
    batch: int,
) -> Data:
    """Return the data of a comparison.

    given: as for `named`. batch: the number of samples that run at once, where the model leaves it free. The first
    input with a free size gives the number of samples; other inputs are cut where `symbols` say that they have the same
    size. If the model fixes all sizes, data whose first size is a multiple of the model's is cut into pieces of that
    size.
    Raises NumcError if the data does not fit the model, or is empty or not finite.
    """
    arrays = named(given, inputs)
    axis = _axes(inputs, symbols)
    total: tuple[str, int] | None = None
    piece, at_once = batch, 1
    for spec in inputs:
        array = arrays[spec.name]
        at = axis[spec.name]
        _check_array(spec, array, at)
        if at is None:
            continue
        fixed = spec.shape[at]
        if fixed is not None and array.shape[at] == fixed:
            axis[spec.name] = None
            continue
        if fixed is not None:
            if array.shape[at] % fixed:
                got = f"{array.shape[at]} samples, but the model takes {fixed} at a time"
                raise NumcError(f"data {quoted(spec.name)}: {got}: give a multiple of {fixed}")
            piece = at_once = fixed
        if total is not None and array.shape[at] != total[1]:
            raise NumcError(
                f"data {quoted(spec.name)}: {array.shape[at]} samples, but '{total[0]}' has {total[1]}: want as many"
            )
        total = total or (spec.name, array.shape[at])
    if total is None:  # one batch, which has the sizes of the model
        first = inputs[0].shape[0] if inputs and inputs[0].shape else 1
        at_once = first or 1
        steps = [(0, at_once)]
    else:
        steps = [(start, min(start + piece, total[1])) for start in range(0, total[1], piece)]
    checked = None if labels is None else _labels(labels, steps[-1][1], output, axis)
    return Data(arrays, checked, axis, tuple(steps), at_once)


def _cut(array: Array, axis: int | None, start: int, end: int) -> Array:
    if axis is None:
        return array
    return np.ascontiguousarray(array[(slice(None),) * axis + (slice(start, end),)])


def named(given: Any, inputs: Sequence[Input]) -> dict[str, Array]:
    """Return the arrays of all inputs by name. Raises NumcError if one is missing.

    given: arrays or tensors by name, where other names are ignored, or one array, if there is one input.
    """
    names = [spec.name for spec in inputs]
    wanted = ", ".join(f"{quoted(spec.name)} ({spec})" for spec in inputs) or "no inputs"
    if not isinstance(given, Mapping):
        if len(inputs) != 1:
            raise NumcError(f"data: one array without a name, but the model takes {wanted}: give them by name")
        given = {names[0]: given}
    missing = [name for name in names if name not in given]
    if missing:
        has = ", ".join(map(quoted, given)) or "nothing"
        near = did_you_mean(missing[0], [name for name in given if isinstance(name, str) and name not in names])
        raise NumcError(f"data: no array {quoted(missing[0])}{near}: it has {has}, the model takes {wanted}")
    return {spec.name: in_dtype(as_array(f"data {quoted(spec.name)}", given[spec.name]), spec.dtype) for spec in inputs}


def _axes(inputs: Sequence[Input], symbols: Mapping[str, Sequence[str]]) -> dict[str, int | None]:
    """Return the axis of the samples of each input, or None."""
    free = next(((s, n) for s in inputs for n, size in enumerate(s.shape) if size is None), None)
    if free is None:
        return {spec.name: 0 if spec.shape else None for spec in inputs}
    symbol = (list(symbols.get(free[0].name, ())) or [""] * len(free[0].shape))[free[1]]
    axis: dict[str, int | None] = {}
    for spec in inputs:
        named = list(symbols.get(spec.name, ()))
        if symbol and symbol in named:
            axis[spec.name] = named.index(symbol)
        elif not symbol and None in spec.shape:
            axis[spec.name] = spec.shape.index(None)
        else:
            axis[spec.name] = None
    axis[free[0].name] = free[1]
    return axis


def _check_array(spec: Input, array: Array, axis: int | None) -> None:
    got = TensorSpec(spec.name, array.dtype.name, array.shape)
    sizes = [
        n == axis or want is None or want == size
        for n, (want, size) in enumerate(zip(spec.shape, array.shape, strict=False))
    ]
    if array.dtype.name != spec.dtype or array.ndim != len(spec.shape) or not all(sizes):
        raise NumcError(f"data {quoted(spec.name)}: got {got}, want {spec}")
    check_values(spec.name, array)


def check_values(name: str, array: Array) -> None:
    """Raise NumcError if an array is empty, or has a NaN or an infinity, which hide differences."""
    if array.size == 0:
        got = TensorSpec(name, array.dtype.name, array.shape)
        raise NumcError(f"data {quoted(name)}: is empty ({got}): want at least one sample")
    array = as_numbers(array)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = ~np.isfinite(array)
        index = ", ".join(str(int(n)) for n in np.argwhere(bad)[0])
        special = "NaN" if np.isnan(array[bad][0]) else "an infinity"
        count = f"{int(bad.sum())} values in all that are not finite"
        raise NumcError(f"data {quoted(name)}: has {special} at [{index}], {count}: remove them")


def _labels(given: Any, samples: int, output: TensorSpec, axis: Mapping[str, int | None]) -> Array:
    labels = as_array("labels", given)
    if labels.dtype.kind not in "iuf" or labels.ndim == 0:
        raise NumcError(f"labels: got {TensorSpec('', labels.dtype.name, labels.shape)}: want class numbers or values")
    is_class = labels.dtype.kind in "iu"
    want = output.shape[:-1] if is_class else output.shape
    first = next((n for n in axis.values() if n is not None), None)
    at = None if first is None or not want else min(first, len(want) - 1)
    wanted = [samples if n == at else size for n, size in enumerate(want)]
    if labels.ndim != len(wanted) or any(w not in (None, g) for w, g in zip(wanted, labels.shape, strict=True)):
        shown = ", ".join("?" if size is None else str(size) for size in wanted)
        what = "class numbers" if is_class else "values"
        raise NumcError(
            f"labels: got {labels.shape[at or 0]} of shape {list(labels.shape)}, want {what} of shape [{shown}] for "
            f"{samples} samples"
        )
    classes = output.shape[-1] if is_class and output.shape else None
    counted = labels[labels != NOT_COUNTED] if is_class else labels
    if is_class and labels.size and not counted.size:
        raise NumcError(f"labels: all are {NOT_COUNTED}, which is not counted: want at least one class number")
    if is_class and counted.size and (counted.min() < 0 or (classes is not None and counted.max() >= classes)):
        top = "" if classes is None else f" to {classes - 1}"
        raise NumcError(f"labels: class numbers from {counted.min()} to {counted.max()}, want 0{top}")
    if not is_class and not np.isfinite(labels).all():
        raise NumcError("labels: have NaN or an infinity: want finite values")
    return labels
