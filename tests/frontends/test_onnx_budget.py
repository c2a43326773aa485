"""The memory that a model may ask for is counted before it is taken."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from numc.frontends.onnx import prepare
from numc.frontends.onnx.folding.fold import fold
from numc.frontends.onnx.reading.budget import Budget
from numc.support.errors import NumcError

MIB = 1 << 20
HEADER = '<ir_version: 8, opset_import: ["": 18]>'


def model(text: str) -> onnx.ModelProto:
    return parser.parse_model(f"{HEADER} g {text}")


@pytest.mark.parametrize(
    ("inputs", "node"),
    [
        ({"w": (1, 1), "s": [1024, 1024]}, "c = Expand(w, s)"),
        ({"w": (1, 1), "s": [1024, 1024]}, "c = Tile(w, s)"),
        ({"w": (1024, 512)}, "c = Concat<axis = 0>(w, w)"),
        ({"w": (2,), "i": np.zeros(2**20, np.int64)}, "c = Gather(w, i)"),
        ({"i": np.zeros(2**15, np.int64), "d": 32, "w": (2,)}, "c = OneHot(i, d, w)"),
    ],
)
def test_constants_are_counted_before_they_are_made(inputs: dict[str, object], node: str) -> None:
    graph = model(f"(float[1] x) => (float[n] y) {{ {node} y = Add(x, c) }}")
    constants = {n: np.ones(v, np.float32) if isinstance(v, tuple) else np.array(v) for n, v in inputs.items()}
    with pytest.raises(NumcError, match=r"makes constants of 0\.0 GiB in all: those of this model may have"):
        fold(graph.graph, dict(constants), graph.opset_import, Budget(limit=4 * MIB))
    assert fold(graph.graph, constants, graph.opset_import, Budget(limit=8 * MIB)) == 1
    assert constants["c"].nbytes == 4 * MIB


def test_constants_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each of the two has 4 MiB; one of them is a number that is not spread out before the program has it.
    graph = model(
        "(float[1024,1024] x) => (float[1024,1024] y) <int64[2] s = {1024, 1024}, float[1,1] w = {1}>"
        "{ a = Expand(w, s) b = ConstantOfShape(s) c = Add(x, a) y = Add(c, b) }"
    )
    monkeypatch.setattr(prepare, "Budget", lambda: Budget(limit=15 * MIB))
    with pytest.raises(NumcError, match="^the model makes constants of"):
        prepare.prepare(onnx.ModelProto.FromString(graph.SerializeToString()), {})
    monkeypatch.setattr(prepare, "Budget", lambda: Budget(limit=16 * MIB))
    assert sorted(prepare.prepare(graph, {}).weights) == ["a", "b"]
