"""Writing the report of a comparison. jinja2 and matplotlib are imported only here, when they are needed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from numc.studies.results import ComparisonData
from numc.support.errors import NumcError
from numc.support.files import write_whole


def check_installed(*packages: str) -> None:
    """Raise NumcError if a package that a report needs is not installed."""
    for package in packages:
        if find_spec(package) is None:
            raise NumcError(f"a report needs {package}, which is not installed: pip install 'numc[report]'")


def write_report(comparison: ComparisonData, path: Path) -> None:
    """Write the page. Raises NumcError if jinja2 is not installed or the file cannot be written."""
    check_installed("jinja2")
    from numc.studies.report.comparison_page import render

    text = render(comparison)
    write_whole(path, lambda file: file.write(text.encode()))


def write_plots(comparison: ComparisonData, folder: Path) -> list[Path]:
    """Write each chart as .png and .svg into `folder` and return the files.

    Raises NumcError if matplotlib is not installed or a file cannot be written.
    """
    check_installed("matplotlib", "resvg_py")
    from numc.studies.report.comparison_charts import all_charts
    from numc.studies.report.plots import draw

    return draw(all_charts(comparison), folder)
