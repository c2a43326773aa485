"""The `abi` section of a program file: what the runtime needs to call the code.

runtime/src/program/container.hpp defines the bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from numc.numerics.dtypes import BITS_DTYPES, BOUNDARY, NARROW
from numc.runtime.library import MAX_RANK, feature_names
from numc.runtime.storage import Storage, read_storage
from numc.support.errors import NumcError, did_you_mean

if TYPE_CHECKING:  # numpy is imported only where there are arrays
    import numpy.typing as npt

    Array = npt.NDArray[Any]

ABI_VERSION = 5
NO_LIMIT = (1 << 63) - 1
"""The largest size there is, for a size without another limit."""
WEIGHT_ALIGNMENT = 64
# Kinds of arguments in a file; 0 is an input.
_WEIGHT, _STORED = 1, 2
# In the order of numc_dtype (numc.h).
DTYPES: tuple[str, ...] = (
    *("float32", "float64", "bool", "int8", "int16", "int32", "int64", "uint8"),
    *NARROW,
    *BOUNDARY,
)
# Bytes of an element of the dtypes of memory.
_SIZES = {"bool": 1, **{f"{kind}{size * 8}": size for kind in ("float", "int", "uint") for size in (1, 2, 4, 8)}}


@dataclass(frozen=True)
class TensorSpec:
    """Name, dtype (one of DTYPES) and shape of a tensor. The caller chooses the size of a dimension that is None."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join('?' if d is None else str(d) for d in self.shape)}]"


@dataclass(frozen=True)
class Input(TensorSpec):
    """An argument of the entry that the caller passes."""


@dataclass(frozen=True)
class Weight(TensorSpec):
    """An argument of the entry that the program file holds; its shape has no free dimension.

    storage: None, or how the file holds it in fewer bytes: its array in Contents is these bytes.
    """

    storage: Storage | None = None

    @property
    def nbytes(self) -> int:
        """The size in bytes that the weight has in memory."""
        return math.prod(d or 0 for d in self.shape) * _SIZES[BITS_DTYPES.get(self.dtype, self.dtype)]


@dataclass(frozen=True)
class SizeSymbol:
    """A size that has one name in the model. Every run checks that it is the same everywhere, and within limits.

    least, most: the limits. places: (number of an input, number of its dimension) wherever the size is.
    """

    name: str
    least: int
    most: int
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class WidthRange:
    """The widths of the format of an operand, of which every run chooses one each.

    layer: the name of the layer. operand: ``a``, ``b`` or ``product``. exponent, significand: the least and the most
    exponent bits, and significand (or magnitude) bits.
    """

    layer: str
    operand: str
    exponent: tuple[int, int]
    significand: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Abi:
    """The means to call the code: the entry `void f(void **args)`, its arguments in order, its results."""

    entry: str
    arguments: tuple[Input | Weight, ...]
    results: tuple[TensorSpec, ...]
    features: frozenset[str] = frozenset()
    target: str = ""
    # By number: result -> the input whose memory it may overwrite.
    updates: Mapping[int, int] = field(default_factory=dict)
    symbols: tuple[SizeSymbol, ...] = ()
    widths: tuple[WidthRange, ...] = ()

    @property
    def inputs(self) -> tuple[Input, ...]:
        return tuple(a for a in self.arguments if isinstance(a, Input))

    @property
    def weights(self) -> tuple[Weight, ...]:
        return tuple(a for a in self.arguments if isinstance(a, Weight))


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<I", len(data)) + data


