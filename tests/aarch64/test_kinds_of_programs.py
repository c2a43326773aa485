"""Programs of other kinds on AArch64: written-out formats, training, language models, packed weights, ONNX nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from emulated import ROOT, Array, Emulated, both, first_difference
from numc.frontends.imported import Imported
from numc.frontends.load import load, load_file
from tests.conformance import test_written_out as written_out
from tools import onnx_suite

pytestmark = pytest.mark.all
EXAMPLES = ROOT / "examples"
KNOWN = ROOT / "tests" / "data" / "onnx_known_failures.json"
PRODUCT = """
func.func @main(%a: tensor<MxKxf32>, %b: tensor<KxNxf32>, %c: tensor<MxNxf32>) -> tensor<MxNxf32> {
  %r = linalg.matmul ins(%a, %b : tensor<MxKxf32>, tensor<KxNxf32>) outs(%c : tensor<MxNxf32>) -> tensor<MxNxf32>
  return %r : tensor<MxNxf32>
}"""


def _product(m: object, k: object, n: object) -> Imported:
    return Imported(mlir=PRODUCT.replace("M", f"{m}").replace("K", f"{k}").replace("N", f"{n}"))


def check(emulated: Emulated, where: Path, model: Imported, runs: list[list[Array]], **options: Any) -> None:
    theirs, ours = both(emulated, where, model, runs, **options)
    assert (difference := first_difference(theirs, ours)) is None, difference


@pytest.mark.parametrize(
    "fma",
    [written_out.OPERATORS[1], *(pytest.param(fma, marks=pytest.mark.slow) for fma in written_out.OPERATORS)],
)
def test_written_out_operators(fma: str, emulated: Emulated, tmp_path: Path) -> None:
    runs = [list(written_out.operands(numbers)) for numbers in ("normal", "tiny", "huge", "zeros", "special")]
    check(emulated, tmp_path, _product(5, 100, 37), runs, fma=fma)


@pytest.mark.parametrize("fma", ["bf16_1_2", pytest.param("mxfp8", marks=pytest.mark.slow)])
def test_sizes_of_nothing_and_one(fma: str, emulated: Emulated, tmp_path: Path) -> None:
    rng, runs = np.random.default_rng(0), []
    for m, k, n in ((0, 5, 3), (5, 0, 3), (5, 3, 0), (0, 0, 0), (1, 1, 1), (1, 70, 1), (3, 1, 65)):
        runs.append([rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n))])
    check(emulated, tmp_path, _product("?", "?", "?"), runs, fma=fma)


def _training_step() -> tuple[torch.fx.GraphModule, tuple[torch.Tensor, ...]]:
    """The loss, and the parameters after a step: forward and backward pass and update are one graph."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1),
        torch.nn.BatchNorm2d(4, track_running_stats=False),
        torch.nn.GELU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 5),
    )
    names = dict(network.named_parameters())

    def step(x: torch.Tensor, y: torch.Tensor, *parameters: torch.Tensor) -> tuple[torch.Tensor, ...]:
        parameters = tuple(p.detach().requires_grad_() for p in parameters)
        scores = torch.func.functional_call(network, dict(zip(names, parameters, strict=True)), (x,))
        loss = torch.nn.functional.cross_entropy(scores, y)
        gradients = torch.autograd.grad(loss, parameters)
        rated = zip(parameters, gradients, strict=True)
        return loss, *(p - 0.01 * (g + 0.01 * p) / (g * g + 1e-8).sqrt() for p, g in rated)

    arguments = (torch.randn(6, 1, 8, 8), torch.randint(0, 5, (6,)), *(p.detach() for p in names.values()))
    decompositions = torch._decomp.core_aten_decompositions()
    return make_fx(step, decomposition_table=decompositions)(*arguments), arguments


STEPS = {
    "bf16_1_1": "bf16",
    "bf16_2_2{3}": "fp32",
    "mxfp8": "fp32",
    "hopper_bf16": "fp32",
    "fmac(e6m9:sr8)": "bf16:sr8",
}


@pytest.mark.parametrize("fma", [pytest.param(fma, marks=pytest.mark.slow) for fma in STEPS])
def test_a_training_step(fma: str, emulated: Emulated, tmp_path: Path) -> None:
    graph, arguments = _training_step()
    model = load(graph, arguments, purpose="compile")
    check(emulated, tmp_path, model, [[each.numpy() for each in arguments]], fma=fma, ops=STEPS[fma])


PACKED = (
    *("highbfp", "int8", "mxfp6", "blackwell_nvfp4", "fma(a=bf16,b=posit8,acc=fp32)", "fma(a=bf16,b=nf4,acc=fp32)"),
    *(f"fma(a=bf16,b={weight},acc=fp32)" for weight in ("mxfp4", "int4(group=20)", "mx(nf4,64,scale=fp32)")),
)


@pytest.mark.slow
@pytest.mark.parametrize("options", [*({"pack_weights": True, "fma": fma} for fma in PACKED), {"statistics": True}])
@pytest.mark.parametrize("name", ["digits/cnn", "models/transformer", "models/gru"])
def test_packed_weights_and_statistics(name: str, options: Any, emulated: Emulated, tmp_path: Path) -> None:
    model, rng = load_file(EXAMPLES / f"{name}.onnx"), np.random.default_rng(0)
    shapes = [[3 if size < 0 else size for size in each.shape] for each in model.inputs]
    runs: list[list[Array]] = [[rng.standard_normal(shape).astype(np.float32) for shape in shapes]]
    check(emulated, tmp_path, model, runs, **{"fma": "fmac(e4m5)", **options})


@pytest.mark.slow
@pytest.mark.parametrize("fma", ["bf16_1_2", "mxfp8", "nvfp4"])
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_language_models(name: str, fma: str, emulated: Emulated, tmp_path: Path) -> None:
    tiny_language = pytest.importorskip("tiny_language")
    network = getattr(tiny_language, name)()

    class Scores(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, tokens: torch.Tensor) -> Any:
            return self.network(tokens, use_cache=False).logits

    tokens = torch.arange(7, 17).reshape(2, 5)
    check(emulated, tmp_path, load(Scores(), (tokens,), purpose="compile"), [[tokens.numpy()]], fma=fma)


@pytest.mark.slow
@pytest.mark.parametrize("first", [3, 11, 19])
def test_operators_of_onnx(first: int, emulated: Emulated, tmp_path: Path) -> None:
    """Every 69th case of ONNX's node suite that numc compiles and whose inputs are arrays of numbers."""
    cases = onnx_suite.cases()
    for name in set(list(cases)[first::69]) - set(json.loads(KNOWN.read_text())):
        runs = [[_array(value) for value in inputs] for inputs, _ in cases[name].data_sets]
        if all(isinstance(a, np.ndarray) and a.dtype.kind not in "OSU" for inputs in runs for a in inputs):
            theirs, ours = both(emulated, tmp_path, load(cases[name].model, purpose="compile"), runs, fma="fp32")
            assert (difference := first_difference(theirs, ours)) is None, f"{name}: {difference}"


def _array(value: Any) -> Any:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
