"""Counts of what there should be less of: ``python -m tools.ratchet`` fails where one has risen above ratchet.toml.

``--lower`` writes the counts of today, where they are lower.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from tools.house import ROOT, sources, tree

MOST = ROOT / "tools" / "ratchet.toml"
_NAMES = ("found", "given", "kind", "one", "place")
#: Words of errors that say in another way what they want; not as in "cannot write" and "leave one of them out".
_WORDS = {
    "allowed": r"\ballowed\b",
    "one of": r"\bone of $",
    "choose": r"\bchoose (one|another|from)\b",
    "write": r"([:,;] |\bor |\band )write\b",
    "expected": r"\bexpected\b",
}
_ERRORS = ("NumcError", "ParseError", "RefusedError")
_POSITIONAL, _PARAMETERS = 6, 12


def main(arguments: list[str]) -> int:
    """Compare the counts with the largest that are allowed. Returns the exit status."""
    most = tomllib.loads(MOST.read_text(encoding="utf-8"))
    counts = counted()
    if arguments == ["--lower"]:
        most = {name: min(count, most.get(name, count)) for name, count in counts.items()}
        MOST.write_text("".join(f'"{name}" = {count}\n' for name, count in most.items()), encoding="utf-8")
        return 0
    risen = {name: count for name, count in counts.items() if count > most.get(name, 0)}
    for name, count in risen.items():
        print(f"{name}: {count}, allowed are {most.get(name, 0)} (tools/ratchet.toml): find another way to say it")
    return int(bool(risen))


@cache
def counted() -> dict[str, int]:
    """Every count, by what it counts."""
    nodes = [(file, node) for file, tree in _trees().items() for node in ast.walk(tree)]
    functions = [node for _, node in nodes if isinstance(node, _FUNCTIONS)]
    calls = [node for _, node in nodes if isinstance(node, ast.Call)]
    documented = [node for _, node in nodes if isinstance(node, (ast.Module, ast.ClassDef, *_FUNCTIONS))]
    messages = [_message(call) for call in calls if getattr(call.func, "id", "") in _ERRORS]
    names = Counter(file.stem for file in _trees() if file.stem != "__init__")
    passes = ROOT / "passes"
    return {
        "Any in passes": sum(
            isinstance(node, ast.Name) and node.id == "Any" and file.is_relative_to(passes) for file, node in nodes
        ),
        "calls with six or more positional arguments": sum(
            len(call.args) >= _POSITIONAL and not _listed(call) for call in calls
        ),
        "signatures above 12 parameters": sum(_parameters(node) > _PARAMETERS for node in functions),
        "functions above 60 lines": sum((node.end_lineno or 0) - node.lineno >= 60 for node in functions),
        "docstrings that begin with What, How or The same": sum(
            (ast.get_docstring(node, clean=False) or "").lstrip().startswith(("What ", "How ", "The same"))
            for node in documented
        ),
        "functions with a local name that says nothing": sum(_vague(node) for node in functions),
        "module names that occur twice": sum(count > 1 for count in names.values()),
        "files with the bits of infinity": sum(
            bool(re.search(r"0x7f800000", file.read_text(encoding="utf-8"), re.IGNORECASE)) for file in _trees()
        ),
        **{
            f"errors with '{word}'": sum(any(re.search(sense, part) for part in parts) for parts in messages)
            for word, sense in _WORDS.items()
        },
    }


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def _trees() -> dict[Path, ast.Module]:
    return {file: tree(file) for file in sources()}


def _listed(call: ast.Call) -> bool:
    """Whether the arguments are a list, as of a path or of what is printed, and not fields."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    return name in ("print", "max", "min", "zip", "Path", "joinpath", "chain", "Table", "grouped") or any(
        isinstance(argument, ast.Starred) for argument in call.args
    )


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)


def _vague(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return not stored.isdisjoint(_NAMES)


def _message(call: ast.Call) -> list[str]:
    """The fixed parts of the message of an error of users."""
    return [str(part.value) for part in ast.walk(call) if isinstance(part, ast.Constant)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
