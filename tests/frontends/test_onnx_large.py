"""Large initialisers of ONNX files: they stay in the file, and nothing that is computed depends on that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import numc
from numc.frontends.onnx import prepare, worker
from numc.frontends.onnx.reading import large, read
from numc.support.errors import NumcError
from numc.support.files import read_bytes

RNG = np.random.default_rng(7)
WEIGHT = RNG.standard_normal((160, 120)).astype(np.float32)  # 76,800 bytes
BIAS = RNG.standard_normal(120).astype(np.float32)


def model(*weights: onnx.TensorProto) -> onnx.ModelProto:
    """y = x @ w + b"""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 160])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 120])],
        [*weights, numpy_helper.from_array(BIAS, "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def saved(folder: Path, *weights: onnx.TensorProto, prefix: str = "") -> Path:
    """A file with the model. prefix: a text of any length before the weights, which moves them to any byte."""
    made = model(*(weights or (numpy_helper.from_array(WEIGHT, "w"),)))
    made.producer_name = prefix
    file = folder / "m.onnx"
    file.write_bytes(made.SerializeToString())
    return file


@pytest.mark.parametrize("length", range(4))
def test_large_weights_are_not_parsed_and_not_sent(tmp_path: Path, length: int) -> None:
    file = saved(tmp_path, prefix="a" * length)
    found = read.read(file)
    assert list(found.large) == ["w"]
    assert not found.model.graph.initializer[0].raw_data
    assert found.sources == (str(file),)
    answer, parts = worker.import_task({"path": str(file), "shapes": {}}, [], lambda _: None)
    assert sum(len(part) for part in parts[1:]) == BIAS.nbytes
    (place,) = [weight["place"] for weight in answer["weights"] if "place" in weight]
    assert bytes(read_bytes(*place, WEIGHT.nbytes)) == WEIGHT.tobytes()
    x = RNG.standard_normal((3, 160)).astype(np.float32)
    want = numc.matmul(x, WEIGHT) + BIAS
    assert numc.compile(file, cache=False)(x).tobytes() == want.tobytes()


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "uint16", "bool"]
)
def test_values_of_every_type_are_the_same(tmp_path: Path, dtype: str) -> None:
    value = RNG.integers(0, 2, (160, 900)).astype(dtype)
    file = saved(tmp_path, numpy_helper.from_array(value, "w"))
    found = read.read(file)
    constants = prepare._take_constants(found.model.graph, found.large)
    assert constants["w"].dtype == dtype
    assert np.array_equal(constants["w"], value)


def test_external_data_stays_in_its_files(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    onnx.save(
        model(numpy_helper.from_array(WEIGHT, "w")),
        file,
        save_as_external_data=True,
        location="w.bin",
        size_threshold=0,
    )
    found = read.read(file)
    assert list(found.large) == ["w"]
    assert found.sources == (str(file), str(tmp_path / "w.bin"))
    assert np.array_equal(found.large["w"], WEIGHT)
    assert found.place_of(found.large["w"]) == (str(tmp_path / "w.bin"), found.files[1].offset_of(found.large["w"]))
    x = RNG.standard_normal((3, 160)).astype(np.float32)
    there, here = (numc.compile(source, cache=False)(x) for source in (file, saved(tmp_path)))
    assert there.tobytes() == here.tobytes()


def test_external_data_in_more_files_than_a_process_may_open(tmp_path: Path) -> None:
    values = {f"w{n}": np.full(large.LARGE // 4, n, np.float32) for n in range(300)}
    nodes = [helper.make_node("Sum", list(values), ["y"])]
    kind = helper.make_tensor_value_info("y", TensorProto.FLOAT, [large.LARGE // 4])
    graph = helper.make_graph(nodes, "g", [], [kind], [numpy_helper.from_array(v, n) for n, v in values.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=0)
    y = numc.compile(tmp_path / "m.onnx", cache=False)()
    assert set(y.tolist()) == {float(sum(range(300)))}


def external(**entries: Any) -> onnx.TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=WEIGHT.shape, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"location": "w.bin", "offset": 4}, "needs 76800 bytes, found 76796"),
        ({"location": "w.bin", "offset": 10**9, "length": 76800}, "exceeds file size"),
        ({"location": "w.bin", "length": 10**9}, "exceeds available data"),
        ({"location": "w.bin", "length": -1}, "length must be non-negative, got -1"),
        ({"location": "../w.bin"}, "w.bin"),
        ({"location": "link.bin"}, "link.bin"),
    ],
)
def test_external_data_that_is_wrong_is_refused(tmp_path: Path, entries: dict[str, Any], reason: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for at in (folder, tmp_path):
        (at / "w.bin").write_bytes(WEIGHT.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(NumcError, match=reason):
        numc.compile(saved(folder, external(**entries)), cache=False)


def test_initialisers_of_one_name(tmp_path: Path) -> None:
    """The last of them counts, as without files that are mapped."""
    file = saved(tmp_path, numpy_helper.from_array(-WEIGHT, "w"), numpy_helper.from_array(WEIGHT, "w"))
    found = read.read(file)
    assert not found.large
    assert np.array_equal(prepare._take_constants(found.model.graph)["w"], WEIGHT)


def test_data_of_another_size_is_refused(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(WEIGHT, "w")
    tensor.dims[0] += 1
    with pytest.raises(
        NumcError, match=r"initialiser 'w' is damaged: its shape \[161, 120\] needs 77280 bytes, found 76800"
    ):
        read.read(saved(tmp_path, tensor))


def test_a_file_that_becomes_shorter(tmp_path: Path) -> None:
    file = tmp_path / "w.bin"
    file.write_bytes(bytes(100))
    with pytest.raises(NumcError, match="cannot read: it became shorter while it was read"):
        read_bytes(str(file), 50, 51)
    with pytest.raises(NumcError, match="cannot read: No such file or directory"):
        read_bytes(str(tmp_path / "none"), 0, 1)


@settings(max_examples=300)
@given(st.data())
def test_any_bytes_parse_as_they_did(data: st.DataObject) -> None:
    """A file that is damaged anywhere outside of the weight gives the same model, or the same refusal."""
    made = model(numpy_helper.from_array(WEIGHT, "w")).SerializeToString()
    at = made.index(WEIGHT.tobytes())
    outside = st.one_of(st.integers(0, at - 1), st.integers(at + WEIGHT.nbytes, len(made) - 1))
    damaged = bytearray(made)
    for place in data.draw(st.lists(outside, min_size=1, max_size=3)):
        damaged[place] = data.draw(st.integers(0, 255))
    rest, spans = large.without_data(memoryview(bytes(damaged)))
    assert parsed(rest, spans, damaged) == parsed(bytes(damaged), {}, damaged)


def parsed(text: bytes, spans: large.Spans, whole: bytes) -> bytes | None:
    found = onnx.ModelProto()
    try:
        found.ParseFromString(text)
    except Exception:
        return None
    for number, (start, end) in spans.items():
        found.graph.initializer[number].raw_data = bytes(whole[start:end])
    return found.SerializeToString(deterministic=True)
