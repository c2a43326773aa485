"""The version of torch-mlir that numc is made for."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

import numc
from numc.support import versions
from numc.support.errors import NumcError

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_the_version_is_the_one_that_is_installed_with_numc() -> None:
    assert f'"torch-mlir=={versions.TORCH_MLIR}"' in PROJECT.read_text()
    versions.check_torch_mlir.__wrapped__()


def test_versions_are_those_that_installers_wrote() -> None:
    installed = {each.name: each.version for each in metadata.distributions()}
    assert {name: versions.version_of(name) for name in installed} == installed
    assert versions.version_of("Torch_MLIR") == versions.TORCH_MLIR
    assert versions.version_of("no-such-package") is None


@pytest.mark.parametrize(
    ("found", "variable", "message"),
    [
        (None, "", r"^torch-mlir is not installed: pip install torch-mlir==\d{8}$"),
        (
            "20250101",
            "",
            r"^torch-mlir 20250101 is installed, numc is made for \d+: pip .*; NUMC_TORCH_MLIR=any ",
        ),
        ("20250101", "yes", "^NUMC_TORCH_MLIR: got 'yes', want 'any', or nothing"),
        ("20250101", "any", ""),
    ],
)
def test_another_version_is_refused(
    found: str | None, variable: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything of MLIR is imported, in every way to it; a saved program needs no MLIR."""
    monkeypatch.setattr(versions, "version_of", lambda _: found)
    monkeypatch.setenv("NUMC_TORCH_MLIR", variable)
    monkeypatch.setenv("NUMC_CACHE_SIZE", "0")
    versions.check_torch_mlir.cache_clear()
    try:
        if not message:
            versions.check_torch_mlir()
            return
        (tmp_path / "m.mlir").write_text("func.func @main() { return }")
        for name in ("bisect", "compare", "cost", "explain", "lower"):
            monkeypatch.delitem(vars(numc), name, raising=False)
        monkeypatch.delitem(sys.modules, "numc.compiler.programs.build", raising=False)
        ways = [lambda: numc.lower, lambda: numc.compare, lambda: numc.compile(tmp_path / "m.mlir")]
        for way in ways:
            with pytest.raises(NumcError, match=message):
                way()
    finally:
        versions.check_torch_mlir.cache_clear()
