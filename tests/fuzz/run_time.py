"""Models whose inputs choose sizes: what ONNX forbids has to be refused, what it allows has to be computed.

ROWS is the table of models of one operator. The oracle is onnxruntime: where it answers, numc has the same answer, and
where it refuses, numc refuses. `products` has no oracle: numbers of elements beyond 2^60 are refused, and others are
right.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import numc
from fuzz.differential import Finding, by_onnxruntime, compare
from numc.support.errors import NumcError

Arrays = dict[str, np.ndarray]

RUNS = 200
OPSET = 19
TYPES = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "b": TensorProto.BOOL}
_STRICTER = re.compile(
    r"2\^42 elements|out of memory"  # limits of numc
    r"|smaller than the window|extreme of nothing|negative pads take away|nothing to pad with"
    r"|k is larger|padding that reflects|parts differ in dimension"  # onnxruntime computes what ONNX forbids
)
"""What numc refuses and onnxruntime computes."""
EXTREME = (2**33, 2**40, 2**61 + 1, 2**62, 2**63 - 1, -(2**31), -(2**62), -(2**63))


@dataclass(frozen=True)
class Row:
    """A model of one node.

    node: "Op a,b -> y". inputs: name -> "type:sizes:values", where sizes are numbers or free ones such as n, n1, n2
    (which are mostly equal, as the letter says), and values are one of `_draw`. fixed: inputs that are weights.
    outputs: their types.
    """

    node: str
    inputs: Mapping[str, str]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    outputs: str = "f"


def _weights(*shape: int) -> np.ndarray:
    return (np.arange(int(np.prod(shape))).reshape(shape) % 7 / 4 - 0.75).astype(np.float32)


ROWS: dict[str, Row] = {
    "slice": Row(
        "Slice x,s,e,a,t -> y", {"x": "f:n,4", "s": "i:1:index", "e": "i:1:index", "t": "i:1:step"}, fixed={"a": [0]}
    ),
    "slice_two": Row("Slice x,s,e -> y", {"x": "f:n,m", "s": "i:2:index", "e": "i:2:index"}),
    "reshape": Row("Reshape x,s -> y", {"x": "f:n,m", "s": "i:2:shape"}),
    "reshape_three": Row("Reshape x,s -> y", {"x": "f:n,m", "s": "i:3:shape"}),
    "reshape_fixed": Row("Reshape x,s -> y", {"x": "f:n,m"}, fixed={"s": [2, 6]}),
    "reshape_rest": Row("Reshape x,s -> y", {"x": "f:n,m"}, fixed={"s": [-1, 3]}),
    "expand": Row("Expand x,s -> y", {"x": "f:n,3", "s": "i:2:size"}),
    "expand_one": Row("Expand x,s -> y", {"x": "f:1,n", "s": "i:3:size"}),
    "tile": Row("Tile x,s -> y", {"x": "f:n,3", "s": "i:2:size"}),
    "range": Row("Range a,b,c -> y", {"a": "i::bound", "b": "i::bound", "c": "i::step"}, outputs="i"),
    "constant_of_shape": Row("ConstantOfShape s -> y", {"s": "i:2:size"}),
    "one_hot": Row("OneHot x,d,v -> y", {"x": "i:n:index", "d": "i::size", "v": "f:2"}),
    "top_k": Row("TopK x,k -> y,z", {"x": "f:n,m", "k": "i:1:size"}, outputs="fi"),
    "split": Row("Split x,s -> y,z", {"x": "f:n,4", "s": "i:2:size"}, {"axis": 0}, outputs="ff"),
    "split_even": Row("Split x -> y,z", {"x": "f:n,4"}, {"axis": 0, "num_outputs": 2}, outputs="ff"),
    "trilu": Row("Trilu x,k -> y", {"x": "f:n,m", "k": "i::index"}),
    "compress": Row("Compress x,c -> y", {"x": "f:n,4", "c": "b:m"}, {"axis": 0}),
    "cumsum": Row("CumSum x,a -> y", {"x": "f:n,m"}, fixed={"a": np.int64(1)}),
    "pad_constant": Row("Pad x,p -> y", {"x": "f:n,m", "p": "i:4:pad"}),
    "pad_edge": Row("Pad x,p -> y", {"x": "f:n,m", "p": "i:4:pad"}, {"mode": "edge"}),
    "pad_reflect": Row("Pad x,p -> y", {"x": "f:n,m", "p": "i:4:pad"}, {"mode": "reflect"}),
    "resize_sizes": Row("Resize x,,,s -> y", {"x": "f:1,1,n,m", "s": "i:4:image"}, {"mode": "nearest"}),
    "gather": Row("Gather x,i -> y", {"x": "f:n,m", "i": "i:k:index"}),
    "gather_columns": Row("Gather x,i -> y", {"x": "f:n,m", "i": "i:k:index"}, {"axis": 1}),
    "gather_elements": Row("GatherElements x,i -> y", {"x": "f:n,m", "i": "i:k,m1:index"}),
    "gather_nd": Row("GatherND x,i -> y", {"x": "f:n,m", "i": "i:k,2:index"}),
    "scatter_elements": Row(
        "ScatterElements x,i,u -> y",
        {"x": "f:n,m", "i": "i:k,m1:index", "u": "f:k1,m2"},
        {"axis": 0, "reduction": "max"},
    ),
    "scatter_nd": Row("ScatterND x,i,u -> y", {"x": "f:n,m", "i": "i:k,1:index", "u": "f:k1,m1"}, {"reduction": "max"}),
    "add": Row("Add x,y -> z", {"x": "f:n,m", "y": "f:n1,m1"}),
    "where": Row("Where c,x,y -> z", {"c": "b:n,m", "x": "f:n1,m1", "y": "f:m2"}),
    "several": Row("Sum x,y,w -> z", {"x": "f:n,m", "y": "f:n1,1", "w": "f:m1"}),
    "concat": Row("Concat x,y -> z", {"x": "f:n,m", "y": "f:k,m1"}, {"axis": 0}),
    "matmul": Row("MatMul x,y -> z", {"x": "f:n,m", "y": "f:m1,k"}),
    "matmul_batches": Row("MatMul x,y -> z", {"x": "f:l,n,m", "y": "f:l1,m1,k"}),
    "matmul_weight": Row("MatMul x,w -> z", {"x": "f:n,m,4"}, fixed={"w": _weights(4, 3)}),
    "gemm": Row("Gemm x,y,c -> z", {"x": "f:n,m", "y": "f:k,m1", "c": "f:n1,k1"}, {"transB": 1}),
    "einsum": Row("Einsum x,y -> z", {"x": "f:n,m", "y": "f:m1,k"}, {"equation": "ij,jk->ki"}),
    "diagonal": Row("Einsum x -> z", {"x": "f:n,n1"}, {"equation": "ii->i"}),
    "conv": Row("Conv x,w -> y", {"x": "f:n,3,h,l"}, fixed={"w": _weights(4, 3, 3, 3)}),
    "conv_stride": Row(
        "Conv x,w -> y", {"x": "f:n,3,h,l"}, {"strides": [2, 2], "pads": [1, 0, 0, 1]}, {"w": _weights(4, 3, 2, 3)}
    ),
    "conv_transpose": Row(
        "ConvTranspose x,w -> y", {"x": "f:n,3,h,l"}, {"strides": [2, 2]}, {"w": _weights(3, 4, 3, 3)}
    ),
    "max_pool": Row("MaxPool x -> y", {"x": "f:n,2,h,l"}, {"kernel_shape": [3, 2]}),
    "average_pool": Row(
        "AveragePool x -> y", {"x": "f:n,2,h,l"}, {"kernel_shape": [2, 3], "strides": [2, 1], "ceil_mode": 1}
    ),
    "global_pool": Row("GlobalAveragePool x -> y", {"x": "f:n,2,h,l"}),
    "softmax": Row("Softmax x -> y", {"x": "f:n,m"}),
    "layer_norm": Row("LayerNormalization x,s -> y", {"x": "f:n,m", "s": "f:m1"}),
    "reduce_sum": Row("ReduceSum x,a -> y", {"x": "f:n,m"}, {"keepdims": 0}, {"a": [1]}),
    "reduce_max": Row("ReduceMax x,a -> y", {"x": "f:n,m"}, {"keepdims": 0}, {"a": [0]}),
    "arg_max": Row("ArgMax x -> y", {"x": "f:n,m"}, {"axis": 1}, outputs="i"),
    "transpose": Row("Transpose x -> y", {"x": "f:n,m,k"}, {"perm": [2, 0, 1]}),
    "flatten": Row("Flatten x -> y", {"x": "f:n,m,k"}, {"axis": 2}),
    "depth_to_space": Row("DepthToSpace x -> y", {"x": "f:n,c,h,l"}, {"blocksize": 2}),
    "space_to_depth": Row("SpaceToDepth x -> y", {"x": "f:n,c,h,l"}, {"blocksize": 2}),
    "reverse": Row("ReverseSequence x,n -> y", {"x": "f:n,m,2", "n": "i:m1:index"}, {"time_axis": 0, "batch_axis": 1}),
    "nonzero": Row("NonZero x -> y", {"x": "f:n,m"}, outputs="i"),
    "lstm": Row(
        "LSTM x,w,r -> ,y", {"x": "f:s+,m+,2"}, {"hidden_size": 3}, {"w": _weights(1, 12, 2), "r": _weights(1, 12, 3)}
    ),
}

ROUND = ("", "Neg", "Relu", "Identity")
"""What stands before and behind the node: code is fused with what surrounds it."""


def values(number: int) -> str:
    """One operator, many inputs that choose its sizes, beside onnxruntime."""
    rng = random.Random(f"values {number}")
    name = list(ROWS)[number % len(ROWS)]
    row = ROWS[name]
    before, behind = rng.choice(ROUND), rng.choice(ROUND)
    model = model_of(row, before, behind)
    session = by_onnxruntime(model)
    if session is None:
        return "no peer"
    what = f"{name} between '{before}' and '{behind}'"
    try:
        program = numc.compile(model)
    except NumcError as error:
        if "\n" in str(error):
            raise Finding(f"an error of several lines: {error}, from {what}") from None
        return "refused"
    answered = 0
    for run in range(RUNS):
        feeds = feeds_of(row, rng)
        try:
            answered += _run(session, program, feeds, run)
        except Finding:
            session = by_onnxruntime(model)  # one that has refused a size may refuse others later
            try:
                answered += _run(session, program, feeds, run)
            except Finding as finding:
                raise Finding(f"{finding}, from {what}, inputs {_text(feeds)}") from None
    return f"{RUNS} runs, {'some' if 0 < answered < RUNS else answered} answered"


def _run(session: Any, program: Any, feeds: Arrays, run: int) -> bool:
    try:
        wanted = session.run(None, feeds)
    except Exception as error:
        wanted, why = None, str(error)
    try:
        results = program.by_name(feeds, threads=1 + run % 2)
    except NumcError as error:
        if "\n" in str(error) or "the program stopped" in str(error):
            raise Finding(f"an error that says nothing: {error}") from None
        if wanted is not None and not _STRICTER.search(str(error)):
            raise Finding(f"numc refuses what onnxruntime computes: {error}") from None
        return False
    if wanted is None and any(result.size for result in results.values()):
        shapes = [list(result.shape) for result in results.values()]
        raise Finding(f"numc computes {shapes} where onnxruntime refuses: {why[-200:]}")
    if wanted is None:  # of results without elements, numc asks less
        return True
    for (name, got), want in zip(results.items(), wanted, strict=True):
        compare(name, got, want)
    return True


def model_of(row: Row, before: str = "", behind: str = "") -> onnx.ModelProto:
    """The model of a row, with a node before its first float input and one behind its first float output."""
    op, rest = row.node.split(" ", 1)
    read, written = (part.strip().split(",") for part in rest.split("->"))
    inputs = {name: text.split(":") for name, text in row.inputs.items()}
    infos = [helper.make_tensor_value_info(n, TYPES[t], [int(d) if d.isdigit() else d for d in s.split(",") if d])
             for n, (t, s, *_) in inputs.items()]  # fmt: skip
    nodes = []
    first = next((n for n, (t, *_) in inputs.items() if t == "f"), None)
    if before and first is not None:
        nodes.append(helper.make_node(before, [first], ["before"]))
        read = ["before" if n == first else n for n in read]
    nodes.append(helper.make_node(op, read, written, "node", **row.attributes))
    given = [n for n in written if n]
    ends = list(zip(given, row.outputs, strict=True))
    if behind and ends[0][1] == "f":
        nodes.append(helper.make_node(behind, [given[0]], ["behind"]))
        ends[0] = ("behind", "f")
    outputs = [helper.make_tensor_value_info(n, TYPES[t], None) for n, t in ends]
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in row.fixed.items()]
    graph = helper.make_graph(nodes, "g", infos, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def feeds_of(row: Row, rng: random.Random) -> Arrays:
    """Inputs of a run: free sizes of one letter are mostly equal, and sizes of 0 and 1 are common."""
    letters: dict[str, int] = {}

    def size(name: str) -> int:
        if name.isdigit():
            return int(name)
        if name.endswith("+"):  # onnxruntime aborts if there are none
            return rng.choice((1, 2, 3))
        common = letters.setdefault(name[0], rng.choice((0, 1, 1, 2, 2, 3, 4, 6, 8)))
        if name == name[0] or rng.random() < 0.8:
            return common
        return rng.choice((0, 1, 1, 2, 3))

    feeds = {}
    for name, text in row.inputs.items():
        dtype, sizes, *values = text.split(":")
        shape = [size(d) for d in sizes.split(",") if d]
        feeds[name] = _draw(values[0] if values else dtype, shape, rng)
    return feeds


def _draw(kind: str, shape: list[int], rng: random.Random) -> np.ndarray:
    """An array of values: "f" and "b" are data; the others are int64 that choose something."""
    count = int(np.prod(shape))
    if kind == "f":
        return np.array([rng.randrange(-24, 24) / 8 for _ in range(count)], np.float32).reshape(shape)
    if kind == "b":
        return np.array([rng.random() < 0.5 for _ in range(count)], np.bool_).reshape(shape)
    usual = {
        "bound": (-70, -2, -1, 0, 1, 2, 3, 5, 60),  # nothing extreme: what fits into memory takes minutes
        "index": (-2, -1, 0, 0, 1, 1, 2, 3, 5),
        "step": (1, 1, 1, 2, -1, -2, 3, 0),
        "size": (0, 1, 1, 2, 2, 3, 4, -1),
        "shape": (-1, -1, 0, 1, 1, 2, 2, 3, 4, 6, -2),
        "pad": (0, 0, 0, 0, 1, 1, 2, -1, 3),
        "image": (1, 1, 1, 2, 3, 5, 0, -1),
    }[kind]
    drawn = [
        rng.choice(EXTREME) if kind != "bound" and rng.random() < 0.04 else rng.choice(usual) for _ in range(count)
    ]
    if kind == "image" and rng.random() < 0.8:
        drawn[:2] = [1, 1]
    return np.array(drawn, np.int64).reshape(shape)


def _text(feeds: Arrays) -> str:
    """Values that choose something, sizes of the others."""
    parts = (f"{n}={a.tolist()}" if a.dtype == np.int64 else f"{n}{list(a.shape)}" for n, a in feeds.items())
    return ", ".join(parts)[:300]


def products(number: int) -> str:
    """Sums of vectors that stretch each other to as many elements as the product of their free sizes."""
    rng = random.Random(f"products {number}")
    count = rng.choice((2, 3, 4))
    ends = rng.choice(("whole", "slice", "matmul", "reshape"))
    program = numc.compile(_stretched(count, ends))
    for run in range(30):
        small = run % 3 == 0
        sizes = [rng.choice((1, 2, 3, 5) if small else (2**16, 2**16, 2**16 - 1, 2**15)) for _ in range(count)]
        if not small and np.prod([float(n) for n in sizes]) < 2**60:
            continue
        feeds = {f"x{n}": np.arange(size, dtype=np.float32) for n, size in enumerate(sizes)}
        try:
            (result,) = program.by_name(feeds).values()
        except NumcError:
            if small:
                raise
            continue
        if not small and ends != "slice":  # a corner can be had without the rest
            raise Finding(f"{ends} of sizes {sizes} gives {list(result.shape)}, which no memory holds")
        vectors = [v[:2] if ends == "slice" else v for v in feeds.values()]
        compare("y", result, _stretched_by_numpy(vectors, ends))
    return "ran"


def _stretched(count: int, ends: str) -> onnx.ModelProto:
    """x0 + x1 + ..., each along a dimension of its own; then nothing, its corner, a product with x0, or one row."""
    nodes, constants = [], {}
    for n in range(count):
        constants[f"a{n}"] = np.array([m for m in range(count) if m != n])
        nodes.append(helper.make_node("Unsqueeze", [f"x{n}", f"a{n}"], [f"u{n}"]))
    terms = [f"u{n}" for n in range(count)]
    while len(terms) > 1:  # in pairs: parts that memory holds become a whole that 64 bits do not count
        one, other, *terms = terms
        terms.append(f"{one}_{other}")
        nodes.append(helper.make_node("Add", [one, other], [terms[-1]]))
    (total,) = terms
    if ends == "slice":
        constants |= {"s": np.zeros(count, np.int64), "e": np.full(count, 2)}
        nodes.append(helper.make_node("Slice", [total, "s", "e"], ["y"]))
    elif ends == "matmul":
        constants |= {"s": np.array([-1, 1]), "w": np.ones((1, 3), np.float32)}
        nodes.append(helper.make_node("Reshape", [total, "s"], ["flat"]))
        nodes.append(helper.make_node("MatMul", ["flat", "w"], ["y"]))
    elif ends == "reshape":
        constants["s"] = np.array([-1])
        nodes.append(helper.make_node("Reshape", [total, "s"], ["y"]))
    else:
        nodes.append(helper.make_node("Identity", [total], ["y"]))
    infos = [helper.make_tensor_value_info(f"x{n}", TensorProto.FLOAT, [f"n{n}"]) for n in range(count)]
    weights = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", infos, [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def _stretched_by_numpy(vectors: list[np.ndarray], ends: str) -> np.ndarray:
    count = len(vectors)
    total = np.zeros([1] * count, np.float32)
    for n, vector in enumerate(vectors):
        total = total + vector.reshape([-1 if m == n else 1 for m in range(count)])
    if ends == "slice":
        return total[(slice(0, 2),) * count]
    if ends == "matmul":
        return total.reshape(-1, 1) @ np.ones((1, 3), np.float32)
    return total.reshape(-1) if ends == "reshape" else total
