"""Folding of what computes sizes: in one walk, and equal nodes once."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import parser

import numc
from numc.frontends.onnx.folding import evaluate
from numc.frontends.onnx.folding.evaluate import Reference
from numc.frontends.onnx.folding.fold import fold
from numc.frontends.onnx.prepare import prepare
from numc.frontends.onnx.reading.budget import Budget

HEADER = '<ir_version: 8, opset_import: ["" : 18]>'


def reshapes(count: int) -> onnx.ModelProto:
    """A chain of windows: the sizes of each result follow of a shape that is computed of those of the one before."""
    steps, last = [], "x"
    for n in range(count):
        steps += [
            f"s{n} = Shape({last}) r{n} = Mod(s{n}, three) q{n} = Div(s{n}, two) d{n} = Sub(q{n}, r{n})"
            f" m{n} = Add(d{n}, r{n}) h{n} = Mul(m{n}, two) v{n} = Sub(h{n}, h{n}) t{n} = Add(v{n}, s{n})"
            f" y{n} = Reshape({last}, t{n}) e{n} = Expand(y{n}, t{n})"
        ]
        last = f"e{n}"
    constants = "<int64[1] two = {2}, int64[1] three = {3}>"
    return parser.parse_model(f"{HEADER} g (float[4,6] x) => (float[a,b] out) {constants} {{ {' '.join(steps)} "
                              f"out = Relu({last}) }}")  # fmt: skip


def test_a_chain_of_shapes_is_folded_in_one_walk() -> None:
    model = onnx.shape_inference.infer_shapes(reshapes(5))
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    assert fold(model.graph, constants, model.opset_import, Budget()) == 5 * 8
    assert [node.op_type for node in model.graph.node] == [*["Reshape", "Expand"] * 5, "Relu"]
    assert constants["t4"].tolist() == [4, 6]


@pytest.mark.parametrize(
    "steps",
    [
        "a = Pow(n, half)",  # the side of a square of so many patches
        "l = Log(n) h = Mul(l, half) a = Exp(h)",
        "r = Reciprocal(one) p = Mul(n, r) q = Sqrt(p) a = Clip(q, one, n)",
        "m = Mean(n, n) s = Sum(m, zero) a = Sqrt(s)",
    ],
)
def test_float_arithmetic_that_sizes_are_made_of_is_folded(steps: str) -> None:
    model = parser.parse_model(
        f"{HEADER} g (float[36,5] x) => (float[a,b,c] out)"
        " <float[1] n = {36}, float[1] half = {0.5}, float one = {1}, float[1] zero = {0}, int64[1] rest = {-1}>"
        f" {{ {steps} c = Round(a) i = Cast <to = 7> (c) s1 = Concat <axis = 0> (i, i, rest) out = Reshape(x, s1) }}"
    )
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    fold(model.graph, constants, model.opset_import, Budget())
    assert [node.op_type for node in model.graph.node] == ["Reshape"]
    assert constants["s1"].tolist() == [6, 6, -1]


def test_what_data_decides_stays() -> None:
    text = "(float[4] x) => (int64[a] y) { i = NonZero(x) s = Shape(i) y = Add(s, s) }"
    prepared = prepare(parser.parse_model(f"{HEADER} g {text}"), {})
    assert [node.op_type for node in prepared.model.graph.node] == ["NonZero", "Shape", "Add"]


@pytest.mark.parametrize(
    "read",
    [
        "s = Shape(x) c = Gather(s, one)",
        "s = Shape(x) p = Slice(s, one_list, two) c = Squeeze(p)",
        "c = Shape <start = 1, end = 2> (x)",
        "s = Shape(x) t = Concat <axis = 0> (s, two) u = Unsqueeze(t, zero) c = Gather <axis = 1> (u, one)",
    ],
)
def test_a_fixed_size_beside_free_ones_decides(read: str) -> None:
    """As TorchScript exports squeeze: a branch for sizes of 1, with any number of images."""
    for channels in (1, 2):
        model = parser.parse_model(
            f"{HEADER} g (float[n,{channels},4] x) => (float[] y)"
            " <int64[1] zero = {0}, int64 one = {1}, int64[1] one_list = {1}, int64[1] two = {2}>"
            f" {{ {read} is = Equal(c, one) y = If (is) <"
            " then_branch = t () => (float[] a) { a = Squeeze(x, one_list) },"
            " else_branch = e () => (float[] b) { b = Relu(x) }> }"
        )
        x = np.random.default_rng(0).standard_normal((3, channels, 4)).astype(np.float32)
        want = x[:, 0] if channels == 1 else np.maximum(x, 0)
        np.testing.assert_array_equal(numc.compile(model)(x), want)


def test_equal_nodes_of_small_operands_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    class Counting(evaluate.ReferenceEvaluator):  # type: ignore[misc]
        def __init__(self, graph: onnx.GraphProto, **opsets: dict[str, int]) -> None:
            computed.append(graph.node[0].op_type)
            super().__init__(graph, **opsets)

    monkeypatch.setattr(evaluate, "ReferenceEvaluator", Counting)
    reference = Reference([onnx.helper.make_opsetid("", 18)], budget := Budget())
    ones = np.array([1, 2], np.float16)
    others = {
        "the same": ("Transpose", ones.copy(), {}),
        "another attribute": ("Transpose", ones, {"perm": [0]}),
        "another operator": ("Identity", ones, {}),
        "another dtype of the same bits": ("Transpose", ones.view(ml_dtypes.bfloat16), {}),
        "another shape": ("Transpose", ones.reshape(2, 1), {}),
        "another value": ("Transpose", -ones, {}),
    }
    (first,) = reference.evaluate(onnx.helper.make_node("Transpose", ["x"], ["y"]), {"x": ones}) or []
    for what, (operator, value, attributes) in others.items():
        before = len(computed)
        (found,) = reference.evaluate(onnx.helper.make_node(operator, ["a"], ["b"], **attributes), {"a": value}) or []
        assert len(computed) == before + (what != "the same"), what
        wanted = value.T if operator == "Transpose" else value
        assert found.dtype == wanted.dtype, what
        assert found.tolist() == wanted.tolist(), what
    assert first.tolist() == [1, 2]
    assert budget.made == 7 * 4
    large = {"x": np.zeros(65, np.float32)}
    for _ in range(2):
        reference.evaluate(onnx.helper.make_node("Identity", ["x"], ["y"]), large)
    assert computed[-2:] == ["Identity", "Identity"]
    assert len(computed) == 8
