"""The recipe of a container: its instructions, and its commands run in folders in the place of its images."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "examples" / "deployment" / "Containerfile"
SOURCES = {"mlp.onnx": ROOT / "examples/digits/mlp.onnx", "exported.c": ROOT / "examples/c/exported.c"}


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", RECIPE.read_text(encoding="utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def test_the_instructions_are_those_of_a_container() -> None:
    words = [word for word, _ in instructions()]
    assert words[0] == "FROM"
    assert set(words) <= {"FROM", "RUN", "COPY", "WORKDIR", "USER", "ENTRYPOINT"}
    assert words.count("FROM") == 2
    assert words.index("USER") > len(words) - 1 - words[::-1].index("FROM"), "what runs is not root"
    installs = [rest for word, rest in instructions() if word == "RUN" and "apt-get install" in rest]
    assert all("apt-get update" in rest and "--no-install-recommends" in rest for rest in installs)


@pytest.mark.all
def test_its_commands_build_a_program_that_runs_alone(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    built, app = tmp_path / "build", tmp_path / "app"
    built.mkdir(), app.mkdir()
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    for word, rest in instructions():
        if word == "COPY" and not rest.startswith("--from"):
            *names, target = rest.split()
            assert target == "/build/"
            for name in names:
                shutil.copy(SOURCES[name], built)
        elif word == "COPY":
            _, *names, target = rest.split()
            assert target == "/app/"
            for name in names:
                shutil.copy(built / Path(name).relative_to("/build"), app)
        elif word == "RUN" and "apt-get" not in rest:
            subprocess.run(["sh", "-c", rest], cwd=built, env=environment, check=True, timeout=300)
    (entry,) = (rest for word, rest in instructions() if word == "ENTRYPOINT")
    (program,) = shlex.split(entry.strip("[]").replace(",", " "))
    shutil.rmtree(built)
    done = subprocess.run([app / Path(program).name], cwd="/", env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
