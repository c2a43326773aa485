"""The argument of a rewriting function: a node, the facts of its values, and the means to write other nodes instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

Array = npt.NDArray[np.generic]
Sizes = Sequence["int | str"]

END = 2**63 - 1
"""The end of a slice that goes to the end."""
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)


class RefusedError(Exception):
    """A node cannot be lowered to what ONNX defines. The message is the reason."""


class UnknownRankError(RefusedError):
    """A node reads a value of unknown rank, which may be because another node is refused."""


@dataclass(kw_only=True)
class Node:
    """A node to be rewritten.

    types, constants: of the values of the graph by name; `constants` gains those of the new nodes. opset: of the
    default domain. taken: the names of all values. last: nothing more will become known of the values. sequences: the
    elements of those that are known. nothing: optionals that hold nothing. made: the nodes that replace this one; if
    there are none, it stays. They have its name, so that they are the same layer. kind: the operator of the model that
    the node belongs to, which another rule may have made it of. again: whether the rule is applied to what it has made
    of its own operator, too.
    """

    proto: onnx.NodeProto
    types: Mapping[str, onnx.TypeProto]
    constants: dict[str, Array]
    opset: int
    taken: set[str]
    last: bool
    sequences: Mapping[str, Sequence[str]] = field(default_factory=dict)
    nothing: frozenset[str] = frozenset()
    kind: str = ""
    made: list[onnx.NodeProto] = field(default_factory=list)
    count: int = 0
    again: bool = False

    def input(self, n: int) -> str:
        """The name of an input; "" for one that is left out."""
        return str(self.proto.input[n]) if n < len(self.proto.input) else ""

    def output(self, n: int) -> str:
        """The name of an output; "" for one that is left out."""
        return str(self.proto.output[n]) if n < len(self.proto.output) else ""

    def constant_input(self, n: int, what: str) -> Array | None:
        """The value of an input, which has to be a constant; None if it is left out.

        Raises RefusedError for one that is computed, which messages call `what`.
        """
        name = self.input(n)
        if name and name not in self.constants:
            raise RefusedError(f"its {what} '{name}' is computed: it has to be a constant")
        return self.constants[name] if name else None

    def known_shape(self, name: str) -> list[int | None] | None:
        """The sizes of a value, None for free ones; None if its rank is not known."""
        if name in self.constants:
            return list(self.constants[name].shape)
        tensor_type = self.types[name].tensor_type if name in self.types else None
        if tensor_type is None or not tensor_type.HasField("shape"):
            return None
        return [int(dim.dim_value) if dim.HasField("dim_value") else None for dim in tensor_type.shape.dim]

    def shape(self, name: str) -> list[int | None]:
        """The sizes of a value, None for free ones. Raises UnknownRankError if its rank is not known."""
        shape = self.known_shape(name)
        if shape is None:
            raise UnknownRankError(f"'{name}' has no known rank: give shapes={{...}} or --shape for the inputs")
        return shape

    def rank(self, name: str) -> int:
        """The rank of a value. Raises UnknownRankError if it is not known."""
        return len(self.shape(name))

    def dtype(self, name: str) -> int:
        """The type of the elements of a value, a number of onnx.TensorProto; 0 if it is not known."""
        if name in self.constants:
            return int(onnx.helper.np_dtype_to_tensor_dtype(self.constants[name].dtype))
        return int(self.types[name].tensor_type.elem_type) if name in self.types else 0

    def type_of(self, name: str) -> onnx.TypeProto:
        """The type of a value, empty if it is not known."""
        if name in self.constants:
            return onnx.helper.make_tensor_type_proto(self.dtype(name), self.constants[name].shape)
        return self.types.get(name, onnx.TypeProto())

    def is_float(self, name: str) -> bool:
        """Whether the elements of a value are floats."""
        return self.dtype(name) in FLOATS

    def attribute(self, name: str, default: Any) -> Any:
        """An attribute; strings as text. Raises RefusedError for one of another type than `default`, if it has one."""
        for attribute in self.proto.attribute:
            if attribute.name == name:
                value = onnx.helper.get_attribute_value(attribute)
                value = value.decode(errors="replace") if isinstance(value, bytes) else value
                kinds = Sequence if isinstance(default, Sequence) and not isinstance(default, str) else type(default)
                if default is not None and not isinstance(value, kinds):
                    raise RefusedError(f"its attribute {name} is of another type than ONNX defines")
                return value
        return default

    def refuse_attribute(self, name: str, default: Any) -> None:
        """Raise RefusedError if an attribute has another value than its default."""
        if (value := self.attribute(name, default)) != default:
            raise RefusedError(f"its attribute {name} is {value}: only {default} is available")

    def axis(self, rank: int, default: int) -> int:
        """The attribute ``axis`` of a node of values of a rank, from 0. Raises RefusedError for one that is none."""
        value = self.attribute("axis", default)
        if not -rank <= value < rank:
            raise RefusedError(f"its axis {value} is none of the {rank} of its input")
        return int(value) % rank

    def copy(self, **changed: Any) -> onnx.NodeProto:
        """Emit a copy of the node, which the caller may change, with other attributes; None removes one."""
        copy = onnx.NodeProto.FromString(self.proto.SerializeToString())
        del copy.attribute[:]
        copy.attribute.extend(a for a in self.proto.attribute if a.name not in changed)
        copy.attribute.extend(onnx.helper.make_attribute(k, v) for k, v in changed.items() if v is not None)
        self.made.append(copy)
        return copy

    def op(self, operator: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        """Emit a node with one output, called `to`; return its name. Attributes that are None are left out."""
        return self.ops(operator, inputs, [to or self.fresh()], **attributes)[0]

    def ops(self, operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Sequence[str]:
        """Emit a node with these outputs; return their names."""
        present = {name: value for name, value in attributes.items() if value is not None}
        self.made.append(onnx.helper.make_node(operator, inputs, outputs, name=self.proto.name, **present))
        return outputs

    def fresh(self) -> str:
        """A name for a value inside of the node."""
        base = next(filter(None, self.proto.output), self.proto.name)
        while (name := f"{base}/{self.count}") in self.taken:
            self.count += 1
        self.taken.add(name)
        return name

    def constant(self, value: Any, dtype: npt.DTypeLike) -> str:
        """The name of a new constant."""
        name = self.fresh()
        self.constants[name] = np.array(value, dtype=dtype)
        return name

    def like(self, value: float, name: str) -> str:
        """The name of a new scalar of the element type of a value; infinity is the limit of a type of integers."""
        dtype = onnx.helper.tensor_dtype_to_np_dtype(self.dtype(name) or TensorProto.FLOAT)
        if np.isinf(value) and np.issubdtype(dtype, np.integer):
            value = int(np.iinfo(dtype).max if value > 0 else np.iinfo(dtype).min)
        return self.constant(value, dtype)

    def ints(self, *values: int) -> str:
        """The name of a new list of integers, such as axes or a shape."""
        return self.constant(values, np.int64)

    def size(self, name: str, axis: int) -> int | str:
        """A size of a value: a number, or the name of a list of one if the size is free."""
        size = self.shape(name)[axis]
        return self.op("Shape", name, start=axis, end=axis + 1 if axis != -1 else None) if size is None else size

    def sizes(self, name: str) -> list[int | str]:
        """All sizes of a value, as `size` returns them."""
        return [self.size(name, axis) for axis in range(self.rank(name))]

    def product(self, *sizes: int | str) -> int | str:
        """The product of sizes."""
        known = int(np.prod([size for size in sizes if isinstance(size, int)], dtype=np.int64))
        total: int | str = known
        for size in sizes:
            if isinstance(size, str):
                total = size if total == 1 else self.op("Mul", self.list_of([total]), size)
        return total

    def list_of(self, sizes: Sizes) -> str:
        """The name of a list of sizes."""
        if all(isinstance(size, int) for size in sizes):
            return self.ints(*(size for size in sizes if isinstance(size, int)))
        parts = [size if isinstance(size, str) else self.ints(size) for size in sizes]
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    def reshape(self, value: str, sizes: Sizes, to: str = "") -> str:
        """Emit the same elements in another shape."""
        zero = 0 in sizes or not all(isinstance(size, int) for size in sizes)  # a free one may be 0
        return self.op("Reshape", value, self.list_of(sizes), to=to, allowzero=1 if zero else None)

    def transpose(self, value: str, *order: int, to: str = "") -> str:
        """Emit a value with other order of dimensions."""
        return self.op("Transpose", value, perm=list(order), to=to)

    def cut(self, value: str, axis: int, start: int | str, end: int | str, to: str = "", step: int = 1) -> str:
        """Emit the elements from `start` to `end` along an axis."""
        bounds = (self.list_of([start]), self.list_of([end]), self.ints(axis), self.ints(step))
        return self.op("Slice", value, *bounds, to=to)

    def cast(self, value: str, dtype: int, to: str = "") -> str:
        """Emit a value with elements of another type."""
        to = to or self.fresh()
        self.made.append(onnx.helper.make_node("Cast", [value], [to], name=self.proto.name, to=dtype))
        return to

    def steps(self, count: int | str, dtype: npt.DTypeLike = np.int64) -> str:
        """The name of the list 0, 1, ..., count - 1."""
        if isinstance(count, int):
            return self.constant(np.arange(count), dtype)
        zero, one = self.constant(0, np.int64), self.constant(1, np.int64)
        indices = self.op("Range", zero, self.op("Squeeze", count, self.ints(0)), one)
        number = int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
        return indices if number == TensorProto.INT64 else self.cast(indices, number)
