"""Models of one node with free sizes, and runs of them with sizes and values that ONNX allows or forbids."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

_KINDS = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "n": TensorProto.INT32, "b": TensorProto.BOOL,
          "u": TensorProto.UINT8}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A model of one node.

    node: the operator with its inputs and outputs, such as ``Split x,s -> y,z``. inputs: by name, the type and the
    sizes, such as ``f n 4``. runs: by name, an array, or the sizes of one of small integers, an input at a time.
    judged: by number of a run in which onnxruntime does something else than ONNX, or than numc, whether numc runs it.
    """

    node: str
    inputs: dict[str, str]
    runs: list[tuple[Any, ...]]
    attributes: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    opset: int = 18
    domain: str = ""
    judged: dict[int, bool] = field(default_factory=dict)

    def model(self) -> ModelProto:
        """Return the model. Its results have no declared shapes."""
        operator, rest = self.node.split(" ", 1)
        inputs, outputs = ([name.strip() for name in part.split(",")] for part in rest.split("->"))
        made = helper.make_node(operator, inputs, outputs, name="node", domain=self.domain, **self.attributes)
        stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in self.constants.items()]
        values = []
        for name, text in self.inputs.items():
            kind, *sizes = text.split()
            shape = [int(size) if size.isdigit() else size for size in sizes]
            values.append(helper.make_tensor_value_info(name, _KINDS[kind], shape))
        results = [helper.make_empty_tensor_value_info(name) for name in outputs if name]
        opsets = [helper.make_opsetid("", self.opset), *([helper.make_opsetid(self.domain, 1)] if self.domain else [])]
        return helper.make_model(helper.make_graph([made], "g", values, results, stored), opset_imports=opsets,
                                 ir_version=8)  # fmt: skip

    def feeds(self, run: tuple[Any, ...]) -> dict[str, Any]:
        """Return the values of the inputs of a run."""
        rng = np.random.default_rng(0)
        found = {}
        for (name, text), given in zip(self.inputs.items(), run, strict=True):
            dtype = helper.tensor_dtype_to_np_dtype(_KINDS[text[0]])
            is_shape = isinstance(given, tuple)
            found[name] = (rng.integers(0, 5, given) if is_shape else np.asarray(given)).astype(dtype)
        return found


def _f(*shape: int) -> Any:
    return np.random.default_rng(1).integers(-3, 4, shape).astype(np.float32)


_PADS = [[0, 1, 0, 1], [0, 2, 0, 2], [0, 3, 0, 3], [-1, 0, 0, 0], [0, -1, 0, 2], [-2, 1, 0, 0], [-3, 0, 0, 0]]
_STRETCHED = [((2, 3), (2, 3)), ((2, 3), (1, 3)), ((2, 1), (2, 3)), ((1, 1), (2, 3)), ((2, 3), (1, 1)),
              ((1, 3), (2, 1)), ((2, 3), (3, 3)), ((2, 3), (2, 2))]  # fmt: skip
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _recurrent(operator: str) -> dict[str, Case]:
    gates = _GATES[operator]
    weights = {"w": _f(1, 4 * gates, 3) / 8, "r": _f(1, 4 * gates, 4) / 8}
    hidden = {"hidden_size": 4}
    lengths = ([5, 3], [0, 5], [5, 5], [-1, 5], [6, 5], [5], [5, 5, 5])
    return {
        f"{operator}-lengths": Case(
            f"{operator} x,w,r,,l -> y",
            {"x": "f s n 3", "l": "n m"},
            [((5, 2, 3), each) for each in lengths],
            hidden,
            weights,
        ),
        f"{operator}-bias": Case(
            f"{operator} x,w,r,b -> y",
            {"x": "f s n 3", "b": "f d k"},
            [((5, 2, 3), (1, k)) for k in (8 * gates, 8 * gates + 1, 4 * gates, 1)],
            hidden,
            weights,
        ),
    }


