"""Models of one operator in which one size of the inputs is free, with what their results have to be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx

from tests.shared import odd_nodes
from tools import onnx_suite

_SIZE = re.compile(r"(?<=[\[,])\d+(?=[,\]])")


def freed(inputs: str) -> Iterator[tuple[str, list[str]]]:
    """Inputs as tests/data/torch_cases.txt has them, once for each length above 1, the sizes of which are free."""
    fixed = inputs.replace("?", "")
    for length in sorted({int(size) for size in _SIZE.findall(fixed)} - {0, 1}):
        # Lengths of one number are those that have to be equal, such as the terms of a product.
        yield str(length), _SIZE.sub(lambda found, n=length: f"{n}?" if int(found[0]) == n else found[0], fixed).split()


def nodes(names: list[str]) -> Iterator[tuple[str, onnx.ModelProto, Any, dict[str, Any]]]:
    """Cases of ONNX's suite, once for each size of each input: a name, a model, the case, and values of its inputs."""
    suite = onnx_suite.cases()
    for name in names:
        model, case = odd_nodes.cases()[name], suite[name]
        given = dict(zip((value.name for value in case.model.graph.input), case.data_sets[0][0], strict=False))
        values = {value.name: given[value.name] for value in model.graph.input}
        values = {name: np.asarray(x) if isinstance(x, np.generic) else x for name, x in values.items()}
        if not all(isinstance(value, np.ndarray) for value in values.values()):
            continue
        for number, value in enumerate(model.graph.input):
            for dim in range(len(value.type.tensor_type.shape.dim)):
                yield f"{name}/{value.name}[{dim}]", _with_free(model, number, dim), case, values


def _with_free(model: onnx.ModelProto, number: int, dim: int) -> onnx.ModelProto:
    found = onnx.ModelProto.FromString(model.SerializeToString())
    found.graph.input[number].type.tensor_type.shape.dim[dim].dim_param = "n"
    for value in found.graph.output:
        for size in value.type.tensor_type.shape.dim:
            size.ClearField("dim_value")
    return found
