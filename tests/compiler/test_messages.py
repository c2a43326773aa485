"""Messages: one line of bounded length, whatever is quoted in it."""

from __future__ import annotations

import pytest

from numc.support.errors import CompilerBug, NumcError, ParseError, did_you_mean, quoted


class Mute:
    def __str__(self) -> str:
        raise KeyError("no text")


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ("conv1", "'conv1'"),
        ("größe 重み", "'größe 重み'"),
        ("a\x1b[31m\x07b", r"'a\x1b[31m\x07b'"),
        ("a\nb\r\u2028c", r"'a\nb\r\u2028c'"),
        ("abc\u202edcba\u2066", r"'abc\u202edcba\u2066'"),
        ("\ud800", r"'\ud800'"),
        ("x" * 60 + "y" * 60, f"'{'x' * 53}...{'y' * 20}'"),
        (Mute(), "'<Mute>'"),
    ],
)
def test_quoted(given: object, want: str) -> None:
    assert quoted(given) == want


def test_a_number_that_python_does_not_write() -> None:
    assert quoted(10**5000) == "'<int>'"


@pytest.mark.parametrize("kind", [NumcError, CompilerBug])
def test_a_message_is_one_bounded_line(kind: type[Exception]) -> None:
    assert str(kind("layer 'a\nb\x1b[1m'")) == r"layer 'a\nb\x1b[1m'"
    text = str(kind("start " + "\n" * 100_000 + " end"))
    assert (text[:6], text[-4:], len(text) < 8000) == ("start ", " end", True)


def test_a_parse_error_keeps_its_three_lines() -> None:
    assert str(ParseError("found x\n  \ta\x1bb\n  \t^")) == "found x\n  \ta\\x1bb\n  \t^"


def test_near_names_are_not_looked_for_in_giants() -> None:
    assert did_you_mean("bf16_1_", ["bf16_1_1"]) == " (did you mean 'bf16_1_1'?)"
    assert did_you_mean("bf16_1_1" * 100_000, ["bf16_1_1"]) == ""