CASES: dict[str, Case] = {
    **{
        operator: Case(f"{operator} x,z -> y", {"x": "f a b", "z": "f c d"}, list(_STRETCHED))
        for operator in ("Add", "Mul", "Sub", "Max", "Less", "Mean", "Pow")
    },
    "PRelu": Case("PRelu x,z -> y", {"x": "f a b", "z": "f c d"}, [_STRETCHED[n] for n in (0, 1, 4, 6, 7)]),
    "And": Case("And x,z -> y", {"x": "b a b", "z": "b c d"}, list(_STRETCHED)),
    "Where": Case(
        "Where c,x,z -> y",
        {"c": "b a b", "x": "f c d", "z": "f e g"},
        [
            ((2, 3), (2, 3), (2, 3)),
            ((1, 3), (2, 1), (2, 3)),
            ((2, 1), (1, 3), (1, 1)),
            ((3, 3), (2, 3), (2, 3)),
            ((1, 1), (2, 3), (1, 3)),
            ((2, 3), (2, 2), (2, 3)),
        ],
    ),
    "Add-fixed": Case("Add x,z -> y", {"x": "f a", "z": "f 3"}, [((3,), (3,)), ((1,), (3,)), ((2,), (3,))]),
    "MatMul": Case(
        "MatMul x,z -> y",
        {"x": "f e a b", "z": "f g c d"},
        [
            ((2, 2, 3), (2, 3, 4)),
            ((1, 2, 3), (2, 3, 4)),
            ((2, 2, 3), (1, 3, 4)),
            ((3, 2, 3), (2, 3, 4)),
            ((2, 2, 3), (2, 2, 4)),
        ],
    ),
    "Expand": Case(
        "Expand x,s -> y",
        {"x": "f a b", "s": "i 2"},
        [
            ((2, 3), [2, 3]),
            ((1, 3), [4, 1]),
            ((2, 1), [2, 5]),
            ((2, 3), [3, 3]),
            ((2, 3), [-1, 3]),
            ((5, 3), [3, 3]),
            ((1, 3), [0, 3]),
            ((2, 3), [1, -2]),
        ],
    ),
    "Expand-longer": Case("Expand x,s -> y", {"x": "f a b", "s": "i 3"}, [((1, 3), [2, 4, 1]), ((2, 3), [2, 4, 3])]),
    "Split": Case(
        "Split x,s -> y,z",
        {"x": "f a 4", "s": "i 2"},
        [((5, 4), each) for each in ([2, 3], [0, 5], [5, 0], [2, 2], [3, 3], [-1, 6], [6, -1], [2**62, 5 - 2**62])],
        {"axis": 0},
    ),
    "Split-equal": Case("Split x -> y,z", {"x": "f a 4"}, [((n, 4),) for n in (6, 7, 1)], {"axis": 0}, opset=11),
    "Split-rest": Case("Split x -> y,z", {"x": "f a 4"}, [((n, 4),) for n in (6, 7, 3)], {"axis": 0, "num_outputs": 2}),
    "Reshape": Case(
        "Reshape x,s -> y", {"x": "f a 6"}, [((n, 6),) for n in (4, 1, 2, 8)], constants={"s": np.array([4, 6])}
    ),
    "Reshape-rest": Case(
        "Reshape x,s -> y",
        {"x": "f a b"},
        [(s,) for s in ((2, 6), (2, 5), (3, 1), (1, 1))],
        constants={"s": np.array([-1, 3])},
    ),
    "Reshape-kept": Case(
        "Reshape x,s -> y",
        {"x": "f a b"},
        [(s,) for s in ((2, 6), (3, 6), (2, 5))],
        constants={"s": np.array([0, 2, 3])},
    ),
    "STFT": Case(
        "STFT x,step,,frame -> y",
        {"x": "f b n 1"},
        [((2, n, 1),) for n in (8, 20, 9, 7, 1, 0)],
        constants={"step": np.int64(3), "frame": np.int64(8)},
    ),
    "STFT-window": Case(
        "STFT x,step,w -> y",
        {"x": "f b n 2"},
        [((1, n, 2),) for n in (5, 12, 4, 0)],
        {"onesided": 0},
        constants={"step": np.int64(4), "w": np.float32([1, 2, 3, 2, 1])},
    ),
    "Tile": Case(
        "Tile x,s -> y",
        {"x": "f a 3", "s": "i 2"},
        [((2, 3), each) for each in ([3, 2], [1, 1], [0, 2], [2, 0], [-3, 2], [-1, -1])],
    ),
    "OneHot": Case(
        "OneHot i,d,v -> y",
        {"i": "i 3", "d": "i 1", "v": "f n"},
        [
            ([0, 1, 9], [5], (2,)),
            ([0, 1, 9], [5], (3,)),
            ([0, 1, 9], [5], (1,)),
            ([0, 1, 2], [0], (2,)),
            ([0, 1, 2], [-1], (2,)),
        ],
    ),
    "Range": Case(
        "Range a,b,c -> y",
        {"a": "i", "b": "i", "c": "i"},
        [
            *((0, 5, 1), (5, 0, 1), (0, 5, -1), (5, 0, -2), (3, 3, 1), (0, 5, 0), (-(2**63), 2**63 - 1, 2**62)),
            *((-(2**62), 2**62, -1), (2**62, -(2**62) - 5, 3)),
        ],
        judged={6: False},
    ),
    "Range-floats": Case(
        "Range a,b,c -> y", {"a": "f", "b": "f", "c": "f"}, [(0, 5, 1), (5, 0, 1), (0, 5, -1), (5, 0, -2), (0, 5, 0)]
    ),
    "TopK": Case("TopK x,k -> v,i", {"x": "f a b", "k": "i 1"}, [((2, 6), [k]) for k in (3, 6, 7, -1)]),
    "Trilu": Case(
        "Trilu x,k -> y", {"x": "f a b", "k": "i"}, [((3, 4), k) for k in (0, -5, 5, 2**62, -(2**63), 2**63 - 1)]
    ),
    "Compress": Case(
        "Compress x,c -> y",
        {"x": "f a 4", "c": "b n"},
        [((3, 4), np.array(c)) for c in ([1, 0, 1], [1], [1, 1, 1, 1], [0, 1, 0, 1, 1])],
        {"axis": 0},
    ),
    "Compress-flat": Case(
        "Compress x,c -> y",
        {"x": "f a 4", "c": "b n"},
        [((1, 4), np.array(c)) for c in ([1, 0, 1], [1] * 4, [0, 1, 1, 1, 1, 1])],
    ),
    **{
        f"Pad-{mode}": Case(
            "Pad x,p -> y", {"x": "f a b", "p": "i 4"}, [((2, 3), each) for each in _PADS], {"mode": mode}, opset=19
        )
        for mode in ("constant", "reflect", "edge", "wrap")
    },
    "Pad-known": Case(
        "Pad x,p -> y",
        {"x": "f a b"},
        [((2, n),) for n in (3, 2, 1)],
        {"mode": "reflect"},
        {"p": np.array([0, 2, 0, 2])},
    ),
    "Conv-kernel": Case(
        "Conv x,w -> y",
        {"x": "f n 3 h v", "w": "f 4 3 p q"},
        [((1, 3, 5, 5), (4, 3, k, k)) for k in (3, 2, 4)],
        {"kernel_shape": [3, 3]},
    ),
    "Conv-channels": Case(
        "Conv x,w,b -> y",
        {"x": "f n c h v", "w": "f m k 3 3", "b": "f l"},
        [((1, c, 5, 5), (4, k, 3, 3), (b,)) for c, k, b in ((2, 2, 4), (4, 2, 4), (2, 2, 3), (2, 2, 1))],
        {"kernel_shape": [3, 3]},
    ),
    "ConvTranspose": Case(
        "ConvTranspose x,w -> y",
        {"x": "f n c h v", "w": "f i 4 3 3"},
        [((1, 3, 4, 4), (i, 4, 3, 3)) for i in (3, 2, 1)],
        {"kernel_shape": [3, 3]},
    ),
    "MaxUnpool": Case(
        "MaxUnpool x,i -> y",
        {"x": "f 1 1 2 2", "i": "i 1 1 2 2"},
        [((1, 1, 2, 2), [[[[0, 2], [8, n]]]]) for n in (10, 16, -1)],
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    "Resize": Case(
        "Resize x,,,s -> y",
        {"x": "f 1 1 a b", "s": "i 4"},
        [((1, 1, 3, 3), [1, 1, h, 6]) for h in (6, 0, -1)],
        {"mode": "nearest"},
    ),
    "DepthToSpace": Case(
        "DepthToSpace x -> y", {"x": "f n c h v"}, [((1, c, 2, 3),) for c in (4, 8, 3, 6)], {"blocksize": 2}
    ),
    "SpaceToDepth": Case(
        "SpaceToDepth x -> y",
        {"x": "f n c h v"},
        [((1, 1, h, v),) for h, v in ((4, 4), (3, 4), (4, 5))],
        {"blocksize": 2},
    ),
    "GridSample": Case(
        "GridSample x,g -> y",
        {"x": "f n 1 a b", "g": "f m 2 2 2"},
        [((n, 1, 4, 4), np.full((m, 2, 2, 2), 0.5)) for n, m in ((1, 1), (2, 2), (1, 2), (2, 1))],
    ),
    "RoiAlign": Case(
        "RoiAlign x,r,b -> y",
        {"x": "f n 1 6 6", "r": "f k 4", "b": "i m"},
        [((2, 1, 6, 6), np.array([[0, 0, 4, 4]] * 2), b) for b in ([0, 1], [1, 2], [0, -1], [0])],
        {"output_height": 2, "output_width": 2, "sampling_ratio": 2},
    ),
    **{
        f"ScatterElements-{how}": Case(
            "ScatterElements x,i,u -> y",
            {"x": "f a b", "i": "i n m", "u": "f p q"},
            [
                ((3, 4), i, u)
                for i, u in (
                    ([[0, 2]], (1, 2)),
                    ([[-1, 0]], (1, 2)),
                    ([[3, 0]], (1, 2)),
                    ([[0, 2]], (1, 3)),
                    ([[0, 2]], (2, 2)),
                )
            ],
            {"axis": 0, "reduction": how},
        )
        for how in ("none", "add")
    },
    **{
        f"ScatterND-{how}": Case(
            "ScatterND x,i,u -> y",
            {"x": "f a b", "i": "i n 1", "u": "f p q"},
            [
                ((3, 4), i, u)
                for i, u in (
                    ([[0], [2]], (2, 4)),
                    ([[3]], (1, 4)),
                    ([[0], [2]], (1, 4)),
                    ([[0], [2]], (3, 4)),
                    ([[0], [2]], (2, 5)),
                )
            ],
            {"reduction": how},
        )
        for how in ("none", "max")
    },
    **{
        f"{operator} of nothing": Case(
            f"{operator} x -> y",
            {"x": "f n 1 h w"},
            [(shape,) for shape in ((1, 1, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0), (0, 1, 1, 1))],
            {"kernel_shape": [3, 3], "strides": [3, 3], "pads": [2, 2, 2, 2]},
        )
        for operator in ("MaxPool", "AveragePool")
    },
    "ScatterND of nothing": Case(
        "ScatterND x,i,u -> y",
        {"x": "f a b", "i": "i n 1", "u": "f p q"},
        [((3, 0), [[n]], (1, 0)) for n in (2, -3, 3, -4)],
    ),
    "Attention": Case(
        "Attention q,k,v,m -> y",
        {"q": "f 1 2 3 4", "k": "f 1 2 t 4", "v": "f 1 2 t 4", "m": "f 3 w"},
        [((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4), (3, width)) for width in (5, 4, 6, 1)],
        opset=23,
    ),
    "Attention-padded": Case(
        "Attention q,k,v,m -> y",
        {"q": "f 1 2 3 4", "k": "f 1 2 t 4", "v": "f 1 2 t 4", "m": "f 3 w"},
        [((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4), (3, 6))],
        opset=24,
        judged={0: False},
    ),
    "GatherElements": Case(
        "GatherElements x,i -> y",
        {"x": "f a b", "i": "i n m"},
        [((3, 4), i) for i in ([[0, 2]], [[3, 0]], [[0] * 5], [[0]] * 4)],
        {"axis": 0},
    ),
    "GatherND": Case(
        "GatherND x,i -> y",
        {"x": "f a b", "i": "i n 1"},
        [((2, 3), i) for i in ([[0], [2]], [[3], [0]], [[0]], [[0], [1], [2]])],
        {"batch_dims": 1},
    ),
    "TensorScatter": Case(
        "TensorScatter x,u,w -> y",
        {"x": "f n s 4", "u": "f n k 4", "w": "i n"},
        [((2, 5, 4), (2, 2, 4), w) for w in ([0, 3], [4, 0], [-1, 0])],
        {"axis": 1},
        opset=24,
    ),
    **{name: case for operator in _GATES for name, case in _recurrent(operator).items()},
    "LSTM-state": Case(
        "LSTM x,w,r,,,h -> y",
        {"x": "f s n 3", "h": "f d m k"},
        [((5, 2, 3), s) for s in ((1, 2, 4), (1, 1, 4), (2, 2, 4), (1, 2, 1))],
        {"hidden_size": 4},
        {"w": _f(1, 16, 3) / 8, "r": _f(1, 16, 4) / 8},
    ),
    "ReverseSequence": Case(
        "ReverseSequence x,l -> y",
        {"x": "f t n", "l": "i m"},
        [((4, 2), each) for each in ([4, 1], [0, 2], [5, 1], [-1, 1], [2], [1, 1, 1])],
    ),
    "NonMaxSuppression": Case(
        "NonMaxSuppression b,s,m,i -> y",
        {"b": "f 1 k 4", "s": "f 1 2 l", "m": "i 1", "i": "f 1"},
        [
            (np.arange(20).reshape(1, 5, 4), (1, 2, n), [3], [i])
            for n, i in ((5, 0.5), (4, 0.5), (6, 0.5), (5, 2), (5, -1), (5, np.nan))
        ],
    ),
    "Einsum": Case(
        "Einsum x,z -> y",
        {"x": "f a b", "z": "f c d"},
        [((2, 3), (3, 4)), ((2, 1), (3, 4)), ((2, 3), (1, 4)), ((2, 3), (2, 4))],
        {"equation": "ij,jk->ik"},
    ),
    "Einsum-sum": Case(
        "Einsum x,z -> y",
        {"x": "f a b", "z": "f c d"},
        [((3, 2), (3, 2)), ((3, 2), (2, 3)), ((3, 1), (3, 2))],
        {"equation": "ij,ij->"},
    ),
    "Einsum-diagonal": Case(
        "Einsum x -> y", {"x": "f a b"}, [(s,) for s in ((3, 3), (3, 2), (2, 3), (1, 3))], {"equation": "ii->i"}
    ),
    "Einsum-stack": Case(
        "Einsum x,z -> y",
        {"x": "f e a b", "z": "f g c d"},
        [((2, 3, 3), (2, 3, 3)), ((1, 3, 3), (2, 3, 3)), ((3, 3, 3), (2, 3, 3))],
        {"equation": "...ij,...jk->...ik"},
    ),
    "Det": Case("Det x -> y", {"x": "f n a b"}, [(s,) for s in ((2, 3, 2), (2, 2, 3), (1, 5, 1), (1, 1, 5))]),
    "Squeeze": Case("Squeeze x,a -> y", {"x": "f n m"}, [((1, 3),), ((2, 3),)], constants={"a": np.array([0])}),
    "Clip": Case("Clip x,a,b -> y", {"x": "f n", "a": "f", "b": "f"}, [((4,), 1, 3), ((4,), 3, 1)]),
    "BatchNormalization": Case(
        "BatchNormalization x,s,b,m,v -> y",
        {"x": "f n c h", "s": "f k", "b": "f k", "m": "f k", "v": "f l"},
        [((2, c, 3), (k,), (k,), (k,), np.ones(v)) for c, k, v in ((3, 3, 3), (3, 1, 1), (3, 2, 2), (3, 3, 4))],
    ),
    "LayerNormalization": Case(
        "LayerNormalization x,s -> y",
        {"x": "f n c", "s": "f k"},
        [((2, c), (k,)) for c, k in ((4, 4), (4, 3))],
        opset=17,
    ),
    "Quantize": Case(
        "QuantizeLinear x,s,z -> y",
        {"x": "f a b", "s": "f k", "z": "u l"},
        [((2, 3), np.ones(k), np.ones(z)) for k, z in ((3, 3), (1, 1), (1, 3), (3, 1), (2, 2))],
        {"axis": 1},
    ),
    "Loss": Case(
        "NegativeLogLikelihoodLoss x,t -> y",
        {"x": "f n c", "t": "i m"},
        [((3, 4), t) for t in ([0, 1, 3], [0, 1, 4], [0, -5, 3], [0, 1])],
        {"reduction": "none"},
        judged={3: False},
    ),
    "BiasGelu": Case(
        "BiasGelu x,b -> y",
        {"x": "f n c", "b": "f k"},
        [((2, c), (k,)) for c, k in ((4, 4), (4, 1), (4, 3))],
        domain="com.microsoft",
    ),
    "SkipLayerNormalization": Case(
        "SkipLayerNormalization x,s,g -> y",
        {"x": "f a t 8", "s": "f c u 8", "g": "f k"},
        [((2, 3, 8), s, (k,)) for s, k in (((2, 3, 8), 8), ((1, 3, 8), 8), ((2, 2, 8), 8), ((2, 3, 8), 1))],
        domain="com.microsoft",
    ),
    "EmbedLayerNormalization": Case(
        "EmbedLayerNormalization i,g,w,p,s,a,b -> y,m",
        {"i": "n b t", "g": "n b t"},
        [
            ([i], [g])
            for i, g in (
                ([0, 5], [0, 1]),
                ([0, 6], [0, 1]),
                ([-1, 5], [0, 1]),
                ([0, 5], [0, 2]),
                ([0, 5], [-1, 0]),
                ([0] * 5, [0] * 5),
            )
        ],
        constants={"w": _f(6, 8), "p": _f(4, 8), "s": _f(2, 8), "a": _f(8), "b": _f(8)},
        domain="com.microsoft",
    ),
    "MultiHeadAttention": Case(
        "MultiHeadAttention q,k,v -> y",
        {"q": "f b s 8", "k": "f c t 8", "v": "f d u 8"},
        [((1, 3, 8), (1, t, 8), (1, u, 8)) for t, u in ((3, 3), (4, 4), (4, 3), (3, 4))],
        {"num_heads": 2},
        domain="com.microsoft",
    ),
    "RotaryEmbedding": Case(
        "RotaryEmbedding x,p,c,s -> y",
        {"x": "f b t 8", "p": "i b t"},
        [((1, 2, 8), [p]) for p in ([0, 1], [2, 3], [0, 4], [-1, 0])],
        constants={"c": _f(4, 4), "s": _f(4, 4)},
        domain="com.microsoft",
    ),
    "ArrayFeatureExtractor": Case(
        "ArrayFeatureExtractor x,i -> y",
        {"x": "f n c", "i": "i k"},
        [((2, 4), i) for i in ([0, 3], [4], [-1])],
        domain="ai.onnx.ml",
    ),
    "Scaler": Case(
        "Scaler x -> y",
        {"x": "f n c"},
        [((2, c),) for c in (3, 1, 4)],
        {"offset": [0.0, 1.0, 2.0], "scale": [1.0, 2.0, 1.0]},
        domain="ai.onnx.ml",
    ),
}
