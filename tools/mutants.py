"""Runs the mutants of tests/mutants.toml: faults in the sources, each of which the default tier of the tests must find.

``python -m tools.mutants [--check] [name ...]`` changes one place at a time in a temporary copy of the sources and runs
the tests that are listed for the mutant. It prints a table; the exit status is 1 if a mutant survives, if its place in
the sources is not found exactly once, or if its tests do not pass without it. ``--check`` only looks for the places.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tools.rooms import ROOMS, ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MUTANTS = ROOT / "tests" / "mutants.toml"
SOURCES = ("benchmarks", "examples", "src", "tests", "tools", *ROOMS)
FILES = ("CMakeLists.txt", "pyproject.toml", "README.md")
RUNTIME = "runtime/src"  # C++: its mutants need a build


class BrokenMutantError(Exception):
    """A mutant cannot be tried; the text says why."""


@dataclass(frozen=True)
class Mutant:
    """A fault: in the files of the folder `inside`, the one place that matches `find` becomes `replace`.

    find: a regular expression; ``^`` and ``$`` match at lines. replace: what `re.sub` takes. tests: node ids.
    """

    name: str
    breaks: str
    inside: str
    find: str
    replace: str
    tests: tuple[str, ...]

    def place(self, root: Path) -> tuple[Path, str]:
        """Return the file that changes, and its new text. Raises BrokenMutantError unless exactly one place matches."""
        pattern, found = re.compile(self.find, re.MULTILINE), []
        folder = root / self.inside
        for path in [folder] if folder.is_file() else sorted(folder.rglob("*")):
            if path.suffix in (".py", ".cpp", ".hpp"):
                text = path.read_text()
                count = len(pattern.findall(text))
                found += [path] * count
                if count == 1:
                    changed = path, pattern.sub(self.replace, text)
        if len(found) != 1:
            raise BrokenMutantError(
                f"{len(found)} places in {self.inside} match {self.find}, want 1: adapt tests/mutants.toml"
            )
        return changed


class Copy:
    """A copy of the sources, and how tests run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.build = folder, folder / "build"
        unwanted = shutil.ignore_patterns("__pycache__", "build", "*.pyc")
        for name in SOURCES:
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=unwanted)
        for name in FILES:
            shutil.copy(ROOT / name, folder / name)
        self.environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        if "NUMC_RUNTIME_LIBRARY" not in os.environ:
            where = "from numc.runtime.library import find_library; print(find_library())"
            found = subprocess.run([sys.executable, "-c", where], capture_output=True, text=True, check=True)
            self.environment["NUMC_RUNTIME_LIBRARY"] = found.stdout.strip()

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[dict[str, str]]:
        """Make the mutant, and the runtime's library if it is one of that; yields the environment of the tests."""
        path, text = mutant.place(self.folder)
        before = path.read_text()
        path.write_text(text)
        try:
            yield self._built() if mutant.inside.startswith(RUNTIME) else self.environment
        finally:
            path.write_text(before)

    def _built(self) -> dict[str, str]:
        for command in (
            ["cmake", "-S", str(self.folder), "-B", str(self.build), "-DCMAKE_BUILD_TYPE=Release"],
            ["cmake", "--build", str(self.build)],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise BrokenMutantError(
                    f"the runtime does not compile: {(done.stdout + done.stderr).strip().splitlines()[-1]}"
                )
        (library,) = self.build.rglob("libnumc_runtime.so")
        return {**self.environment, "NUMC_RUNTIME_LIBRARY": str(library)}

    def failure(self, tests: Sequence[str], environment: dict[str, str]) -> str | None:
        """Run tests until one fails; returns its name, None if all pass. Raises BrokenMutantError if none is run."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", *tests]
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=900
        )
        if done.returncode == 0:
            return None
        named = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, flags=re.MULTILINE)
        if done.returncode < 0:
            return f"signal {-done.returncode}"
        if done.returncode != 1 or not named:
            last = (done.stdout + done.stderr).strip().splitlines()[-1]
            raise BrokenMutantError(f"pytest ended with {done.returncode}: {last}")
        return str(named[0])


def load() -> list[Mutant]:
    """Return the mutants of the file."""
    rows = tomllib.loads(MUTANTS.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**{**row, "tests": tuple(row["tests"])}) for row in rows]


def check(mutants: Sequence[Mutant]) -> int:
    """Print the mutants whose place is not found; returns how many."""
    wrong = 0
    for mutant in mutants:
        try:
            mutant.place(ROOT)
        except BrokenMutantError as error:
            print(f"{mutant.name}: {error}")
            wrong += 1
    print(f"{len(mutants) - wrong} of {len(mutants)} mutants have their place")
    return wrong


def run(mutants: Sequence[Mutant], console: Console) -> int:
    """Try each mutant and print a table; returns how many are not caught."""
    table = Table("mutant", "breaks", "seconds", "caught by")
    missed = 0
    with tempfile.TemporaryDirectory(prefix="numc-mutants-") as folder, Progress(console=console) as progress:
        copy = Copy(Path(folder))
        work = progress.add_task("without a mutant", total=1 + len(mutants))
        tests = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
        if failed := copy.failure(tests, copy.environment):
            raise SystemExit(f"without any mutant {failed} fails: nothing can be said about the mutants")
        progress.advance(work)
        for mutant in mutants:
            progress.update(work, description=mutant.name)
            start = time.monotonic()
            try:
                with copy.changed(mutant) as environment:
                    caught = copy.failure(mutant.tests, environment)
                said = caught or "[bold red]survives"
            except BrokenMutantError as error:
                caught, said = None, f"[bold red]{error}"
            missed += caught is None
            table.add_row(mutant.name, mutant.breaks, f"{time.monotonic() - start:.0f}", said)
            progress.advance(work)
    console.print(table)
    console.print(f"{len(mutants) - missed} of {len(mutants)} mutants are caught")
    return missed


def main() -> int:
    """Run the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="mutants to try, all if none is named")
    parser.add_argument("--check", action="store_true", help="only look for the places in the sources")
    options = parser.parse_args()
    mutants = load()
    if unknown := set(options.names) - {mutant.name for mutant in mutants}:
        parser.error(f"no mutant is named {', '.join(sorted(unknown))}")
    mutants = [mutant for mutant in mutants if not options.names or mutant.name in options.names]
    return int((check(mutants) if options.check else run(mutants, Console())) > 0)


if __name__ == "__main__":
    sys.exit(main())
