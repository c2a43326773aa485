"""The nine networks that the onnx package ships for back-end tests, weights generated, with recorded outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnx.backend.test
from onnx import numpy_helper

Array = npt.NDArray[np.generic]
DATA = Path(onnx.backend.test.__file__).parent / "data" / "light"


def models() -> dict[str, tuple[Path, dict[str, Array], list[Array]]]:
    """Return for each network its file, its inputs by name and its expected outputs.

    The inputs are those of onnx.backend.test.runner (``generate_dummy_data``): a ramp from 0 to 1 of the input's shape.
    """
    return {file.stem.removeprefix("light_"): _model(file) for file in sorted(DATA.glob("light_*.onnx"))}


def _model(file: Path) -> tuple[Path, dict[str, Array], list[Array]]:
    graph = onnx.load(file).graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs: dict[str, Array] = {}
    for value in graph.input:
        if value.name not in weights:
            shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
            count = int(np.prod(shape))
            inputs[value.name] = (np.arange(count).reshape(shape) / count).astype(np.float32)
    expected = []
    for number in range(len(graph.output)):
        tensor = onnx.TensorProto.FromString(file.with_name(f"{file.stem}_output_{number}.pb").read_bytes())
        expected.append(numpy_helper.to_array(tensor))
    return file, inputs, expected
