"""Definitions of users for the time of a test: other tests do not see them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from numc.numerics.datapaths import DEFINED as DATAPATHS
from numc.numerics.defined.definition import DEFINITIONS
from numc.numerics.defined.loading import define_from
from numc.numerics.formats.kinds.table import DEFINED as FORMATS
from numc.numerics.grammar import forget
from numc.numerics.operators import DEFINED as OPERATORS

OWN_OPERATORS = Path(__file__).parents[1] / "data" / "own_operators.py"


@contextmanager
def undone() -> Iterator[None]:
    """Definitions that are made inside are unknown afterwards."""
    tables = (DATAPATHS, DEFINITIONS, FORMATS, OPERATORS)
    before = [dict(table) for table in tables]
    try:
        yield
    finally:
        for table, contents in zip(tables, before, strict=True):
            table.clear()
            table.update(contents)  # type: ignore[arg-type]
        forget()


@contextmanager
def own_operators() -> Iterator[ModuleType]:
    """The operators of data/own_operators.py are known inside."""
    with undone():
        module = define_from(str(OWN_OPERATORS))
        assert module is not None
        yield module
