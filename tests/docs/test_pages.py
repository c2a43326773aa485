"""The README and every page of docs/ do what they say: each python and console block is executed, in order.

A page is one session in a fresh folder that holds copies of the examples. In a console block, lines after ``$`` are
commands, the rest is what they print: compared when the block is marked ``console check``, otherwise only the exit
status is. A command followed by a line ``[exit status N]`` has to end with it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from definitions import undone
from numc.support.switches import SWITCHES

ROOT = Path(__file__).resolve().parents[2]
# Pages with blocks that are files of a changed copy of the sources have a test of their own.
_DOCS = (page for page in sorted((ROOT / "docs").glob("*.md")) if "```python file=" not in page.read_text())
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *_DOCS]
#: Pages of 7 to 50 seconds, whose commands other tests run, too: the tier `slow`.
# fmt: off
LONG = (
    "accelerators", "compare", "cost", "diff", "figures", "generate", "hardware", "inspect-the-ir", "memory",
    "own-arithmetic", "policies", "presets", "profiling", "program-file", "quantised-checkpoints", "search",
    "statistics", "streams", "trainbf", "training-recipes", "training-report",
)
# fmt: on
# Not executed: what is printed or stored, and `sh`, which is for commands that build or clone.
SHOWN = {"text", "mlir", "c", "cpp", "json", "toml", "diff", "makefile", "sh"}
STATUS = re.compile(r"\[exit status (\d+)\]")


@dataclass(frozen=True)
class Block:
    language: str
    check: bool
    line: int
    text: str


@dataclass(frozen=True)
class Command:
    text: str
    output: str
    status: int


def blocks(page: Path) -> list[Block]:
    found, start, info, body = [], 0, "", []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            if start:
                language, *marks = info.split() or [""]
                found.append(Block(language, "check" in marks, start, "\n".join(body)))
                start = 0
            else:
                start, info, body = number, line[3:], []
        elif start:
            body.append(line)
    assert not start, f"{page.name}:{start}: the block does not end"
    return found


def commands(block: Block) -> list[Command]:
    if block.language == "bash":
        return [Command(block.text, "", 0)]
    found: list[Command] = []
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        size = 1
        while lines[size - 1].endswith("\\"):
            size += 1
        status = next((int(m[1]) for line in lines if (m := STATUS.fullmatch(line))), 0)
        output = "\n".join(line for line in lines[size:] if not STATUS.fullmatch(line))
        found.append(Command("\n".join(lines[:size]), output, status))
    return found


def words(text: str) -> list[str]:
    return text.split()


@pytest.fixture
def session(tmp_path, monkeypatch):
    """A folder with the example files, and `numc` and `python` on PATH, whatever way numc is installed."""
    folder = tmp_path / "work"
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, line in (
        ("numc", "-c 'import sys; from numc.cli import main; sys.exit(main())' \"$@\""),
        ("python", '"$@"'),
    ):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {line}\n')
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow if page.stem in LONG else (), id=page.name) for page in PAGES],
)
def test_page(page: Path, session: Path) -> None:
    if page.name in ("pytorch.md", "run-your-own-model.md"):
        pytest.importorskip("torch")
    with undone():  # what a page defines
        _execute(page)


def _execute(page: Path) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        place = f"{page.relative_to(ROOT)}:{block.line}"
        if "import torch" in block.text and find_spec("torch") is None:
            continue
        if block.language == "python":
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
        elif block.language in ("console", "bash"):
            for command in commands(block):
                done = subprocess.run(
                    ["bash", "-e", "-c", command.text], capture_output=True, text=True, timeout=300, check=False
                )
                said = done.stdout + done.stderr
                assert done.returncode == command.status, f"{place}: $ {command.text}\n{said}"
                if block.check:
                    assert words(said) == words(command.output), f"{place}: $ {command.text}"
        else:
            assert block.language in SHOWN, f"{place}: say what the block is: python, console or {sorted(SHOWN)}"


def test_every_page_is_linked_and_every_link_leads_somewhere() -> None:
    linked = set()
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)|src=\"([^\"]+)\"", page.read_text()):
            name = target[0] or target[1]
            if not name.startswith(("http:", "https:", "mailto:")):
                assert (page.parent / name).exists(), f"{page.name}: nothing is at {name}"
                linked.add((page.parent / name).resolve())
    for page in PAGES[1:]:
        assert page in linked, f"{page.name} is linked from nowhere"


def test_every_switch_is_described() -> None:
    page = (ROOT / "docs" / "inspect-the-ir.md").read_text()
    described = {
        name for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for name in re.findall(r"`(.+?)`", row)
    }
    assert set(SWITCHES) <= described


def test_make_targets_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"^make ([a-z-]+)$", page.read_text(), flags=re.MULTILINE)}
    assert {"demo", "test"} <= named <= targets
