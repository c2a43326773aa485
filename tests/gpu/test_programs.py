"""Programs for GPUs as a user has them: text, files, devices, and what is refused."""

from __future__ import annotations

import ast
import json
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
import torch

import numc
from emulated_gpu import NEEDS
from numc.cli import main
from numc.runtime.gpu import gpu_program
from numc.runtime.gpu.gpu_program import GpuProgram
from numc.support.errors import NumcError

pytest.importorskip("triton", reason=NEEDS)
MLP = Path(__file__).parents[2] / "examples" / "digits" / "mlp.onnx"


@pytest.fixture(scope="module")
def program() -> GpuProgram:
    return numc.compile(MLP, fma="bf16_1_1", target="cuda")


def test_text(program: GpuProgram) -> None:
    """It is Python: kernels by name, and a function that launches them, with the names of layers."""
    tree = ast.parse(program.text)
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert names[-1] == "main"
    assert "# linear: bf16_1_1" in program.text or ": bf16_1_1" in program.text
    assert repr(program) == "<GpuProgram (x: float32[?,64]) -> (logits: float32[?,10])>"


def test_files(program: GpuProgram, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program file holds it; the command says that it runs from Python."""
    path = tmp_path / "mlp.numc"
    program.save(path)
    x = np.ones((2, 64), np.float32)
    loaded = numc.load(path)
    assert isinstance(loaded, GpuProgram)
    assert torch.equal(loaded.to("cpu")(x), program.to("cpu")(x=x))
    assert main(["run", str(path), "--random-input", "0", "--batch", "2"]) == 2
    assert "target 'cuda': its programs run from Python, on tensors" in capsys.readouterr().err
    other = tmp_path / "command.numc"
    assert main(["compile", str(MLP), "--fma", "bf16_1_1", "--target", "cuda", "-o", str(other)]) == 0
    assert numc.load(other).text == program.text
    assert ", 3 contractions in bf16_1_1, " in capsys.readouterr().out
    assert main(["compile", str(MLP), "--fma", "bf16_1_1", "--target", "cuda", "--emit", "kernels"]) == 0
    assert capsys.readouterr().out == program.text


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_without_a_gpu(program: GpuProgram) -> None:
    with pytest.raises(NumcError, match=r"target 'cuda': torch finds no GPU here: use program.to\('cpu'\), which em"):
        program(torch.ones(1, 64))


def test_inputs_that_do_not_fit(program: GpuProgram) -> None:
    here = program.to("cpu")
    for call, text in (
        (lambda: here(torch.ones(1, 63)), "input 'x': got float32[1,63], want float32[?,64]"),
        (lambda: here(torch.ones(1, 64).double()), "input 'x': got float64[1,64], want float32[?,64]"),
        (lambda: here(y=torch.ones(1, 64)), "unknown input 'y': inputs are x"),
        (lambda: here(), "inputs are x: got 0 of 1"),
        (lambda: here(torch.ones(1, 64, device="meta")), "input 'x': on device meta, and the program runs on cpu"),
        (lambda: here(torch.ones(1, 64), seed=-1), "seed: got -1"),
        (lambda: here(torch.ones(1, 64), widths=3), "widths: this program has none to choose"),
    ):
        with pytest.raises(NumcError) as refused:
            call()
        assert str(refused.value).startswith(text)


@pytest.mark.parametrize(
    ("option", "what"), [("pack_weights", "weights are not packed"), ("statistics", "additions are not counted")]
)
def test_options_that_gpus_lack(option: str, what: str) -> None:
    with pytest.raises(NumcError) as refused:
        numc.compile(MLP, fma="bf16_1_1", target="cuda", **{option: True})
    assert str(refused.value) == f"target 'cuda': {what} on GPUs: leave {option} out"


def test_no_shared_object(program: GpuProgram, tmp_path: Path) -> None:
    path = tmp_path / "mlp.numc"
    program.save(path)
    with pytest.raises(
        NumcError, match="^code of no machine: shared objects are made for x86-64 and aarch64 only: want another target"
    ):
        numc.export_shared(path, tmp_path / "mlp.so")
    assert not (tmp_path / "mlp.so").exists()


def test_an_index_out_of_range() -> None:
    table = torch.nn.Embedding(4, 3)
    program = numc.compile(table, (torch.tensor([1]),), target="cuda").to("cpu")
    assert torch.equal(program(torch.tensor([2])), table(torch.tensor([2])).detach())
    with pytest.raises(NumcError, match="an index is out of range"):
        program(torch.tensor([4]))


def test_without_triton(program: GpuProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    import triton

    monkeypatch.setattr(triton, "__version__", "3.2.1")
    with pytest.raises(NumcError, match=r"target 'cuda' needs Triton 3.6 or later, this is 3.2.1: pip install"):
        program.to("cpu")(torch.ones(1, 64))
    monkeypatch.setattr(triton, "__version__", "3.6.0")
    monkeypatch.delattr(triton._C.libtriton.interpreter, "fma_fp32")
    with pytest.raises(
        NumcError, match=r"Triton 3.6.0 has no fused multiply-add in its interpreter, .*: want 3.9 or l"
    ):
        program.to("cpu")(torch.ones(1, 64))
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(NumcError, match=r"target 'cuda' needs PyTorch and Triton, and there is no triton: pip inst"):
        program.to("cpu")(torch.ones(1, 64))


def test_damaged_code(program: GpuProgram) -> None:
    broken = GpuProgram(replace(program.contents, code=program.contents.code[:-40]), "cpu")
    with pytest.raises(NumcError, match="program: its code is damaged"):
        broken(torch.ones(1, 64))
    assert issubclass(zipfile.BadZipFile, Exception)


@pytest.mark.slow
def test_the_check_of_a_gpu_runs_in_emulation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tools import gpu_check

    assert gpu_check.main(["--emulate", "-o", str(tmp_path / "found.json")]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert {row["wrong"] for row in (*found["conformance"].values(), found["model"], found["training"])} == {0}
    assert "numc on emulated" in capsys.readouterr().out
    if not torch.cuda.is_available():
        assert gpu_check.main([]) == 2
        assert capsys.readouterr().err == "gpu_check: torch finds no GPU: use --emulate\n"


def test_a_cuda_graph(program: GpuProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    """While torch captures, nothing waits for the device; what kernels find wrong is told by `check`."""
    table = torch.nn.Embedding(4, 3)
    lookup = numc.compile(table, (torch.tensor([1, 2]),), fma="fp32", target="cuda").to("cpu")
    drawn = numc.compile(MLP, fma="fma(a=bf16:sr16,acc=fp32)", target="cuda").to("cpu")
    here, x = program.to("cpu"), np.ones((2, 64), np.float32)
    backend = numc.backend(target="cuda", strict=True)
    compiled = torch.compile(table, backend=backend)
    compiled(torch.tensor([1, 2]))
    expected = here(x)
    lookup(torch.tensor([1, 2])), drawn(x)
    monkeypatch.setattr(gpu_program, "is_capturing", lambda device: True)
    with pytest.raises(NumcError, match="a CUDA graph captures the first run of this program, which loads its kernels"):
        program.to("cpu")(x)
    assert torch.equal(here(x), expected)
    here.check()
    lookup(torch.tensor([1, 9]))
    with pytest.raises(NumcError, match="an index is out of range"):
        lookup.check()
    compiled(torch.tensor([1, 9]))
    with pytest.raises(NumcError, match="an index is out of range"):
        backend.check()
    with pytest.raises(NumcError, match="draws random bits, which would be the same in every replay of a CUDA graph"):
        drawn(x)
    assert torch.equal(drawn(x, seed=3), drawn(x, seed=3))


def test_a_cuda_graph_has_no_sizes_of_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (int64[1] n, float[1] x) => (float[m] y) { y = Expand(x, n) }'
    )
    onnx.save(model, tmp_path / "expand.onnx")
    program = numc.compile(tmp_path / "expand.onnx", fma="fp32", target="cuda").to("cpu")
    inputs = {"n": np.array([3]), "x": np.ones(1, np.float32)}
    assert program(**inputs).shape == (3,)
    monkeypatch.setattr(gpu_program, "is_capturing", lambda device: True)
    with pytest.raises(NumcError, match="sizes or steps of this program depend on data that the host reads, which a C"):
        program(**inputs)


def test_what_observes_programs(program: GpuProgram) -> None:
    with (
        numc.collect_stats("fmas"),
        pytest.raises(NumcError, match="observe programs for target 'host', which have the same bits: compile for it"),
    ):
        program.to("cpu")(np.ones((2, 64), np.float32))
