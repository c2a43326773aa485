"""The two ways numc fails: the input was wrong (exit code 2), or numc itself was (exit code 1)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class NumcError(Exception):
    """Bad input. The text is one line a user can act on: the thing, what was found, what is allowed, what to do."""


class ParseError(NumcError):
    """A text that cannot be parsed: what is wrong, then the line of the text, then a caret below the place."""


class CompilerBug(Exception):  # noqa: N818
    """A failure of numc itself. The text names the kept IR and the command that reproduces it."""


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return ``" (did you mean 'x' or 'y'?)"`` for names near `name`, or the empty string."""
    near = difflib.get_close_matches(name, list(candidates), n=2, cutoff=0.6)
    return f" (did you mean {' or '.join(repr(n) for n in near)}?)" if near else ""
