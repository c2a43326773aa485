"""Pages of profiles, sensitivities and searches in a browser: nothing is covered, cut off or empty."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import numc
from html_pages import CHROMIUM, Page, check_in_browser
from numc.studies.report.place import clearest
from numc.studies.search.page import render
from tiers import by_default

pytest.importorskip("jinja2")
DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def _profile(path: Path) -> None:
    images = np.load(DIGITS / "heldout.npz")["images"][:8]
    program = numc.compile(DIGITS / "cnn.onnx", fma="bf16_1_1")
    program.profile(images, threads=2, repeat=3, peak=100.0, bandwidth=10.0).write_report(path)


def _sensitivity(path: Path) -> None:
    held = np.load(DIGITS / "heldout.npz")
    images, labels = held["images"][:32], held["labels"][:32]
    numc.sensitivity(DIGITS / "mlp.onnx", images, labels=labels, fma="fmac(e4m3)", widths=(3, 7)).write_report(path)


def _search(path: Path) -> None:
    held = np.load(DIGITS / "heldout.npz")
    images, labels = held["images"][:64], held["labels"][:64]
    found = numc.search(DIGITS / "mlp.onnx", images, labels=labels, tolerance=0.01, space="e=4..5 m=2..4")
    path.write_text(render(found), encoding="utf-8")


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the PATH")
@pytest.mark.parametrize("write", by_default([_profile, _sensitivity, _search], [_profile]))
def test_in_a_browser_nothing_is_covered_or_cut_off(write: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path / "x.html")
    Page((tmp_path / "x.html").read_text(encoding="utf-8")).check_alone((tmp_path / "x.html").read_text())
    check_in_browser(tmp_path / "x.html", tmp_path)


def test_the_text_of_a_rule_is_where_nothing_is() -> None:
    boxes = [(200.0 - 50 * n, 0.0, 240.0 - 50 * n, 16.0) for n in range(4)]
    assert clearest(boxes, [], 10.0) == boxes[0]
    assert clearest(boxes, [[(220.0, 8.0)]], 10.0) == boxes[1]
    across = [(-90.0, 8.0), (300.0, 8.0)]
    assert clearest(boxes[:2], [across, [(170.0, 8.0)]], 10.0) == boxes[0], "a line is everywhere, a marker is not"
    assert clearest(boxes, [[(300.0, -90.0), (180.0, 90.0)]], 0.0) == boxes[1], "between its points"
