"""ONNX import: what comes out, and what happens to files that are wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

import numc
from numc.frontends import mlir as mlir_frontend
from numc.frontends.imported import Argument, Imported
from numc.frontends.onnx import load as frontend
from numc.frontends.onnx.diagnose import explain
from numc.frontends.onnx.prepare import prepare
from numc.frontends.workers import process
from numc.support.errors import NumcError

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits"
MODELS = ROOT / "examples" / "models"

Maker = Callable[..., Path]


def value(name: str, shape: list[int | str], dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


@pytest.fixture
def save(tmp_path: Path) -> Maker:
    def make(nodes, inputs, outputs, initializers=(), opset: int = 18, domains=(), ir_version: int = 8) -> Path:  # type: ignore[no-untyped-def]
        graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
        opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
        file = tmp_path / "model.onnx"
        file.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=ir_version).SerializeToString())
        return file

    return make


def error(path: Path, **options: object) -> str:
    with pytest.raises(NumcError) as caught:
        frontend.load(path, **options)  # type: ignore[arg-type]
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


# What comes out.


@pytest.fixture(scope="module")
def mlp() -> Imported:
    return frontend.load(DIGITS / "mlp.onnx")


def test_inputs_outputs_and_weights_of_the_mlp(mlp: Imported) -> None:
    assert mlp.inputs == (Argument("x", "float32", (-1, 64), ("batch", "")),)
    assert [str(a) for a in mlp.outputs] == ["logits: float32[?, 10]"]
    # The last bias has ten elements and stays a constant.
    assert [(i, v.shape) for i, (_, v) in mlp.weights.items()] == [
        (1, (128, 64)), (2, (128,)), (3, (64, 128)), (4, (64,)), (5, (10, 64)),
    ]  # fmt: skip
    assert mlp.sources == (str(DIGITS / "mlp.onnx"),)


def test_weights_have_the_values_in_the_file(mlp: Imported) -> None:
    stored = {t.name: numpy_helper.to_array(t) for t in onnx.load(DIGITS / "mlp.onnx").graph.initializer}
    for name, array in mlp.weights.values():
        np.testing.assert_array_equal(array, stored[name])


def test_main_takes_inputs_then_weights(mlp: Imported) -> None:
    (line,) = [line for line in mlp.mlir.splitlines() if "func.func" in line]
    types = [part.split(" loc(")[0] for part in line.split("%arg")[1:]]
    assert [t.split("tensor<")[1].split(">")[0] for t in types] == [
        "?x64xf32", "128x64xf32", "128xf32", "64x128xf32", "64xf32", "10x64xf32",
    ]  # fmt: skip
    assert "@main" in line
    assert "torch." not in mlp.mlir.replace("torch.assume_strict_symbolic_shapes", "").replace("torch.onnx_meta", "")


def test_contractions_are_located_at_their_nodes(mlp: Imported) -> None:
    aliases = dict(line.split(" = ", 1) for line in mlp.mlir.splitlines() if line.startswith("#loc"))
    found = [
        aliases[line.rsplit("loc(", 1)[1].rstrip(")")] for line in mlp.mlir.splitlines() if "linalg.matmul" in line
    ]
    gemms = [name for name, op in mlp.nodes.items() if op == "Gemm"]
    assert found == [f'loc("{name}")' for name in gemms]
    assert len(gemms) == 3


def test_shapes_fix_dynamic_sizes() -> None:
    fixed = frontend.load(DIGITS / "mlp.onnx", fixed={"x": (7, 64)})
    assert fixed.inputs[0].shape == (7, 64)
    assert fixed.outputs[0].shape == (7, 10)
    assert "?" not in fixed.mlir


def test_a_model_in_memory_is_what_its_file_is() -> None:
    file, model = DIGITS / "mlp.onnx", onnx.load(DIGITS / "mlp.onnx")
    x = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    np.testing.assert_array_equal(numc.compile(model, fma="bf16_1_2")(x), numc.compile(file, fma="bf16_1_2")(x))
    assert numc.compile(model, shapes={"x": (7, 64)}).inputs[0].shape == (7, 64)
    assert [row["fma"] for row in numc.explain(model, fma="mp").layers if row["fma"]] == ["mp"] * 3
    assert numc.cost(model, fma="mp").costs == numc.cost(file, fma="mp").costs
    for call in (numc.compile, numc.explain):
        with pytest.raises(NumcError, match="^ModelProto: "):
            call(model, (x,))
    model.graph.node[0].op_type = "Gem"
    with pytest.raises(NumcError, match=r"^ModelProto: 1 node cannot be compiled: node 'node_linear' .Gem,"):
        numc.compile(model)
    set_external_data(model.graph.initializer[0], "weights.bin")
    with pytest.raises(NumcError, match=r"^ModelProto: weights of '0.weight' are in another file: read them with onnx"):
        numc.compile(model)


def test_sizes_that_contradict_each_other_are_named(save: Maker) -> None:
    """What follows from them has no rank, which is not what is wrong."""
    nodes = [helper.make_node("Concat", ["a", "b"], ["c"], name="both", axis=0), helper.make_node("Relu", ["c"], ["y"])]
    outputs = [helper.make_empty_tensor_value_info("y")]
    text = error(save(nodes, [value("a", [2, 3]), value("b", ["n", 4])], outputs))
    assert text == (
        "1 node cannot be compiled: node 'both' (Concat, opset 18): its inputs contradict each other: "
        "'a' has sizes [2, 3], 'b' has sizes [?, 4]"
    )


def test_one_symbol_is_fixed_everywhere(save: Maker) -> None:
    file = save([helper.make_node("Add", ["a", "b"], ["c"])], [value("a", ["n", 4]), value("b", ["n", 4])],
                [value("c", ["n", 4])])  # fmt: skip
    result = frontend.load(file, fixed={"a": (3, 4)})
    assert [a.shape for a in (*result.inputs, *result.outputs)] == [(3, 4)] * 3
    assert error(file, fixed={"a": (3, 4), "b": (5, 4)}).startswith("shapes: 'n' would be 3 (in 'a') and 5 (in 'b')")


@pytest.mark.parametrize("name", ["digits/cnn", "models/transformer", "models/lstm", "models/gru"])
def test_examples_lower_without_checks_at_run_time(name: str) -> None:
    result = frontend.load(ROOT / "examples" / f"{name}.onnx")
    assert "linalg." in result.mlir
    assert "cf.assert" not in result.mlir
    batch = 2 if name == "models/gru" else -1
    assert result.inputs[0].shape[0] == result.outputs[0].shape[0] == batch


def test_float_constants_of_64_elements_become_arguments(save: Maker) -> None:
    # One as initialiser listed among the inputs (IR version 3), one as Constant node, one generated, one too small.
    big = np.arange(64, dtype=np.float32)
    nodes = [
        helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(big + 1)),
        helper.make_node("ConstantOfShape", ["s"], ["z"], value=numpy_helper.from_array(np.float32([2.5]))),
        helper.make_node("Add", ["x", "w"], ["a"]),
        helper.make_node("Mul", ["a", "k"], ["b"]),
        helper.make_node("Sub", ["b", "z"], ["c"]),
        helper.make_node("Reshape", ["c", "r"], ["d"]),
        helper.make_node("Add", ["d", "small"], ["y"]),
    ]
    weights = [
        numpy_helper.from_array(big, "w"),
        numpy_helper.from_array(np.array([64]), "s"),
        numpy_helper.from_array(np.array([1, 1, 64]), "r"),
        numpy_helper.from_array(np.ones((1, 1, 1), np.float32), "small"),
    ]
    inputs = [value("x", [64]), value("w", [64]), value("s", [1], TensorProto.INT64)]
    result = frontend.load(save(nodes, inputs, [value("y", [1, 1, 64])], weights, opset=9, ir_version=3))
    assert [a.name for a in result.inputs] == ["x"]
    found = dict(result.weights.values())
    assert sorted(found) == ["k", "w", "z"]
    np.testing.assert_array_equal(found["k"], big + 1)
    np.testing.assert_array_equal(found["z"], np.full(64, 2.5, np.float32))


def test_float_arithmetic_on_constants_is_not_folded(save: Maker) -> None:
    big = numpy_helper.from_array(np.ones(64, np.float32), "w")
    nodes = [helper.make_node("Mul", ["w", "w"], ["v"]), helper.make_node("Add", ["x", "v"], ["y"])]
    result = frontend.load(save(nodes, [value("x", [64])], [value("y", [64])], [big]))
    assert "arith.mulf" in result.mlir
    assert [name for name, _ in result.weights.values()] == ["w"]


def test_nodes_without_a_name_are_called_by_their_output(save: Maker) -> None:
    nodes = [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Log", ["e"], ["y"], name="e")]
    result = frontend.load(save(nodes, [value("x", [4])], [value("y", [4])]))
    assert dict(result.nodes) == {"e": "Exp", "y": "Log"}


def test_integer_inputs_are_allowed(save: Maker) -> None:
    table = numpy_helper.from_array(np.ones((10, 8), np.float32), "table")
    file = save([helper.make_node("Gather", ["table", "ids"], ["y"])], [value("ids", ["n"], TensorProto.INT64)],
                [value("y", ["n", 8])], [table])  # fmt: skip
    result = frontend.load(file)
    assert str(result.inputs[0]) == "ids: int64[?]"
    assert result.weights[1][1].shape == (10, 8)


def test_the_importer_is_not_loaded_into_the_caller() -> None:
    code = "import sys, numc.frontends.onnx.load; print(sorted({'onnx', 'torch_mlir', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": str(ROOT / "src")})  # fmt: skip
    assert done.stdout.strip() == "[]"


# Files that are wrong.


def test_no_such_file(tmp_path: Path) -> None:
    assert error(tmp_path / "no.onnx") == "no such file: want an ONNX model"
    assert error(tmp_path) == "is a directory: want an ONNX model"


@pytest.mark.parametrize("data", [b"hello, world\n" * 9, b"\x7fELF\x02\x01\x01" + bytes(99)])
def test_not_onnx(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "x.onnx"
    file.write_bytes(data)
    assert error(file).startswith("not an ONNX model")


def test_empty_file(tmp_path: Path) -> None:
    file = tmp_path / "x.onnx"
    file.write_bytes(b"")
    assert error(file) == "empty file: want an ONNX model"


def test_truncated(tmp_path: Path) -> None:
    file = tmp_path / "x.onnx"
    file.write_bytes((DIGITS / "mlp.onnx").read_bytes()[:-1000])
    assert error(file) == "not an ONNX model, or truncated or damaged: it does not parse; export it again"


def test_missing_external_weights(tmp_path: Path) -> None:
    model = onnx.load(DIGITS / "mlp.onnx")
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=1000)
    loaded = frontend.load(tmp_path / "m.onnx")
    assert loaded.sources == (str(tmp_path / "m.onnx"), str(tmp_path / "m.bin"))
    (tmp_path / "m.bin").unlink()
    text = error(tmp_path / "m.onnx")
    assert "are in the file 'm.bin', which is not in" in text
    assert text.endswith("; put it next to the model")


def test_weights_shorter_than_their_shape(save: Maker) -> None:
    weight = numpy_helper.from_array(np.ones(64, np.float32), "w")
    weight.raw_data = weight.raw_data[:100]
    file = save([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [64])], [value("y", [64])], [weight])
    assert error(file) == "initialiser 'w' is damaged: its shape [64] needs 256 bytes, found 100"


def test_all_unknown_operators_are_listed(save: Maker) -> None:
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], name="first"),
        helper.make_node("Rope", ["a"], ["b"], name="second", domain="com.example"),
        helper.make_node("Relu", ["b"], ["c"], name="fine"),
        helper.make_node("Gelu", ["c"], ["y"], name="third"),
    ]
    file = save(nodes, [value("x", [4])], [value("y", [4])], domains=["com.example"])
    assert error(file) == (
        "3 nodes cannot be compiled: node 'first' (Frobnicate, opset 18): opset 18 has no such operator; "
        "node 'second' (Rope, opset 1): operators of domain 'com.example' are not available; "
        "node 'third' (Gelu, opset 18): opset 18 has no such operator"
    )


def test_all_nodes_that_do_not_lower_are_listed(save: Maker) -> None:
    nodes = [
        helper.make_node("MaxRoiPool", ["x", "b"], ["d"], name="once", pooled_shape=[2, 2]),
        helper.make_node("Relu", ["v"], ["r"], name="fine"),
        helper.make_node("MaxRoiPool", ["x", "b"], ["e"], name="twice", pooled_shape=[2, 2]),
    ]
    inputs = [value("x", [1, 1, 6, 6]), value("b", [1, 5]), value("v", [8])]
    text = error(save(nodes, inputs, [value("d", [1, 1, 2, 2]), value("r", [8]), value("e", [1, 1, 2, 2])]))
    assert text == ("2 nodes cannot be compiled: nodes 'once', 'twice' (MaxRoiPool, opset 18): numc has no conversion "
                    "of it for float, pooled_shape=[2, 2]")  # fmt: skip


def test_sums_without_an_element_itself_are_no_differences(save: Maker) -> None:
    axis = numpy_helper.from_array(np.int64(0), "a")
    nodes = [helper.make_node("CumSum", ["x", "a"], [f"y{n}"], exclusive=1, reverse=n) for n in (0, 1)]
    found = numc.compile(save(nodes, [value("x", ["n"])], [value("y0", ["n"]), value("y1", ["n"])], [axis]))
    results = found(np.float32([1, 1e8, -3e38, np.inf]))
    assert results["y0"].tolist() == np.float32([0, 1, 1e8, -3e38]).tolist()
    assert results["y1"].tolist() == [np.inf, np.inf, np.inf, 0]


def test_means_of_integers_do_not_overflow(save: Maker) -> None:
    largest = 2**31 - 1
    file = save([helper.make_node("ReduceMean", ["x"], ["y"])], [value("x", [3], TensorProto.INT32)],
                [value("y", [1], TensorProto.INT32)])  # fmt: skip
    assert numc.compile(file)(np.int32([largest, largest, -1])).tolist() == [(2 * largest - 1) // 3]


def test_fixed_sizes_that_contradict_each_other(save: Maker) -> None:
    shape = numpy_helper.from_array(np.array([4, 5]), "s")
    parts = numpy_helper.from_array(np.array([2, 2]), "p")
    nodes = [
        helper.make_node("Add", ["a", "b"], ["c"], name="sum"),
        helper.make_node("MatMul", ["a", "v"], ["d"], name="product"),
        helper.make_node("Reshape", ["a", "s"], ["e"], name="other"),
    ]
    inputs = [value("a", [2, 3]), value("b", [4]), value("v", [4, 5])]
    outputs = [value(name, ["k", "l"]) for name in "cde"]
    assert error(save(nodes, inputs, outputs, [shape])) == (
        "3 nodes cannot be compiled: "
        "node 'other' (Reshape, opset 18): a reshape to [4, 5] does not keep the number of elements: "
        "'a' has sizes [2, 3]; "
        "node 'sum' (Add, opset 18): its inputs contradict each other: 'a' has sizes [2, 3], 'b' has sizes [4]; "
        "node 'product' (MatMul, opset 18): its inputs contradict each other: "
        "'a' has sizes [2, 3], 'v' has sizes [4, 5]"
    )
    node = helper.make_node("Split", ["x", "p"], ["y", "z"], name="cut")
    assert error(save([node], [value("x", [5])], [value("y", ["k"]), value("z", ["l"])], [parts])) == (
        "1 node cannot be compiled: node 'cut' (Split, opset 18): "
        "the parts of a split do not add up to the whole: 'x' has sizes [5], 'p' is [2, 2]"
    )


def test_branches_of_different_ranks(save: Maker) -> None:
    """As exporters write a squeeze of a free size: what reads the result has no known rank, which is not its fault."""
    axis = onnx.numpy_helper.from_array(np.array([0]), "a")
    flat = helper.make_graph([helper.make_node("Squeeze", ["x", "a"], ["r"])], "b", [], [value("r", ["k", "l"])])
    whole = helper.make_graph([helper.make_node("Identity", ["x"], ["r"])], "b", [], [value("r", [1, "k", "l"])])
    node = helper.make_node("If", ["c"], ["y"], name="choice", then_branch=flat, else_branch=whole)
    weight = onnx.numpy_helper.from_array(np.ones((2, 3, 1), np.float32), "w")
    inputs = [value("c", [1], TensorProto.BOOL), value("x", [1, 3, "n"])]
    told = error(save([node, helper.make_node("Conv", ["y", "w"], ["z"])], inputs,
                      [helper.make_empty_tensor_value_info("z")], [axis, weight]))  # fmt: skip
    want = "node 'choice' (If, opset 18): its condition is computed, and its branches give results of different ranks: "
    assert want + "fix what the condition depends on, with shapes={...} or --shape, or values={...} or --value" in told


def test_control_flow(save: Maker) -> None:
    """A branch that is chosen in a run; one whose shape depends on data, and a loop that nothing ends."""
    branches = [helper.make_graph([helper.make_node(operator, ["x"], ["r"])], "b", [], [value("r", [4])])
                for operator in ("Relu", "Neg")]  # fmt: skip
    longer = helper.make_graph([helper.make_node("Concat", ["x", "x"], ["r"], axis=0)], "b", [], [value("r", [8])])
    inputs = [value("c", [], TensorProto.BOOL), value("x", [4])]
    node = helper.make_node("If", ["c"], ["y"], name="choice", then_branch=branches[0], else_branch=branches[1])
    program = numc.compile(save([node], inputs, [value("y", [4])]))
    x = np.array([-1, 2, -3, 4], np.float32)
    np.testing.assert_array_equal(program(np.array(True), x), [0, 2, 0, 4])
    np.testing.assert_array_equal(program(np.array(False), x), -x)
    node = helper.make_node("If", ["c"], ["y"], name="choice", then_branch=branches[0], else_branch=longer)
    assert error(save([node], inputs, [value("y", ["k"])])) == (
        "1 node cannot be compiled: node 'choice' (If, opset 18): its condition is computed, and a result has the "
        "shape [4] in one branch and [8] in the other: fix what the condition depends on, with shapes={...} or "
        "--shape, or values={...} or --value"
    )
    body = helper.make_graph(
        [helper.make_node("Relu", ["s"], ["t"]), helper.make_node("Identity", ["k"], ["l"])],
        "b",
        [value("i", [], TensorProto.INT64), value("k", [], TensorProto.BOOL), value("s", [4])],
        [value("l", [], TensorProto.BOOL), value("t", [4])],
    )
    loop = helper.make_node("Loop", ["", "c", "x"], ["y"], name="steps", body=body)
    assert error(save([loop], inputs, [value("y", [4])])).endswith(
        "(Loop, opset 18): it has no number of steps, and no step ends it"
    )


def test_strings(save: Maker) -> None:
    file = save([helper.make_node("Identity", ["x"], ["y"])], [value("x", [4], TensorProto.STRING)],
                [value("y", [4], TensorProto.STRING)])  # fmt: skip
    assert error(file) == "'x' is of type string: want tensors of floats, integers and bool"


@pytest.mark.parametrize("kind", ["sequence", "optional"])
def test_sequences_and_optionals(save: Maker, kind: str) -> None:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [4])
    make = {"sequence": helper.make_sequence_type_proto, "optional": helper.make_optional_type_proto}[kind]
    file = save([helper.make_node("Identity", ["x"], ["y"])], [helper.make_value_info("x", make(tensor))],
                [value("y", [4])])  # fmt: skip
    assert error(file) == f"'x' is of type {kind}: want tensors as inputs"


@pytest.mark.parametrize(("shape", "found"), [([2**20, 2**20], "want at most 2147483647"),
                                              ([-5, 4], "has a negative size in its shape [-5, 4]"),
                                              ([2**62, 4, 4], "want at most 2147483647")])  # fmt: skip
def test_absurd_sizes(save: Maker, shape: list[int | str], found: str) -> None:
    file = save([helper.make_node("Relu", ["x"], ["y"])], [value("x", shape)], [value("y", shape)])
    assert found in error(file)


def test_absurd_sizes_inside(save: Maker) -> None:
    shape = numpy_helper.from_array(np.array([2**20, 2**20]), "s")
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["c"], name="huge"), helper.make_node("Add", ["x", "c"], ["y"])]
    file = save(nodes, [value("x", [1])], [value("y", [2**10, 2**10])], [shape])
    assert error(file).startswith("'y' would have shape [1048576, 1048576]")
    file = save([helper.make_node("Expand", ["x", "s"], ["c"]), helper.make_node("ReduceMax", ["c"], ["y"])],
                [value("x", [1])], [value("y", [1, 1])], [shape])  # fmt: skip
    assert error(file).startswith("'c' would have shape [1048576, 1048576]")


def test_empty_graph(save: Maker) -> None:
    assert (
        error(save([], [value("x", [4])], [value("x", [4])]))
        == "empty graph: the model has no nodes; nothing to compile"
    )


def test_no_outputs(save: Maker) -> None:
    file = save([helper.make_node("Relu", ["x"], ["y"])], [value("x", [4])], [])
    assert error(file) == "the model has no outputs; nothing to compile"


def test_no_inputs(save: Maker) -> None:
    weight = numpy_helper.from_array(np.ones(4, np.float32), "w")
    file = save([helper.make_node("Relu", ["w"], ["y"])], [], [value("y", [4])], [weight])
    np.testing.assert_array_equal(numc.compile(file)(), np.ones(4))


def test_opset_too_new(save: Maker) -> None:
    file = save([helper.make_node("Relu", ["x"], ["y"])], [value("x", [4])], [value("y", [4])], opset=99)
    assert error(file).startswith("opset 99 is not between 1 and ")


def test_inputs_that_are_missing(save: Maker) -> None:
    file = save([helper.make_node("Add", ["x", "nowhere"], ["y"], name="sum")], [value("x", [4])], [value("y", [4])])
    assert error(file) == "damaged model: node 'sum' (Add) reads 'nowhere', which nothing before it defines"
    file = save([helper.make_node("Relu", ["x"], ["z"])], [value("x", [4])], [value("y", [4])])
    assert error(file) == "damaged model: nothing defines the output 'y'"


def test_nodes_in_any_order(save: Maker) -> None:
    """Converters to float16 append casts of the inputs at the end; a cycle is none of an order."""
    nodes = [
        helper.make_node("Mul", ["a", "b"], ["y"], name="product"),
        helper.make_node("Neg", ["x"], ["b"]),
        helper.make_node("Relu", ["x"], ["a"]),
    ]
    x = np.arange(-2, 2, dtype=np.float32)
    assert np.array_equal(numc.compile(save(nodes, [value("x", [4])], [value("y", [4])]))(x), np.maximum(x, 0) * -x)
    nodes[1] = helper.make_node("Add", ["x", "y"], ["b"])
    file = save(nodes, [value("x", [4])], [value("y", [4])])
    assert error(file) == "damaged model: node 'product' (Mul) reads 'a', which nothing before it defines"


@pytest.mark.parametrize(("shapes", "found"), [
    ({"y": (1, 64)}, "shapes: no input 'y'; the inputs are x"),
    ({"x": (1, 2, 64)}, "shapes: 'x' has 2 dimensions [-1, 64], found [1, 2, 64]"),
    ({"x": (1, 65)}, "shapes: 'x' has the static shape [-1, 64], found [1, 65]; only dynamic sizes (-1) can be set"),
    ({"x": (0, 64)}, "shapes: x=[0, 64]: sizes start at 1"),
])  # fmt: skip
def test_shapes_that_do_not_fit(shapes: dict[str, tuple[int, ...]], found: str) -> None:
    assert error(DIGITS / "mlp.onnx", fixed=shapes) == found


def test_near_names(save: Maker) -> None:
    file = save([helper.make_node("Relu", ["images"], ["y"])], [value("images", ["n"])], [value("y", ["n"])])
    assert error(file, fixed={"image": (4,)}) == (
        "shapes: no input 'image' (did you mean 'images'?); the inputs are images"
    )


def test_free_sizes_are_checked_when_the_program_runs(save: Maker) -> None:
    # Two sizes of different names may differ.
    file = save([helper.make_node("Add", ["a", "b"], ["y"], name="sum")], [value("a", ["n"]), value("b", ["m"])],
                [value("y", ["k"])])  # fmt: skip
    program = numc.compile(file)
    three, four = np.arange(3, dtype=np.float32), np.arange(4, dtype=np.float32)
    assert np.array_equal(program(three, three), three + three)
    with pytest.raises(NumcError) as caught:
        program(three, four)
    assert str(caught.value) == "sizes do not fit: two sizes of a dimension differ, and neither is 1 (in 'sum')"
    assert frontend.load(file, fixed={"a": (4,), "b": (1,)}).outputs[0].shape == (4,)


def test_one_divided_by_zero_beside_sizes_of_data(save: Maker) -> None:
    nodes = [helper.make_node("Reciprocal", ["x"], ["y"]), helper.make_node("NonZero", ["x"], ["z"])]
    file = save(nodes, [value("x", ["n"])], [value("y", ["n"]), value("z", [1, "m"], TensorProto.INT64)])
    found = numc.compile(file)(np.float32([0, 2]))
    assert found["y"].tolist() == [np.inf, 0.5]
    assert found["z"].tolist() == [[1]]


RESHAPES = [
    (["a", "b", 4, 8], [-1, 32]),
    (["a", "b", 4, 8], [0, 0, 32]),
    (["a", 2, "b", 2], [-1, 0, 2]),
    (["a", 3, 6, "b"], [1, -1, 0, 1]),
    ([1, "a", "b", 6], [0, 3, -1]),
    (["a", "b", 4], [-1, 2]),
    (["b", 6, "a"], [-1, 0]),
    (["a", "b"], [1, -1, 1]),
    (["a", "b", 32], [0, 0, 4, 8]),
]


def test_reshapes_with_free_sizes(save: Maker) -> None:
    nodes, inputs, outputs, shapes = [], [], [], []
    for n, (shape, to) in enumerate(RESHAPES):
        nodes.append(helper.make_node("Reshape", [f"x{n}", f"s{n}"], [f"y{n}"]))
        inputs.append(value(f"x{n}", shape))  # type: ignore[arg-type]
        outputs.append(value(f"y{n}", [None] * len(to)))  # type: ignore[list-item]
        shapes.append(numpy_helper.from_array(np.array(to, np.int64), f"s{n}"))
    path = save(nodes, inputs, outputs, shapes)
    program, session = numc.compile(path), onnxruntime.InferenceSession(path)
    for a, b in ((1, 1), (1, 3), (2, 1), (5, 3)):
        sizes = {"a": a, "b": b}
        feeds = {
            f"x{n}": np.random.default_rng(n).random([sizes.get(d, d) for d in shape], np.float32)  # type: ignore[call-overload]
            for n, (shape, _) in enumerate(RESHAPES)
        }
        for mine, theirs in zip(program(feeds).values(), session.run(None, feeds), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_sizes_of_a_reshape_that_come_with_the_run(save: Maker) -> None:
    inputs = [value("x", ["n", 4]), value("shape", [2], TensorProto.INT64)]
    path = save([helper.make_node("Reshape", ["x", "shape"], ["y"])], inputs, [value("y", ["p", "q"])])
    program = numc.compile(path)
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    np.testing.assert_array_equal(program(x, np.array([-1, 8])), x.reshape(-1, 8))
    np.testing.assert_array_equal(program(x, np.array([0, 4])), x)
    for shape, found in (
        ([-1, -1], "a size of a reshape is below -1, or more than one is -1 (in 'y')"),
        ([-2, 8], "a size of a reshape is below -1, or more than one is -1 (in 'y')"),
        ([5, -1], "a reshape does not keep the number of elements (in 'y')"),
    ):
        with pytest.raises(NumcError) as caught:
            program(x, np.array(shape))
        assert str(caught.value) == found


def test_limits_and_crashes_of_the_importer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMC_IMPORT_TIME", "0.01")
    assert error(DIGITS / "mlp.onnx").startswith("import took longer than 0.01 s (stage: ")
    asked = []

    def crash(*arguments: object, **options: object) -> None:
        asked.append(arguments)
        raise process.CrashError("crashed with SIGSEGV", "convert" if len(asked) > 1 else "read")

    monkeypatch.setattr(process, "ask", crash)
    rest = "; the file is damaged or uses something the importer cannot handle"
    assert error(DIGITS / "mlp.onnx") == f"the importer crashed with SIGSEGV (stage: read){rest}"
    # A second worker looks for the node, and crashes, too.
    assert error(DIGITS / "mlp.onnx") == f"the importer crashed with SIGSEGV (stage: convert){rest}"
    assert len(asked) == 3


def test_a_crashing_node_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["y"], name="none"),
        helper.make_node("Relu", ["v"], ["w"], name="fine"),
    ]
    inputs = [value("x", [1, 2, 4, 4]), value("k", [2, 2, 3, 3]), value("v", [4])]
    graph = helper.make_graph(nodes, "g", inputs, [value("y", [1, 2, 2, 2]), value("w", [4])])
    prepared = prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), {})
    ask = process.ask

    def crash(task: str, request: dict[str, Any], parts: list[bytes], **options: Any) -> object:
        if b"Conv" in parts[0]:
            raise process.CrashError("crashed with SIGFPE", "convert")
        return ask(task, request, parts, **options)

    monkeypatch.setattr(process, "ask", crash)
    found = explain(prepared, "the importer crashed")
    opset = prepared.model.opset_import[0].version
    assert str(found).startswith(
        f"1 node cannot be compiled: node 'none' (Conv, opset {opset}): the importer crashed with SIGFPE: this is a "
    )


# MLIR text.


def test_mlir_text_is_passed_on(tmp_path: Path) -> None:
    file = tmp_path / "x.mlir"
    file.write_text("module {}\n")
    assert mlir_frontend.load(file) == Imported(mlir="module {}\n", sources=(str(file),))


def test_mlir_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "x.mlir"
    with pytest.raises(NumcError, match=r"x\.mlir: cannot read: No such file or directory: want a file of MLIR text"):
        mlir_frontend.load(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NumcError, match="not UTF-8 text"):
        mlir_frontend.load(file)
    file.write_text("func.func @main(")
    with pytest.raises(
        NumcError, match=r"^.*x\.mlir:\d+:\d+: not valid MLIR of this version: expected non-function type"
    ):
        mlir_frontend.load(file)


def test_mlir_that_makes_its_parser_crash(tmp_path: Path) -> None:
    file = tmp_path / "deep.mlir"
    file.write_text("module attributes {a = " + "[" * 100_000 + "]" * 100_000 + "} {}")
    with pytest.raises(NumcError) as caught:
        mlir_frontend.load(file)
    text = "the parser of MLIR crashed with SIGSEGV: the text is nested too deeply, or damaged: make it anew"
    assert str(caught.value) == f"{file}: {text}"
