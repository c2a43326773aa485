"""Real models, compiled and run: against onnxruntime in fp32, against the exact reference under every operator."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest

import light_models
import numc
from numc.compiler import pipeline
from numc.compiler.options import Options
from numc.compiler.programs.build import build
from numc.compiler.targets import TARGETS
from numc.frontends.imported import Imported
from numc.frontends.load import load_file
from numc.frontends.parse import parse_module
from numc.numerics.operators import FMAS
from numc.numerics.policy.policy import plain
from numc.passes import facts
from numc.support.errors import CompilerBug
from tiers import by_default, one_in, pairs

ROOT = Path(__file__).resolve().parents[2] / "examples"
SMALL = ["digits/mlp", "digits/cnn", "models/transformer", "models/lstm", "models/gru"]
OPERATORS = [*FMAS, "fmac(e6m9)", "mac(fp16)", "fma(a=bf16,acc=bf16x2,datapath=exact)"]
LIGHT = sorted(light_models.models())
Feeds = dict[str, npt.NDArray[np.float32]]


@cache
def imported(path: Path) -> Imported:
    return load_file(path)


def feeds(program: numc.Program, batch: int = 3) -> Feeds:
    rng = np.random.default_rng(0)
    shapes = {i.name: [batch if d is None else d for d in i.shape] for i in program.inputs}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def outputs(program: numc.Program, values: Feeds) -> list[npt.NDArray[np.float32]]:
    result = program(values)
    return list(result.values()) if isinstance(result, dict) else [result]


@pytest.mark.parametrize("name", by_default(SMALL, SMALL[:2]))
def test_fp32_agrees_with_onnxruntime(name: str) -> None:
    path = ROOT / f"{name}.onnx"
    program = numc.compile(imported(path))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for batch in (1, 3, 8):  # one program serves every batch size
        values = feeds(program, batch)
        for got, want in zip(outputs(program, values), session.run(None, values), strict=True):
            # fp32 libraries sum in another order: agreement to rounding error, not to the bit.
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(want).max())))


@pytest.mark.parametrize(
    ("fma", "name"), by_default(one_in(4, pairs(OPERATORS, SMALL)), [("bf16_2_2{4}", "digits/cnn")])
)
def test_every_operator_verifies(fma: str, name: str) -> None:
    program = numc.compile(imported(ROOT / f"{name}.onnx"), fma=fma, ops="bf16" if fma == "bf16_1_1" else "fp32")
    report = numc.verify(program, feeds(program), samples=100)
    assert report.mismatches == 0, report.first
    assert all(row.checked > 0 for row in report.rows)


LARGE = tuple(name for name in LIGHT if name != "squeezenet")


@pytest.mark.all
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LARGE else n for n in LIGHT])
def test_light_models(name: str) -> None:
    path, inputs, expected = light_models.models()[name]
    program = numc.compile(imported(path))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for got, recorded, theirs in zip(outputs(program, inputs), expected, session.run(None, inputs), strict=True):
        # The tolerance of the ONNX backend tests for recorded outputs.
        np.testing.assert_allclose(got, recorded, rtol=1e-3, atol=1e-7)
        np.testing.assert_allclose(got, theirs, rtol=1e-3, atol=1e-7)
    report = numc.verify(program, feeds(program), samples=100)
    assert report.mismatches == 0, report.first


@pytest.mark.all
@pytest.mark.parametrize("fma", one_in(8, [f for f in FMAS if f != "fp32"]))
def test_every_operator_runs_a_light_model(fma: str) -> None:
    path, _, _ = light_models.models()["squeezenet"]
    program = numc.compile(imported(path), fma=fma)
    report = numc.verify(program, feeds(program), samples=50)
    assert report.mismatches == 0, report.first
    assert report.checked >= 26


@pytest.mark.slow
@pytest.mark.parametrize("fma", [f for f in FMAS if f != "fp32"])
@pytest.mark.parametrize("name", LIGHT)
def test_every_operator_runs_every_light_model(name: str, fma: str) -> None:
    program = numc.compile(imported(light_models.models()[name][0]), fma=fma)
    report = numc.verify(program, feeds(program), samples=200)
    assert report.mismatches == 0, report.first
    assert all(row.checked > 0 for row in report.rows)


def test_verify_finds_a_wrong_bit() -> None:
    """A program whose manifest claims another operator than its code runs must not pass."""
    program = numc.compile(imported(ROOT / "digits/mlp.onnx"), fma="bf16_1_1")
    for contraction in program.manifest["contractions"]:
        contraction["fma"] = "bf16_1_2"
    report = numc.verify(program, feeds(program), samples=100)
    assert report.mismatches > 0
    assert report.first is not None
    assert "got 0x" in report.first


def test_saved_program_gives_the_same_bits(tmp_path: Path) -> None:
    program = numc.compile(imported(ROOT / "digits/cnn.onnx"), fma="bf16_2_2{4}")
    program.save(tmp_path / "cnn.numc")
    again = numc.load(tmp_path / "cnn.numc")
    values = feeds(program)
    np.testing.assert_array_equal(outputs(program, values)[0], outputs(again, values)[0])


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dump")
    build(imported(ROOT / "digits/mlp.onnx"), Options(fma="bf16_1_2", target="x86-64-v3"), folder)
    return folder


@pytest.mark.parametrize("stage", ["numc", "tensors", "buffers", "plan", "vector"])
def test_resumed_stage_gives_the_same_code(stage: str, dump: Path) -> None:
    state = pipeline.State(plain("bf16_1_2"), TARGETS["x86-64-v3"])
    module = parse_module((dump / f"{stage}.mlir").read_text(), stage)
    pipeline.run(module, state, after=stage)
    # Without locations: they name the file the text was read from.
    dumped = parse_module((dump / "llvm.mlir").read_text(), "llvm")
    facts.drop(dumped.operation, pipeline.STAGE)
    assert str(module) == str(dumped)


def test_a_failing_pass_leaves_its_ir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def fail(module: object, state: object) -> None:
        raise ValueError("no luck")

    monkeypatch.setitem(pipeline.STAGES["numc"], "tidy-conversions", fail)
    message = r"pass 'tidy-conversions' failed: no luck; .*; reproduce with: numc opt "
    with pytest.raises(CompilerBug, match=message) as caught:
        numc.compile(imported(ROOT / "digits/mlp.onnx"), fma="bf16_1_1", cache=False)
    kept = str(caught.value).split("numc opt ")[1].split()[0]
    assert "numc.fma" in (tmp_path / kept).read_text()
