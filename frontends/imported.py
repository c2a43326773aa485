"""The record that every front end hands to the compiler: linalg text, and the arguments of its function."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numc.numerics.stored import stored_dtype, stored_shape
from numc.support.files import read_bytes

if TYPE_CHECKING:  # numpy is imported only where there are arrays
    import numpy as np
    import numpy.typing as npt


class ConversionError(Exception):
    """The model cannot be converted to linalg that numc compiles. The message gives the reason in words of users.

    said: what the importer said.
    """

    def __init__(self, message: str, said: str = "") -> None:
        super().__init__(message)
        self.said = said or message


@dataclass(frozen=True)
class Argument:
    """A tensor that enters or leaves the program.

    dtype: the name of its numpy type. shape: its sizes, -1 for a dynamic one. symbols: the names of its sizes, "" for
    one that is static or has no name. Sizes of the same name are equal in every run, and dynamic sizes are inside of
    their `ranges`, 0 or more without one: the compiled code relies on both, and the program checks both when it is
    called.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    symbols: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return for example ``x: float32[?, 64]``."""
        return f"{self.name}: {self.dtype}[{', '.join('?' if d < 0 else str(d) for d in self.shape)}]"


@dataclass(frozen=True)
class Imported:
    """A model in the linalg stage: MLIR text whose ``func.func @main`` takes the inputs, then the weights.

    mlir: the text of one module. Its operations have ``loc("name")``, the name of the operation of the source that they
    come from.
    inputs, outputs: the arguments that are no weights, and the results, in their order.
    weights: by position among all arguments of ``@main``, the name and the value of a weight.
    sources: the files that were read, the model first.
    nodes: by name of an operation of the source, its kind, such as ``Conv`` or ``aten.convolution.default``.
    roles: by the same name, what the operation is for, where that is known: one of ROLES of
    numerics/policy/layer.py.
    ranges: by name of a size, its smallest and its largest value.
    updates: by position of an output, that of an input of the same type whose new value it is. The output may take its
    memory.
    stored_inputs, stored_outputs: by position of an input or an output, what it is stored in
    (numerics/stored.py). In `mlir` it is float32 or bool; its dtype and its sizes among `inputs` or
    `outputs` are those of codes or bits.
    quantised: the scheme in which the weights were stored in the files, "" where they were plain numbers.
    """

    mlir: str
    inputs: tuple[Argument, ...] = ()
    outputs: tuple[Argument, ...] = ()
    weights: Mapping[int, tuple[str, npt.NDArray[np.float32]]] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    nodes: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    updates: Mapping[int, int] = field(default_factory=dict)
    stored_inputs: Mapping[int, str] = field(default_factory=dict)
    stored_outputs: Mapping[int, str] = field(default_factory=dict)
    quantised: str = ""


def with_codes(imported: Imported, inputs: Mapping[int, str], outputs: Mapping[int, str]) -> Imported:
    """Return a model whose inputs and outputs of these numbers are the codes of formats."""

    def stored(arguments: tuple[Argument, ...], formats: Mapping[int, str]) -> tuple[Argument, ...]:
        stored_arguments = list(arguments)
        for number, text in formats.items():
            shape = stored_shape(text, stored_arguments[number].shape)
            stored_arguments[number] = dataclasses.replace(
                stored_arguments[number], dtype=stored_dtype(text), shape=shape
            )
        return tuple(stored_arguments)

    return dataclasses.replace(
        imported,
        inputs=stored(imported.inputs, inputs),
        outputs=stored(imported.outputs, outputs),
        stored_inputs=dict(inputs),
        stored_outputs=dict(outputs),
    )


def to_message(
    imported: Imported, place_of: Callable[[npt.NDArray[Any]], tuple[str, int] | None] = lambda _: None
) -> tuple[dict[str, Any], list[Any]]:
    """Return a model as a value of JSON and buffers of bytes, which `from_message` takes: a worker sends it so.

    place_of: in which file, and where in it, the bytes of an array are. Such bytes are not sent.
    """
    import numpy as np

    parts: list[Any] = [imported.mlir.encode()]
    weights = []
    for position, (name, value) in imported.weights.items():
        about = {"position": position, "name": name, "dtype": str(value.dtype), "shape": value.shape}
        weights.append(about)
        if location := place_of(value):
            about["place"] = location
            continue
        # A view of one number, as ConstantOfShape makes it, is sent as that number.
        splat = value.size > 1 and not any(value.strides)
        dense = value.reshape(-1)[:1] if splat else np.ascontiguousarray(value).reshape(-1)
        parts.append(dense.view(np.uint8))
    fields = {name: getattr(imported, name) for name in ("sources", "nodes", "roles", "ranges")}
    arguments = {name: [vars(a) for a in getattr(imported, name)] for name in ("inputs", "outputs")}
    updates = list(imported.updates.items())  # JSON has no numbers as keys
    return {**fields, **arguments, "weights": weights, "updates": updates}, parts


def from_message(values: Mapping[str, Any], parts: Sequence[Any]) -> Imported:
    """Return the model of `to_message`. Raises NumcError if a file with weights can no longer be read."""
    import numpy as np

    weights, sent = {}, iter(parts[1:])
    for weight in values["weights"]:
        dtype, shape = np.dtype(weight["dtype"]), tuple(weight["shape"])
        count = math.prod(shape)
        if "place" in weight:
            path, offset = weight["place"]
            flat = np.frombuffer(read_bytes(path, offset, count * dtype.itemsize), dtype)
        else:
            flat = np.frombuffer(next(sent), dtype)
        value = flat.reshape(shape) if flat.size == count else np.full(shape, flat[0])
        weights[weight["position"]] = (weight["name"], value)
    return Imported(
        mlir=bytes(parts[0]).decode(),
        inputs=tuple(_argument(a) for a in values["inputs"]),
        outputs=tuple(_argument(a) for a in values["outputs"]),
        weights=weights,
        sources=tuple(values["sources"]),
        nodes=values["nodes"],
        roles=values["roles"],
        ranges={name: (low, high) for name, (low, high) in values["ranges"].items()},
        updates=dict(values["updates"]),
    )


def _argument(fields: Mapping[str, Any]) -> Argument:
    return Argument(fields["name"], fields["dtype"], tuple(fields["shape"]), tuple(fields["symbols"]))
