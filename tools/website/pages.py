"""Pages of the documentation's site that are not in docs/: made from the README, the commands, the passes and the code.

A hook of mkdocs. Links between pages of docs/ work on a forge and in the site as they are. A link that leaves docs/
leads to a page that shows the file, so that the site needs no other host.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from pathlib import Path

import click
from click.testing import CliRunner
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import numc
from numc.cli import cli
from tools import notebooks

ROOT = Path(__file__).resolve().parents[2]

#: Page of the site -> file of the repository that it is.
MOVED = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "changelog.md": "CHANGELOG.md",
    **{f"notebooks/{book.stem}.md": f"examples/notebooks/{book.name}" for book in notebooks.FOLDER.glob("*.ipynb")},
}

#: Heading of the Python reference -> the public names below it. A name that is nowhere ends the build.
NAMES: Mapping[str, tuple[str, ...]] = {
    "Compile and run": (
        "compile",
        "load",
        "Program",
        "lower",
        "opt",
        "explain",
        "graph",
        "ModelGraph",
        "verify",
        "export_shared",
        "onnx_backend",
    ),
    "Arrays": ("round", "fma", "matmul", "pack", "unpack", "Packed", "reference"),
    "Training": ("backend", "arithmetic", "counters", "verify_training", "DynamicLossScale", "train"),
    "Widths at run time": ("widths", "WidthByRatio"),
    "Arithmetic of your own": ("operator", "reduction", "format_of", "circuits"),
    "Studies": (
        "compare",
        "Comparison",
        "token_windows",
        "search",
        "Search",
        "sensitivity",
        "Sensitivity",
        "training_sensitivity",
        "cost",
        "diff",
        "bisect",
    ),
    "Statistics": ("collect_stats", "Statistics", "LayerStatistics", "TensorStatistics", "Histogram"),
    "Profiles": ("profile", "Profile", "Schedule"),
    "Tables": ("formats", "group_formats", "fmas", "units", "presets"),
    "Errors": ("NumcError", "CompilerBug"),
}

TABLES = {
    "formats": "`numc.formats`, a mapping from a name to a `Format`: the [formats that have names](tables.md#formats).",
    "group_formats": "`numc.group_formats`, a mapping from a name to a format whose values share scales in groups: "
    "[the same table](tables.md#formats), from `lowbfp` on.",
    "fmas": "`numc.fmas`, a mapping from a name to an `Fma`: the [named operators](tables.md#fma-operators).",
    "units": "`numc.units`, a mapping from a name to an `Fma`: the [units of accelerators](tables.md#matrix-units).",
    "circuits": "`numc.circuits`, the numbers and functions that definitions are made of: "
    "[arithmetic of your own](../own-arithmetic.md).",
    "onnx_backend": "`numc.onnx_backend`, the interface `onnx.backend.base.Backend`: [ONNX models](../onnx.md).",
    "train": "`numc.train`, recipes that choose the arithmetic of every step: the [names in it](#numctrain).",
    "presets": "`numc.presets`, a mapping from a name to a recipe of training: the [presets](tables.md#presets).",
}

#: The first line of a block of code: its language, and marks that are for the tests.
MARKS = re.compile(r"^(```[a-z]+) .*$", re.MULTILINE)
#: Lines of fields with tabs between them, which commands print where there is no terminal.
FIELDS = re.compile(r"(?:^.*\t.*\n)+", re.MULTILINE)
LINK = re.compile(r"(\]\(|src=\")([^)\s\"#]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here."""
    pages = {page: moved_text(ROOT / source) for page, source in MOVED.items()}
    pages |= {
        "reference/python.md": python_page(),
        "reference/commands.md": commands_page(),
        "reference/passes.md": passes_page(),
        "reference/tables.md": tables_page(),
    }
    texts = pages | {file.src_uri: file.content_string for file in files.documentation_pages()}
    for page, text in texts.items():
        for target in outside(page, text):
            pages.setdefault(shown_as(target), source_page(target))
    for page, text in pages.items():
        files.append(File.generated(config, page, content=text))
    return files


