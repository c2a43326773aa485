"""Links of the README and of docs/ lead to files and headings that are there, and the reference has every name."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

import numc
from rooms import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def places(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and mkdocs make them; code blocks have none."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", each).strip().lower()) for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```|`[^`\n]+`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", link):
            continue
        path, _, place = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: nothing is at {link}"
        assert not place or target.suffix != ".md" or place in places(target), f"{page.name}: no heading {link}"


def test_the_reference_has_every_public_name() -> None:
    text = (ROOT / "tools" / "website" / "pages.py").read_text(encoding="utf-8")
    for name in {*numc.__all__} - {"__version__"}:
        assert re.search(rf"\b{name}\b", text), f"numc.{name} has no place in tools/website/pages.py"
