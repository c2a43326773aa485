"""Pages of reference: the dialect names all that sources write and dumps hold; environment variables are complete."""

from __future__ import annotations

import re

import numc
from numc.cli.commands.doctor import VARIABLES
from numc.passes.names import ATTRIBUTES, OPERATIONS
from rooms import ROOT

PAGE = ROOT / "docs" / "dialect.md"
_BLOCK = re.compile(r"(<!-- names:[^>]* -->\n)(.*)(<!-- /names -->)", re.DOTALL)
_NAME = re.compile(r"\bnumc\.[a-z_]+\b")


def tables() -> str:
    """The tables of the page, from the data."""
    lines = ["", "| operation | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in OPERATIONS.items()]
    lines += ["", "| attribute | on | meaning |", "|---|---|---|"]
    lines += [f"| `{name}` | {on} | {meaning} |" for name, (on, meaning) in ATTRIBUTES.items()]
    return "\n".join([*lines, "", ""])


def test_the_page_has_the_names(request) -> None:
    text = PAGE.read_text()
    written = _BLOCK.sub(lambda block: block[1] + tables() + block[3], text)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(written)
    else:
        assert text == written, "docs/dialect.md: run this test with --update-golden"


def test_the_sources_write_no_other_names() -> None:
    written = {
        name
        for room in ("passes", "compiler")
        for file in (ROOT / room).rglob("*.py")
        for name in re.findall(r'"(numc\.[a-z_]+)"', file.read_text())
    }
    modules = {"numc.passes", "numc.compiler", "numc.train", "numc.support", "numc.runtime"}
    assert written - modules == {*OPERATIONS, *ATTRIBUTES}


def test_dumps_hold_no_other_names(tmp_path) -> None:
    numc.compile(
        ROOT / "examples/digits/cnn.onnx",
        fma="fmac(e4m3:sr8)",
        statistics=True,
        pack_weights=True,
        dump_dir=tmp_path,
    )
    held = {name for file in tmp_path.glob("*.mlir") for name in _NAME.findall(file.read_text())}
    assert held <= {*OPERATIONS, *ATTRIBUTES}
    assert len(held) > 15


def test_the_page_of_variables_has_all() -> None:
    rows = re.findall(r"^\| `(NUMC_\w+)` \|", (ROOT / "docs/environment-variables.md").read_text(), re.MULTILINE)
    assert rows == sorted(VARIABLES)


def test_pages_that_promise_to_be_short_are() -> None:
    """The page of performance has 2,500 words, and the list of changes of a first release 60 lines by subject."""
    assert len((ROOT / "docs/performance.md").read_text().split()) <= 2500
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert len(changes.splitlines()) <= 60
    assert not re.search(r"\bbefore:", changes)
    readme = (ROOT / "README.md").read_text()
    index = readme.partition("## Documentation")[2].partition("\n[Contributing]")[0]
    assert len([line for line in index.splitlines() if line.startswith("| ")]) - 1 <= 12
