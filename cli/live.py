"""``--open``: pages that a browser shows while they are made."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path

import click

from numc.cli import output
from numc.support.errors import NumcError

open_option = click.option(
    "--open", "opened", is_flag=True, help="Open the page in a browser, where it follows the work."
)


class Opened:
    """A page that is opened once, as soon as it is there."""

    def __init__(self, page: Path | None) -> None:
        self._page = page

    @classmethod
    def of_folder(cls, opened: bool, folder: str | None) -> Opened:
        """Return the page of a search in a folder, if it is to be opened. Raises NumcError if there is no folder."""
        if opened and folder is None:
            raise NumcError("--open is about a page: ask for one with --output")
        return cls(Path(folder) / "report.html" if opened and folder is not None else None)

    def show(self) -> None:
        """Open the page, or say where it is if there is no browser; nothing the second time."""
        page, self._page = self._page, None
        if page is None or not page.exists():
            return
        # Without a display, webbrowser would begin one in the terminal.
        seen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
        if not seen or not webbrowser.open(page.resolve().as_uri()):
            output.say(f"--open: there is no browser: open {page} in one", err=True)
