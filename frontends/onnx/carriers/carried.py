"""The types of ONNX that a program does not compute with: in which type it does, and how values get there and back.

A value of such a type is carried in a wider type that holds all of its values. What enters is widened, what a node
computes is brought back into the type, and what leaves is narrowed to the bits of the type. Unsigned numbers of 64 bits
are carried as the signed numbers with the same bits (unsigned.py).
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

Array = npt.NDArray[np.generic]


@dataclass
class Emitter:
    """Nodes in the making, for one node after the other.

    constants: by name, which gains those of the nodes. types: of values by name. taken: names that are not free. base:
    what new names begin with. origin: the name of the node in the user's file, for messages.
    """

    constants: MutableMapping[str, Array]
    types: Mapping[str, int]
    taken: set[str]
    opset: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    base: str = ""
    origin: str = ""

    def op(self, operator: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        """Emit a node with one output, called `to`; return its name."""
        to = to or self.fresh()
        node = onnx.helper.make_node(operator, inputs, [to], name=to, **attributes)
        node.doc_string = self.origin
        self.nodes.append(node)
        return to

    def cast(self, value: str, number: int, to: str = "") -> str:
        """Emit a Cast to a type."""
        to = to or self.fresh()
        node = onnx.helper.make_node("Cast", [value], [to], name=to)
        node.attribute.append(onnx.helper.make_attribute("to", number))
        node.doc_string = self.origin
        self.nodes.append(node)
        return to

    def low_bits(self, value: str, bits: int, dtype: npt.DTypeLike, to: str = "") -> str:
        """Emit the low bits of integers, as a number that is not negative."""
        if self.opset < 18:  # there is no BitwiseAnd
            return self.op("Mod", value, self.number(2**bits, dtype), to=to)
        return self.op("BitwiseAnd", value, self.number(2**bits - 1, dtype), to=to)

    def number(self, value: Any, dtype: npt.DTypeLike) -> str:
        """The name of a new constant."""
        name = self.fresh()
        self.constants[name] = np.array(value, dtype=dtype)
        return name

    def fresh(self) -> str:
        """A new name, which begins with `base`."""
        count = 0
        while (name := f"{self.base}/{count}") in self.taken:
            count += 1
        self.taken.add(name)
        return name


class Carried(Protocol):
    """A type of ONNX that is carried in another one."""

    @property
    def name(self) -> str:
        """The name of the dtype."""

    @property
    def carrier(self) -> int:
        """The type that nodes compute in."""

    @property
    def storage(self) -> int:
        """The type of what enters and leaves, which has the bits."""

    def read(self, emit: Emitter, value: str, to: str = "") -> str:
        """Emit the value in the carrier of one in `storage`."""

    def stored(
        self, emit: Emitter, value: str, to: str, *, saturate: bool = True, mode: str = "up", wide: bool = False
    ) -> str:
        """Emit the value of the type, in the carrier, that a node's result becomes.

        saturate, mode: those of a Cast. wide: the result is a float64, of a type that is carried in float32.
        """

    def written(self, emit: Emitter, value: str, to: str = "") -> str:
        """Emit the value in `storage` of one in the carrier that is a value of the type."""

    def constant(self, value: Array) -> Array:
        """Return an array of the type as one of the carrier."""


@dataclass(frozen=True)
class Narrow:
    """A narrow floating-point type that torch-mlir has (numerics/dtypes.py): carried in float32."""

    name: str
    storage: int
    carrier: int = TensorProto.FLOAT

    def read(self, emit: Emitter, value: str, to: str = "") -> str:
        return emit.cast(value, self.carrier, to)

    def stored(
        self, emit: Emitter, value: str, to: str, *, saturate: bool = True, mode: str = "up", wide: bool = False
    ) -> str:
        dtype = np.float64 if wide else np.float32
        if self.storage == TensorProto.FLOAT8E5M2 and saturate:
            value = emit.op("Clip", value, emit.number(-_MOST_E5M2, dtype), emit.number(_MOST_E5M2, dtype))
        if self.storage == TensorProto.FLOAT8E4M3FN and not saturate:
            beyond = emit.op("Greater", emit.op("Abs", value), emit.number(_ROUNDS_TO_MOST_E4M3, dtype))
            value = emit.op("Where", beyond, emit.number(np.nan, dtype), value)
        return emit.cast(emit.cast(value, self.storage), self.carrier, to)

    def written(self, emit: Emitter, value: str, to: str = "") -> str:
        return emit.cast(value, self.storage, to)

    def constant(self, value: Array) -> Array:
        return value.astype(np.float32)


# The largest number of float8e5m2, and the largest one that rounds to the largest number of float8e4m3fn.
_MOST_E5M2, _ROUNDS_TO_MOST_E4M3 = 57344.0, 464.0


@dataclass(frozen=True)
class Integer:
    """An integer of other than 8, 32 or 64 signed bits, or without a sign: results are taken modulo 2 ** bits."""

    name: str
    bits: int
    signed: bool
    carrier: int
    storage: int

    def read(self, emit: Emitter, value: str, to: str = "") -> str:
        return self.stored(emit, emit.cast(value, self.carrier), to)

    def stored(
        self, emit: Emitter, value: str, to: str, *, saturate: bool = True, mode: str = "up", wide: bool = False
    ) -> str:
        if self.bits == 64:
            return emit.op("Identity", value, to=to)
        carrier_dtype = onnx.helper.tensor_dtype_to_np_dtype(self.carrier)
        if not self.signed:
            return emit.low_bits(value, self.bits, carrier_dtype, to)
        half = emit.number(2 ** (self.bits - 1), carrier_dtype)
        return emit.op("Sub", emit.low_bits(emit.op("Add", value, half), self.bits, carrier_dtype), half, to=to)

    def written(self, emit: Emitter, value: str, to: str = "") -> str:
        if self.signed:
            value = emit.low_bits(value, self.bits, np.int32)
        return emit.cast(value, self.storage, to)

    def constant(self, value: Array) -> Array:
        return value.astype(np.int64) if self.carrier == TensorProto.INT64 else value.astype(np.int32)


@dataclass(frozen=True)
class Coded:
    """A floating-point type of at most 8 bits, whose numbers are looked up in tables; carried in float32.

    signed: whether the highest bit of a code is a sign; otherwise the numbers are powers of two, and their codes the
    exponents. What is rounded to nearest is rounded to even. Where NaN has no code, it becomes zero, and everything
    saturates.
    """

    name: str
    bits: int
    signed: bool = True
    carrier: int = TensorProto.FLOAT
    storage: int = TensorProto.INT8

    @property
    def values(self) -> npt.NDArray[np.float32]:
        """The number of every code."""
        import ml_dtypes  # older releases of onnx have neither it nor these types

        codes = np.arange(1 << self.bits, dtype=np.uint8)
        numbers: npt.NDArray[np.float32] = codes.view(getattr(ml_dtypes, self.name)).astype(np.float32)
        return numbers

    def read(self, emit: Emitter, value: str, to: str = "") -> str:
        code = emit.low_bits(emit.cast(value, TensorProto.INT64), self.bits, np.int64)
        return emit.op("Gather", emit.number(self.values, np.float32), code, to=to)

    def stored(
        self, emit: Emitter, value: str, to: str, *, saturate: bool = True, mode: str = "up", wide: bool = False
    ) -> str:
        code = self._code(emit, value, saturate, mode, np.float64 if wide else np.float32)
        return emit.op("Gather", emit.number(self.values, np.float32), code, to=to)

    def written(self, emit: Emitter, value: str, to: str = "") -> str:
        return emit.cast(self._code(emit, value, True, "", np.float32), self.storage, to)

    def constant(self, value: Array) -> Array:
        return value.astype(np.float32)

    def _code(self, emit: Emitter, value: str, saturate: bool, mode: str, dtype: type[np.floating[Any]]) -> str:
        """Emit the codes that numbers of a dtype are rounded to, as int64, by a binary search."""
        values, zero = self.values, emit.number(0, np.int64)
        sizes = values[: 1 << (self.bits - 1)] if self.signed else values[np.isfinite(values)]
        starts = self._starts(sizes.astype(np.float64), mode, dtype)
        table = np.full(256, np.nan, dtype)  # which nothing reaches
        table[: len(sizes)] = starts[:-1]
        places = emit.number(table, dtype)
        size, code = emit.op("Abs", value) if self.signed else value, zero
        for step in (128, 64, 32, 16, 8, 4, 2, 1):
            if step < len(sizes):
                probe = emit.op("Add", code, emit.number(step, np.int64))
                reached = emit.op("GreaterOrEqual", size, emit.op("Gather", places, probe))
                code = emit.op("Where", reached, probe, code)
        if self.signed:
            # Of -0 the reciprocal tells the sign; there is no -0 where its code is NaN.
            inverse = emit.op("Div", emit.number(1, dtype), value)
            fewest = emit.number(0, dtype)
            sign = emit.op("Or", emit.op("Less", value, fewest), emit.op("Less", inverse, fewest))
            if np.isnan(values).any():
                sign = emit.op("And", sign, emit.op("Greater", code, zero))
            negative = emit.op("Add", code, emit.number(1 << (self.bits - 1), np.int64))
            code = emit.op("Where", sign, negative, code)
        if not np.isnan(values).any():
            return code
        nan = emit.number(int(np.isnan(values).argmax()), np.int64)
        undefined = emit.op("IsNaN", value)
        if not saturate:
            beyond = emit.op("GreaterOrEqual", size, emit.number(starts[-1], dtype))
            undefined = emit.op("Or", undefined, beyond)
            if sizes[0]:
                undefined = emit.op("Or", undefined, emit.op("Less", size, emit.number(sizes[0], dtype)))
        return emit.op("Where", undefined, nan, code)

    def _starts(
        self, sizes: npt.NDArray[np.float64], mode: str, dtype: type[np.floating[Any]]
    ) -> npt.NDArray[np.floating[Any]]:
        """The least number of each code, in increasing order, and the least one that is rounded beyond the last."""
        after = 2 * sizes[-1] - sizes[-2] if self.signed else 2 * sizes[-1]
        above = np.append(sizes[1:], after)
        middle = (sizes + above) / 2
        if self.signed:
            up = np.arange(len(sizes)) % 2 == 1  # to even
        elif mode == "down":
            middle, up = above, np.full(len(sizes), True)
        elif mode == "nearest":
            up = np.full(len(sizes), True)
        else:
            middle, up = sizes, np.full(len(sizes), False)
        with np.errstate(over="ignore"):
            exact = middle.astype(dtype)
            starts = np.where(up, exact, np.nextafter(exact, dtype(np.inf)))
        return np.append(dtype(0), starts)


_CARRIED: Mapping[str, Carried] = {
    "BFLOAT16": Narrow("bfloat16", TensorProto.BFLOAT16),
    "FLOAT16": Narrow("float16", TensorProto.FLOAT16),
    "FLOAT8E4M3FN": Narrow("float8_e4m3fn", TensorProto.FLOAT8E4M3FN),
    "FLOAT8E5M2": Narrow("float8_e5m2", TensorProto.FLOAT8E5M2),
    "FLOAT8E4M3FNUZ": Coded("float8_e4m3fnuz", 8),
    "FLOAT8E5M2FNUZ": Coded("float8_e5m2fnuz", 8),
    "FLOAT8E8M0": Coded("float8_e8m0fnu", 8, signed=False),
    "FLOAT4E2M1": Coded("float4_e2m1fn", 4),
    "UINT16": Integer("uint16", 16, False, TensorProto.INT32, TensorProto.INT16),
    "UINT32": Integer("uint32", 32, False, TensorProto.INT64, TensorProto.INT32),
    "UINT64": Integer("uint64", 64, False, TensorProto.INT64, TensorProto.INT64),
    "INT4": Integer("int4", 4, True, TensorProto.INT32, TensorProto.INT8),
    "UINT4": Integer("uint4", 4, False, TensorProto.INT32, TensorProto.INT8),
    "INT2": Integer("int2", 2, True, TensorProto.INT32, TensorProto.INT8),
    "UINT2": Integer("uint2", 2, False, TensorProto.INT32, TensorProto.INT8),
}
CARRIED: Mapping[int, Carried] = {
    number: _CARRIED[name] for name, number in TensorProto.DataType.items() if name in _CARRIED
}
"""By the number of the type, of those that the installed onnx has."""