def aligned(offset: int, alignment: int) -> int:
    """Return the smallest multiple of `alignment` that is not below `offset`."""
    return -(-offset // alignment) * alignment


def feature_bits(features: Iterable[str]) -> int:
    """Return the bit set of features, given their names. Raises NumcError for an unknown name."""
    names, bits = feature_names(), 0
    for feature in sorted(features):
        if feature not in names:
            known = ", ".join(names)
            raise NumcError(f"CPU feature '{feature}' is unknown{did_you_mean(feature, names)}: want {known}")
        bits |= 1 << names.index(feature)
    return bits


def _value(spec: TensorSpec, kind: int) -> bytes:
    if spec.dtype not in DTYPES:
        raise NumcError(f"'{spec.name}': dtype {spec.dtype} is unknown: want {', '.join(DTYPES)}")
    if len(spec.shape) > MAX_RANK:
        raise NumcError(f"'{spec.name}': rank {len(spec.shape)}, at most {MAX_RANK} is supported")
    head = struct.pack("<BBBB", kind, DTYPES.index(spec.dtype), len(spec.shape), 0)
    return head + struct.pack(f"<{len(spec.shape)}q", *(-1 if d is None else d for d in spec.shape))


def weight_offsets(weights: Sequence[Array]) -> tuple[list[int], int]:
    """Return the offset in bytes of each weight in the weights section, and the size of the section."""
    offsets, end = [], 0
    for weight in weights:
        offsets.append(aligned(end, WEIGHT_ALIGNMENT))
        end = offsets[-1] + weight.nbytes
    return offsets, end


def encode_abi(abi: Abi, weights: Sequence[Array]) -> bytes:
    """Return the `abi` section. Raises NumcError for what it cannot hold and for weights that do not fit it."""
    if len(weights) != len(abi.weights):
        raise NumcError(f"program: got {len(weights)} weights, want {len(abi.weights)}")
    offsets = iter(zip(weight_offsets(weights)[0], weights, strict=True))
    parts = [struct.pack("<IQ", ABI_VERSION, feature_bits(abi.features)), _text(abi.entry), _text(abi.target)]
    parts.append(struct.pack("<II", len(abi.arguments), len(abi.results)))
    for argument in abi.arguments:
        offset = kind_code = size = 0
        storage = None
        if isinstance(argument, Weight):
            offset, array = next(offsets)
            size, storage = array.nbytes, argument.storage
            kind_code = _WEIGHT if storage is None else _STORED
            want: TensorSpec = argument
            if storage is not None:
                want = TensorSpec(argument.name, "uint8", (storage.stored_bytes,))
            if array.dtype.name != want.dtype or array.shape != want.shape:
                got = TensorSpec(argument.name, array.dtype.name, array.shape)
                raise NumcError(f"weight '{argument.name}': got {got}, want {want}")
        parts += [_value(argument, kind_code), struct.pack("<QQ", offset, size), _text(argument.name)]
        if storage is not None:
            parts.append(storage.record())
    for result in abi.results:
        parts += [_value(result, 0), _text(result.name)]
    parts += [struct.pack("<I", len(abi.updates)), *(struct.pack("<II", *pair) for pair in abi.updates.items())]
    parts.append(struct.pack("<I", len(abi.symbols)))
    for symbol in abi.symbols:
        parts += [_text(symbol.name), struct.pack("<qqI", symbol.least, symbol.most, len(symbol.places))]
        parts += [struct.pack("<II", *place) for place in symbol.places]
    parts.append(struct.pack("<I", len(abi.widths)))
    for width in abi.widths:
        parts += [_text(width.layer), _text(width.operand), struct.pack("<4I", *width.exponent, *width.significand)]
    return b"".join(parts)


class _Cursor:
    """Reads numbers and texts from a section, one after the other. Raises struct.error if the section ends early."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def unpack(self, form: str) -> tuple[Any, ...]:
        layout = struct.Struct("<" + form)
        values = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return values

    def text(self) -> str:
        (size,) = self.unpack("I")
        return bytes(self.unpack(f"{size}s")[0]).decode()


def _decode_value(cursor: _Cursor) -> tuple[int, str, tuple[int | None, ...]]:
    kind_code, dtype, rank, _ = cursor.unpack("BBBB")
    dims = cursor.unpack(f"{rank}q")
    return kind_code, DTYPES[dtype], tuple(None if d < 0 else d for d in dims)


def _decode_symbol(cursor: _Cursor) -> SizeSymbol:
    name = cursor.text()
    least, most, places = cursor.unpack("qqI")
    return SizeSymbol(name, least, most, tuple(cursor.unpack("II") for _ in range(places)))


def _decode_width(cursor: _Cursor) -> WidthRange:
    layer, operand = cursor.text(), cursor.text()
    e0, e1, m0, m1 = cursor.unpack("4I")
    return WidthRange(layer, operand, (e0, e1), (m0, m1))


def decode_abi(data: bytes) -> tuple[Abi, list[int]]:
    """Return what an `abi` section says, and the offset of each weight. What it says is checked when it is loaded.

    Raises ValueError, IndexError, OverflowError or struct.error for bytes that are not such a section.
    """
    cursor = _Cursor(data)
    version, bits = cursor.unpack("IQ")
    if version != ABI_VERSION:
        raise ValueError(f"abi section of version {version}, this numc reads version {ABI_VERSION}")
    entry, target = cursor.text(), cursor.text()
    argument_count, result_count = cursor.unpack("II")
    arguments: list[Input | Weight] = []
    results, offsets = [], []
    for _ in range(argument_count):
        kind_code, dtype, shape = _decode_value(cursor)
        offset, size = cursor.unpack("QQ")
        name = cursor.text()
        if not kind_code:
            arguments.append(Input(name, dtype, shape))
            continue
        weight = Weight(name, dtype, shape)
        if kind_code == _STORED:
            weight = replace(weight, storage=read_storage(cursor.unpack, size, weight.nbytes // 4))
        arguments.append(weight)
        offsets.append(offset)
    for _ in range(result_count):
        _, dtype, shape = _decode_value(cursor)
        results.append(TensorSpec(cursor.text(), dtype, shape))
    features = frozenset(name for bit, name in enumerate(feature_names()) if bits >> bit & 1)
    updates = dict(cursor.unpack("II") for _ in range(*cursor.unpack("I")))
    symbols = tuple(_decode_symbol(cursor) for _ in range(*cursor.unpack("I")))
    widths = tuple(_decode_width(cursor) for _ in range(*cursor.unpack("I")))
    return Abi(
        entry=entry,
        arguments=tuple(arguments),
        results=tuple(results),
        features=features,
        target=target,
        updates=updates,
        symbols=symbols,
        widths=widths,
    ), offsets
