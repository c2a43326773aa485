"""Nodes that torch-mlir lowers to something else than ONNX defines: written in other nodes, or refused.

The new nodes have the name of the old one, so that they are the same layer. Runs in the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from numc.frontends.onnx.read import label, unsupported

Array = npt.NDArray[np.generic]


class _RefusedError(Exception):
    """A node cannot be lowered to what ONNX defines. The message is the reason."""


@dataclass
class _Node:
    """A node with what is known of its surroundings. `constants` gains those of the nodes that replace it."""

    proto: onnx.NodeProto
    types: dict[str, onnx.TypeProto]
    constants: dict[str, Array]

    def input(self, n: int) -> str:
        """The name of an input; "" for one that is left out."""
        return str(self.proto.input[n]) if n < len(self.proto.input) else ""

    def has_output(self, n: int) -> bool:
        """Whether the node has this output."""
        return n < len(self.proto.output) and bool(self.proto.output[n])

    def shape(self, name: str) -> list[int | None] | None:
        """The sizes of a value, None for free ones; None if its rank is not known."""
        if name in self.constants:
            return list(self.constants[name].shape)
        kind = self.types[name].tensor_type if name in self.types else None
        if kind is None or not kind.HasField("shape"):
            return None
        return [int(dim.dim_value) if dim.HasField("dim_value") else None for dim in kind.shape.dim]

    def is_float(self, name: str) -> bool:
        """Whether the elements of a value are float32."""
        if name in self.constants:
            return self.constants[name].dtype == np.float32
        return name in self.types and self.types[name].tensor_type.elem_type == onnx.TensorProto.FLOAT

    def attribute(self, name: str, default: Any) -> Any:
        """An attribute; strings as text. Raises _RefusedError for one of another type than `default`, if it has one."""
        for attribute in self.proto.attribute:
            if attribute.name == name:
                value = onnx.helper.get_attribute_value(attribute)
                value = value.decode(errors="replace") if isinstance(value, bytes) else value
                kinds = Sequence if isinstance(default, Sequence) and not isinstance(default, str) else type(default)
                if default is not None and not isinstance(value, kinds):
                    raise _RefusedError(f"its attribute {name} is of another type than ONNX defines")
                return value
        return default

    def axis(self, rank: int, default: int) -> int:
        """The attribute ``axis`` of a node of values of a rank, from 0. Raises _RefusedError for one that is none."""
        value = self.attribute("axis", default)
        if not -rank <= value < rank:
            raise _RefusedError(f"its axis {value} is none of the {rank} of its input")
        return int(value) % rank

    def with_attributes(self, **changed: Any) -> onnx.NodeProto:
        """A copy of the node with other attributes; None removes one."""
        copy = onnx.NodeProto.FromString(self.proto.SerializeToString())
        del copy.attribute[:]
        copy.attribute.extend(a for a in self.proto.attribute if a.name not in changed)
        copy.attribute.extend(onnx.helper.make_attribute(k, v) for k, v in changed.items() if v is not None)
        return copy

    def make(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> onnx.NodeProto:
        """Another node of the same name; a new value gets the name of the node's first output and `output`."""
        return onnx.helper.make_node(operator, inputs, [output], name=self.proto.name, **attributes)

    def fresh(self, word: str) -> str:
        """A name for a value inside of the node."""
        return f"{self.proto.output[0] or self.proto.name}/{word}"

    def constant(self, word: str, value: Any, dtype: npt.DTypeLike) -> str:
        """The name of a new constant."""
        name = self.fresh(word)
        self.constants[name] = np.array(value, dtype=dtype)
        return name


_ACTIVATIONS = {"Relu", "Sigmoid", "Tanh"}
Rule = Callable[[_Node], "list[onnx.NodeProto] | None"]


