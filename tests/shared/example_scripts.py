"""Scripts of examples/ as modules."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType


@contextmanager
def example(folder: Path) -> Iterator[ModuleType]:
    """The module ``run`` of `folder`. It and its neighbours have short names, which are gone afterwards."""
    sys.path.insert(0, str(folder))
    try:
        yield import_module("run")
    finally:
        sys.path.remove(str(folder))
        for file in folder.glob("*.py"):
            sys.modules.pop(file.stem, None)
