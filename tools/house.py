"""Rules of the house that no linter knows: ``python -m tools.house`` prints each place that breaks one, and exits 1.

- A folder has at most MOST source files.
- No import goes up where import-linter does not see it: through ``import_module`` of a name of numc.
- src/numc holds the public names, ``__main__`` and links: no logic.
- A pass lies in a folder of its stage.
- What knows a processor stands in runtime/src/machine, and in passes/kernels/isa and passes/kernels/backend.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tools.rooms import PACKAGE, ROOMS, ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST = 16
PROCESSOR = re.compile(
    r"\b_mm\w*_|R_X86|rdtsc|cpuid|mxcsr|__builtin_cpu|immintrin|arm_neon|R_AARCH64|cntvct|\bfp[cs]r\b", re.IGNORECASE
)
MACHINE = ("runtime/src/machine", "passes/kernels/isa", "passes/kernels/backend")
# Stage -> the folders of passes/ in which its passes lie.
PLACES = {
    "linalg": {"imported"},
    "numc": {"explicit"},
    "tensors": {"tensors"},
    "buffers": {"buffers"},
    "plan": {"plan", "rows"},
    "kernels": {"gpu", "plan"},
    "vector": {"vector", "streams"},
    "loops": {"llvm"},
    "llvm": {"llvm"},
}
# Imports that go up by name, each with its reason.
UPWARD = {
    ("numc.runtime.program", "numc.studies.profile.record"): "Program.profile: who does not profile imports none of it",
}


def main() -> int:
    """Print what breaks a rule. Returns the exit status."""
    found = [*crowded(), *upward(), *logic(), *misplaced(), *machine()]
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


def crowded() -> Iterator[str]:
    """Folders with too many source files; ``__init__.py`` is none."""
    for room in (*ROOMS, "benchmarks", "tools"):
        for folder in sorted({file.parent for file in (ROOT / room).rglob("*.py")}):
            count = sum(file.name != "__init__.py" for file in folder.glob("*.py"))
            if count > MOST:
                yield f"{folder.relative_to(ROOT)}: {count} source files, allowed are {MOST}: divide it by subject"


def upward() -> Iterator[str]:
    """Imports by name of a module on a higher floor."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    floors = next(contract["floors"] for contract in contracts["contracts"] if contract["type"] == "floors")
    for file in sources():
        module = ".".join(("numc", *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        for call in (node for node in ast.walk(tree(file)) if isinstance(node, ast.Call)):
            names = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            called = getattr(call.func, "attr", getattr(call.func, "id", ""))
            for name in names if "import_module" in (called, *(getattr(a, "id", "") for a in call.args)) else ():
                if (
                    name.startswith("numc.")
                    and (module, name) not in UPWARD
                    and _floor(name, floors) < _floor(module, floors)
                ):
                    yield f"{file.relative_to(ROOT)}:{call.lineno}: imports {name}, which is on a higher floor"


#: Files of src/numc that are no links: public names, one module of them, and the entry point.
_NAMES = ("__init__.py", "__main__.py", "__pycache__", "circuits.py", "py.typed")


def logic() -> Iterator[str]:
    """Files of src/numc beside the public names and the entry point."""
    for file in sorted(PACKAGE.iterdir()):
        if not file.is_symlink() and file.name not in _NAMES:
            yield f"{file.relative_to(ROOT)}: src/numc holds public names and links only: move it to a room"


def misplaced() -> Iterator[str]:
    """Passes of the pipeline that lie in no folder of their stage."""
    pipeline = tree(ROOT / "compiler" / "pipeline.py")
    modules = {
        alias.asname or alias.name: node.module
        for node in pipeline.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    lists = [
        node.value
        for node in pipeline.body
        if isinstance(node, ast.AnnAssign)
        and ast.unparse(node.annotation) == "Stages"
        and isinstance(node.value, ast.Dict)
    ]
    stages = [(stage, passes) for each in lists for stage, passes in zip(each.keys, each.values, strict=True)]
    for stage, passes in stages:
        if not isinstance(passes, ast.Dict):
            continue
        for name, made in zip(passes.keys, passes.values, strict=True):
            if isinstance(made, ast.Call) and made.func.id == "ours":
                folder = modules[made.args[0].id].removeprefix("numc.passes.").split(".")[0]
                if folder not in PLACES[stage.value]:
                    allowed = " or ".join(f"passes/{place}" for place in sorted(PLACES[stage.value]))
                    yield f"pass {name.value} of stage {stage.value} lies in passes/{folder}: move it to {allowed}"


def machine() -> Iterator[str]:
    """Lines that know a processor, outside of its rooms."""
    for room in ROOMS:
        for file in sorted(f for f in (ROOT / room).rglob("*") if f.suffix in (".py", ".cpp", ".hpp")):
            name = str(file.relative_to(ROOT))
            if name.startswith(MACHINE):
                continue
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                if found := PROCESSOR.search(line):
                    yield f"{name}:{number}: '{found[0]}' belongs to {', '.join(MACHINE[:-1])} or {MACHINE[-1]}"


def sources() -> Iterator[Path]:
    """The files of the package in Python."""
    for room in ROOMS:
        yield from sorted((ROOT / room).rglob("*.py"))


@cache
def tree(file: Path) -> ast.Module:
    """The syntax of a file."""
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def _floor(module: str, floors: list[str]) -> int:
    containing = [floor for floor in floors if f"{module}.".startswith(f"{floor}.")]
    return floors.index(max(containing, key=len)) if containing else -1


if __name__ == "__main__":
    sys.exit(main())
