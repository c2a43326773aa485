"""Sizes that follow from free ones, which the shape inference of onnx does not find.

It takes a size for a number or for one name. Here a size is a product: the -1 of [4 * batch, 1, 5] as [batch, 4, -1, 5]
is 1, which an addition may stretch. What computes shapes is read as TorchScript writes it. Runs in the worker.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from numc.frontends.onnx.folding.evaluate import SHOWN
from numc.frontends.onnx.loops.emit import DOMAIN, TYPES

Size = tuple[int, tuple[str, ...]]
"""A number, and the names of the free sizes that it is multiplied with, in order."""
Values = npt.NDArray[np.object_]
"""Of each element a Size; None for one that is not known."""

_MAX_NAMES = 64
"""The largest number of free sizes in a product: what is squared again and again is no size of a tensor."""

_INTEGERS = (onnx.TensorProto.BOOL, onnx.TensorProto.INT32, onnx.TensorProto.INT64)


def more_sizes(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    """Return the types of values of which more follows than `graph` has, whose nodes are in topological order."""
    known = _Known(graph)
    types = {}
    for node in graph.node:
        if node.domain in ("", "ai.onnx"):
            sizes_of, values_of = _RESULTS.get(node.op_type), _VALUES.get(node.op_type)
            sizes = sizes_of(known, node) if sizes_of else None
            if sizes is not None and (better := known.improved(node.output[0], sizes)) is not None:
                types[node.output[0]] = better
            if values_of and (values := values_of(known, node)) is not None:
                known.values[node.output[0]] = values
        elif node.domain == DOMAIN:
            results = next(attribute.type_protos for attribute in node.attribute if attribute.name == TYPES)
            types |= {name: kind for name, kind in zip(node.output, results, strict=True) if known.sizes(name) is None}
    return types


class _Known:
    """The known facts of the values of a graph: the types of all, the elements of those that consist of sizes."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.types = {value.name: value.type for value in [*graph.input, *graph.value_info, *graph.output]}
        self.values: dict[str, Values] = {}
        self._given = {dim.dim_param for value in graph.input for dim in value.type.tensor_type.shape.dim}
        self._names: dict[str, Size] = {}  # what those sizes are that onnx has given names
        for tensor in graph.initializer:
            self.types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            if tensor.data_type in _INTEGERS and math.prod(tensor.dims) <= SHOWN:
                self.values[tensor.name] = _constant(onnx.numpy_helper.to_array(tensor))

    def sizes(self, name: str) -> list[Size | None] | None:
        """The sizes of a value; None if its rank is not known."""
        type_proto = self.types.get(name)
        if type_proto is None or not type_proto.tensor_type.HasField("shape"):
            return None
        return [
            (int(dim.dim_value), ())
            if dim.HasField("dim_value")
            else self._names.get(dim.dim_param) or (1, (dim.dim_param or f"{name}[{n}]",))
            for n, dim in enumerate(type_proto.tensor_type.shape.dim)
        ]

    def elements(self, name: str) -> Values | None:
        """The elements of a number or a list of integers; None if its type is another, or their number is not known."""
        if name in self.values:
            return self.values[name]
        sizes, type_proto = self.sizes(name), self.types.get(name)
        if type_proto is None or type_proto.tensor_type.elem_type not in _INTEGERS or sizes is None or len(sizes) > 1:
            return None
        if any(size is None or size[1] or size[0] > SHOWN for size in sizes):
            return None
        return _array([None] * math.prod(size[0] for size in sizes if size is not None)).reshape(
            [size[0] for size in sizes if size is not None]
        )

    def all_elements(self, node: onnx.NodeProto) -> list[Values] | None:
        """The elements of all inputs, as `elements` returns them; None if one of them is None."""
        operands = [self.elements(name) for name in node.input]
        known = [values for values in operands if values is not None]
        return known if len(known) == len(operands) else None

    def numbers(self, node: onnx.NodeProto, n: int) -> list[int] | None:
        """The elements of an input that is a constant; None if it is not."""
        values = self.values.get(node.input[n]) if n < len(node.input) else None
        if values is None or any(size is None or size[1] for size in values.flat):
            return None
        return [size[0] for size in values.flat]

    def improved(self, name: str, sizes: list[Size | None]) -> onnx.TypeProto | None:
        """The type of a value with these sizes where it has none; None if it has all. It is noted."""
        if name not in self.types or len(self.sizes(name) or ()) != len(sizes):
            return None
        type_proto = onnx.TypeProto.FromString(self.types[name].SerializeToString())
        changed = False
        for dim, size in zip(type_proto.tensor_type.shape.dim, sizes, strict=True):
            if size is None or size[0] < 0 or dim.HasField("dim_value"):
                continue
            if not size[1]:
                dim.dim_value, changed = size[0], True
            elif size[0] == 1 and len(size[1]) == 1 and dim.dim_param != size[1][0]:
                dim.dim_param, changed = size[1][0], True
            elif dim.dim_param and dim.dim_param not in self._given:
                self._names[dim.dim_param] = size
        self.types[name] = type_proto
        return type_proto if changed else None


