"""Rules of the house: they hold, and each is seen where it is broken. Pre-commit checks what `make lint` does."""

from __future__ import annotations

import re

from rooms import ROOT
from tools import house, ratchet


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


def test_counts_do_not_rise(monkeypatch, tmp_path, capsys):
    assert ratchet.main([]) == 0
    lower = tmp_path / "ratchet.toml"
    lower.write_text(ratchet.MOST.read_text().replace('"Any in passes" = ', '"Any in passes" = 0 #'))
    monkeypatch.setattr(ratchet, "MOST", lower)
    assert ratchet.main([]) == 1
    assert "Any in passes: " in capsys.readouterr().out
    assert ratchet.main(["--lower"]) == 0
    assert '"Any in passes" = 0\n' in lower.read_text()


def test_pre_commit_checks_what_lint_does():
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    for line in lint[1].replace("$(RUN)", ".venv/bin").splitlines():
        command = line.strip().removesuffix(" .")
        assert f"entry: {command}" in hooks or f"entry: env {command}" in hooks, command
