"""What is refused is told in words of users, at a line of theirs; and what was refused without a reason works."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tiers import pairs

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import numc  # noqa: E402
from numc.frontends.pytorch.places import place_in, place_of  # noqa: E402
from numc.frontends.words import FOREIGN, NO_CONVERSION, in_words, together, with_operands  # noqa: E402

LIBRARY = os.path.join(sysconfig.get_path("purelib"), "torchvision", "boxes.py")
TORCH = torch.__file__
EIGHT = torch.float8_e4m3fn


class Calls(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: Any) -> Any:
        return self.function(*given)


def refused(module: Any, *inputs: Any) -> str:
    with pytest.raises(numc.NumcError) as caught:
        numc.compile(module, inputs)
    assert not FOREIGN.search(str(caught.value)), caught.value
    return str(caught.value)


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        ([], ""),
        ([("model.py", 3), (TORCH, 9)], "model.py:3"),
        ([("main.py", 3), ("model.py", 5), (TORCH, 9)], "model.py:5"),
        ([("model.py", 3), (LIBRARY, 7), (TORCH, 9)], f"{LIBRARY}:7, called at model.py:3"),
        ([(LIBRARY, 7), (TORCH, 9)], f"{LIBRARY}:7"),
        ([("model.py", 3), (LIBRARY, 7), ("model.py", 8)], "model.py:8"),
        ([(os.path.join(sysconfig.get_path("stdlib"), "contextlib.py"), 137), ("<string>", 1)], ""),
    ],
)
def test_the_line_of_a_library_comes_with_that_of_the_caller(frames: list[tuple[str, int]], place: str) -> None:
    assert place_of(frames) == place
    assert place_in("".join(f'File "{file}", line {line}, in f\n' for file, line in frames)) == place


def test_what_fails_in_a_library_is_found_there_and_at_the_caller() -> None:
    names: dict[str, Any] = {}
    exec(compile("def keep(x):\n    return x if x.sum() > 0 else -x\n", LIBRARY, "exec"), names)
    text = refused(Calls(lambda x: names["keep"](x)), torch.ones(3))
    assert text.endswith(f"instead of an if ({LIBRARY}:2, called at {__file__}:{text.rpartition(':')[2]}")


@pytest.mark.filterwarnings("ignore")
def test_quantised_modules_and_tensors_are_refused_with_advice() -> None:
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4)), {nn.Linear})
    assert refused(model, torch.ones(2, 4)) == (
        "Sequential: quantised modules of torch.ao are not available: '0' (Linear); compile the module as it was "
        "before, in an arithmetic of integers such as fma='int8', or an ONNX file that onnxruntime has quantised"
    )
    codes = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    assert refused(nn.ReLU(), codes).endswith("; compute with floats: use .dequantize()")
    text = refused(Calls(lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()), torch.ones(3))
    assert "): makes a tensor that torch quantises; compute with floats: torch.fake_quantize_per_tensor" in text


def test_what_has_no_conversion_is_told_by_its_operands() -> None:
    text = refused(Calls(lambda x: torch.igamma(x, x)), torch.ones(3, 2))
    assert "): numc has no conversion of it for float32[3, 2]; rewrite it" in text
    assert (
        in_words("failed to legalize operation 'torch.aten.igamma' that was explicitly marked illegal") == NO_CONVERSION
    )
    assert with_operands(NO_CONVERSION, ["int8"], {"axis": -1}) == f"{NO_CONVERSION} for int8, axis=-1"
    assert with_operands("it has strings", ["int8"]) == "it has strings"


def test_what_fails_only_together_keeps_what_was_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    text = together("'tensor.cast' op operand type", {"graph.txt": "graph"})
    start, _, folder = text.rpartition(" is in ")
    assert start.startswith("cannot be compiled, though each operation alone can: this is a fault of numc: ")
    assert (Path(folder) / "importer.txt").read_text() == "'tensor.cast' op operand type"
    assert (Path(folder) / "graph.txt").read_text() == "graph"
    assert not FOREIGN.search(start)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    assert together("x").endswith("`numc doctor`")


SCALES = {"of tensors": (torch.tensor(0.37), torch.tensor(1.7)), "of rows": (torch.rand(6, 1), torch.rand(1, 16))}


@pytest.mark.parametrize(
    ("scales", "dtype"), pairs(list(SCALES), [None, torch.float32, torch.bfloat16, torch.float8_e5m2])
)
def test_scaled_products_are_those_of_eager_torch(scales: str, dtype: Any) -> None:
    torch.manual_seed(0)
    # Large enough for results beyond 448, where float8_e4m3fn saturates and float8_e5m2 does not.
    a, b = (30 * torch.randn(6, 32)).to(EIGHT), torch.randn(16, 32).to(EIGHT).t()
    bias = torch.randn(16)

    def product(a: Any, b: Any, one: Any, other: Any, bias: Any) -> Any:
        return torch._scaled_mm(a, b, one, other, bias=bias, out_dtype=dtype)

    given = (a, b, *SCALES[scales], bias)
    one, other = SCALES[scales]
    exact = (a.double() * one) @ (b.double() * other) + bias
    want = exact.clamp(-448, 448) if dtype is None else exact
    got = numc.compile(Calls(product), given)(*given)
    assert got.dtype == product(*given).dtype == (dtype or EIGHT)
    near = {torch.float32: 1e-5, torch.bfloat16: 2**-7}.get(dtype, 0.25)
    for reference in (want.to(got.dtype), product(*given)):
        torch.testing.assert_close(got.float(), reference.float(), rtol=near, atol=1e-3)


def test_roundings_of_quantisers_with_scales_that_are_tensors() -> None:
    x = 5 * torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    scales, zeros = torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([3, 0, 0, 1], dtype=torch.int32)

    def by_channel(x: Any) -> Any:
        return torch.fake_quantize_per_channel_affine(x, scales, zeros, 1, -8, 7)

    def by_tensor(x: Any) -> Any:
        return torch.fake_quantize_per_tensor_affine(x, scales[2], zeros[3], -8, 7)

    for function in (by_channel, by_tensor):
        assert torch.equal(numc.compile(Calls(function), (x,))(x), function(x))
