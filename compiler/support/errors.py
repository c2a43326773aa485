"""The exceptions of numc: either the input was wrong (exit code 2), or numc itself was (exit code 1)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class NumcError(Exception):
    """The input is wrong. The message is one line that says what is wrong, what is allowed, and what to do."""


class ParseError(NumcError):
    """A text does not follow its grammar.

    The message has three lines: what is wrong, the line of the text, and a caret below the place.
    """


class CompilerBug(Exception):  # noqa: N818
    """numc itself failed. The message names the file with the IR and the command that reproduces the failure."""


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return ``" (did you mean 'x' or 'y'?)"`` with the candidates closest to `name`, or "" if none is close."""
    near = difflib.get_close_matches(name, list(candidates), n=2, cutoff=0.6)
    return f" (did you mean {' or '.join(repr(n) for n in near)}?)" if near else ""
