"""What `--help` imports: the answer must come at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"jinja2", "lark", "matplotlib", "numpy", "onnx", "onnxruntime", "rich", "torch", "torch_mlir"}
SCRIPT = """
import contextlib, io, sys
from numc.__main__ import main
sys.argv = ["numc", *sys.argv[1:]]
with contextlib.redirect_stdout(io.StringIO()) as out:
    assert main() == 0
assert "Usage: numc" in out.getvalue()
print(*sorted({name.partition(".")[0] for name in sys.modules}))
print(*sorted(name.rpartition(".")[2] for name in sys.modules if name.startswith("numc.cli.commands.")))
"""


@pytest.mark.parametrize("arguments", [["--help"], ["compile", "--help"], ["run", "--help"], ["list", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True)
    modules, commands = done.stdout.splitlines()
    assert HEAVY.isdisjoint(modules.split())
    if len(arguments) > 1:
        assert commands == arguments[0]
