"""Products with the inputs of all steps of a recurrent layer, before its loop: same bits, fewer calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import numc
from tiers import by_default, one_in

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FMAS = ["fp32", "bf16_1_2", "highbfp", "int8", "fma(a=bf16, b=bf16, acc=bf16:sr8)"]
CASES = [("LSTM", fma, "forward", 5, "batch") for fma in FMAS]
CASES += [("LSTM", "mp", "bidirectional", "steps", 3), ("LSTM", "fp32", "forward", "steps", "batch")]
CASES += [("LSTM", "fp32", "forward", "computed", "batch")]  # free steps of an input that is computed
CASES += [
    ("GRU", "bf16_1_1", "reverse", 5, 3),
    ("GRU", "fp32", "bidirectional", 5, 3),
    ("RNN", "fp32", "forward", 5, 3),
]


@pytest.mark.parametrize(
    ("operator", "fma", "direction", "steps", "batch"),
    by_default(one_in(5, CASES, CASES[-3], CASES[-4]), [CASES[0], CASES[-3], CASES[-4]]),
)
def test_bits_and_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operator: str, fma: str, direction: str,
                        steps: int | str, batch: int | str) -> None:  # fmt: skip
    file, directions = tmp_path / "cells.onnx", 2 if direction == "bidirectional" else 1
    rng = np.random.default_rng(0)
    rows, given = GATES[operator] * 8, {"w": 12, "r": 8}
    weights = {name: rng.standard_normal((directions, rows, size)).astype(np.float32) for name, size in given.items()}
    cell = helper.make_node(operator, ["v", "w", "r"], ["y", "h"], hidden_size=8, direction=direction)
    before = helper.make_node("Relu" if steps == "computed" else "Identity", ["x"], ["v"])
    shapes = {"x": [steps, batch, 12], "y": [steps, directions, batch, 8], "h": [directions, batch, 8]}
    x, *results = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items())
    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph([before, cell], "cells", [x], results, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), file)

    programs = [numc.compile(file, fma=fma)]
    monkeypatch.setenv("NUMC_DISABLE", "hoist-products")
    programs.append(numc.compile(file, fma=fma))
    for sizes in [(5, 3), (1, 3), (5, 1), (7, 2)]:
        if any(isinstance(want, int) and want != size for want, size in zip((steps, batch), sizes, strict=True)):
            continue
        values = rng.standard_normal((*sizes, 12)).astype(np.float32)
        for name in ("y", "h"):
            first, second = (program(values, seed=1)[name].view(np.uint32) for program in programs)
            np.testing.assert_array_equal(first, second)
    profiles = [program.profile(np.ones((5, 3, 12), np.float32), repeat=1, peak=1, bandwidth=1) for program in programs]
    calls, single = (sum(row.calls for row in found.rows if row.kind == "contraction") for found in profiles)
    assert (calls < single) == (fma not in FMAS[2:])
