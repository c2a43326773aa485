"""Names of definitions, and the versions behind them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container

from numc.numerics.datapaths import DATAPATHS
from numc.numerics.formats import FORMATS
from numc.numerics.kinds import GROUP_FORMATS
from numc.numerics.operators import ALIASES
from numc.numerics.units import NAMED
from numc.support.errors import NumcError, quoted

_VERSION = 8  # hexadecimal digits
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def checked_name(what: str, name: object, example: str, others: Container[str] = ()) -> str:
    """Return the name of a definition.

    Raises NumcError for what is no name, and for one that numc, or `others`, has for something else.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise NumcError(f"{what} {quoted(name)}: want a name of letters, digits and _, as name='{example}'")
    if name in (*NAMED, *ALIASES, *DATAPATHS, *FORMATS, *GROUP_FORMATS) or name in others:
        raise NumcError(f"{what} '{name}': numc has that name for something else, want another one: name='my_{name}'")
    return name


def version_of(text: str) -> str:
    """Return the digits that tell a definition of this text from others of its name."""
    return hashlib.sha256(text.encode()).hexdigest()[:_VERSION]
