"""examples/statistics: the random ResNet-50 is what it says, and the report has the numbers of the statistics."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import numc

SCRIPTS = Path(__file__).resolve().parents[2] / "examples" / "statistics"


@pytest.fixture
def resnet50(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import resnet50

    return resnet50


@pytest.fixture
def report(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import report

    return report


def weights(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def test_light_resnet50_gets_random_weights(resnet50):
    model = onnx.load(resnet50.LIGHT)
    resnet50.initialise(model, np.random.default_rng(0))
    onnx.checker.check_model(model)
    kinds = [node.op_type for node in model.graph.node]
    assert (kinds.count("Conv"), kinds.count("BatchNormalization"), kinds.count("ConstantOfShape")) == (53, 53, 0)
    assert [value.name for value in model.graph.input] == ["gpu_0/data_0"]
    found = weights(model)
    names = [node.name for node in model.graph.node if node.op_type in ("Conv", "Gemm")]
    assert len(set(names)) == 54
    assert {"conv1", "res5_2_branch2c", "pred"} < set(names)
    for node in model.graph.node:
        if node.op_type == "Conv":
            values = found[node.input[1]]
            assert values.std() == pytest.approx(np.sqrt(2 / values[0].size), rel=0.05)
            assert abs(values.mean()) < 0.05 * values.std() + 1e-3
    other = onnx.load(resnet50.LIGHT)
    resnet50.initialise(other, np.random.default_rng(0))
    assert other.SerializeToString() == model.SerializeToString()


def test_image_is_normalised_noise_with_more_of_it_in_large_structures(resnet50):
    x = resnet50.image((1, 3, 224, 224), np.random.default_rng(1))
    assert (x.shape, x.dtype) == ((1, 3, 224, 224), np.float32)
    np.testing.assert_allclose(x.mean((2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(x.std((2, 3)), 1, rtol=1e-5)
    # Cells of 32, 16 and 8 pixels overlap with what is 4 pixels away, those of 4, 2 and 1 do not.
    expected = (28 / 32 + 12 / 16 + 4 / 8) / 6
    assert np.corrcoef(x[0, 0, :, :-4].ravel(), x[0, 0, :, 4:].ravel())[0, 1] == pytest.approx(expected, abs=0.05)
    assert np.corrcoef(x[0, 0].ravel(), x[0, 1].ravel())[0, 1] > 0.7


def small() -> onnx.ModelProto:
    """Two convolutions, each with a batch norm whose moments are not those of any data."""
    rng = np.random.default_rng(3)
    tensors: dict[str, Any] = {
        "w0": rng.standard_normal((4, 2, 3, 3)),
        "w1": rng.standard_normal((3, 4, 1, 1)),
    }
    for number, channels in enumerate((4, 3)):
        moments = (np.ones(channels), np.zeros(channels), np.zeros(channels), np.ones(channels))
        tensors |= {f"{name}{number}": value for name, value in zip("sbmv", moments, strict=True)}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c0", "s0", "b0", "m0", "v0"], ["n0"]),
        helper.make_node("Relu", ["n0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1"], ["c1"]),
        helper.make_node("BatchNormalization", ["c1", "s1", "b1", "m1", "v1"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 6, 6])],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=7)


def test_batch_norms_learn_the_moments_of_the_images(resnet50):
    model, rng = small(), np.random.default_rng(4)
    images = [(rng.standard_normal((1, 2, 6, 6)) * 2 + 1).astype(np.float32) for _ in range(2)]
    resnet50.calibrate(model, images[:1])
    normalised = ReferenceEvaluator(model).run(None, {"x": images[0]})[0]
    np.testing.assert_allclose(normalised.mean((0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(normalised.std((0, 2, 3)), 1, rtol=1e-3)
    # Over several images, the moments of the first norm are those of all its inputs together.
    resnet50.calibrate(model, images)
    convolution = onnx.ModelProto.FromString(model.SerializeToString())
    del convolution.graph.output[:]
    convolution.graph.output.append(helper.make_tensor_value_info("c0", TensorProto.FLOAT, None))
    runs = [ReferenceEvaluator(convolution).run(None, {"x": x})[0] for x in images]
    found = weights(model)
    np.testing.assert_allclose(found["m0"], np.concatenate(runs).mean((0, 2, 3)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["v0"], np.concatenate(runs).var((0, 2, 3)), rtol=1e-4)


def statistics() -> dict[str, Any]:
    """Two layers: of the first one's 8 additions, 2 lose a number in 7 bits; of its weights, 1 in 4 is 2^-20."""

    def tensor(low: int, counts: list[int], zeros: int = 0) -> dict[str, Any]:
        histogram = {"low": low, "counts": counts}
        numbers = {"elements": sum(counts) + zeros, "zeros": zeros, "subnormals": 0, "infinities": 0, "nans": 0}
        return {**numbers, "exponents": histogram, "format": "bf16", "overflows": 0, "most": {}}

    def row(name: str, position: int, swamping: list[int], fmas: int) -> dict[str, Any]:
        tensors = {"a": tensor(-7, [1, 0, 3], zeros=4), "b": tensor(-20, [1, 0, 3]), "result": tensor(0, [4])}
        return {
            "layer": name, "role": "forward", "position": position, "fma": "bf16_1_1", "fmas": fmas, "executions": 1,
            "swamping": {"low": 0, "counts": swamping}, "sampled": "1", "tensors": tensors, "rounding": [1.0, 400.0],
            "note": "", "adds": sum(swamping),
        }  # fmt: skip

    rows = [row("first", 0, [4, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1], 8), row("second", 1, [8], 24)]
    return {"what": list(numc.Statistics(()).what), "sample": "1", "rows": rows}