def moved_text(path: Path) -> str:
    """Return the page of a file, which is Markdown or a notebook."""
    text = path.read_text(encoding="utf-8")
    return notebooks.markdown(json.loads(text)) if path.suffix == ".ipynb" else text


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at the pages of the site, leave the marks of blocks out, and align printed tables."""
    here = page.file.src_uri

    def moved(link: re.Match[str]) -> str:
        found = in_repository(here, link[2])
        return link[1] + (posixpath.relpath(in_site(found), posixpath.dirname(here)) if found else link[2])

    return FIELDS.sub(aligned, MARKS.sub(r"\1", LINK.sub(moved, markdown)))


def aligned(lines: re.Match[str]) -> str:
    """Return lines of fields as columns."""
    rows = [line.split("\t") for line in lines[0].splitlines()]
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    return "".join("  ".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in rows)


def in_repository(page: str, link: str) -> str | None:
    """Return the path in the repository of what a link in `page` means, None for another site or page of this one."""
    if re.match(r"[a-z]+:", link) or page.startswith(("reference/", "source/")):
        return None
    folder = posixpath.dirname(MOVED.get(page, f"docs/{page}"))
    return posixpath.normpath(posixpath.join(folder, link))


def in_site(path: str) -> str:
    """Return the place in the site of a file of the repository."""
    moved = {source: page for page, source in MOVED.items()}
    return moved.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else shown_as(path))


def outside(page: str, text: str) -> Iterable[str]:
    """Yield the files of the repository that `text` links and that are no pages."""
    for link in LINK.finditer(text):
        path = in_repository(page, link[2])
        if path and not path.startswith("docs/") and path not in MOVED.values() and (ROOT / path).is_file():
            yield path


def shown_as(path: str) -> str:
    """Return the page that shows a file."""
    return f"source/{path}.md"


def source_page(path: str) -> str:
    """Return a page that shows a file of the repository."""
    language = {".py": "python", ".c": "c", ".h": "c", ".json": "json"}.get(Path(path).suffix, "text")
    text = (ROOT / path).read_text(encoding="utf-8")
    if len(text) > 200_000:
        text = text[:200_000].rsplit("\n", 1)[0] + "\n... (the rest is in the repository)"
    return f"---\nhide: [toc, navigation]\nsearch:\n  exclude: true\n---\n# {path}\n\n````{language}\n{text}\n````\n"


def python_page() -> str:
    """Return the reference of every public name."""
    named = {name for names in NAMES.values() for name in names}
    if wrong := named ^ (set(numc.__all__) - {"__version__"}):
        raise PluginError(f"tools/website/pages.py and numc.__all__ differ in {sorted(wrong)}")
    lines = [
        "# Python reference",
        "",
        "Every public name, from its docstring. `numc.__version__` is the version as a text.",
        "",
    ]
    for heading, names in NAMES.items():
        lines += [f"## {heading}", ""]
        for name in names:
            lines += [f"### {name}", "", TABLES[name], ""] if name in TABLES else [f"::: numc.{name}", ""]
    lines += ["## numc.train", ""]
    for name in numc.train.__all__:
        lines += [f"::: numc.train.{name}", ""]
    return "\n".join(lines)


def commands_page() -> str:
    """Return the help of every command."""
    lines = ["# Commands", "", "What `numc COMMAND --help` prints.", ""]
    for path, command in walk(cli, ("numc",)):
        context = click.Context(command, info_name=" ".join(path), max_content_width=100, **cli.context_settings)
        context.terminal_width = 100
        lines += [f"## {' '.join(path)}", "", "```text", command.get_help(context), "```", ""]
    return "\n".join(lines)


def walk(command: click.Command, path: tuple[str, ...]) -> Iterable[tuple[tuple[str, ...], click.Command]]:
    """Yield a command and those below it, with their words."""
    yield path, command
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from walk(below, (*path, name))


def listed(what: str) -> list[dict[str, str]]:
    """Return the rows that `numc list` prints."""
    printed = CliRunner().invoke(cli, ["list", what], catch_exceptions=False).output
    head, *rows = (line.split("\t") for line in printed.splitlines())
    return [dict(zip(head, row, strict=True)) for row in rows]


def passes_page() -> str:
    """Return the passes, stage by stage."""
    lines = [
        "# Passes",
        "",
        "The whole lowering in order, as `numc list passes` prints it. A pass that is a pipeline of ",
    ]
    lines += [
        "upstream passes shows that pipeline. Each stage is a word for `numc compile --emit` and `numc opt --from`.",
        "",
    ]
    rows = listed("passes")
    for stage in dict.fromkeys(row["stage"] for row in rows):
        chosen = [[f"`{row['pass']}`", about(row["what"])] for row in rows if row["stage"] == stage]
        lines += [f"## {stage}", "", *table(["pass", "what it does"], chosen), ""]
    return "\n".join(lines)


def about(text: str) -> str:
    """Return the text about a pass, an upstream pipeline as code."""
    return f"`{text}`" if re.match(r"[a-z.-]+[({,]", text) else text


def tables_page() -> str:
    """Return the tables of `numc list`."""
    lines = ["# Formats, operators, targets", ""]
    lines += [
        "What `numc list` prints. Other formats and operators have [texts](../arithmetic.md#formats) as names.",
        "",
    ]
    for what, heading in (
        ("formats", "Formats"),
        ("fmas", "FMA operators"),
        ("units", "Matrix units"),
        ("datapaths", "Datapaths"),
        ("presets", "Presets"),
        ("targets", "Targets"),
        ("machines", "Machines"),
    ):
        rows = listed(what)
        # Not the column that speaks of this machine, and not the long one.
        columns = [column for column in rows[0] if column not in ("host", "chain")]
        body = [[f"`{row[columns[0]]}`", *(row[column] for column in columns[1:])] for row in rows]
        lines += [f"## {heading}", "", *table(columns, body), ""]
    return "\n".join(lines)


def table(columns: list[str], rows: Iterable[list[str]]) -> list[str]:
    """Return the lines of a table."""
    cells = [columns, ["---"] * len(columns), *rows]
    return [
        "| " + " | ".join(html.escape(cell, quote=False).replace("|", "\\|") for cell in row) + " |" for row in cells
    ]