def rewrite(graph: onnx.GraphProto, constants: dict[str, Array], version: int) -> bool:
    """Replace nodes in place; return whether there were any. Their shapes are those in `graph`, whose nodes have names.

    version: the opset, for the error message. Raises NumcError with a list of all nodes that must be refused.
    """
    types = {value.name: value.type for value in [*graph.input, *graph.output, *graph.value_info]}
    nodes, refused, changed = [], [], False
    for proto in graph.node:
        rule = _RULES.get(proto.op_type)
        try:
            found = rule(_Node(proto, types, constants)) if rule else None
        except _RefusedError as reason:
            refused.append((label(proto), proto.op_type, version, str(reason)))
            continue
        nodes += [onnx.NodeProto.FromString(proto.SerializeToString())] if found is None else found
        changed = changed or found is not None
    if refused:
        raise unsupported(refused)
    if changed:
        del graph.node[:]
        graph.node.extend(nodes)
    return changed


def _recurrent(node: _Node) -> list[onnx.NodeProto] | None:
    """torch-mlir ignores some inputs and attributes; lengths that are the full length of sequences can be left out."""
    if node.input(7):
        raise _RefusedError("its peephole weights P are not available")
    if node.attribute("clip", None) is not None:
        raise _RefusedError("its attribute clip is not available")
    names = [name.decode() for name in node.attribute("activations", [])]
    if others := sorted(set(names) - _ACTIVATIONS):
        raise _RefusedError(f"the activation {others[0]} is not available, only {', '.join(sorted(_ACTIVATIONS))}")
    lengths = node.input(4)
    if not lengths:
        return None
    shape = node.shape(node.input(0))
    steps = shape[1 if node.attribute("layout", 0) else 0] if shape and len(shape) > 1 else None
    known = node.constants.get(lengths)
    if known is None or steps is None or not bool((known.astype(np.int64) == steps).all()):
        full = "a constant that equals the full length of every sequence"
        raise _RefusedError(f"sequence_lens is available only as {full}")
    copy = node.with_attributes()
    copy.input[4] = ""
    return [copy]


def _max_pool(node: _Node) -> list[onnx.NodeProto] | None:
    """Rounding up the number of windows is more padding behind the image; -inf is no maximum."""
    if node.has_output(1):
        shape, pads = node.shape(node.input(0)), node.attribute("pads", ())
        if shape is None or shape[:2] != [1, 1] or any(pads) or node.attribute("storage_order", 0):
            raise _RefusedError("its output Indices is available for one plane without padding only")
    if not node.attribute("ceil_mode", 0):
        return None
    if node.attribute("auto_pad", "NOTSET").startswith("SAME"):  # they say how many windows there are
        return [node.with_attributes(ceil_mode=None)]
    before, _, wanted = _padding(node)
    return [node.with_attributes(ceil_mode=None, auto_pad=None, pads=before + wanted)]


def _average_pool(node: _Node) -> list[onnx.NodeProto] | None:
    """The padding for the last window does not count, whether the other padding does or not."""
    if not node.attribute("ceil_mode", 0):
        return None
    if node.attribute("auto_pad", "NOTSET").startswith("SAME"):
        return [node.with_attributes(ceil_mode=None)]
    before, after, wanted = _padding(node)
    plain = {"ceil_mode": None, "auto_pad": None}
    if not node.attribute("count_include_pad", 0) or not any(w > a for w, a in zip(wanted, after, strict=True)):
        return [node.with_attributes(**plain, pads=before + wanted)]
    padded, pads = node.fresh("padded"), node.constant("pads", [0, 0, *before, 0, 0, *after], np.int64)
    more = [max(0, w - a) for w, a in zip(wanted, after, strict=True)]
    pool = node.with_attributes(**plain, pads=[0] * len(before) + more, count_include_pad=0)
    pool.input[0] = padded
    return [node.make("Pad", [node.input(0), pads], padded), pool]


