"""The page of a comparison has the command that draws its model, in the arithmetic that breaks first."""

from __future__ import annotations

import html
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import numc
from comparisons import made_up
from numc.cli import cli
from numc.studies.report.picture_command import picture_command

pytest.importorskip("jinja2")
DIGITS = Path(__file__).parents[2] / "examples" / "digits"
COMMAND = "numc compare 'a net.onnx' --fma mp --policy x/mixed.policy --data x=a.npy --data y=b.npy --report out.html"
DATA = "--data x=a.npy --data y=b.npy --graph model.html"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, f"numc explain 'a net.onnx' --fma int8 {DATA}"),  # breaks at the first layer
        ({"int8": False}, "numc explain 'a net.onnx' --fma 'fmac(e4m3)' " + DATA),
        ({"name": "mixed"}, f"numc explain 'a net.onnx' --policy x/mixed.policy {DATA}"),
        ({"commands": ()}, "numc.graph('models/<net>.onnx', inputs, fma='int8').write(\"model.html\")"),
        ({"commands": (), "model": "Net"}, "numc.graph(model, inputs, fma='int8').write(\"model.html\")"),
        ({"commands": ("numc compare gpt2/ --tokens val.bin",)}, ""),
        ({"alone": True}, ""),
    ],
)
def test_the_command(change: dict[str, Any], said: str) -> None:
    found = replace(made_up(), commands=change.get("commands", (COMMAND,)))
    found = replace(found, model=change.get("model", found.model))
    if "name" in change:
        found = replace(found, results=tuple(replace(r, name="mixed") if r.breaks else r for r in found.results))
    if "int8" in change:
        found = replace(found, results=found.results[:-1])
    if "alone" in change:
        found = replace(found, results=found.results[:1])
    assert picture_command(found) == said


def test_the_command_of_a_page_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.load(DIGITS / "heldout.npz")["images"][:8])
    model = os.fspath(DIGITS / "mlp.onnx")
    given = ["compare", model, "--data", "x.npy", "--fma", "w4a8=fma(a=e4m3fn,b=mxfp4,acc=fp32)", "--no-stats"]
    assert cli.main([*given, "--report", "out.html"], standalone_mode=False) is None
    (said,) = re.findall(r"numc explain [^<]*", Path("out.html").read_text())
    words = shlex.split(html.unescape(said))
    assert cli.main(words[1:], standalone_mode=False) is None
    drawn = Path("model.html").read_text()
    assert "e4m3fn" in drawn
    graph = numc.graph(DIGITS / "mlp.onnx", np.load("x.npy"), fma="fma(a=e4m3fn,b=mxfp4,acc=fp32)")
    assert {node.name for node in graph.layers} <= set(re.findall(r"[\w.]+", drawn))
