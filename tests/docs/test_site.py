"""The documentation's site builds without a warning, links only what is there and asks no other host for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import numc
from html_pages import CHROMIUM, check_all_in_browser
from numc.cli import cli
from numc.compiler.pipeline import STAGES

pytestmark = pytest.mark.slow  # test_links.py has what takes no site
ROOT = Path(__file__).resolve().parents[2]


class Links(HTMLParser):
    """What a page loads, what it links, and the places in it that can be linked."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("script", "img", "iframe", "source") and "src" in given:
            self.loads.append(given["src"])
        elif tag == "link" and "href" in given:
            self.loads.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for module in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(module)
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {page: Links(page) for page in site.rglob("*.html")}


def test_every_link_leads_somewhere(site, pages):
    for page, found in pages.items():
        if page.name == "404.html":
            continue  # its links begin at the root of a server
        for link in [*found.links, *found.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert target.exists(), f"{page.relative_to(site)}: nothing is at {link}"
            if parts.fragment and target in pages:
                known = pages[target].places
                assert unquote(parts.fragment) in known, f"{page.relative_to(site)}: no place {link}"


def test_nothing_is_loaded_from_another_host(site, pages):
    for page, found in pages.items():
        for link in found.loads:
            assert not urlsplit(link).netloc, f"{page.relative_to(site)} loads {link}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?https?:", sheet.read_text(encoding="utf-8")), sheet


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the PATH")
def test_in_a_browser_nothing_is_beside_a_page(site, pages, tmp_path):
    those = sorted(page for page in pages if page.name != "404.html")
    check_all_in_browser(those, tmp_path, excused="search_index.js")  # which needs a server


def test_every_public_name_command_and_pass_is_there(site, pages):
    text = (site / "reference/python.html").read_text(encoding="utf-8")
    for name in {*numc.__all__} - {"__version__"}:
        assert re.search(rf'id="(?:numc\.)?{name}"', text), f"numc.{name}"
    for name in numc.train.__all__:
        assert f'id="numc.train.{name}"' in text, f"numc.train.{name}"
    commands = pages[site / "reference/commands.html"].places
    for name in cli.commands:
        assert f"numc-{name}" in commands
    passes = (site / "reference/passes.html").read_text(encoding="utf-8")
    for stage in STAGES.values():
        for name in stage:
            assert f"<code>{name}</code>" in passes
