"""`bias = first` of a policy: whatever a model adds its bias by, the accumulator starts from it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import numc
from arithmetic_vectorised import first_mismatch

OPERATOR = "fmac(e5m4)"
RNG = np.random.default_rng(0)
X, W, B = (RNG.standard_normal(n).astype(np.float32) for n in ((8, 16), (16, 4), 4))
MODELS = {
    "gemm": [helper.make_node("Gemm", ["x", "w", "b"], ["y"])],
    "product": [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Add", ["t", "b"], ["y"])],
    "bias before": [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Add", ["b", "t"], ["y"])],
}


def model(nodes, shape, weights) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", shape), ("y", None))]
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def policy(bias: str = "") -> str:
    return f"default fma = {OPERATOR}" + (f", bias = {bias}" if bias else "")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shape", [("n", 16), ("n", 4, 16)])
def test_what_is_added_to_a_product(name: str, shape: tuple[str | int, ...]) -> None:
    if name == "gemm" and len(shape) == 3:
        return
    x = X.reshape(-1, *shape[1:])
    want = {
        "first": numc.matmul(X, W, B + np.zeros((8, 1), np.float32), fma=OPERATOR),
        "last": numc.matmul(X, W, fma=OPERATOR) + B,
    }
    assert first_mismatch(want["first"], want["last"]) is not None
    want[""] = want["last"]  # as the model has it
    for bias, values in want.items():
        program = numc.compile(model(MODELS[name], shape, {"w": W, "b": B}), policy=policy(bias))
        got = np.asarray(program(x)).reshape(8, 4)
        assert (found := first_mismatch(got, values)) is None, found
        others = [row["layer"] for row in program.manifest["layers"] if row["position"] is None]
        assert len(others) == (bias != "first")


def test_what_is_no_bias_stays() -> None:
    """Another result of the network, of the same size; a sum that is used twice; the sum of a product and itself."""
    square = RNG.standard_normal((16, 16)).astype(np.float32)
    product = helper.make_node("MatMul", ["x", "w"], ["t"])
    for nodes in (
        [product, helper.make_node("Add", ["t", "x"], ["y"])],
        [product, helper.make_node("Add", ["t", "t"], ["y"])],
        [product, helper.make_node("Add", ["t", "b"], ["s"]), helper.make_node("Mul", ["s", "t"], ["y"])],
        [product, helper.make_node("Relu", ["t"], ["r"]), helper.make_node("Add", ["r", "b"], ["y"])],
    ):
        weights = {"w": square, "b": RNG.standard_normal(16).astype(np.float32)}
        programs = [numc.compile(model(nodes, ("n", 16), weights), policy=policy(bias)) for bias in ("", "first")]
        one, other = (np.asarray(program(X)) for program in programs)
        assert (found := first_mismatch(other, one)) is None, found


def test_a_linear_layer_and_its_training() -> None:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(16, 4)
    layer.load_state_dict({"weight": torch.tensor(W.T.copy()), "bias": torch.tensor(B)})
    want = numc.matmul(X, W, B + np.zeros((8, 1), np.float32), fma=OPERATOR)
    got = numc.compile(layer, (torch.tensor(X),), policy=policy("first"))(X)
    assert (found := first_mismatch(got, want)) is None, found
    step = torch.compile(layer, backend=numc.backend(policy=policy("first")))
    out = step(torch.tensor(X))
    assert (found := first_mismatch(out.detach().numpy(), want)) is None, found
    out.sum().backward()
    assert layer.bias.grad.tolist() == [8.0] * 4
