"""The notebooks: each shows again what is committed, and says in one line what it misses."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from tools.notebooks import FOLDER, executed, markdown, settled, written

BOOKS = {path.stem: path for path in sorted(FOLDER.glob("*.ipynb"))}
_WITHOUT_TORCH = "import sys; sys.modules['torch'] = None"


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Notebooks run in a kernel of this Python, which writes nothing into the user's folders."""
    for module in ("nbclient", "nbformat", "ipykernel"):
        pytest.importorskip(module)
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))


@pytest.mark.slow
@pytest.mark.parametrize("name", BOOKS)
def test_a_notebook_shows_what_is_committed(name: str, kernel: None) -> None:
    if name == "training":
        pytest.importorskip("torch")
    committed = json.loads(BOOKS[name].read_text(encoding="utf-8"))
    again = executed(BOOKS[name])
    for one, other in zip(committed["cells"], again["cells"], strict=True):
        assert one == other, one["source"]
    assert BOOKS[name].read_text(encoding="utf-8") == written(again)


def test_a_notebook_of_training_without_pytorch_says_so_in_one_line(kernel: None) -> None:
    first, second, *_ = [
        cell for cell in executed(BOOKS["training"], _WITHOUT_TORCH)["cells"] if cell["cell_type"] == "code"
    ]
    assert first["source"] == _WITHOUT_TORCH
    (failed,) = second["outputs"]
    assert failed["traceback"] == ["NumcError: numc.backend: PyTorch is not installed: pip install torch"]


@pytest.mark.parametrize("name", BOOKS)
def test_a_committed_notebook_is_settled_and_shows_something(name: str) -> None:
    text = BOOKS[name].read_text(encoding="utf-8")
    book = json.loads(text)
    assert written(settled(book)) == text
    outputs = [output for cell in book["cells"] for output in cell.get("outputs", ())]
    assert any("text/html" in output.get("data", ()) for output in outputs)
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert "<script" not in text
    page = markdown(book)
    assert page.startswith("# ")
    HTMLParser().feed(page)
    for line in page.splitlines():  # a blank line would end what markdown takes as HTML
        assert not line.startswith('<div class="shown">') or line.endswith("</div>")