def _constant(value: npt.NDArray[Any]) -> Values:
    return _array([(int(number), ()) for number in value.flat]).reshape(value.shape)


def _array(sizes: Sequence[Size | None]) -> Values:
    array = np.empty(len(sizes), dtype=object)
    for n, size in enumerate(sizes):  # numpy would make an array of a tuple
        array[n] = size
    return array


def _product(*sizes: Size | None) -> Size | None:
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return None
    factor = math.prod(factor for factor, _ in known)
    if abs(factor) >= 2**63 or sum(len(names) for _, names in known) > _MAX_NAMES:
        return None
    return factor, tuple(sorted(name for _, names in known for name in names))


def _quotient(one: Size | None, other: Size | None) -> Size | None:
    """The quotient of sizes if it is a product of some of them; None if it is not."""
    if one is None or other is None or other[0] == 0 or one[0] % other[0]:
        return None
    left = Counter(one[1])
    left.subtract(other[1])
    return None if min(left.values(), default=0) < 0 else (one[0] // other[0], tuple(sorted(left.elements())))


def _reshaped(known: _Known, node: onnx.NodeProto) -> list[Size | None] | None:
    values = known.values.get(node.input[1]) if len(node.input) > 1 else None  # an attribute before opset 5
    source = known.sizes(node.input[0])
    if values is None or values.ndim != 1:
        return None
    sizes = list(values)
    if (0, ()) in sizes:
        if source is None or any(attribute.name == "allowzero" and attribute.i for attribute in node.attribute):
            return None
        sizes = [source[n] if size == (0, ()) and n < len(source) else size for n, size in enumerate(sizes)]
    if sizes.count((-1, ())) == 1:
        rest = _product(*(size for size in sizes if size != (-1, ())))
        left = None if source is None else _quotient(_product(*source), rest)
        sizes[sizes.index((-1, ()))] = left
    return sizes


def _resized(known: _Known, node: onnx.NodeProto) -> list[Size | None] | None:
    values = known.values.get(node.input[3]) if len(node.input) > 3 and node.input[3] else None
    return None if values is None or any(attribute.name == "axes" for attribute in node.attribute) else list(values)


def _sliced(known: _Known, node: onnx.NodeProto) -> list[Size | None] | None:
    sizes = known.sizes(node.input[0])
    if len(node.input) > 3 and node.input[3]:
        axes = known.numbers(node, 3)
    else:
        starts = known.elements(node.input[1]) if len(node.input) > 1 else None
        axes = None if starts is None else list(range(starts.size))
    if sizes is None or axes is None:
        return None
    cut = {axis % len(sizes) for axis in axes}
    return [None if n in cut else size for n, size in enumerate(sizes)]


def _expanded(known: _Known, node: onnx.NodeProto) -> list[Size | None] | None:
    values, source = known.values.get(node.input[1]), known.sizes(node.input[0])
    if values is None or source is None or values.ndim != 1:
        return None
    unit: Size = (1, ())
    rank = max(len(source), values.size)
    pairs = zip([unit] * (rank - len(source)) + source, [unit] * (rank - values.size) + list(values), strict=True)
    return [_stretched(*pair) for pair in pairs]


def _stretched(one: Size | None, other: Size | None) -> Size | None:
    """The size of a dimension of two that fit together."""
    if one == other or other == (1, ()):
        return one
    fixed = [size for size in (one, other) if size is not None and not size[1] and size[0] != 1]
    return other if one == (1, ()) else fixed[0] if fixed else None


def _kept(known: _Known, node: onnx.NodeProto) -> list[Size | None] | None:
    return known.sizes(node.input[0])


def _paired(known: _Known, node: onnx.NodeProto) -> list[Size | None] | None:
    """The sizes of a result of several operands, element by element."""
    operands = [known.sizes(name) for name in node.input]
    shapes = [sizes for sizes in operands if sizes is not None]
    if len(shapes) < len(operands):
        return None
    rank = max(map(len, shapes))
    unit: list[Size | None] = [(1, ())]
    wide = [unit * (rank - len(sizes)) + sizes for sizes in shapes]
    return [functools.reduce(_stretched, sizes) for sizes in zip(*wide, strict=True)]


def _multiplied(known: _Known, node: onnx.NodeProto) -> list[Size | None] | None:
    a, b = (known.sizes(name) for name in node.input)
    if a is None or b is None or min(len(a), len(b)) < 2:
        return None
    rank = max(len(a), len(b)) - 2
    unit: list[Size | None] = [(1, ())]
    stacks = (unit * (rank + 2 - len(sizes)) + sizes[:-2] for sizes in (a, b))
    return [*(_stretched(*pair) for pair in zip(*stacks, strict=True)), a[-2], b[-1]]


def _turned(known: _Known, node: onnx.NodeProto) -> list[Size | None] | None:
    sizes = known.sizes(node.input[0])
    order = next((list(attribute.ints) for attribute in node.attribute if attribute.name == "perm"), None)
    if sizes is None or (order is not None and len(order) != len(sizes)):
        return None
    return sizes[::-1] if order is None else [sizes[n] for n in order]


_SAME = (
    *("Abs", "Cast", "Clip", "Dropout", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "Identity"),
    *("LayerNormalization", "LeakyRelu", "Log", "LogSoftmax", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Sigmoid"),
    *("Softmax", "Softplus", "Sqrt", "Tanh"),
)
BROADCASTING = frozenset(
    [
        *("Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater"),
        *("GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "Pow", "Sub"),
        *("Sum", "Where", "Xor"),
    ]
)
"""Operators on elements, whose operands stretch to one another."""
_RESULTS: dict[str, Callable[[_Known, onnx.NodeProto], list[Size | None] | None]] = {
    **dict.fromkeys(_SAME, _kept),
    **dict.fromkeys(BROADCASTING, _paired),
    "Expand": _expanded,
    "MatMul": _multiplied,
    "Reshape": _reshaped,
    "Resize": _resized,
    "Slice": _sliced,
    "Transpose": _turned,
}
"""Operators whose results have sizes that onnx does not find, or finds only when it is told those of the operands."""


def _shape(known: _Known, node: onnx.NodeProto) -> Values | None:
    sizes = known.sizes(node.input[0])
    bounds = {attribute.name: attribute.i for attribute in node.attribute}
    return None if sizes is None else _array(sizes)[bounds.get("start", 0) : bounds.get("end")]


def _gathered(known: _Known, node: onnx.NodeProto) -> Values | None:
    values, indices = known.elements(node.input[0]), known.numbers(node, 1)
    if (
        values is None
        or indices is None
        or values.ndim != 1
        or not all(-values.size <= n < values.size for n in indices)
    ):
        return None
    return _array([values[n] for n in indices]).reshape(known.values[node.input[1]].shape)


def _cut(known: _Known, node: onnx.NodeProto) -> Values | None:
    values = known.elements(node.input[0])
    start, end, _, step = (known.numbers(node, n) for n in range(1, 5))
    if values is None or values.ndim != 1 or not start or not end or (len(node.input) > 4 and not step):
        return None
    return values[start[0] : end[0] : step[0] if step else 1] if not step or step[0] > 0 else None


def _joined(known: _Known, node: onnx.NodeProto) -> Values | None:
    parts = known.all_elements(node)
    return None if parts is None else _array([size for part in parts for size in part.flat])


def _same(known: _Known, node: onnx.NodeProto) -> Values | None:
    type_proto = known.types.get(node.output[0])
    # The other types do not hold all sizes.
    is_wide = type_proto is not None and type_proto.tensor_type.elem_type in _INTEGERS[1:]
    return known.elements(node.input[0]) if is_wide else None


def _reordered(known: _Known, node: onnx.NodeProto) -> Values | None:
    """Reshape, Squeeze, Unsqueeze: a list, or a number."""
    values, sizes = known.elements(node.input[0]), known.sizes(node.output[0])
    return None if values is None or sizes is None or len(sizes) > 1 else values.reshape([-1] * len(sizes))


def _elementwise(known: _Known, node: onnx.NodeProto) -> Values | None:
    operands = known.all_elements(node)
    if operands is None or len({values.shape for values in operands if values.ndim}) > 1:
        return None
    wide = np.broadcast_arrays(*operands)
    function = _ELEMENTWISE[node.op_type]
    elements = [function(*sizes) for sizes in zip(*(values.flat for values in wide), strict=True)]
    return _array(elements).reshape(wide[0].shape)


def _is_equal(one: Size | None, other: Size | None) -> Size | None:
    if one is None or other is None:
        return None
    if one[1] or other[1]:  # no size is negative
        fixed = [size[0] for size in (one, other) if not size[1]]
        return (0, ()) if fixed and fixed[0] < 0 else None
    return int(one[0] == other[0]), ()


def _chosen(condition: Size | None, one: Size | None, other: Size | None) -> Size | None:
    return None if condition is None else one if condition[0] else other


_ELEMENTWISE: dict[str, Callable[..., Size | None]] = {
    "Div": _quotient,
    "Equal": _is_equal,
    "Mul": _product,
    "Where": _chosen,
}
_VALUES: dict[str, Callable[[_Known, onnx.NodeProto], Values | None]] = {
    **dict.fromkeys(("Cast", "Identity"), _same),
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze"), _reordered),
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    "Concat": _joined,
    "Gather": _gathered,
    "Shape": _shape,
    "Slice": _cut,
}
"""Operators by which models compute the shapes that they ask for."""
