"""Pages of reports: their tags and texts, and how a browser lays them out."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
#: An expression of JavaScript, for `laid_out`: what a reader would stumble over. Charts that are drawn much larger or
#: smaller than they are made, texts of a chart that cover each other or are cut off, markers that are covered, a
#: summary of which columns are beside the page, sections without content.
FAULTS = """(() => {
  const faults = [], seen = e => e.getClientRects().length > 0 && e.getBoundingClientRect().width > 0;
  const cross = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  for (const svg of [...inner.querySelectorAll('svg.drawing, svg.graph')].filter(seen)) {
    const scrolls = svg.matches('.graph') ? svg : svg.parentElement;
    const frame = scrolls.getBoundingClientRect(), name = svg.getAttribute('aria-label');
    const scale = svg.getBoundingClientRect().width / (svg.viewBox.baseVal.width || Infinity);
    if (svg.matches('.drawing') && !(scale > 0.75 && scale < 1.5)) faults.push(`${name}: is drawn at ${scale}`);
    const placed = which => [...svg.querySelectorAll(which)].filter(seen)
      .map(e => [e.textContent, e.getBoundingClientRect()]);
    const texts = placed('text:not([transform])');
    texts.forEach(([text, box], n) => {
      if (box.left < frame.left - 3 || box.right > frame.right + 3) faults.push(`${name}: ${text} is cut off`);
      for (const [other, its] of texts.slice(n + 1))
        if (cross(box, its)) faults.push(`${name}: ${text} covers ${other}`);
    });
    const beside = placed('text[font-weight], text[data-rule]');
    for (const mark of svg.querySelectorAll('.marker')) for (const [text, box] of beside)
      if (cross(mark.getBoundingClientRect(), box)) faults.push(`${name}: ${text} covers a marker`);
  }
  for (const cell of [...inner.querySelectorAll('.stack th[scope=row]')].filter(seen))
    if (cell.textContent.length > 3 && cell.clientWidth < 60) faults.push(`${cell.textContent} has no room`);
  for (const table of [...inner.querySelectorAll('.stack')].filter(seen))
    if (table.parentElement.scrollWidth > table.parentElement.clientWidth + 1) faults.push('columns are cut off');
  for (const section of inner.querySelectorAll('section'))
    if (!section.querySelector('svg, table, details, pre, dl, .bar, .note')) faults.push(`${section.id} is empty`);
  return faults;
})()"""
VOID = {"meta", "link", "br", "input"}


class Page(HTMLParser):
    """Collects tags and texts, and fails where tags do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def check_alone(self, text: str, scripts: int = 0) -> None:
        """Check that the page of this text refers to nothing outside and has so many scripts."""
        assert not re.search(r"https?:|(?<!\w)//[a-z]|@import|fetch\(|import\(", text)
        assert text.count("<script") == scripts
        for _, attributes in self.tags:
            for name in ("src", "href"):
                assert (attributes.get(name) or "data:,").startswith(("#", "data:,"))
        assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in self.tags


def check_in_browser(page: Path, folder: Path, excused: str = "\n") -> None:
    """Check that nothing is covered, cut off or empty: as wide as a phone and as a desk, in dark and light colours.

    excused: of what the browser says, lines with this text are no complaint.
    """
    check_all_in_browser([page], folder, excused)


def check_all_in_browser(pages: Sequence[Path], folder: Path, excused: str = "\n") -> None:
    """Check several pages as ``check_in_browser`` does, in one browser for each width and scheme."""
    for width in (500, 1280):
        both = [_laid_out(pages, folder, width, scheme, look=FAULTS, excused=excused) for scheme in (0, 1)]
        for page, dark, light in zip(pages, *both, strict=True):
            for name, seen in (("dark", dark), ("light", light)):
                assert [seen[0], *seen[1], *seen[3]] == [width], (page.name, name, seen)
            assert dark[2] != light[2], page.name


def laid_out(page: Path, folder: Path, width: int, scheme: int, look: str = "null", excused: str = "\n") -> list[Any]:
    """Lay a page out without a network, in dark (scheme 0) or light (1) colours, and return what a script sees.

    The width that it takes, the elements that stick out on the right, the colour of the ground, and the value of
    `look`, an expression of JavaScript in which `inner` is the document. Fails if the browser complains, but in lines
    with the text `excused`.
    """
    return _laid_out([page], folder, width, scheme, look=look, excused=excused)[0]


def _laid_out(
    pages: Sequence[Path], folder: Path, width: int, scheme: int, *, look: str, excused: str
) -> list[list[Any]]:
    """Lay several pages out as ``laid_out`` does, one after another, and return what it returns for each."""
    # Pages of the site keep the scheme that they began with in the profile.
    # A window is not made narrower than 500 pixels, a frame is.
    addresses = json.dumps([page.resolve().as_uri() for page in pages])
    (folder / "frame.html").write_text(
        f'<iframe id=f style="border:0;width:{width}px;height:900px"></iframe>'
        "<pre id=said></pre><script>(async () => {const all = [];"
        f"for (const address of {addresses}) {{"
        "await new Promise(done => { f.onload = done; f.src = address; });"
        "const inner = f.contentDocument, found = [];"
        "for (const e of inner.querySelectorAll('main *'))"
        "  if (!e.closest('.scroll, pre, .views, .shown, .md-typeset__table')"
        "      && e.getBoundingClientRect().right > inner.documentElement.clientWidth + 1)"
        "    found.push(e.tagName + '.' + e.getAttribute('class'));"
        "const style = f.contentWindow.getComputedStyle(inner.body);"
        f"const looked = {look};"
        "all.push([inner.documentElement.scrollWidth, found, style.backgroundColor, looked]);"
        "} said.textContent = JSON.stringify(all); })()</script>"
    )
    done = subprocess.run(
        [str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         f"--user-data-dir={folder / f'profile-{scheme}'}", "--allow-file-access-from-files", "--dump-dom",
         "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--v=0",
         f"--blink-settings=preferredColorScheme={scheme}", f"--virtual-time-budget={2000 * len(pages)}",
         f"file://{folder / 'frame.html'}"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line and excused not in line]
    assert not complaints, done.stderr
    said = re.search(r'<pre id="said">(.*)</pre>', done.stdout)
    assert said is not None, done.stdout + done.stderr
    assert said[1], done.stderr
    return list(json.loads(html.unescape(said[1])))
