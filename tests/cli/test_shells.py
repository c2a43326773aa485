"""Completion at the Tab of real shells, each on a terminal of its own."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from numc.cli.shells import _glued

BEGIN = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "PS1='$ '; source <(_NUMC_COMPLETE=bash_source numc)"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "PS1='$ '; unsetopt zle_bracketed_paste; autoload -Uz compinit; compinit -u -D; "
        "source <(_NUMC_COMPLETE=zsh_source numc)",
    ),
    "fish": (
        ["fish", "--no-config", "-i"],
        "function fish_prompt; echo '$ '; end; _NUMC_COMPLETE=fish_source numc | source",
    ),
}
#: What is typed before Tab, and the line that it gives.
LINES = {
    "numc compile x.onnx --fma hopper_bf": "numc compile x.onnx --fma hopper_bf16",
    "numc compile x.onnx --fma=hopper_bf": "numc compile x.onnx --fma=hopper_bf16",
    "numc compile --ops=fp32 x.onnx --fma=hopper_bf": "numc compile --ops=fp32 x.onnx --fma=hopper_bf16",
    "numc compare x.onnx --fma mp,hopper_bf": "numc compare x.onnx --fma mp,hopper_bf16",
    "numc compare x.onnx --fma=mp,w4=hopper_bf": "numc compare x.onnx --fma=mp,w4=hopper_bf16",
    "numc compile x.onnx --ops=hopper_e4m3_i": "numc compile x.onnx --ops=hopper_e4m3_i",
    "numc comp": "numc comp",
    "numc compi": "numc compile",
    "numc compile x.onnx --dump-d": "numc compile x.onnx --dump-dir",
    "numc compile net": "numc compile network.onnx",
    "numc compare x.onnx --report=net": "numc compare x.onnx --report=network.onnx",
}


class Terminal:
    """A shell on a terminal."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._process, self._file = pty.fork()
        if self._process == 0:
            os.chdir(folder)
            environment = {
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "HOME": str(folder),
                "TERM": "dumb",
                "LC_ALL": "C.UTF-8",
                "COLUMNS": "200",
            }
            os.execvpe(command[0], command, environment)
        self._seen = ""

    def say(self, text: str) -> None:
        os.write(self._file, text.encode())

    def until(self, pattern: str, seconds: float = 60.0) -> re.Match[str]:
        """Read until a pattern comes, and forget what came to its end."""
        end = time.monotonic() + seconds
        while (found := re.search(pattern, self._seen)) is None:
            ready, _, _ = select.select([self._file], [], [], max(0.0, end - time.monotonic()))
            assert ready, (pattern, self._seen)
            self._seen += os.read(self._file, 4096).decode(errors="replace")
        self._seen = self._seen[found.end() :]
        return found

    def end(self) -> None:
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._file)


@pytest.fixture(scope="module", params=list(BEGIN))
def completed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], str]]:
    """Give what says which line a shell makes of a line at Tab."""
    command, script = BEGIN[request.param]
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} on the PATH")
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "network.onnx").touch()
    terminal = Terminal(command, folder)
    number = 0

    def line_of(typed: str) -> str:
        nonlocal number
        number += 1
        # With echo at its beginning, the line prints itself. What is typed while a shell completes comes after that.
        terminal.say(f"{typed}\t\x01echo {number} \x05 end\r")
        return terminal.until(rf"\n{number} ([^\r\n]*?) *end\r")[1]

    terminal.say(script + "\r")
    yield line_of
    terminal.end()


def test_a_shell_completes_names_and_files(completed: Callable[[str], str]) -> None:
    assert {typed: completed(typed) for typed in LINES} == LINES


def test_words_that_bash_has_broken_are_whole() -> None:
    assert _glued(["numc", "compile", "--fma", "=", "a"]) == ["numc", "compile", "--fma=a"]
    assert _glued(["numc", "--fma", "=", "w", "=", "e4m3", ":", "sat", "x", ""]) == [
        "numc",
        "--fma=w=e4m3:sat",
        "x",
        "",
    ]
    assert _glued(["numc", "="]) == ["numc", "="]
