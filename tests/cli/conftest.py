"""Runs the command in this process and returns what it printed; programs are compiled once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from numc.cli import main

DIGITS = Path(__file__).parents[2] / "examples" / "digits"

MATMUL = """
func.func @main(%a: tensor<?x4xf32>, %b: tensor<4x3xf32>, %c: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<?x4xf32>, tensor<4x3xf32>) outs(%c : tensor<?x3xf32>) -> tensor<?x3xf32>
  return %r : tensor<?x3xf32>
}
"""
TWO_OUTPUTS = """
func.func @main(%a: tensor<?xf32>, %n: tensor<3xi64>) -> (tensor<?xf32>, tensor<3xi64>) {
  return %a, %n : tensor<?xf32>, tensor<3xi64>
}
"""


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line of an error."""
        assert self.out == ""
        assert self.err.startswith("numc: error: ")
        assert self.err.count("\n") == 1, self.err
        return self.err.removeprefix("numc: error: ").rstrip("\n")


Run = Callable[..., Result]


@pytest.fixture
def numc_run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Result:
        status = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled programs: mlp.numc, matmul.numc, two.numc, beside the .mlir files."""
    path = tmp_path_factory.mktemp("programs")
    (path / "matmul.mlir").write_text(MATMUL)
    (path / "two.mlir").write_text(TWO_OUTPUTS)
    assert main(["compile", str(DIGITS / "mlp.onnx"), "--fma", "bf16_1_2", "-o", str(path / "mlp.numc")]) == 0
    for name in ("matmul", "two"):
        assert main(["compile", str(path / f"{name}.mlir"), "-o", str(path / f"{name}.numc")]) == 0
    return path
