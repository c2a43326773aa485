"""What formats and operators show of themselves in notebooks: all of them, escaped, without scripts, and small."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

import numc
from html_pages import CHROMIUM, laid_out
from numc.numerics.grammar import parse_any_conversion, parse_fma
from numc.numerics.kinds import GROUP_FORMATS
from numc.support import notebook
from numc.support.errors import NumcError, ParseError

FORMATS = {
    **numc.formats,
    **{text: parse_any_conversion(text).format for text in ("e6m9n", "fixed(3,4)", "posit(8,0)")},
}
OPERATORS = {**numc.fmas, **numc.units, "mac(fp16)": parse_fma("mac(fp16)"), "mxfp8": parse_fma("mxfp8")}


class Nested(HTMLParser):
    """Counts strokes and boxes, and fails where tags do not nest or a script is."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.rects = 0
        self.strokes = 0
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag != "script"
        assert not [name for name, _ in attrs if name.startswith("on") or name in ("src", "href")]
        self.open.append(tag)
        self.rects += tag == "rect"

    def handle_startendtag(self, tag, attrs):
        self.strokes += dict(attrs).get("d", "").count("v16")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_shows_its_bits_and_its_values(name):
    fmt = FORMATS[name]
    shown = Nested(fmt._repr_html_())
    assert fmt.name in shown.words
    assert shown.rects == fmt.bits
    assert sum(bits for _, bits in fmt.fields) == fmt.bits
    if fmt.bits <= 8:  # a stroke for each value, fewer where they fall onto one tenth of a pixel
        values = {fmt.decode(code) for code in range(1 << fmt.bits)}
        finite = {value for value in values if abs(value) < float("inf")}
        places = {round(468 * (v - min(finite)) / (max(finite) - min(finite)), 1) for v in finite}
        assert abs(shown.strokes - len(places)) <= 2
    else:
        assert shown.strokes == 0


def test_facts_of_a_format_are_those_of_its_standard():
    words = Nested(numc.formats["fp8_e4m3"]._repr_html_()).words
    for fact in ("448", "2^-6 = 0.015625", "2^-9 = 0.00195312", "+0, -0", "NaN"):
        assert fact in words
    assert "infinities and NaN" in Nested(numc.formats["fp16"]._repr_html_()).words


@pytest.mark.parametrize("name", GROUP_FORMATS)
def test_a_format_with_groups_shows_its_elements_and_scales(name):
    fmt = GROUP_FORMATS[name]
    shown = Nested(fmt._repr_html_())
    assert fmt.name in shown.words
    assert f"{float(fmt.bits_per_value):g}" in shown.words
    if fmt.single is not None and fmt.single.bits <= 4:
        assert shown.strokes in (7, 15, 16)


def test_an_integer_has_no_value_beyond_its_largest_one():
    assert Nested(numc.group_formats["int8"]._repr_html_()).words[-2:] == ["-127", "127"]


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_shows_its_conversions(name):
    fma = OPERATORS[name]
    words = Nested(fma._repr_html_()).words
    for part in (fma.a, fma.b, fma.acc):
        assert str(part) in words
    assert (fma.name or str(fma)) in words


def test_the_terms_of_a_sum_of_parts():
    assert "a1*b0 + a0*b1 + a0*b0 + c" in Nested(numc.fmas["bf16_2_2{3}"]._repr_html_()).words


def test_texts_are_escaped_and_long_tables_are_cut():
    html = notebook.card(
        "<b>", notebook.table(("<i>", "n"), [("<script>x</script>", n) for n in range(100)]), about="&"
    )
    shown = Nested(html)
    assert "<script>x</script>" in shown.words
    assert f"and {100 - notebook.ROWS} more" in shown.words
    assert "\x1b" not in notebook.text("\x1b[31m")


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the PATH")
@pytest.mark.parametrize(("width", "goes_on"), [(300, True), (1280, False)])
def test_a_table_that_goes_on_fades_and_one_that_ends_does_not(width, goes_on, tmp_path):
    shown = notebook.card("a model", notebook.table(["name", *("column" * 2 for _ in range(6))], [["row", *range(6)]]))
    (tmp_path / "x.html").write_text(f"<!DOCTYPE html><main>{shown}</main>")
    look = """(() => {
      const table = inner.querySelector('table'), room = table.closest('[style*=mask]'), cell = table.rows[0].lastChild;
      const text = inner.createRange(); text.selectNodeContents(cell);
      const fade = parseFloat(/100% - (\\d+)px/.exec(getComputedStyle(room).maskImage)[1]);
      const end = () => room.getBoundingClientRect().right - fade - text.getBoundingClientRect().right;
      const before = end(); room.scrollLeft = 1e6;
      return [room.scrollWidth > room.clientWidth, before > -1, end() > -1];
    })()"""
    seen = laid_out(tmp_path / "x.html", tmp_path, width, 0, look)
    assert seen[3] == [goes_on, not goes_on, True], "the last text is clear of what fades, once it is scrolled to"


def test_an_error_is_one_line_in_a_notebook():
    with pytest.raises(NumcError) as error:
        numc.round([1.0], "e99m1")
    assert error.value._render_traceback_() == [f"NumcError: {error.value}"]
    assert ParseError("policy:1: wrong\nx y\n^")._render_traceback_() == ["NumcError: policy:1: wrong\nx y\n^"]
