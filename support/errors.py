"""The exceptions of numc: either the input was wrong (exit code 2), or numc itself was (exit code 1).

Their messages quote texts of users, files and models. Whatever these contain, a message is one line of bounded length
without characters that change how a terminal shows it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

FAULT = "this is a fault of numc: report it with the output of `numc doctor`"
"""The request at the end of messages about faults of numc."""
_LONGEST = 4000  # characters of a message: enough for a list of the operators that a model has and numc does not


def escaped(text: object) -> str:
    """Return a text with escapes, such as ``\\x1b``, for what is not printable, except tabs: controls, bidi marks."""
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in str(text))


def shortened(text: object, most: int = 80) -> str:
    """Return a text, escaped, without its middle if it is longer than `most` characters."""
    try:
        whole = str(text)
    except Exception:  # a number of more digits than Python writes, an object of the user's that fails
        whole = f"<{type(text).__name__}>"
    return escaped(whole if len(whole) <= most else f"{whole[: most * 2 // 3]}...{whole[-(most // 4) :]}")


def quoted(text: object) -> str:
    """Return a text of a user, a file or a model as a message quotes it: escaped, shortened and in quotes."""
    return f"'{shortened(text)}'"


def shown(value: object) -> str:
    """Return a value that a user gave as a message shows it: a text in quotes, so that '2' is not taken for 2."""
    return quoted(value) if isinstance(value, str) else shortened(value)


class NumcError(Exception):
    """The input is wrong. The message is one line that says what is wrong, what is allowed, and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message, _LONGEST))

    def _render_traceback_(self, *_: object) -> list[str]:
        """Return what a notebook shows in place of a traceback through numc, which says nothing to a user."""
        return [f"NumcError: {self}"]


class ParseError(NumcError):
    """A text does not follow its grammar.

    The message has three lines: what is wrong, the line of the text, and a caret below the place.
    """

    def __init__(self, message: str) -> None:
        Exception.__init__(self, "\n".join(shortened(line, _LONGEST) for line in message.split("\n")))


class CompilerBug(Exception):  # noqa: N818
    """numc itself failed. The message names the file with the IR and the command that reproduces the failure."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message, _LONGEST))


def did_you_mean(
    name: str, candidates: Iterable[str], most: int = 2, written: Callable[[str], str] = lambda candidate: candidate
) -> str:
    """Return ``" (did you mean 'x' or 'y'?)"`` with the candidates closest to `name`, or "" if none is close.

    written: what a user writes to get a candidate.
    """
    distinct = list(dict.fromkeys(candidates))
    near = [] if len(name) > 200 else difflib.get_close_matches(name, distinct, n=most, cutoff=0.6)
    *others, last = [quoted(written(candidate)) for candidate in near] or [""]
    return f" (did you mean {', '.join(others)}{' or ' * bool(others)}{last}?)" if near else ""
