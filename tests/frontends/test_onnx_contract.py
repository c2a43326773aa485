"""The way to torch's backend contract: that of torch-mlir, without the inference of shapes that are known."""

from __future__ import annotations

import onnx
import pytest
from onnx import parser
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras import onnx_importer

from numc.frontends.lowering import torch_mlir_passes as lowering
from numc.frontends.onnx import contract

HEADER = '<ir_version: 8, opset_import: ["" : 18]> g '
FIXED = {
    "softmax": "(float[2,3] x) => (float[2,3] y) { y = Softmax(x) }",
    "einsum": '(float[2,3] x, float[3,4] w) => (float[2,4] y) { y = Einsum<equation = "ij,jk->ik">(x, w) }',
    "expanded": "(float[2,3] x) => (float[2,3] y) { h = HardSwish(x) y = Celu(h) }",
    "convolution": "(float[1,3,8,8] x, float[4,3,3,3] w) => (float[1,4,6,6] y) { c = Conv(x, w) y = Relu(c) }",
}
FREE = {
    "softmax": "(float[n,3] x) => (float[n,3] y) { y = Softmax(x) }",
    "reshape": "(float[n,4] x) => (float[n,4] y) { s = Shape(x) e = Exp(x) y = Reshape(e, s) }",
}


def imported(text: str) -> ir.Module:
    model = onnx.shape_inference.infer_shapes(parser.parse_model(HEADER + text))
    context = ir.Context()
    torch_dialect.register_dialect(context)
    info = onnx_importer.ModelInfo(model, config=onnx_importer.Config(function_expansion_allowlists_by_domain=None))
    module = info.create_module(context=context)
    onnx_importer.NodeImporter.define_function(info.main_graph, module.operation).import_all()
    return module


@pytest.mark.parametrize("text", [*FIXED.values(), *FREE.values()], ids=[*FIXED, *(f"free {n}" for n in FREE)])
def test_passes_make_what_those_of_torch_mlir_make(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[str] = []
    monkeypatch.setattr(contract, "run", lambda text, module: (passes.append(text), lowering.run(text, module)))
    ours, theirs = imported(text), imported(text)
    contract.to_backend_contract(ours)
    lowering.run("torch-onnx-to-torch-backend-pipeline", theirs)
    assert str(ours) == str(theirs)
    assert "onnx." not in str(ours.body)
    inferred = any("torch-reify-shape-calculations" in each for each in passes)
    assert inferred == (text in FREE.values())
