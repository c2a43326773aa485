"""Dumps: the IR after every pass that changed it, as files to be read in order, with an index and differences."""

from __future__ import annotations

import difflib
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from numc.support.errors import NumcError

INDEX = "index.md"
_OURS = re.compile(r"\d{2,3}-\w+-[\w-]+\.(mlir|diff)|index\.md")
_MOST_LINES = 4000  # that differ: the time of a comparison grows with their square
_HEAD = """# The passes of a compilation

A pass that changed nothing has no file. `numc opt STAGE.mlir --from STAGE` goes on from the end of a stage.

| number | stage | pass | ms | lines | IR | difference |
|---|---|---|---|---|---|---|
"""


@dataclass
class Dump:
    """A folder that receives what a compilation does.

    ``03-numc-tidy-conversions.mlir`` is the IR after a pass that changed it, ``.diff`` beside it how,
    ``numc.mlir`` the IR after a stage, ``index.md`` the list of all passes. What an earlier compilation left there of
    the first kinds is removed. Raises NumcError if the folder cannot be written or has another ``index.md``.
    """

    folder: Path
    _before: str = field(default="", init=False)
    _rows: dict[int, str] = field(default_factory=dict, init=False)
    _since: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        index = self.folder / INDEX
        if not index.exists():
            return
        if not _is_ours(index):
            raise NumcError(f"{index}: is not of a dump and would be overwritten: name another folder")
        for file in self.folder.iterdir():
            if _OURS.fullmatch(file.name):
                file.unlink()

    def begin(self, text: str) -> None:
        """Take the IR that the next pass gets."""
        self._before, self._since = text, time.perf_counter()

    def after_pass(self, number: int, stage: str, name: str, text: str) -> None:
        """Take the IR after pass `number`, the next one since `begin` or the last call."""
        seconds = time.perf_counter() - self._since
        stem, before = f"{number:02}-{stage}-{name}", self._before.splitlines()
        after = text.splitlines()
        listed = [f"{number}", stage, name, f"{1000 * seconds:.1f}", str(len(after)), "", ""]
        if text != self._before:
            self._write(f"{stem}.mlir", text)
            listed[5] = f"[{stem}.mlir]({stem}.mlir)"
            different = difference(before, after, f"before {name}", f"after {name}")
            if different is None:
                listed[6] = f"more than {_MOST_LINES} lines"
            else:
                self._write(f"{stem}.diff", different)
                listed[6] = f"[{stem}.diff]({stem}.diff)"
        self._rows[number] = f"| {' | '.join(listed)} |\n"
        self._write(INDEX, _HEAD + "".join(self._rows[number] for number in sorted(self._rows)))
        self.begin(text)

    def after_stage(self, stage: str, text: str) -> None:
        """Take the IR after a stage."""
        self._write(f"{stage}.mlir", text)
        self._since = time.perf_counter()

    def _write(self, name: str, text: str) -> None:
        file = self.folder / name
        try:
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            reason = error.strerror or error
            raise NumcError(f"{file}: cannot write the IR: {reason}: name another folder") from None


def _is_ours(index: Path) -> bool:
    """Whether a file is the index of a dump: it begins as those do, of this version or an older one."""
    try:
        with open(index, encoding="utf-8") as file:
            return file.readline() == _HEAD[: _HEAD.index("\n") + 1]
    except (OSError, UnicodeDecodeError):
        return False


def progress_of(folder: Path) -> tuple[int, str]:
    """The number of passes in the dump of `folder`, and the IR after them; "" before any changed it."""
    index = folder / INDEX
    done = len(re.findall(r"^\| \d", index.read_text(encoding="utf-8"), re.MULTILINE)) if index.exists() else 0
    dumped = sorted(folder.glob("[0-9]*.mlir"))
    return done, dumped[-1].read_text(encoding="utf-8") if dumped else ""


def difference(before: list[str], after: list[str], old: str, new: str) -> str | None:
    """The unified difference of two texts in lines, or None if too many of them differ."""
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    end = 0
    while end < min(len(before), len(after)) - same and before[-1 - end] == after[-1 - end]:
        end += 1
    if max(len(before), len(after)) - same - end > _MOST_LINES:
        return None
    start, stop = max(0, same - 3), max(0, end - 3)
    old_lines, new_lines = before[start : len(before) - stop], after[start : len(after) - stop]
    lines = list(difflib.unified_diff(old_lines, new_lines, old, new, n=3, lineterm=""))
    return "\n".join([*lines[:2], *(_moved(line, start) for line in lines[2:])]) + "\n"


def _moved(line: str, start: int) -> str:
    """A line of a difference whose texts began `start` lines later."""
    if not line.startswith("@@ "):
        return line
    return re.sub(r"([-+])(\d+)", lambda m: f"{m[1]}{int(m[2]) + start}", line.split(" @@")[0]) + " @@"
