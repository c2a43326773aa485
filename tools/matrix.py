"""Tests the wheel with the oldest and the newest allowed versions of its dependencies, for each Python that is there.

``python tools/matrix.py [--wheel FILE] [--torch REQUIREMENT] [PYTHON ...]`` makes two environments for each Python with
uv, runs the tests in SMOKE in them and compiles a model. It prints a table with the versions, the tests and the hash of
the program; the exit status is 1 if a test fails anywhere or the programs differ. PYTHON is what ``uv venv --python``
takes, a version or a path. Without ``--torch`` there is no PyTorch, and the tests of it are skipped: the resolver is
never left to choose a PyTorch, because most take gigabytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
# How uv chooses versions, and what the table calls them.
RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}
PACKAGES = ("numpy", "onnx", "torch-mlir", "torch", "click", "lark", "rich", "protobuf")
# Each dependency is used by some of these tests; all of them together take about a minute.
SMOKE = (
    "tests/arithmetic/test_grammar.py",
    "tests/cli/test_command.py",
    "tests/cli/test_run.py",
    "tests/compiler/test_pack.py",
    "tests/frontends/test_onnx.py",
    "tests/frontends/test_pytorch.py",
    "tests/runtime/test_program.py",
)
TOOLS = ("hypothesis", "ml-dtypes", "onnxruntime", "pytest")


@dataclass(frozen=True)
class Row:
    """One environment: its Python and which versions it has; what pytest and the compilation said of it."""

    python: str
    age: str
    versions: dict[str, str]
    tests: str
    passed: bool
    program: str = ""


class FailedError(Exception):
    """A command failed; the text is the last line of what it printed."""


def run(*command: object, folder: Path = ROOT) -> str:
    """Run a command and return what it prints. Raises FailedError."""
    text = [str(part) for part in command]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("NUMC_", "PYTHON"))}
    done = subprocess.run(text, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FailedError(done.stdout + done.stderr)
    return done.stdout


def row(python: str, age: str, wheel: Path, torch: str | None, folder: Path) -> Row:
    """Make the environment in `folder` and try it."""
    versions: dict[str, str] = {}
    executable = folder / "bin" / "python"
    install = ("uv", "pip", "install", "--quiet", "--only-binary", ":all:", "--python", executable)
    wanted = () if torch is None else (torch,)
    try:
        run("uv", "venv", "--quiet", "--no-python-downloads", "--python", python, folder)
        run(*install, "--resolution", RESOLUTIONS[age], "--requirements", ROOT / "pyproject.toml", *wanted)
        run(*install, "--no-deps", wheel)
        numpy = run(executable, "-c", "import numpy; print(numpy.__version__)").strip()
        run(*install, *TOOLS, f"numpy=={numpy}")  # else ml-dtypes brings another one
        found = json.loads(run("uv", "pip", "list", "--python", executable, "--format", "json"))
        versions = {package["name"]: package["version"] for package in found}
        versions["python"] = run(executable, "-c", "import platform; print(platform.python_version())").strip()
        done = run(executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", *SMOKE)
        program = folder / "mlp.numc"
        model = ("examples/digits/mlp.onnx", "--fma", "bf16_1_2", "--target", "x86-64-v3")
        run(executable, "-m", "numc", "compile", *model, "--no-cache", "-o", program)
        digest = hashlib.sha256(program.read_bytes()).hexdigest()[:12]
        return Row(python, age, versions, done.strip().splitlines()[-1], True, digest)
    except FailedError as error:
        print(error, file=sys.stderr)
        return Row(python, age, versions, summary(str(error)), False)


def summary(text: str) -> str:
    """Return the line of an output that says most: pytest's last one, or what uv could not do."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(error|×|╰|cause|No )", line)]
    return (errors or lines or ["no output"])[0 if errors else -1]


def show(rows: Sequence[Row], console: Console) -> None:
    """Print the table."""
    table = Table("python", "versions", *PACKAGES, "tests", "program")
    for r in rows:
        style = None if r.passed else "bold red"
        versions = [r.versions.get(name, "-") for name in PACKAGES]
        table.add_row(r.versions.get("python", r.python), r.age, *versions, r.tests, r.program, style=style)
    console.print(table)


def newest_wheel() -> Path | None:
    """Return the wheel that `make wheel` made last, of those for this machine."""
    wheels = sorted((ROOT / "dist").glob(f"numc-*_{platform.machine()}.whl"), key=lambda file: file.stat().st_mtime)
    return wheels[-1] if wheels else None


def main() -> int:
    """Run the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", default=PYTHONS)
    parser.add_argument("--wheel", type=Path, default=newest_wheel(), help="default: the newest one in dist/")
    parser.add_argument("--torch", metavar="REQUIREMENT", help="such as torch==2.13.0; default: without PyTorch")
    options = parser.parse_args()
    if options.wheel is None or not options.wheel.is_file():
        parser.error(f"no wheel {options.wheel or 'in dist/'}: run `make wheel` first, or name one with --wheel")
    rows = []
    for python in options.pythons:
        for age in RESOLUTIONS:
            with tempfile.TemporaryDirectory(prefix="numc-matrix-") as folder:
                rows.append(row(python, age, options.wheel.resolve(), options.torch, Path(folder)))
                show(rows[-1:], Console(width=200))
    show(rows, Console(width=200))
    programs = {r.program for r in rows if r.passed}
    if len(programs) > 1:
        print("the program differs between environments")
    return int(not all(r.passed for r in rows) or len(programs) > 1)


if __name__ == "__main__":
    sys.exit(main())
