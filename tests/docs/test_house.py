"""Rules of the house: they hold, and each is seen where it is broken. Pre-commit checks what `make lint` does."""

from __future__ import annotations

import re

from rooms import ROOT
from tools import house


def test_the_house_keeps_its_rules():
    assert [*house.crowded(), *house.upward(), *house.logic(), *house.misplaced()] == []


def test_a_broken_rule_is_seen(monkeypatch, tmp_path):
    monkeypatch.setattr(house, "MOST", 2)
    assert any(re.fullmatch(r"cli: \d+ source files, allowed are 2: .*", line) for line in house.crowded())
    monkeypatch.setattr(house, "UPWARD", {})
    assert [line.split(": ")[1] for line in house.upward()] == [
        "imports numc.studies.profile.record, which is on a higher floor"
    ]
    monkeypatch.setitem(house.PLACES, "buffers", {"tensors"})
    assert "pass free-early of stage buffers lies in passes/buffers: move it to passes/tensors" in house.misplaced()
    (tmp_path / "more.py").touch()
    monkeypatch.setattr(house, "ROOT", tmp_path.parent)
    monkeypatch.setattr(house, "PACKAGE", tmp_path)
    assert [line.split(": ")[1] for line in house.logic()] == ["src/numc holds public names and links only"]


def test_pre_commit_checks_what_lint_does():
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    for line in lint[1].replace("$(RUN)", ".venv/bin").splitlines():
        command = line.strip().removesuffix(" .")
        assert f"entry: {command}" in hooks or f"entry: env {command}" in hooks, command
