"""Pages of work that is not finished: they are written again as long as the work goes on, and tell when it does not."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from html_pages import CHROMIUM, laid_out
from numc.studies.report import live_page as live
from numc.support.errors import NumcError

pytest.importorskip("jinja2")
WORK = """
import sys, time
from pathlib import Path
from numc.studies.report import live_page as live
from numc.studies.report.drawing import environment
page = environment().get_template("base.html.jinja")
live.BEAT = 0.05
with live.LivePage(Path(sys.argv[1])) as shown:
    shown.follow(lambda stopped: page.render(live="Finished: fp32.", stopped=stopped))
    print("written", flush=True)
    time.sleep(600)
"""


def _until_it_changes(page: Path, text: str) -> str:
    end = time.monotonic() + 30
    while (now := page.read_text()) == text and time.monotonic() < end:
        time.sleep(0.01)
    return now


def test_a_page_has_a_new_time_as_long_as_the_work_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "x.html"
    monkeypatch.setattr(live, "BEAT", 0.01)
    with live.LivePage(page) as shown:
        shown.follow(lambda stopped: 'one <p data-written="1">')
        first = page.read_text()
        second = _until_it_changes(page, first)
        assert re.fullmatch(r'one <p data-written="\d{10,}">', second), second
        shown.follow(lambda stopped: 'two <p data-written="1">')
        assert _until_it_changes(page, second).startswith("two")
    ended = page.read_text()
    time.sleep(0.1)
    assert page.read_text() == ended, "what comes last is not written over"


def test_a_page_that_is_made_seldom_is_made_at_the_first_time(tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    with live.LivePage(page, every=3600) as shown:
        shown.follow(lambda stopped: "one")
        shown.follow(lambda stopped: "two")
    assert page.read_text() == "one"
    with live.LivePage(None) as shown:
        shown.follow(lambda stopped: 1 / 0)


def test_a_page_that_cannot_be_written_is_an_error_and_a_time_that_cannot_be_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        pytest.raises(NumcError, match="x.html: cannot write: No such file"),
        live.LivePage(tmp_path / "a/x.html") as it,
    ):
        it.follow(lambda stopped: "one")
    monkeypatch.setattr(live, "BEAT", 0.01)
    folder = tmp_path / "gone"
    folder.mkdir()
    with live.LivePage(folder / "x.html") as shown:
        shown.follow(lambda stopped: 'one <p data-written="1">')
        (folder / "x.html").unlink()
        while not (folder / "x.html").exists():
            time.sleep(0.01)
        folder.rename(tmp_path / "moved")
        time.sleep(0.1)
        assert not folder.exists()


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the PATH")
def test_the_page_of_killed_work_says_that_nothing_comes_any_more(tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    with subprocess.Popen([sys.executable, "-c", WORK, page], stdout=subprocess.PIPE, text=True) as work:
        assert work.stdout is not None
        assert work.stdout.readline() == "written\n"
        work.send_signal(signal.SIGKILL)
    text = page.read_text()
    look = "inner.querySelector('.live').textContent"
    goes_on = "Finished: fp32. This page loads itself again until it is finished."
    assert laid_out(page, tmp_path, 500, 0, look)[3] == goes_on, "no time has passed"
    page.write_text(re.sub(r'data-written="\d+"', f'data-written="{time.time() - live.SILENCE + 60:.0f}"', text))
    assert laid_out(page, tmp_path, 500, 0, look)[3] == goes_on
    page.write_text(re.sub(r'data-written="\d+"', f'data-written="{time.time() - live.SILENCE - 1:.0f}"', text))
    said = laid_out(page, tmp_path, 500, 0, look)[3]
    assert re.fullmatch(
        r"Finished: fp32\. Nothing has written here since .*20\d\d.*: the work has ended without a result, as when it "
        r"is killed, or its machine sleeps\. Load this page again to see if it goes on\.",
        said,
    ), said
