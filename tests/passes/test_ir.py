"""Each ``ir/<pass>.mlir`` is run through the pass of that name; its CHECK lines are read by filecheck."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts

import numc
from numc.compiler import pipeline
from numc.compiler.targets import TARGETS
from numc.frontends.parse import parse_module
from numc.numerics.policy.policy import plain
from numc.support.errors import NumcError

FILES = sorted((Path(__file__).parent / "ir").glob("*.mlir"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_pass(file: Path) -> None:
    run = pipeline.find_pass(file.stem)
    assert run is not None, f"no pass is called {file.stem}"
    module = parse_module(file.read_text(), file.name)
    others = {"without-fma": "x86-64-v2", "byte-tensors": "x86-64-v4", "contractions": "cuda"}
    target = TARGETS[others.get(file.stem, "x86-64-v3")]
    run(module, pipeline.State(plain("bf16_1_1"), target, pack_weights=file.stem == "narrow-operands"))
    assert module.operation.verify()
    options = Options(match_filename=str(file))
    parser = Parser(options, io.StringIO(file.read_text()), *pattern_for_opts(options))
    assert Matcher(options, FInput("output", str(module)), parser).run() == 0


def test_every_numc_pass_has_a_file() -> None:
    ours = {name for passes in pipeline.STAGES.values() for name, each in passes.items() if not each.text}
    # check-arithmetic is tested below; lower-math, of kernels too, has tests of its own.
    assert ours - {file.stem for file in FILES} == {"check-arithmetic", "lower-math", "math-of-kernels"}


def test_an_escaped_multiply_add_is_found() -> None:
    text = (Path(__file__).parent / "ir" / "explicit-arithmetic.mlir").read_text()
    module = parse_module(text, "x")
    with pytest.raises(AssertionError, match="a multiply-add has no operator"):
        pipeline.STAGES["numc"]["check-arithmetic"](module, pipeline.State(plain(), TARGETS["x86-64-v3"]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'func.func @main(%a: f32) { %r = "numc.round"(%a) {to = "bf17"} : (f32) -> f32 return }',
            "unknown format 'bf17'",
        ),
        ('func.func @main(%a: f32) { %r = "numc.round"(%a) : (f32) -> f32 return }', "'to'"),
        ('func.func @main(%a: f64) { %r = "numc.round"(%a) {to = "bf16"} : (f64) -> f64 return }', "f32"),
        (
            'func.func @main(%a: f32) { %r = "numc.fma"(%a, %a, %a) {fma = "mp2"} : (f32, f32, f32) -> f32 return }',
            "'mp2'",
        ),
        ("func.func @main(", "not valid MLIR"),
    ],
)
def test_dialect_errors_are_located(text: str, message: str) -> None:
    with pytest.raises(NumcError, match=r"model\.mlir:\d+:\d+: not valid MLIR of this version") as caught:
        parse_module(text, "model.mlir")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (
            'numc.round"(%x) {to = "e2..8m3"} : (f32) -> f32',
            "'numc.round' has open widths: give it their slot, as in {width = 0 : i64}",
        ),
        (
            'numc.fma"(%x, %x, %x) {fma = "macs(e2..8m3)", widths = {a = 0, b = 1}} : (f32, f32, f32) -> f32',
            "'numc.fma' has open widths: give it their slots, as in {widths = {product = 0 : i64}}",
        ),
    ],
)
def test_open_widths_without_a_slot(tmp_path, operation, error):
    (tmp_path / "m.mlir").write_text(f"""
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
  %r = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
      outs(%a : tensor<4xf32>) {{
  ^bb0(%x: f32):
    %y = "{operation}
    linalg.yield %y : f32
  }} -> tensor<4xf32>
  return %r : tensor<4xf32>
}}""")
    with pytest.raises(NumcError) as caught:
        numc.compile(tmp_path / "m.mlir", cache=False)
    assert str(caught.value).endswith(error)