def _padding(node: _Node) -> tuple[list[int], list[int], list[int]]:
    """The padding before and after an image, and that after it with which rounding down gives the same windows.

    A window that would begin behind the image and the padding before it is left out, as in PyTorch and onnxruntime.
    """
    shape = node.shape(node.input(0))
    kernel = list(node.attribute("kernel_shape", ()))
    rank = len(kernel)
    if shape is None or None in shape[2:]:
        raise _RefusedError("ceil_mode is available for images of fixed sizes only: give shapes={...} or --shape")
    strides, dilations = (node.attribute(name, [1] * rank) for name in ("strides", "dilations"))
    pads = list(node.attribute("pads", [0] * (2 * rank)))
    before, after = pads[:rank], pads[rank:]
    wanted = []
    for size, k, s, d, low, high in zip(shape[2:], kernel, strides, dilations, before, after, strict=True):
        assert size is not None
        extent = (k - 1) * d + 1
        count = -(-(size + low + high - extent) // s) + 1
        if (count - 1) * s >= size + low:
            count -= 1
        wanted.append(max(0, (count - 1) * s + extent - size - low))
    return before, after, wanted


def _depth_to_space(node: _Node) -> list[onnx.NodeProto] | None:
    """torch-mlir mixes up the dimensions of CRD where one channel is left: there, CRD and DCR are the same."""
    shape, block = node.shape(node.input(0)), node.attribute("blocksize", 1)
    if node.attribute("mode", "DCR") == "CRD" and shape is not None and shape[1] == block * block:
        return [node.with_attributes(mode="DCR")]
    return None


def _gemm(node: _Node) -> list[onnx.NodeProto] | None:
    """torch-mlir ignores alpha where C is left out, and takes no empty name for it."""
    alpha = node.attribute("alpha", 1.0)
    if node.input(2) or not node.is_float(node.input(0)) or (alpha == 1 and len(node.proto.input) == 2):
        return None
    product = node.with_attributes(alpha=None, beta=None)
    del product.input[2:]
    if alpha == 1:
        return [product]
    product.output[0] = node.fresh("product")
    factor = node.constant("alpha", alpha, np.float32)
    return [product, node.make("Mul", [product.output[0], factor], node.proto.output[0])]


def _instance_normalization(node: _Node) -> list[onnx.NodeProto] | None:
    """torch-mlir divides by the number of elements of another dimension where sizes are free."""
    source, scale, bias = node.proto.input
    shape = node.shape(source)
    if shape is None or None not in shape:
        return None
    axes = node.constant("axes", range(2, len(shape)), np.int64)
    epsilon = node.constant("epsilon", node.attribute("epsilon", 1e-5), np.float32)
    wide = node.constant("shape", [-1, *[1] * (len(shape) - 2)], np.int64)
    made: list[onnx.NodeProto] = []

    def value(operator: str, *inputs: str, to: str = "") -> str:
        made.append(node.make(operator, inputs, to or node.fresh(str(len(made)))))
        return str(made[-1].output[0])

    difference = value("Sub", source, value("ReduceMean", source, axes))
    variance = value("ReduceMean", value("Mul", difference, difference), axes)
    normal = value("Div", difference, value("Sqrt", value("Add", variance, epsilon)))
    scaled = value("Mul", normal, value("Reshape", scale, wide))
    value("Add", scaled, value("Reshape", bias, wide), to=node.proto.output[0])
    return made


def _extreme(node: _Node) -> list[onnx.NodeProto] | None:
    """torch-mlir counts from the end of another dimension where the size is free."""
    shape = node.shape(node.input(0))
    if node.attribute("select_last_index", 0) and (shape is None or shape[node.axis(len(shape), 0)] is None):
        raise _RefusedError("select_last_index is available along dimensions of fixed size only")
    return None


def _sign(node: _Node) -> list[onnx.NodeProto] | None:
    """torch-mlir gives 0 for NaN."""
    (source,), (result,) = node.proto.input, node.proto.output
    if not node.is_float(source):
        return None
    sign, nan = node.fresh("sign"), node.fresh("nan")
    return [
        node.make("Sign", [source], sign),
        node.make("IsNaN", [source], nan),
        node.make("Where", [nan, source, sign], result),
    ]


def _split(node: _Node) -> list[onnx.NodeProto] | None:
    """A free dimension has the size that its parts add up to; torch-mlir would leave the rest over."""
    shape, parts = node.shape(node.input(0)), node.constants.get(node.input(1))
    if shape is None or parts is None:
        return None
    axis = node.axis(len(shape), 0)
    if shape[axis] is not None:
        if shape[axis] != parts.sum():
            where = f"'{node.input(0)}' has in dimension {axis}"
            raise _RefusedError(f"its parts {parts.tolist()} do not add up to {shape[axis]}, which {where}")
        return None
    whole = node.fresh("whole")
    copy = node.with_attributes()
    copy.input[0] = whole
    return [_sized(node, node.input(0), whole, axis, int(parts.sum()), len(shape)), copy]


def _top_k(node: _Node) -> list[onnx.NodeProto] | None:
    """A free dimension has k elements or more; torch-mlir would give those that there are."""
    shape, count = node.shape(node.input(0)), node.constants.get(node.input(1))
    if shape is not None and count is None:
        return _top_k_of_a_run(node, len(shape))
    if shape is None or count is None or count.size != 1 or int(count.item()) < 2:
        return None
    k, axis = int(count.item()), node.axis(len(shape), -1)
    if shape[axis] is not None:
        return None
    bounds = {word: node.constant(word, [n], np.int64) for word, n in (("0", 0), ("k", k), ("end", 2**63 - 1))}
    along = node.constant("axis", [axis], np.int64)
    words = ("first", "sized", "rest", "whole")
    first, sized, rest, whole = (node.fresh(word) for word in words)
    copy = node.with_attributes()
    copy.input[0] = whole
    return [
        node.make("Slice", [node.input(0), bounds["0"], bounds["k"], along], first),
        _sized(node, first, sized, axis, k, len(shape)),
        node.make("Slice", [node.input(0), bounds["k"], bounds["end"], along], rest),
        node.make("Concat", [sized, rest], whole, axis=axis),
        copy,
    ]


def _top_k_of_a_run(node: _Node, rank: int) -> list[onnx.NodeProto]:
    """The results have k elements, if k is known in a run only; torch-mlir would give those that there are."""
    axis, k = node.axis(rank, -1), node.input(1)
    zero, never = (node.constant(word, [n], np.int64) for word, n in (("zero", 0), ("never", 2**31)))
    negative, wanted, sizes = (node.fresh(word) for word in ("negative", "wanted", "sizes"))
    kept = [node.constant(word, [0] * n, np.int64) for word, n in (("before", axis), ("after", rank - axis - 1))]
    copy = node.with_attributes()
    made = [
        node.make("Less", [k, zero], negative),
        node.make("Where", [negative, never, k], wanted),
        node.make("Concat", [kept[0], wanted, kept[1]], sizes, axis=0),  # 0 keeps a size
        copy,
    ]
    for n, result in enumerate(copy.output):
        if result:
            copy.output[n] = node.fresh(f"found{n}")
            made.append(node.make("Reshape", [copy.output[n], sizes], result))
    return made


def _sized(node: _Node, value: str, to: str, axis: int, size: int, rank: int) -> onnx.NodeProto:
    """A node that fixes a size, and fails the run if it is another one."""
    shape = node.constant(f"{to}/shape", [size if d == axis else 0 for d in range(rank)], np.int64)
    return node.make("Reshape", [value, shape], to)


def _grid_sample(node: _Node) -> list[onnx.NodeProto] | None:
    if node.attribute("mode", "linear") == "nearest":
        raise _RefusedError("its mode 'nearest' is not available: use 'linear'")
    return None


def _q_linear_mat_mul(node: _Node) -> list[onnx.NodeProto] | None:
    if any(len(node.shape(node.input(n)) or ()) != 2 for n in (0, 3)):
        raise _RefusedError("it is available for matrices only, not for stacks of them")
    return None


def _random(_: _Node) -> list[onnx.NodeProto] | None:
    raise _RefusedError("draws random numbers: give them to the model as an input")


_RULES: dict[str, Rule] = {
    "ArgMax": _extreme,
    "ArgMin": _extreme,
    "AveragePool": _average_pool,
    "DepthToSpace": _depth_to_space,
    "Gemm": _gemm,
    "GridSample": _grid_sample,
    "InstanceNormalization": _instance_normalization,
    "MaxPool": _max_pool,
    "QLinearMatMul": _q_linear_mat_mul,
    "Sign": _sign,
    "Split": _split,
    "TopK": _top_k,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(
        ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), _random
    ),
}
