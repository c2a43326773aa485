"""The notebooks of examples/notebooks: ``python -m tools.notebooks [NAME...]`` runs them and writes what they show.

They are committed with their outputs, so that a page of a forge and the site show them, and a test runs each again and
wants the same: what numc computes is the same on every machine. What is not, such as times, is no output of theirs.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "notebooks"
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_SECONDS = 600  # the most that a cell takes on two slow cores


def executed(path: Path, first: str = "") -> dict[str, Any]:
    """Return a notebook after a run in a copy of the examples, which it may write into.

    first: code that runs before its cells. A cell that raises ends the run; its error is among the outputs.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    book = nbformat.read(path, as_version=4)
    if first:
        book.cells.insert(0, nbformat.v4.new_code_cell(first))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples", Path(folder) / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        here = Path(folder) / "examples" / "notebooks"
        quiet = ["--log-level=ERROR"]
        where = {"metadata": {"path": here}}
        client = NotebookClient(book, timeout=_SECONDS, kernel_name="python3", resources=where, extra_arguments=quiet)
        try:
            client.execute()
        except CellExecutionError:
            if not first:
                raise
    return settled(book)


def settled(book: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook without what differs between runs and programs that write notebooks."""
    cells = []
    for number, cell in enumerate(book["cells"], 1):
        kept = {"cell_type": cell["cell_type"], "id": f"cell-{number}", "metadata": {}, "source": _text(cell["source"])}
        if cell["cell_type"] == "code":
            kept |= {"execution_count": None, "outputs": _outputs(cell["outputs"])}
        cells.append(kept)
    return {"cells": cells, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}


def _outputs(raw: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return outputs with texts in one piece; what goes to stderr, such as warnings and progress, is left out."""
    made: list[dict[str, Any]] = []
    for output in raw:
        sort = output["output_type"]
        if sort == "stream":
            if output["name"] == "stderr":
                continue
            if made and made[-1]["output_type"] == "stream":
                made[-1]["text"] += _text(output["text"])
            else:
                made.append({"name": "stdout", "output_type": sort, "text": _text(output["text"])})
        elif sort == "error":
            made.append({key: output[key] for key in ("ename", "evalue", "output_type", "traceback")})
        else:
            rich = any(mime != "text/plain" for mime in output["data"])  # whose plain text has times and addresses
            data = {mime: _text(text) for mime, text in output["data"].items() if not (rich and mime == "text/plain")}
            rest = {"execution_count": None} if sort == "execute_result" else {}
            made.append({"data": data, "metadata": {}, "output_type": sort, **rest})
    return made


def _text(lines: Any) -> Any:
    return "".join(lines) if isinstance(lines, list) else lines


def written(book: dict[str, Any]) -> str:
    """Return the text of the file of a notebook."""
    return json.dumps(book, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def markdown(book: dict[str, Any]) -> str:
    """Return a notebook as a page of the site: texts, code, and what it shows."""
    parts: list[str] = []
    for cell in book["cells"]:
        source = _text(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            drawn = _text(data.get("text/html") or data.get("image/svg+xml") or "")
            if drawn:  # a line of its own without blank lines, which markdown takes as it is
                parts.append(f'<div class="shown">{" ".join(drawn.split())}</div>')
            else:
                parts.append(f"```text\n{_text(output.get('text') or data.get('text/plain', '')).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def main(names: Sequence[str]) -> int:
    """Run notebooks, all by default, and write them."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.stem in names:
            path.write_text(written(executed(path)), encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
