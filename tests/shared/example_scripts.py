"""Scripts of examples/ as modules."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@contextmanager
def example(folder: Path) -> Iterator[ModuleType]:
    """The module ``run`` of `folder`. It and its neighbours have short names, which are gone afterwards.

    So are the modules of other examples that they import, for which they extend sys.path.
    """
    path = sys.path.copy()
    _forget_modules()
    sys.path.insert(0, str(folder))
    try:
        yield import_module("run")
    finally:
        sys.path[:] = path
        _forget_modules()


def _forget_modules() -> None:
    for name, module in list(sys.modules.items()):
        file = Path(getattr(module, "__file__", None) or "/")
        if EXAMPLES in file.parents and file.parent.name != "models":  # those are shared
            del sys.modules[name]
