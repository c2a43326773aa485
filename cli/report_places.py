"""Where pages and plots go: that they could be written, told before the work."""

from __future__ import annotations

import os
from pathlib import Path

from numc.support.errors import NumcError
from numc.support.files import check_writable, why_not


def check_page(file: str) -> None:
    """Raise NumcError if a page could not be written."""
    _check_installed("jinja2")
    check_writable(Path(file))


def check_plots(name: str) -> None:
    """Raise NumcError if plots could not be written into a folder, which need not exist."""
    _check_installed("matplotlib", "resvg_py")
    folder = Path(name)
    if folder.is_dir():
        if not os.access(folder, os.W_OK | os.X_OK):
            raise NumcError(f"{folder}: cannot write: {why_not(folder)}: name another folder for plots")
        return
    check_writable(folder)
    if folder.exists():
        raise NumcError(f"{folder}: is a file: name a folder for plots")


def _check_installed(*modules: str) -> None:
    from numc.studies.report.write import check_installed  # which loads what draws

    check_installed(*modules)
