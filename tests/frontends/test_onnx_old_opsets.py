"""Models of the opsets 7 to 12: what became an input since, other defaults, and what onnx cannot convert."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import numc
from tests.shared.onnx_nodes import Alone, in_numc, in_onnxruntime, same_bits

NAN, INF = float("nan"), float("inf")
ROWS = [
    [-2.5, -2.0, NAN, 2.5, -3.5, -1.0, 0.0],
    [NAN, INF, NAN, -INF, 4.0, NAN, -0.0],
    [1.0, 3.0, 2.0, 5.0, 4.0, 7.0, 6.0],
]


@pytest.mark.parametrize("opset", [10, pytest.param(12, marks=pytest.mark.all)])
def test_nan_is_the_largest_of_the_first_elements(opset: int) -> None:
    """In the order of onnxruntime, where equal ones keep their order."""
    cases = {
        n: Alone(
            operator="TopK",
            feeds={"x": np.array(ROWS, dtype)},
            constants={"k": np.array([k])},
            order="x k",
            outputs=2,
            attributes={"largest": largest} if opset > 10 else {},
        )
        for n, (dtype, k, largest) in enumerate(
            (dtype, k, largest)
            for dtype in (np.float32, np.float16, np.float64)
            for k in (2, 7)
            for largest in ((0, 1) if opset > 10 else (1,))
        )
    }
    wants = {n: in_onnxruntime(case, opset) for n, case in cases.items()}
    kept = {n: (case, want) for n, case in cases.items() if (want := wants[n]) is not None}
    found = in_numc({n: case for n, (case, _) in kept.items()}, {n: want for n, (_, want) in kept.items()}, opset)
    for n, (case, want) in kept.items():
        assert all(map(same_bits, found[n], want)), case.label()
    assert len(kept) == len(cases)


def test_bounds_that_were_attributes_have_the_dtype_of_the_elements() -> None:
    x = np.array([NAN, -1.0 - 2**-40, 0.25, 0.5 + 2**-50, 3.0])
    cases = {
        n: Alone(operator="Clip", feeds={"x": x}, order="x", attributes=attributes)
        for n, attributes in enumerate(({"min": 0.5}, {"max": 0.5}, {"min": -2.0, "max": 0.25}))
    }
    wants = {n: [np.clip(x, case.attributes.get("min"), case.attributes.get("max"))] for n, case in cases.items()}
    found = in_numc(cases, wants, 7)
    assert all(same_bits(found[n][0], want) for n, (want,) in wants.items())


@pytest.mark.parametrize(
    ("outputs", "attributes", "why"),
    [
        (1, {"spatial": 0}, "Attribute spatial must have value 1"),
        (5, {}, "BatchNormalization outputs 4 and 5 are not supported in Opset 14."),
    ],
)
def test_what_onnx_cannot_convert_is_refused(outputs: int, attributes: dict[str, int], why: str) -> None:
    """Otherwise the other nodes would be read as a later opset defines them: this norm would be of all elements."""
    results = ["y", *(f"other{n}" for n in range(1, outputs))]
    nodes = [
        helper.make_node("BatchNormalization", [*"xsbmv"], results, "bn", **attributes),
        helper.make_node("ReduceL2", ["y"], ["z"], "norm", axes=[1]),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3] if name == "x" else [3]) for name in "xsbmv"
    ]
    output = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 7)])
    want = f"node 'bn' (BatchNormalization, opset 7): onnx cannot convert it: {why}: want it as opset 18 defines it"
    with pytest.raises(numc.NumcError) as caught:
        numc.compile(onnx.ModelProto.FromString(model.SerializeToString()))
    assert str(caught.value) == f"ModelProto: {want}"
