"""The texts of a kind of format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

F = TypeVar("F", covariant=True)


@dataclass(frozen=True)
class Kind(Generic[F]):
    """A kind of format in texts.

    name: in messages. formats: those that have a name. syntax: how the others are written; call: their name if they are
    written with sizes in parentheses, example: one of them. read: takes a name, and the sizes in parentheses or None;
    returns the format, or None for the text of another kind. It raises NumcError for sizes that do not exist.
    """

    name: str
    formats: Mapping[str, F]
    read: Callable[[str, Sequence[str] | None], F | None]
    syntax: str = ""
    call: str = ""
    example: str = ""
