"""The charts of a report as files: the SVG of the page, and a PNG that is made of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from numc.studies.report.charts import Chart, Exponents
from numc.studies.report.histograms_svg import histograms
from numc.studies.report.svg import Drawing
from numc.support.errors import NumcError
from numc.support.files import write_whole

_WIDE = 560.0


def draw(charts: Iterable[Chart | Exponents], folder: Path) -> list[Path]:
    """Write each chart as NAME.svg and NAME.png into `folder`, which is created, and return the files.

    Raises NumcError if a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NumcError(f"{folder}: cannot be made: {error.strerror or error}: name another folder for plots") from None
    written: list[Path] = []
    for chart in charts:
        text = histograms(chart, 900, alone=True) if isinstance(chart, Exponents) else _drawing(chart)
        for suffix, data in (("svg", text.encode()), ("png", png(text))):
            path = folder / f"{chart.name}.{suffix}"
            write_whole(path, lambda file, data=data: file.write(data))  # type: ignore[misc]
            written.append(path)
    return written


def _drawing(chart: Chart) -> str:
    lines = [series for series in chart.series if series.line and not series.faint]
    labels = "ends" if lines and len(lines) <= 12 else "points" if not lines and len(chart.series) <= 40 else ""
    return Drawing(chart, labels).svg(_WIDE, alone=True)


def png(svg: str) -> bytes:
    """Return a picture of an SVG on white, two pixels for one: the same bytes for the same text.

    Its letters are those that matplotlib brings, because a machine may have none.
    """
    import matplotlib as mpl
    from resvg_py import svg_to_bytes

    fonts = str(Path(mpl.get_data_path()) / "fonts" / "ttf")
    made: bytes = svg_to_bytes(
        svg_string=svg, background="#ffffff", zoom=2, skip_system_fonts=True, font_dirs=[fonts],
        font_family="DejaVu Sans", sans_serif_family="DejaVu Sans",
    )  # fmt: skip
    return bytes(made)