def test_report(report, monkeypatch, capsys, tmp_path):
    import json

    (tmp_path / "stats.json").write_text(json.dumps(statistics()))
    out = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["report.py", str(tmp_path / "stats.json"), "--output", str(out)])
    assert report.main() == 0
    columns, first, second = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    row = dict(zip(columns, first, strict=True))
    assert (row["layer"], row["FMAs"], row["relative error"]) == ("first", "8", "2.5e-03")
    assert [row[f"no swamping at {k} bits"] for k in (7, 10, 23)] == ["75.00%", "87.50%", "100.00%"]
    assert (row["exponents of activations"], row["exponents of weights"]) == ("-7..-5", "-20..-18")
    # 4 exponent bits have normal numbers from 2^-6, 5 from 2^-14; zeros are elements, too.
    assert [row[f"activations subnormal in e{bits}"] for bits in (5, 4)] == ["0.00%", "12.50%"]
    assert [row[f"weights subnormal in e{bits}"] for bits in (5, 4)] == ["100.00%", "100.00%"]
    assert second[2] == "100.00%"
    assert sorted(path.name for path in out.iterdir()) == [
        "exponents.png",
        "report.md",
        "subnormals.png",
        "swamping.png",
    ]
    text = (out / "report.md").read_text()
    assert f"| {' | '.join(first)} |" in text
    layers = numc.Statistics.from_json(statistics()).rows
    assert report.mean_without_swamping(layers, 7) == (0.75 * 8 + 24) / 32


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file or directory"),
        ("{}", "not the JSON of statistics"),
        ('{"what": ["fmas"], "sample": "1", "rows": []}', "no layer has swamping and exponents: collect them with"),
    ],
)
def test_what_is_no_statistics_is_one_line(report, monkeypatch, capsys, tmp_path, content, says):
    if content is not None:
        (tmp_path / "stats.json").write_text(content)
    monkeypatch.setattr(sys, "argv", ["report.py", str(tmp_path / "stats.json"), "--output", str(tmp_path / "out")])
    assert report.main() == 2
    said = capsys.readouterr().err
    assert said.startswith("report.py: ")
    assert says in said
    assert said.count("\n") == 1
