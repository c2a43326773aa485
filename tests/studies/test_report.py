"""The page of a comparison: complete without a network, readable, the same in two colours; and its plots."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from comparisons import FMAS, LAYERS, made_up
from html_pages import CHROMIUM, FAULTS, Page, laid_out
from numc.compiler.arrays.statistics import Statistics
from numc.studies.comparison import Comparison
from numc.studies.report import charts, comparison_charts
from numc.studies.report.colours import CATEGORICAL, INK, colour
from numc.studies.report.place import CHARACTER, LINE, MARKER, apart, distinct, place_texts
from numc.studies.report.svg import Drawing
from numc.studies.results import Result
from numc.studies.shares import Share
from numc.support.errors import NumcError
from tiers import by_default, one_in

pytest.importorskip("jinja2")
SECTIONS = ("findings", "summary", "cost", "layers", "swamping", "exponents", "policy", "reproduce")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "out.html"
    made_up().write_report(path)
    return path


def test_the_page_has_every_section_and_refers_to_nothing_outside(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = Page(text)
    assert [d["id"] for _, d in found.tags if d.get("id") in SECTIONS] == list(SECTIONS)
    found.check_alone(text)
    shown = "".join(found.texts)
    # What is said of a name is its text, not markup.
    assert "models/<net>.onnx" in shown
    assert 'mixed "<i>"' in shown
    assert 'layer "<b>" fma = mp' in shown
    for part in (
        *LAYERS,
        *FMAS[:3],
        "int8",
        "95.00%",
        "e4m3 is like IEEE-754, with infinities, up to 240; the E4M3 of OCP, NVIDIA, PyTorch (448) is e4m3fn.",
        "formats with groups add exactly",
        "∞",
        "b" * 64,
        "--report out",
    ):
        assert part in shown, part
    lines = [d for tag, d in found.tags if tag == "polyline" and "line" in (d.get("class") or "").split()]
    # A line for each arithmetic but fp32, in three widths, and in each that has swamping one for a layer.
    assert len(lines) == 3 * (len(FMAS) - 1) + len(LAYERS) * (len(FMAS) - 1)
    told = re.findall(r"<title>\S+: [^<]*exponents from", text)
    assert len(told) == 2 * 3 * len(LAYERS) * len(FMAS)  # on a wide page and on a phone


def test_a_notebook_shows_the_table_escaped_and_without_times() -> None:
    html = made_up()._repr_html_()
    shown = "".join(Page(html).texts)
    for part in ("<net>.onnx", 'mixed "<i>"', "95.00%", "stem/conv", "inf"):
        assert part in shown
    assert "<i>" not in html
    assert "time" not in re.findall(r"<th[^>]*>([^<]*)</th>", html)
    drawn = Drawing(comparison_charts.accuracy(made_up()), "points", height=220.0).svg(470)
    assert f'<svg style="max-width:100%;height:auto" {drawn.removeprefix("<svg ")}' in html
    assert "<svg" not in replace(made_up(), results=made_up().results[:1])._repr_html_(), "one point is no chart"
    Comparison(**{**vars(made_up()), "model": ""})._repr_html_()


def test_a_page_without_statistics_says_so(tmp_path: Path) -> None:
    comparison = made_up(statistics=False)
    only = Comparison(**{**vars(comparison), "results": comparison.results[:1], "labels": "", "commands": ()})
    for one in (comparison, only):
        one.write_report(tmp_path / "x.html")
        shown = "".join(Page((tmp_path / "x.html").read_text(encoding="utf-8")).texts)
        assert "Not counted" not in shown
        assert "Swamping and exponents are not on this page: they were not counted." in shown
        assert 'id="swamping"' not in (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "Which layer breaks first" not in shown


def test_a_model_without_contractions(tmp_path: Path) -> None:
    bare = {"layers": (), "table": (), "statistics": Statistics(()), "area": 576.0, "iso_area": 1.0, "fmas": 0}
    results = tuple(Result(**{**vars(result), **bare}) for result in made_up().results[:2])
    comparison = Comparison(**{**vars(made_up()), "results": results})
    comparison.write_report(tmp_path / "x.html")
    assert "Which layer breaks first" not in "".join(Page((tmp_path / "x.html").read_text(encoding="utf-8")).texts)
    pytest.importorskip("resvg_py")
    assert {path.stem for path in comparison.write_plots(tmp_path / "plots")} == {"accuracy", "error"}


def test_findings() -> None:
    from numc.studies.report.comparison_page import findings

    comparison = made_up()
    found = {finding.about: finding for finding in findings(comparison)}
    # Of those that keep 95%, mp has the smallest area, and the smaller error of the two that have it.
    assert found["Cheapest that keeps top1"].answer == "mp"
    assert "9 times" in found["Cheapest that keeps top1"].text
    assert found["Closest to fp32"].answer == 'mixed "<i>"'
    # 4e-3 * 4 is above 1e-2; int8 is broken from the start.
    assert comparison["fmac(e4m3)"].breaks == comparison["fmac(e4m3)"].layers[1]
    assert found["Breaks first"].answer == "stem/conv"
    assert found["fp32 against onnxruntime"].answer == "agrees"


def with_shares(comparison: Comparison, count: int, lost: tuple[int, ...]) -> Comparison:
    """The comparison, of which an arithmetic loses so many samples that fp32 gets right, and gains none."""
    hits = count * 19 // 20
    shares = [{"top1": Share(hits - n, count, 0, n)} for n in lost]
    results = tuple(replace(r, shares=each) for r, each in zip(comparison.results, shares, strict=True))
    return replace(comparison, results=results)


def test_the_cheapest_is_named_only_where_its_interval_allows_it(tmp_path: Path) -> None:
    from numc.studies.report.comparison_page import findings

    # Of 10,000 samples, mp loses 45: its interval reaches from -0.6 to -0.3 points. The mixed policy loses 2.
    told = with_shares(made_up(), 10_000, (0, 45, 60, 2, 500, 8500))
    (cheapest,) = (each for each in findings(told) if each.about == "Cheapest that keeps top1")
    assert cheapest.answer == 'mixed "<i>"'
    assert "95% interval of the difference -0.02 (-0.06 to +0.02)" in cheapest.text
    # Of 200 samples none is lost, and a loss of half a point could be there nevertheless.
    few = with_shares(made_up(), 200, (0, 0, 0, 0, 10, 170))
    found = {finding.about: finding for finding in findings(few)}["Cheapest that keeps top1"]
    assert (found.answer, found.bad) == ("not told", False)
    assert found.text.startswith(
        "200 samples are too few to tell a loss of 0.5 points: that of mp may be up to 1.37 points"
    )
    none = with_shares(made_up(), 10_000, (0, 300, 300, 300, 500, 8500))
    found = {finding.about: finding for finding in findings(none)}["Cheapest that keeps top1"]
    assert (found.answer, found.text, found.bad) == ("none", "None is within 0.5 points of fp32.", True)
    told.write_report(tmp_path / "x.html")
    shown = Page((tmp_path / "x.html").read_text(encoding="utf-8")).texts
    assert "94.55 to 95.42%" in shown, "the interval of fp32's share"
    at = shown.index("(-0.58 to -0.32)")
    assert shown[at - 1].strip() == "-0.45"
    assert Comparison.from_json(told.to_json()) == told


def test_gates_decide_where_the_table_has_every_operator() -> None:
    from numc.studies.report.comparison_page import findings

    comparison = made_up()
    gates = [float(1000 - 10 * n) for n in range(len(comparison.results))]
    chosen = tuple(replace(r, gates=each) for r, each in zip(comparison.results, gates, strict=True))
    by_gates = replace(comparison, results=chosen)
    found = {finding.about: finding for finding in findings(by_gates)}["Cheapest that keeps top1"]
    good = [r for r in chosen[1:] if r.metrics["top1"] >= 0.945]
    best = min(good, key=lambda r: r.gates)
    assert found.answer == best.name
    assert f"{1000 / best.gates:.3g} times the FMAs" in found.text
    assert "by hardware/areas.json: yosys" in found.text
    assert "gates" in comparison_charts.accuracy(by_gates).x.label
    assert comparison_charts.accuracy(by_gates).series[0].points[0][0] == 1000
    lacking = replace(comparison, results=(*chosen[:-1], replace(chosen[-1], gates=None)))
    assert "multipliers" in comparison_charts.accuracy(lacking).x.label


def test_charts_show_the_numbers_of_the_comparison() -> None:
    comparison = made_up()
    accuracy = comparison_charts.accuracy(comparison)
    assert [series.points[0] for series in accuracy.series][:2] == [(576.0, 95.0), (64.0, 95.0)]
    # The frontier: 10% for 49 units is beaten by 90% for 16, that by 95% for 64.
    assert accuracy.guide == ((16.0, 90.0), (64.0, 90.0), (64.0, 95.0))
    curve = comparison_charts.swamping(comparison)[0].series[1]
    row = comparison.results[0].statistics.rows[1]
    assert curve.points[7] == (7.0, 100 * row.without_swamping(7))
    assert charts.accumulator_bits("bf16_1_1") == 7
    assert charts.accumulator_bits("bf16_1_2") == 15
    (exponents,) = (c for c in comparison_charts.exponents(comparison) if c.open)
    assert exponents.title == "fmac(e4m3)"
    histogram = exponents.rows[0][1][0]
    assert histogram.inside == (-6, 7)
    assert histogram.below == 3
    assert sum(histogram.fractions) == pytest.approx(_bell_total() / 4000)


def _bell_total() -> int:
    return sum(1000 >> abs(n) for n in range(-6, 7))


def test_values_that_are_not_finite_are_at_the_end_of_an_axis() -> None:
    axis = charts.Axis("x", 1e-4, 1.0, (), True)
    assert [axis.place(v) for v in (0.0, 1e-9, 1e-2, 7.0, math.inf, math.nan)] == [0, 0, 0.5, 1, 1, 1]


@pytest.mark.parametrize("width", [230.0, 380.0, 860.0])
@pytest.mark.parametrize("seed", range(8))
def test_texts_cover_neither_points_nor_each_other(seed: int, width: float) -> None:
    rng = np.random.default_rng(seed)
    points = [(float(x), float(y)) for x, y in rng.random((6, 2))]
    points += [points[0], points[0]]  # the same place: one block of three lines
    texts = [f"op_{n}" for n in range(len(points))]
    groups = place_texts(points, texts, width, 300.0)
    assert sorted(n for group in groups for n in group.members) == list(range(len(points)))
    assert [group.members for group in groups if {0, 6, 7} <= set(group.members)]
    boxes = []
    for group in groups:
        x, y = points[group.members[0]][0] * width, points[group.members[0]][1] * 300.0
        wide, half = CHARACTER * len(texts[0]), LINE * len(group.members) / 2
        left = x + group.dx if group.dx > 0 else x + group.dx - wide
        boxes.append((left, y + group.dy - half, left + wide, y + group.dy + half))
        boxes.append((x - MARKER, y - MARKER, x + MARKER, y + MARKER))
    for n, m in itertools.combinations(range(len(boxes)), 2):
        one, other = boxes[n], boxes[m]
        if n % 2 and m % 2:
            continue  # points are where they are
        wide = min(one[2], other[2]) - max(one[0], other[0])
        high = min(one[3], other[3]) - max(one[1], other[1])
        assert wide <= 0 or high <= 0, (width, n, m)


def test_a_text_that_is_moved_leaves_its_point_and_has_a_line_to_it() -> None:
    """Markers are at the values, wherever their texts are: one that goes with its text would look like data."""
    comparison = made_up()
    chart = comparison_charts.accuracy(comparison)
    crowd = tuple(
        charts.Series(label=f"operator {n}", points=((64.0 * 1.12**n, 95.0),), colour="c0", line=False, told=("x",))
        for n in range(12)
    )
    crowded = dataclasses.replace(chart, series=crowd)
    svg = Drawing(crowded, "points").svg(470)
    places = [float(x) for x in re.findall(r'class="marker f" transform="translate\(([0-9.]+),', svg)]
    assert len(places) == 12
    assert all(a <= b for a, b in itertools.pairwise(places))
    wanted = [chart.x.place(64.0 * 1.12**n) for n in range(12)]
    scale = (places[-1] - places[0]) / (wanted[-1] - wanted[0])
    for place, want in zip(places, wanted, strict=True):
        assert place - places[0] == pytest.approx(scale * (want - wanted[0]), abs=0.2)
    assert svg.count('class="leader') >= 2
    assert svg.count(">operator ") >= 12


def test_long_texts_that_begin_alike_are_told_apart() -> None:
    texts = ["fp32", "fma(a=e4m3fn,b=mxfp4,acc=fp32)", "fma(a=e4m3fn,b=mxfp6,acc=fp32)", "fma(a=e4m3fn,b=nf4,acc=bf16)"]
    assert distinct(texts, 22) == ["fp32", "fma(…mxfp4,acc=fp32)", "fma(…mxfp6,acc=fp32)", "fma(…nf4,acc=bf16)"]
    many = [f"model.layers.{n}.attention.projection.of.queries" for n in range(30)]
    assert len(set(distinct(many, 16))) == 30
    assert max(map(len, distinct(many, 16))) <= 16


def test_an_axis_keeps_what_is_near_apart_from_what_is_far() -> None:
    assert comparison_charts.near([95.0, 10.0, 92.5, 90.0], True) == [95.0, 92.5, 90.0]
    assert comparison_charts.near([95.0, 94.0, 93.0, 90.0], True) == [95.0, 94.0, 93.0, 90.0]
    assert comparison_charts.near([1.5, 2.0, 400.0], False) == [1.5, 2.0]
    assert comparison_charts.near([95.0, 10.0], True) == [95.0, 10.0]
    chart = comparison_charts.accuracy(made_up())
    assert chart.y.low > 80  # int8 has 10
    assert [one.label for one in chart.series][-1] == "int8 (10)"


def test_the_file_of_a_chart_is_the_drawing_of_the_page(page: Path, tmp_path: Path) -> None:
    """The same elements; a file has a title, a style sheet and a width of its own."""
    chart = comparison_charts.accuracy(made_up())
    inside, alone = Drawing(chart, "points").svg(470), Drawing(chart, "points").svg(470, alone=True)
    assert inside in page.read_text(encoding="utf-8")
    tags = [re.findall(r"<(path|text|polyline|circle|rect) ", svg) for svg in (inside, alone)]
    assert tags[1] == ["text", *tags[0]]


def test_texts_at_the_ends_of_lines_keep_their_order_and_distance() -> None:
    found = apart([10.0, 11.0, 12.0, 100.0, 99.0], 0.0, 100.0, 15.0)
    assert sorted(range(5), key=lambda n: found[n]) == [0, 1, 2, 4, 3]
    assert all(b - a >= 15 - 1e-9 for a, b in itertools.pairwise(sorted(found)))
    assert min(found) >= 0
    assert max(found) <= 100


def test_colours_stand_out_from_their_ground() -> None:
    """Contrast as WCAG 2 defines it: 3 for graphics, 4.5 for text."""

    def luminance(text: str) -> float:
        parts = [int(text[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(one: str, other: str) -> float:
        low, high = sorted((luminance(one), luminance(other)))
        return (high + 0.05) / (low + 0.05)

    css = (Path(charts.__file__).parent / "style.css").read_text()
    cards = re.findall(r"--card: (#\w{6})", css)
    texts, softs = re.findall(r"--text: (#\w{6})", css), re.findall(r"--soft: (#\w{6})", css)
    assert len(cards) == len(texts) == len(softs) == 2
    for ground, n in zip(cards, (0, 1), strict=True):
        for one in (texts[n], softs[n], INK[n], *(pair[n] for pair in CATEGORICAL)):
            assert contrast(one, ground) >= 4.5, (one, ground)
        for place in np.linspace(0, 1, 21):
            assert contrast(colour(f"q{place:.3f}")[n], ground) >= 3


@pytest.mark.all
def test_plots(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    fp32, mp = made_up().results[:2]
    fp32 = Result(**{**vars(fp32), "statistics": None})
    one = Comparison(**{**vars(made_up()), "results": (fp32, mp)})
    written = one.write_plots(tmp_path / "plots")
    assert {path.name for path in written} == {path.name for path in (tmp_path / "plots").iterdir()}
    assert {path.stem for path in written} == {"accuracy", "error", "layers", "swamping-mp", "exponents-mp"}
    for path in written:
        start = path.read_bytes()[:8]
        assert start == b"\x89PNG\r\n\x1a\n" if path.suffix == ".png" else start == b"<svg xml"


def test_plots_and_pages_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NumcError, match=r"file: cannot be made: .*: name another folder for plots"):
        made_up().write_plots(tmp_path / "file")
    with pytest.raises(NumcError, match=r"x\.html: cannot write: No such file or directory"):
        made_up().write_report(tmp_path / "none" / "x.html")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]
    monkeypatch.setattr("numc.studies.report.write.find_spec", lambda name: None)
    with pytest.raises(NumcError) as error:
        made_up().write_report(tmp_path / "x.html")
    assert str(error.value) == "a report needs jinja2, which is not installed: pip install 'numc[report]'"


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the PATH")
@pytest.mark.parametrize("width", by_default(one_in(2, [390, 500, 800, 1280], 500), [500]))
def test_in_a_browser_nothing_overflows_or_complains(page: Path, tmp_path: Path, width: int) -> None:
    """Laid out as wide as a phone and as a desk, without a network, in dark and light colours."""
    seen = [laid_out(page, tmp_path, width, scheme, FAULTS) for scheme in (0, 1)]
    assert [one[:2] for one in seen] == [[width, []]] * 2
    assert seen[0][2] != seen[1][2]
    assert [one[3] for one in seen] == [[], []]


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the PATH")
@pytest.mark.parametrize("width", by_default([390, 500, 1280], [1280]))
def test_in_a_browser_many_arithmetics_stay_readable(tmp_path: Path, width: int) -> None:
    """Twelve arithmetics of which most have the same accuracy, with texts that begin alike, and 20 layers."""
    few = made_up(statistics=False)
    texts = [f"fma(a=e4m3fn,b=mx(e2m1fn,{2**n}),acc=fp32)" for n in range(1, 9)]
    results = list(few.results)
    for n, text in enumerate(texts):
        results.append(
            dataclasses.replace(few.results[1], name=text, area=14.0 + 5 * n, metrics={"top1": 0.95 - 1e-3 * n})
        )
    layers = [
        tuple(dataclasses.replace(r.layers[0], position=n, name=f"model/layer{n}/conv") for n in range(20))
        for r in results
    ]
    results = [
        dataclasses.replace(r, metrics={"top1": r.metrics["top1"]}, layers=its)
        for r, its in zip(results, layers, strict=True)
    ]
    many = dataclasses.replace(few, results=tuple(results), metrics=("top1",))
    many.write_report(tmp_path / "many.html")
    seen = laid_out(tmp_path / "many.html", tmp_path, width, 1, FAULTS)
    assert seen[:2] == [width, []]
    assert seen[3] == []
