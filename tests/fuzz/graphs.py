"""Random ONNX graphs of well-conditioned operators, so that two runtimes agree to rounding errors.

OPERATORS is the table: name -> a function that adds one such node to a graph, or raises Unfit where no value of the
graph can be its operand.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Size = int | str | None  # a number, a free size by name, or some function of free sizes
Shape = tuple[Size, ...]

# "e" is a float that no node reads: runtimes disagree about what becomes of its NaN.
TYPES = {"e": TensorProto.FLOAT, "f": TensorProto.FLOAT, "i": TensorProto.INT64, "b": TensorProto.BOOL}
SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17)
OPSET = 18


class Unfit(Exception):  # noqa: N818
    """The graph has no operand for the operator that was drawn."""


@dataclass(frozen=True)
class Value:
    """A tensor of the graph. dtype: "f", "i", "b" or "e". exact: every runtime computes the same bits."""

    name: str
    dtype: str
    shape: Shape
    exact: bool

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass
class Graph:
    """A graph that grows. Values that no node reads become outputs."""

    rng: random.Random
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def add_input(self, dtype: str, shape: Shape) -> Value:
        value = Value(f"x{len(self.inputs)}", dtype, shape, exact=True)
        self.inputs.append(value)
        self.values.append(value)
        return value

    def constant(self, array: np.ndarray) -> Value:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        dtype = {"f": "f", "i": "i", "b": "b"}[array.dtype.kind]
        return Value(name, dtype, array.shape, exact=True)

    def floats(self, *shape: int) -> Value:
        """Multiples of 1/16 between -2 and 2."""
        seed = np.random.default_rng(self.rng.getrandbits(32))
        return self.constant((seed.integers(-32, 33, shape) / 16).astype(np.float32))

    def integers(self, *values: int) -> Value:
        return self.constant(np.array(values, np.int64))

    def pick(self, dtype: str = "f", fits: Callable[[Value], bool] = lambda value: True) -> Value:
        found = [v for v in self.values if v.dtype == dtype and fits(v)]
        if not found:
            raise Unfit
        # The latest values more often: graphs become deep.
        return found[max(self.rng.randrange(len(found)), self.rng.randrange(len(found)))]

    def node(
        self,
        op: str,
        inputs: Sequence[Value | None],
        shape: Shape,
        *,
        dtype: str = "f",
        exact: bool = False,
        **more: Any,
    ) -> Value:
        """Add a node of one output."""
        return self.nodes_of(op, inputs, [shape], dtype=dtype, exact=exact, **more)[0]

    def nodes_of(
        self, op: str, inputs: Sequence[Value | None], shapes: Sequence[Shape], *, dtype: str, exact: bool, **more: Any
    ) -> list[Value]:
        results = [Value(f"v{len(self.nodes)}_{n}", dtype, shape, exact) for n, shape in enumerate(shapes)]
        names = ["" if value is None else value.name for value in inputs]
        attributes = {key: value for key, value in more.items() if value is not None}
        self.nodes.append(helper.make_node(op, names, [r.name for r in results], results[0].name, **attributes))
        self.values.extend(results)
        return results

    def model(self) -> onnx.ModelProto:
        """The model. The types of its outputs are left to shape inference where sizes are not known."""
        read = {name for node in self.nodes for name in node.input}
        ends = [v for v in self.values if v.name not in read and v not in self.inputs]

        def info(value: Value) -> onnx.ValueInfoProto:
            shape = [f"s{n}_{value.name}" if d is None else d for n, d in enumerate(value.shape)]
            return helper.make_tensor_value_info(value.name, TYPES[value.dtype], shape)

        used = [v for v in self.inputs if v.name in read]
        graph = helper.make_graph(self.nodes, "g", [info(v) for v in used], [info(v) for v in ends], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def is_static(shape: Shape) -> bool:
    return all(isinstance(d, int) for d in shape)


def numbers(shape: Sequence[Size]) -> list[int]:
    """The sizes, which have to be known."""
    if not all(isinstance(d, int) for d in shape):
        raise Unfit
    return [int(d) for d in shape if isinstance(d, int)]


def broadcast(a: Shape, b: Shape) -> Shape:
    result: list[Size] = []
    for x, y in itertools.zip_longest(reversed(a), reversed(b), fillvalue=1):
        if x == 1 or (x == y and x is not None):
            result.append(y)
        elif y == 1:
            result.append(x)
        else:
            raise Unfit
    return tuple(reversed(result))


def fits(a: Shape, b: Shape) -> bool:
    try:
        broadcast(a, b)
    except Unfit:
        return False
    return True


def partner(g: Graph, x: Value) -> Value:
    """Another operand for an elementwise operation with `x`: a value of the graph, or a constant."""
    others = [v for v in g.values if v.dtype == x.dtype and fits(v.shape, x.shape)]
    if others and g.rng.random() < 0.6:
        return g.rng.choice(others)
    shape = [d if isinstance(d, int) and g.rng.random() < 0.7 else 1 for d in x.shape][g.rng.randrange(x.rank + 1) :]
    if x.dtype == "f":
        return g.floats(*shape)
    return g.constant(np.random.default_rng(g.rng.getrandbits(32)).integers(-5, 6, shape))


def axis_of(g: Graph, x: Value) -> int:
    """An axis, counted from the front or, as a negative number, from the back; axis % rank is the position."""
    if x.rank == 0:
        raise Unfit
    return g.rng.randrange(-x.rank, x.rank)


def without(shape: Shape, axis: int, *, keep: bool) -> Shape:
    return tuple(1 if n == axis else d for n, d in enumerate(shape) if keep or n != axis)


# The operators.


def unary(g: Graph) -> None:
    ops = ["Tanh", "Sigmoid", "Erf", "Softplus", "Softsign", "Sin", "Cos", "Mish", "HardSwish", "Selu"]
    x = g.pick()
    g.node(g.rng.choice(ops), [x], x.shape)


def unary_exact(g: Graph) -> None:
    x = g.pick()
    g.node(g.rng.choice(["Relu", "Neg", "Abs", "Identity"]), [x], x.shape, exact=x.exact)


def unary_with_number(g: Graph) -> None:
    x, number = g.pick(), g.rng.choice([0.0, 0.25, 0.5, 1.5])
    op, more = g.rng.choice(
        [
            ("LeakyRelu", {"alpha": number}),
            ("Elu", {"alpha": number}),
            ("Celu", {"alpha": number + 0.5}),
            ("ThresholdedRelu", {"alpha": number}) if x.exact else ("HardSigmoid", {}),
            ("HardSigmoid", {"alpha": number, "beta": 0.5}),
        ]
    )
    g.node(op, [x], x.shape, **more)


def steps(g: Graph) -> None:
    """Functions with steps: only of values that every runtime computes alike."""
    x = g.pick(fits=lambda v: v.exact)
    g.node(g.rng.choice(["Floor", "Ceil", "Round", "Sign"]), [x], x.shape, exact=True)


def guarded(g: Graph) -> None:
    """Functions that are steep somewhere, away from there."""
    x = g.pick()
    op = g.rng.choice(["Exp", "Log", "Sqrt", "Reciprocal", "Div"])
    if op == "Exp":
        clipped = g.node("Clip", [x, *(g.constant(np.float32(v)) for v in (-4, 3))], x.shape, exact=x.exact)
        g.node("Exp", [clipped], x.shape)
        return
    size = g.node("Abs", [x], x.shape, exact=x.exact)
    above = g.node("Add", [size, g.constant(np.float32(1))], x.shape)
    if op == "Div":
        y = partner(g, x)
        g.node("Div", [y, above], broadcast(y.shape, x.shape))
    else:
        g.node(op, [above], x.shape)


def domain(g: Graph) -> None:
    """Functions outside of their domain."""
    x = g.pick(fits=lambda v: v in g.inputs)
    g.node(g.rng.choice(["Sqrt", "Log", "Reciprocal"]), [x], x.shape, dtype="e")


def clip(g: Graph) -> None:
    x = g.pick()
    low, high = (g.constant(np.float32(v)) if g.rng.random() < 0.7 else None for v in (-0.75, 1.25))
    inputs = [x, low, high] if high is not None else [x, low] if low is not None else [x]
    g.node("Clip", inputs, x.shape, exact=x.exact)


def binary(g: Graph) -> None:
    x = g.pick()
    y = partner(g, x)
    pair = [x, y] if g.rng.random() < 0.5 else [y, x]
    op = g.rng.choice(["Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean"])
    g.node(op, pair, broadcast(x.shape, y.shape), exact=op in ("Max", "Min") and x.exact and y.exact)


def several(g: Graph) -> None:
    x = g.pick()
    y = partner(g, x)
    shape = broadcast(x.shape, y.shape)
    z = partner(g, Value("", "f", shape, exact=True))
    g.node(g.rng.choice(["Sum", "Mean", "Max", "Min"]), [x, y, z], broadcast(shape, z.shape))


def power(g: Graph) -> None:
    x = g.pick()
    g.node("Pow", [x, g.constant(np.float32(g.rng.choice([2, 3, 0, 1])))], x.shape)


def prelu(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank > 1 and isinstance(v.shape[-1], int))
    g.node("PRelu", [x, g.floats(*numbers(x.shape[-1:]))], x.shape)


def integer_arithmetic(g: Graph) -> None:
    x = g.pick("i")
    op = g.rng.choice(["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Neg", "Abs"])
    if op in ("Neg", "Abs"):
        g.node(op, [x], x.shape, dtype="i", exact=True)
        return
    y = g.integers(g.rng.choice([-7, -2, -1, 1, 2, 3, 5])) if op in ("Div", "Mod") else partner(g, x)
    g.node(op, [x, y], broadcast(x.shape, y.shape), dtype="i", exact=True)


def comparison(g: Graph) -> None:
    x = g.pick(g.rng.choice("fi"), lambda v: v.exact)
    y = partner(g, x)
    if not y.exact:
        raise Unfit
    op = g.rng.choice(["Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"])
    g.node(op, [x, y], broadcast(x.shape, y.shape), dtype="b", exact=True)


def logic(g: Graph) -> None:
    x = g.pick("b")
    if g.rng.random() < 0.3:
        g.node("Not", [x], x.shape, dtype="b", exact=True)
        return
    y = g.pick("b", lambda v: fits(v.shape, x.shape))
    g.node(g.rng.choice(["And", "Or", "Xor"]), [x, y], broadcast(x.shape, y.shape), dtype="b", exact=True)


def where(g: Graph) -> None:
    c = g.pick("b")
    x = g.pick(fits=lambda v: fits(v.shape, c.shape))
    y = partner(g, Value("", "f", broadcast(x.shape, c.shape), exact=True))
    shape = broadcast(broadcast(x.shape, c.shape), y.shape)
    g.node("Where", [c, x, y], shape, exact=x.exact and y.exact)


def cast(g: Graph) -> None:
    x = g.pick(g.rng.choice("fib"), lambda v: v.exact and v.rank > 0)
    to = g.rng.choice([t for t in "fib" if t != x.dtype])
    if x.dtype == "f" and to == "i":
        x = g.node("Clip", [x, *(g.constant(np.float32(v)) for v in (-9, 9))], x.shape, exact=True)
    g.node("Cast", [x], x.shape, dtype=to, exact=True, to=TYPES[to])


def matmul(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 2 and isinstance(v.shape[-1], int))
    (depth,) = numbers(x.shape[-1:])
    others = [v for v in g.values if v.dtype == "f" and v.rank >= 2 and v.shape[-2] == depth]
    others = [v for v in others if fits(v.shape[:-2], x.shape[:-2])]
    y = g.rng.choice(others) if others and g.rng.random() < 0.4 else g.floats(depth, g.rng.choice(SIZES))
    g.node("MatMul", [x, y], (*broadcast(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1]))


def gemm(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank == 2)
    of_a, of_b = g.rng.random() < 0.3, g.rng.random() < 0.5
    rows, depth = reversed(x.shape) if of_a else x.shape
    (k,) = numbers([depth])
    n = g.rng.choice(SIZES)
    y = g.floats(n, k) if of_b else g.floats(k, n)
    c = [[], [g.floats(n)], [g.floats(1, n)], [g.floats(1)]][g.rng.randrange(4)]
    g.node("Gemm", [x, y, *c], (rows, n), transA=int(of_a), transB=int(of_b), alpha=g.rng.choice([1.0, 0.5]),
           beta=g.rng.choice([1.0, 0.5]))  # fmt: skip


def einsum(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank == 3 and isinstance(v.shape[2], int))
    (k,) = numbers(x.shape[2:])
    n = g.rng.choice(SIZES)
    g.node("Einsum", [x, g.floats(n, k)], (x.shape[0], x.shape[1], n), equation="abk,nk->abn")


def window(g: Graph, spatial: Sequence[Size]) -> tuple[dict[str, Any], tuple[Size, ...]] | None:
    """Kernel, strides, dilations and pads for images of these sizes, and the sizes after them."""
    kernel, strides, dilations, before, after, sizes = [], [], [], [], [], []
    for d in spatial:
        k, s, e = g.rng.choice([1, 2, 3]), g.rng.choice([1, 1, 2, 3]), g.rng.choice([1, 1, 2])
        low, high = g.rng.randrange(k), g.rng.randrange(k)
        reach = (k - 1) * e + 1
        if not isinstance(d, int):
            # A window that fits images of any size.
            low, high, e, k = k // 2, k // 2, 1, k // 2 * 2 + 1
            sizes.append(d if s == 1 else None)
        else:
            if d + low + high < reach:
                return None
            sizes.append((d + low + high - reach) // s + 1)
        for column, value in zip((kernel, strides, dilations, before, after), (k, s, e, low, high), strict=True):
            column.append(value)
    more = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": before + after}
    return more, tuple(sizes)


def conv(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank in (3, 4) and isinstance(v.shape[1], int))
    (channels,) = numbers(x.shape[1:2])
    found = window(g, x.shape[2:])
    if found is None:
        raise Unfit
    more, sizes = found
    group = g.rng.choice([d for d in (1, 1, channels, 2) if channels % d == 0])
    out = group * g.rng.choice([1, 2, 3])
    inputs = [x, g.floats(out, channels // group, *more["kernel_shape"])]
    if g.rng.random() < 0.5:
        inputs.append(g.floats(out))
    g.node("Conv", inputs, (x.shape[0], out, *sizes), group=group, **more)


def conv_transpose(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank == 4 and is_static(v.shape[1:]))
    channels, *spatial = numbers(x.shape[1:])
    group = g.rng.choice([d for d in (1, 1, channels) if channels % d == 0])
    out = g.rng.choice([1, 2, 3])
    k, s = [g.rng.choice([1, 2, 3]) for _ in spatial], [g.rng.choice([1, 2, 3]) for _ in spatial]
    extra = [g.rng.randrange(each) for each in s]
    sizes = [(d - 1) * stride + kernel + more for d, stride, kernel, more in zip(spatial, s, k, extra, strict=True)]
    if max(sizes) > 40:
        raise Unfit
    g.node("ConvTranspose", [x, g.floats(channels, out, *k)], (x.shape[0], out * group, *sizes), group=group,
           kernel_shape=k, strides=s, output_padding=extra)  # fmt: skip


def pool(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank in (3, 4))
    found = window(g, x.shape[2:])
    if found is None:
        raise Unfit
    more, sizes = found
    shape = (*x.shape[:2], *sizes)
    if g.rng.random() < 0.5:
        g.node("MaxPool", [x], shape, exact=x.exact, **more)
    elif all(d == 1 for d in more.pop("dilations")):
        g.node("AveragePool", [x], shape, count_include_pad=g.rng.randrange(2), **more)
    else:
        raise Unfit


def global_pool(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank in (3, 4))
    op = g.rng.choice(["GlobalAveragePool", "GlobalMaxPool"])
    g.node(op, [x], (*x.shape[:2], *(1 for _ in x.shape[2:])), exact=x.exact and op == "GlobalMaxPool")


def batch_norm(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 2 and isinstance(v.shape[1], int))
    c = numbers(x.shape[1:2])
    variance = g.constant(np.full(c, 0.5, np.float32))
    g.node("BatchNormalization", [x, g.floats(*c), g.floats(*c), g.floats(*c), variance], x.shape)


def layer_norm(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 1 and isinstance(v.shape[-1], int))
    n = numbers(x.shape[-1:])
    scale = [g.floats(*n)] + ([g.floats(*n)] if g.rng.random() < 0.5 else [])
    g.node("LayerNormalization", [x, *scale], x.shape, axis=-1, epsilon=0.1)


def instance_norm(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 3 and isinstance(v.shape[1], int))
    c = numbers(x.shape[1:2])
    g.node("InstanceNormalization", [x, g.floats(*c), g.floats(*c)], x.shape, epsilon=0.1)


def softmax(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 1)
    g.node(g.rng.choice(["Softmax", "LogSoftmax"]), [x], x.shape, axis=axis_of(g, x))


def reduce(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 1)
    axis, keep = axis_of(g, x), g.rng.randrange(2)
    op = g.rng.choice(["Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp", "Prod"])
    shape = without(x.shape, axis % x.rank, keep=bool(keep))
    g.node(f"Reduce{op}", [x, g.integers(axis)], shape, exact=x.exact and op in ("Max", "Min"), keepdims=keep)


def reduce_all(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 2)
    op = g.rng.choice(["ReduceSum", "ReduceMean", "ReduceMax"])
    g.node(op, [x], tuple(1 for _ in x.shape), exact=x.exact and op == "ReduceMax")


def arg(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 1 and v.exact)
    axis, keep = axis_of(g, x), g.rng.randrange(2)
    shape = without(x.shape, axis % x.rank, keep=bool(keep))
    g.node(g.rng.choice(["ArgMax", "ArgMin"]), [x], shape, dtype="i", exact=True, axis=axis, keepdims=keep)


def cumsum(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 1)
    more = {"exclusive": g.rng.randrange(2), "reverse": g.rng.randrange(2)}
    g.node("CumSum", [x, g.constant(np.int64(axis_of(g, x)))], x.shape, **more)


def transpose(g: Graph) -> None:
    x = g.pick(g.rng.choice("ffib"), lambda v: v.rank >= 2)
    order = g.rng.sample(range(x.rank), x.rank)
    g.node("Transpose", [x], tuple(x.shape[n] for n in order), dtype=x.dtype, exact=x.exact, perm=order)


def reshape(g: Graph) -> None:
    """Two neighbours become one, or one becomes two."""
    x = g.pick(fits=lambda v: v.rank >= 2)
    at = g.rng.randrange(x.rank - 1)
    merged = [0 if n < at else d for n, d in enumerate(x.shape)]
    if not all(isinstance(d, int) for d in merged[at:]):
        raise Unfit
    one, two = numbers(x.shape[at : at + 2])
    sizes = g.rng.choice([(one * two,), (two, one), (one * two, 1), (-1,), (two, -1)])
    known = [one * two // two if d == -1 and len(sizes) == 2 else one * two if d == -1 else d for d in sizes]
    after = numbers(x.shape[at + 2 :])
    shape = g.integers(*numbers(merged[:at]), *sizes, *after)
    g.node("Reshape", [x, shape], (*x.shape[:at], *known, *after), exact=x.exact)


def flatten(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 2 and is_static(v.shape[1:]))
    size = int(np.prod(numbers(x.shape[1:])))
    g.node("Flatten", [x], (x.shape[0], size), exact=x.exact)


def unsqueeze(g: Graph) -> None:
    x = g.pick(g.rng.choice("ffi"), lambda v: v.rank < 4)
    at = g.rng.randrange(x.rank + 1)
    g.node("Unsqueeze", [x, g.integers(at)], (*x.shape[:at], 1, *x.shape[at:]), dtype=x.dtype, exact=x.exact)


def squeeze(g: Graph) -> None:
    x = g.pick(fits=lambda v: 1 in v.shape)
    at = x.shape.index(1)
    g.node("Squeeze", [x, g.integers(at)], (*x.shape[:at], *x.shape[at + 1 :]), exact=x.exact)


def concat(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 1)
    axis = axis_of(g, x)
    at = axis % x.rank

    def alike(v: Value) -> bool:
        return (
            v.rank == x.rank
            and None not in v.shape
            and without(v.shape, at, keep=False) == without(x.shape, at, keep=False)
        )

    y = g.pick(fits=alike)
    sizes = [x.shape[at], y.shape[at]]
    total = sum(numbers(sizes)) if is_static(tuple(sizes)) else None
    shape = tuple(total if n == at else d for n, d in enumerate(x.shape))
    g.node("Concat", [x, y], shape, exact=x.exact and y.exact, axis=axis)


def split(g: Graph) -> None:
    x = g.pick(fits=lambda v: any(isinstance(d, int) and d > 1 for d in v.shape))
    at = g.rng.choice([n for n, d in enumerate(x.shape) if isinstance(d, int) and d > 1])
    (size,) = numbers(x.shape[at : at + 1])
    first = g.rng.randrange(1, size)
    shapes = [tuple(part if n == at else d for n, d in enumerate(x.shape)) for part in (first, size - first)]
    g.nodes_of("Split", [x, g.integers(first, size - first)], shapes, dtype="f", exact=x.exact, axis=at)


def slice_(g: Graph) -> None:
    x = g.pick(g.rng.choice("ffi"), lambda v: v.rank >= 1)
    axis = axis_of(g, x)
    size = x.shape[axis]
    start, end, step = g.rng.randrange(-4, 5), g.rng.choice([-3, -1, 1, 3, 9, 2**31]), g.rng.choice([1, 1, 2, -1, -2])
    kept: Size = None
    if isinstance(size, int):
        kept = len(range(size)[slice(start, end, step)])
        if kept == 0:
            raise Unfit
    elif (start, step) != (0, 1) or end < 0:
        raise Unfit  # nothing may be left
    shape = tuple(kept if n == axis % x.rank else d for n, d in enumerate(x.shape))
    parts = [g.integers(v) for v in (start, end, axis, step)]
    g.node("Slice", [x, *parts], shape, dtype=x.dtype, exact=x.exact)


def pad(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 1)
    mode = g.rng.choice(["constant", "constant", "edge", "reflect"])
    most = [min(2, d - 1) if isinstance(d, int) else 0 for d in x.shape] if mode == "reflect" else [2] * x.rank
    low, high = ([g.rng.randrange(m + 1) for m in most] for _ in range(2))
    shape = tuple(
        d + a + b if isinstance(d, int) else d if a + b == 0 else None
        for d, a, b in zip(x.shape, low, high, strict=True)
    )
    value = [g.constant(np.float32(g.rng.choice([0, 1.5])))] if mode == "constant" else []
    g.node("Pad", [x, g.integers(*low, *high), *value], shape, exact=x.exact, mode=mode)


def tile(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 1)
    times = [g.rng.choice([1, 1, 2]) for _ in x.shape]
    shape = tuple(d * t if isinstance(d, int) else d if t == 1 else None for d, t in zip(x.shape, times, strict=True))
    g.node("Tile", [x, g.integers(*times)], shape, exact=x.exact)


def expand(g: Graph) -> None:
    x = g.pick(fits=lambda v: 1 in v.shape)
    to = [g.rng.choice([2, 3]) if d == 1 else 1 for d in x.shape]
    shape = tuple(t if d == 1 else d for d, t in zip(x.shape, to, strict=True))
    g.node("Expand", [x, g.integers(*to)], shape, exact=x.exact)


def gather(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 1)
    axis = axis_of(g, x)
    at = axis % x.rank
    size = x.shape[at] if isinstance(x.shape[at], int) else 1
    assert isinstance(size, int)
    low = -size if isinstance(x.shape[at], int) else 0
    count = g.rng.choice([1, 2, 5])
    indices = g.integers(*(g.rng.randrange(low, size) for _ in range(count)))
    g.node("Gather", [x, indices], (*x.shape[:at], count, *x.shape[at + 1 :]), exact=x.exact, axis=axis)


def gather_elements(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 1 and is_static(v.shape))
    axis = axis_of(g, x)
    sizes = numbers(x.shape)
    seed = np.random.default_rng(g.rng.getrandbits(32))
    indices = g.constant(seed.integers(-sizes[axis], sizes[axis], sizes))
    g.node("GatherElements", [x, indices], x.shape, exact=x.exact, axis=axis)


def scatter_elements(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 1 and is_static(v.shape))
    axis = axis_of(g, x)
    sizes = numbers(x.shape)
    picked = [g.rng.randrange(sizes[axis])]
    at = axis % x.rank
    of_updates = [1 if n == at else d for n, d in enumerate(sizes)]
    indices = g.constant(np.full(of_updates, picked[0], np.int64))
    g.node("ScatterElements", [x, indices, g.floats(*of_updates)], x.shape, exact=x.exact, axis=axis)


def gather_nd(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 2 and is_static(v.shape[:2]))
    one, two = numbers(x.shape[:2])
    rows = [[g.rng.randrange(one), g.rng.randrange(two)] for _ in range(3)]
    g.node("GatherND", [x, g.constant(np.array(rows, np.int64))], (3, *x.shape[2:]), exact=x.exact)


def depth_to_space(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank == 4 and is_static(v.shape[1:]))
    c, h, w = numbers(x.shape[1:])
    if c % 4 == 0 and g.rng.random() < 0.5:
        mode = g.rng.choice(["DCR", "CRD"])
        g.node("DepthToSpace", [x], (x.shape[0], c // 4, 2 * h, 2 * w), exact=x.exact, blocksize=2, mode=mode)
    elif h % 2 == w % 2 == 0:
        g.node("SpaceToDepth", [x], (x.shape[0], c * 4, h // 2, w // 2), exact=x.exact, blocksize=2)
    else:
        raise Unfit


def resize(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank == 4 and is_static(v.shape[2:]))
    scales = g.constant(np.array([1, 1, 2, 2], np.float32))
    h, w = numbers(x.shape[2:])
    mode, how = g.rng.choice([("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners")])
    more = {"nearest_mode": "floor"} if mode == "nearest" else {}
    g.node("Resize", [x, None, scales], (*x.shape[:2], 2 * h, 2 * w), mode=mode,
           coordinate_transformation_mode=how, **more)  # fmt: skip


def trilu(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 2)
    g.node("Trilu", [x, g.constant(np.int64(g.rng.randrange(-2, 3)))], x.shape, exact=x.exact, upper=g.rng.randrange(2))


def one_hot(g: Graph) -> None:
    x = g.pick("i", lambda v: v.rank in (1, 2))
    depth = g.rng.choice([2, 3, 5])
    low = g.node("Mod", [x, g.integers(depth)], x.shape, dtype="i", exact=True)
    pair = g.constant(np.array([0, 1], np.float32))
    g.node("OneHot", [low, g.constant(np.int64(depth)), pair], (*x.shape, depth), exact=True, axis=-1)


def top_k(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank >= 1 and isinstance(v.shape[-1], int))
    (size,) = numbers(x.shape[-1:])
    k = g.rng.randrange(1, size + 1)
    shape = (*x.shape[:-1], k)
    g.nodes_of("TopK", [x, g.integers(k)], [shape, shape], dtype="f", exact=x.exact, largest=g.rng.randrange(2))
    g.values.pop()  # the indices are not looked at: equal elements may come in any order


def recurrent(g: Graph) -> None:
    x = g.pick(fits=lambda v: v.rank == 3 and is_static(v.shape[1:]))
    op, gates = g.rng.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    batch, features = numbers(x.shape[1:])
    hidden = g.rng.choice([1, 3, 8])
    inputs = [x, g.floats(1, gates * hidden, features), g.floats(1, gates * hidden, hidden)]
    if g.rng.random() < 0.5:
        inputs.append(g.floats(1, 2 * gates * hidden))
    g.node(op, inputs, (x.shape[0], 1, batch, hidden), hidden_size=hidden)


OPERATORS: dict[str, Callable[[Graph], None]] = {
    "unary": unary,
    "unary_exact": unary_exact,
    "unary_with_number": unary_with_number,
    "steps": steps,
    "guarded": guarded,
    "domain": domain,
    "clip": clip,
    "binary": binary,
    "several": several,
    "power": power,
    "prelu": prelu,
    "integer_arithmetic": integer_arithmetic,
    "comparison": comparison,
    "logic": logic,
    "where": where,
    "cast": cast,
    "matmul": matmul,
    "gemm": gemm,
    "einsum": einsum,
    "conv": conv,
    "conv_transpose": conv_transpose,
    "pool": pool,
    "global_pool": global_pool,
    "batch_norm": batch_norm,
    "layer_norm": layer_norm,
    "instance_norm": instance_norm,
    "softmax": softmax,
    "reduce": reduce,
    "reduce_all": reduce_all,
    "arg": arg,
    "cumsum": cumsum,
    "transpose": transpose,
    "reshape": reshape,
    "flatten": flatten,
    "unsqueeze": unsqueeze,
    "squeeze": squeeze,
    "concat": concat,
    "split": split,
    "slice": slice_,
    "pad": pad,
    "tile": tile,
    "expand": expand,
    "gather": gather,
    "gather_elements": gather_elements,
    "scatter_elements": scatter_elements,
    "gather_nd": gather_nd,
    "depth_to_space": depth_to_space,
    "resize": resize,
    "trilu": trilu,
    "one_hot": one_hot,
    "top_k": top_k,
    "recurrent": recurrent,
}


def random_graph(
    rng: random.Random, most: int = 6, among: Sequence[str] = tuple(OPERATORS), *, free: bool = False
) -> Graph:
    """A graph of 1 to about `most` nodes among these, with one or two inputs of free and fixed sizes.

    free: the first size is a free one.
    """
    graph = Graph(rng)
    rank = rng.choice([2, 3, 4])
    shape: list[Size] = [rng.choice(SIZES) for _ in range(rank)]
    for n in range(rank):
        if rng.random() < (0.5 if n == 0 else 0.15) or (free and n == 0):
            shape[n] = rng.choice("nm")
    graph.add_input("f", tuple(shape))
    if rng.random() < 0.5:
        other = [d if rng.random() < 0.7 else 1 for d in shape][rng.randrange(rank) :]
        graph.add_input(rng.choice("fi"), tuple(other))
    wanted = rng.randrange(1, most + 1)
    for _ in range(20 * wanted):
        if len(graph.nodes) >= wanted:
            break
        before = len(graph.nodes), len(graph.weights), len(graph.values)
        try:
            OPERATORS[rng.choice(among)](graph)
        except Unfit:
            del graph.nodes[before[0] :], graph.weights[before[1] :], graph.values[before[2] :]
            continue
        if any(isinstance(d, int) and d > 4000 for d in graph.values[-1].shape):
            break
    if not graph.nodes:
        unary(graph)
    return graph


def feeds_of(model: onnx.ModelProto, seed: int, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Inputs: odd multiples of 1/16 between -3 and 3, which no step of a function lies at, and small integers."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in dims]
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            feeds[value.name] = ((2 * rng.integers(-24, 24, shape) + 1) / 16).astype(np.float32)
        else:
            feeds[value.name] = rng.integers(-6, 7, shape)
    return feeds
