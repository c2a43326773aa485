"""Sizes whose product or whose arithmetic exceeds 64 bits end the run with an error: no buffer is too small."""

from __future__ import annotations

import multiprocessing
import re
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import numc
from tiers import by_default

#: Pairs of sizes whose product wraps: to 0, to a small number, to one below 0.
PAIRS = [(2**33, 2**33), (2**62, 4), (2**62 + 1, 4), (2**61 + 1, 8), (2**63 - 1, 3), (3, 2**62 + 1), (2**40, 2**22)]
WRAPS, LARGE, NEGATIVE = "arithmetic exceeds 64 bits", "more than 2\\^42 elements", "would be negative"
ANY = f"{WRAPS}|{LARGE}|{NEGATIVE}|ran out of memory"


def model(nodes: list[str], inputs: dict[str, str], **constants: list[int]) -> onnx.ModelProto:
    """A model of nodes ``Op a,b -> c`` whose last one gives y, of inputs ``f:a,3`` (floats) or ``i:2`` (int64)."""
    made = []
    for text in nodes:
        kind, rest = text.split(" ", 1)
        taken, given = rest.split(" -> ")
        made.append(helper.make_node(kind, taken.split(","), [given], name=given))
    kinds = {"f": TensorProto.FLOAT, "i": TensorProto.INT64}
    declared = []
    for name, text in inputs.items():
        sizes = [int(size) if size.isdigit() else size for size in text[2:].split(",") if size]
        declared.append(helper.make_tensor_value_info(name, kinds[text[0]], sizes))
    stored = [numpy_helper.from_array(np.asarray(value, np.int64), name) for name, value in constants.items()]
    graph = helper.make_graph(made, "g", declared, [helper.make_empty_tensor_value_info("y")], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def big(*before: int) -> list[dict[str, Any]]:
    return [{"s": [*before, *pair]} for pair in PAIRS]


X = np.ones((2, 3), np.float32)
ONE = np.ones((1, 1), np.float32)
#: Name: the model, and the runs of it, each of which has to end with the message.
CASES: dict[str, tuple[onnx.ModelProto, list[dict[str, Any]], str]] = {
    # What is fused away is never allocated, and has indices still.
    "sum": (model(["ConstantOfShape s -> c", "ReduceSum c,a -> y"], {"s": "i:2"}, a=[0, 1]), big(), ANY),
    "slice": (model(["ConstantOfShape s -> c", "Relu c -> d", "Slice d,a,e -> y"], {"s": "i:2"}, a=[0, 0], e=[2, 2]),
              big(), ANY),
    "expand": (model(["Expand x,s -> y"], {"x": "f:1,1", "s": "i:2"}), [{"x": ONE, **b} for b in big()], ANY),
    "tile": (model(["Tile x,s -> y"], {"x": "f:a,3", "s": "i:2"}), [{"x": X, **b} for b in big()], ANY),
    "pad": (model(["Pad x,s -> y"], {"x": "f:a,b", "s": "i:4"}),
            [{"x": X, "s": s} for s in ([2**62, 0] * 2, [2**63 - 1, 0] * 2, [2**31] * 4, [2**63 - 1, 0, -(2**63), 0],
                                        [-(2**63), 0] * 2)],
            f"{ANY}|padding|negative pads take away more than there is"),
    "range": (model(["Range a,b,c -> y"], {"a": "i:", "b": "i:", "c": "i:"}),
              [{"a": a, "b": b, "c": 1} for a, b in [(0, 2**61 + 1), (0, 2**63 - 1), (-(2**63), 2**63 - 1)]],
              f"{ANY}|a range is longer than numbers of its type count"),
    "reshape": (model(["ConstantOfShape s -> c", "Reshape c,t -> y"], {"s": "i:2", "t": "i:2"}),
                [{"s": [4, 4], "t": t} for t in ([2**60 + 1, 16], [2**32, 2**32])] + [{"s": [2**32] * 2, "t": [0, 0]}],
                ANY),
    "resize": (model(["Resize x,,,s -> y"], {"x": "f:1,1,a,b", "s": "i:4"}),
               [{"x": ONE[None, None], **b} for b in big(1, 1)], ANY),
    "onehot": (model(["OneHot i,d,v -> y"], {"i": "i:3", "d": "i:", "v": "f:2"}),
               [{"i": [0, 1, 2], "d": d, "v": np.ones(2, np.float32)} for d in (2**61, 2**62, 2**63 - 1)], ANY),
}  # fmt: skip


def run_all(name: str) -> list[str]:
    """The errors of all runs of a case, "" for a run without one."""
    proto, runs, _ = CASES[name]
    program = numc.compile(proto)
    found = []
    for run in runs:
        given = {spec.name: np.asarray(run[spec.name], spec.dtype) for spec in program.inputs}
        try:
            program.by_name(given)
        except numc.NumcError as error:
            found.append(str(error))
        else:
            found.append("")
    return found


@pytest.mark.parametrize("name", by_default(CASES, ["slice"]))
def test_sizes_from_data_do_not_wrap(name: str) -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:  # a fault of memory would end the tests
        errors = pool.apply_async(run_all, [name]).get(timeout=120)
    assert len(errors) == len(CASES[name][1])
    for error, run in zip(errors, CASES[name][1], strict=True):
        assert re.search(CASES[name][2], error), f"{run}: {error or 'no error'}"


class Outer(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        return (a[:, None, None, None] + b[:, None, None] + c[:, None] + d).sum()


def test_free_sizes_do_not_wrap() -> None:
    """Four inputs of 256 KiB have 2^64 sums, of which none is stored."""
    free = {name: {0: torch.export.Dim(f"{name}n", min=2, max=100000)} for name in "abcd"}
    exported = torch.export.export(Outer(), tuple(torch.ones(n) for n in (3, 4, 5, 6)), dynamic_shapes=free)
    program = numc.compile(exported)
    parts = [np.ones(n, np.float32) for n in (3, 4, 5, 6)]
    assert program(*parts) == 4 * 3 * 4 * 5 * 6
    with pytest.raises(numc.NumcError, match=f"^sizes are too large: a tensor would have {LARGE} \\(in 'add"):
        program(*[np.ones(65536, np.float32)] * 4)
