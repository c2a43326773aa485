"""A dumped file and the options of `numc opt` give what the pipeline gave, pass by pass, also where a pass fails."""

from __future__ import annotations

import hashlib
import shlex
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from torch_mlir import ir

import numc
from numc.cli import main
from numc.compiler import pipeline
from numc.compiler.lower import module_of
from numc.compiler.opt import opted
from numc.compiler.options import Options
from numc.compiler.pipeline import STAGES, Pass, State
from numc.compiler.programs.build import build
from numc.frontends.imported import Imported
from numc.frontends.load import load_file
from numc.numerics.policy.load import load_policy
from numc.support.errors import CompilerBug
from tiers import by_default

EXAMPLES = Path(__file__).parents[2] / "examples"
PASSES = [name for passes in STAGES.values() for name in passes]
POLICY = "default fma = bf16_1_1, ops = bf16\nop conv fma = highbfp\n"


@cache
def training_step() -> tuple[list[Imported], Options]:
    """The forward and the backward pass of a small network, and the step of its optimizer."""
    torch = pytest.importorskip("torch")
    backend = numc.backend("bf16_1_1", ops="bf16")
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 5)
    )
    optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9)
    compiled = torch.compile(network, backend=backend)
    for _ in range(2):
        torch.nn.functional.cross_entropy(compiled(torch.randn(3, 1, 8, 8)), torch.tensor([0, 2, 4])).backward()
        torch.compile(optimizer.step, backend=backend)()
    imported = [region.imported for region in backend.regions]
    assert {role for each in imported for role in each.roles.values()} >= {"wgrad", "update"}
    assert any(each.updates for each in imported)
    return imported, Options(policy=backend.arithmetic.policy())


def example(name: str, options: Options) -> Callable[[], tuple[list[Imported], Options]]:
    return lambda: ([load_file(EXAMPLES / name)], options)


MODELS = {
    "cnn": example("digits/cnn.onnx", Options(fma="bf16_2_2{3}", ops="bf16", target="x86-64-v3", fast=False)),
    "lstm": example("models/lstm.onnx", Options(fma="bf16_1_1", target="x86-64-v4")),
    "transformer": example("models/transformer.onnx", Options(fma="bf16_1_1", ops="e6m9:sr8", target="x86-64-v4")),
    "training": training_step,
    "groups": example("digits/cnn.onnx", Options(fma="highbfp", target="x86-64-v2", statistics=True)),
}


LONG = [pytest.param(name, marks=pytest.mark.slow) for name in ("transformer", "training")]
SHORT = [name for name in MODELS if all(name not in case.values for case in LONG)]


@pytest.mark.parametrize("name", [*by_default(SHORT, ["cnn"]), *LONG])
def test_every_pass_does_the_same_to_a_dumped_file(name: str) -> None:
    models, options = MODELS[name]()
    state = State.of(options)
    for imported in models:
        module = module_of(imported, options)
        after = pipeline.text(module)
        for each in PASSES:
            before = after
            function = pipeline.find_pass(each)
            assert function is not None
            function(module, state)
            after = pipeline.text(module)
            assert opted(before, "before.mlir", options, steps=[each]) == after, each


def test_the_command_does_the_same(tmp_path: Path) -> None:
    """With all that it can be told: a policy, statistics, another target, no cheap sequences."""
    Path(tmp_path, "policy").write_text(POLICY)
    Path(tmp_path, "dump").mkdir()
    options = Options(policy=load_policy(POLICY), target="x86-64-v3", statistics=True, fast=False)
    build(load_file(EXAMPLES / "digits/cnn.onnx"), options, tmp_path / "dump")
    after = {int(file.name[:2]): file for file in tmp_path.glob("dump/[0-9]*.mlir")}  # of passes that changed it
    files = [after[max(n for n in after if n <= number)] for number in range(1, len(PASSES) + 1)]
    asked = ["--policy", f"{tmp_path}/policy", "--target", "x86-64-v3", "--statistics", "--no-fast"]
    for number in (3, 4, len(PASSES) - 6):
        out = tmp_path / "out.mlir"
        assert main(["opt", str(files[number - 1]), "--passes", PASSES[number], *asked, "-o", str(out)]) == 0
        assert out.read_text() == files[number].read_text(), PASSES[number]


FAILING = [
    "generalize",
    "explicit-arithmetic",
    "tidy-conversions",
    "fold-constants",
    "bufferize",
    "lower-numc",
    "lower",
]


def _fails(module: ir.Module, state: State) -> None:
    """Fail with a text that depends on all that a pass is given."""
    given = hashlib.sha256(pipeline.text(module).encode()).hexdigest()
    raise ValueError(f"{given} {str(state.policy).split()} {state.target.name} {state.statistics} {state.fast}")


@pytest.mark.parametrize(
    "options",
    [
        Options(fma="bf16_1_1", ops="bf16", target="x86-64-v3"),
        Options(policy=load_policy(POLICY), target="x86-64-v2", statistics=True, fast=False),
    ],
    ids=["plain", "policy"],
)
def test_the_command_of_a_failure_fails_alike(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("NUMC_DISABLE", "fuse-elementwise")
    state = State.of(options)
    module = module_of(
        load_file(EXAMPLES / "digits/mlp.onnx" if options.policy is None else EXAMPLES / "digits/cnn.onnx"), options
    )
    for stage, passes in STAGES.items():
        begin = pipeline.Begin(module.operation.clone())
        for name, function in passes.items():
            if name in FAILING:
                monkeypatch.setitem(STAGES[stage], name, Pass("Fails.", _fails))  # type: ignore[index]
                with pytest.raises(CompilerBug) as caught:
                    pipeline.run_pass(name, STAGES[stage][name], module, state, begin)
                message = str(caught.value)
                reason, command = message.split("; reproduce with: ")
                assert command.startswith(f"env NUMC_DISABLE=fuse-elementwise numc opt {tmp_path}/numc-failure-")
                assert main(shlex.split(command)[3:]) == 1
                assert capsys.readouterr().err.split("; reproduce with")[0].endswith(reason)
                monkeypatch.setitem(STAGES[stage], name, function)  # type: ignore[index]
            pipeline.run_pass(name, function, module, state, begin)
    assert not list(Path().iterdir()), "a failure leaves nothing in the caller's working folder"
