"""The sentence that tells apart the two formats called E4M3, and operators that are formats with a rounding."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import numc
from numc.cli import cli
from numc.numerics.grammar import parse_any_conversion, parse_fma
from numc.numerics.notes import note_of, notes_of
from numc.support.errors import NumcError


@pytest.mark.parametrize(
    ("text", "largest", "other"),
    [
        *(
            ("e4m3", np.inf, "e4m3fn"),
            ("hfp8_fwd", np.inf, "e4m3fn"),
            ("e4m3fn", 300, "e4m3"),
            ("fp8_e4m3", 300, "e4m3"),
        ),
        *(("mxfp8_e4m3", 300, "e4m3"), ("mx(e4m3fn,128,scale=fp32)", 300, "e4m3"), ("mx(e4m3,16,ceil)", 300, "e4m3fn")),
    ],
)
def test_which_e4m3_a_text_is(text: str, largest: float, other: str) -> None:
    note = note_of(parse_any_conversion(text).format)
    assert note.startswith("e4m3 is like IEEE-754" if other == "e4m3fn" else "e4m3fn is the E4M3 of OCP")
    assert note.endswith(f"is {other}")
    rounded = numc.round(np.float32(300), text)
    assert np.isinf(rounded) if np.isinf(largest) else abs(rounded - largest) < 30


def test_no_other_format_has_a_note() -> None:
    assert not any(map(note_of, (parse_any_conversion(t).format for t in ("e5m2", "bf16", "mxfp4", "nvfp4", "int8"))))
    assert len(notes_of(parse_fma("fma(a=e4m3fn,b=e4m3,acc=e4m3)"))) == 2


def test_lists_say_it() -> None:
    lines = CliRunner().invoke(cli, ["list", "formats"]).output.splitlines()
    (line,) = (line for line in lines if line.startswith("fp8_e4m3"))
    assert line.endswith(note_of(parse_any_conversion("fp8_e4m3").format))


@pytest.mark.parametrize("text", ["mxfp8:sr8", "nvfp4:rtz", "bfp(16,3,2..4):sr8", "int8:channel"])
def test_groups_with_a_rounding_are_operators(text: str) -> None:
    assert parse_fma(text) == parse_fma(f"fma(a={text},acc=fp32)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("e4m3:rtz", "'e4m3:rtz' is a format, not an FMA operator: want fmac(e4m3:rtz) or fma(a=e4m3:rtz, acc=...)"),
        ("mp:rtz", "operator 'mp:rtz': only formats have roundings: want mp, or fma(a=F:rtz, acc=G:rtz)"),
        (
            "mxfp8:up",
            "unknown rounding 'up' of 'mxfp8_e4m3' (did you mean 'rup'?): want rne, rtz, rna, rup, rdn, odd, srN, "
            "nan, sat",
        ),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(NumcError) as error:
        parse_fma(text)
    assert str(error.value) == message
