"""Formats with open widths: their texts, and where they are refused."""

from __future__ import annotations

import numpy as np
import pytest

import numc
from numc.numerics.formats import Open
from numc.numerics.grammar import parse_any_conversion, parse_fma, parse_operand_conversion
from numc.numerics.policy.load import load_policy
from numc.support.errors import NumcError


@pytest.mark.parametrize(
    ("text", "exponent", "significand", "widest", "at"),
    [
        ("bfp(16,3,2..4)", (3, 3), (2, 4), "bfp(16,3,4)", ((3, 2), "bfp(16,3,2)")),
        ("bfp(16,3,2..4):sr8", (3, 3), (2, 4), "bfp(16,3,4)", ((3, 3), "bfp(16,3,3):sr8")),
        ("bfp(16,3,2..4):sr8:discard", (3, 3), (2, 4), "bfp(16,3,4)", ((3, 4), "bfp(16,3,4):sr8")),
        ("e2..8m1..23", (2, 8), (1, 23), "fp32", ((5, 10), "fp16")),
        ("e5m1..10n:rtz", (5, 5), (1, 10), "e5m10n", ((5, 2), "e5m2n:rtz")),
        ("e2..7m3fn:nan", (2, 7), (3, 3), "e7m3fn", ((4, 3), "e4m3fn:nan")),
        ("e2..8m3:sr12.lfsr", (2, 8), (3, 3), "e8m3", ((4, 3), "e4m3:sr12.lfsr")),
    ],
)
def test_texts(text, exponent, significand, widest, at):
    to = parse_operand_conversion(text)
    assert (str(to), to.open, to.format.name) == (text, Open(exponent, significand), widest)
    widths, fixed = at
    assert str(to.at(*widths)) == fixed
    assert to != parse_operand_conversion(widest)
    for operator in (f"fma(a={text},b={text},acc=fp32)", f"fma(a={text},b={fixed},acc=fp32)"):
        assert parse_fma(str(parse_fma(operator))) == parse_fma(operator)
    assert set(parse_fma(f"fma(a={text},b={fixed},acc=fp32)").open_operands) == {"a"}


def test_an_operator_at_its_widths():
    fma = parse_fma("fma(a=e2..8m1..23:rtz, b=bf16, product=e2..8m3, acc=fp32)")
    assert str(fma.at({"a": (8, 7), "product": (5, 3)})) == "fma(a=bf16:rtz,b=bf16,acc=fp32,product=e5m3)"
    assert parse_fma("mp").at({}) == parse_fma("mp")
    policy = load_policy('default macs(e5m1..10); layer "x" a=bfp(16,3,2..4):sr8, b=bfp(16,3,4)')
    assert load_policy(str(policy)) == policy


_RANGE = "a range goes from a smaller to a larger number"


@pytest.mark.parametrize(
    ("operator", "error"),
    [
        ("bfp(16,3,4..2)", f"format '4..2': {_RANGE}"),
        ("bfp(16,3,2..2)", f"format '2..2': {_RANGE}"),
        ("macs(e8..2m3)", f"format 'e8..2m3': {_RANGE}"),
        ("macs(e5m4..4)", f"format 'e5m4..4': {_RANGE}"),
        ("bfp(16,2..3,4)", "'bfp(16,2..3,4)': want a range only in eX..XmY..Y and the last number of bfp(g,e,m)"),
        ("bfp(8..16,3,4)", "'bfp(8..16,3,4)': want a range only in eX..XmY..Y and the last number of bfp(g,e,m)"),
        ("bfp(16,3,0..4)", "format 'bfp(16,3,0)': 0 magnitude bits, want 1 to 23"),
        ("macs(e0..8m3)", "format 'e0m3': 0 exponent bits, want 1 to 8"),
        ("macs(e2..9m3)", "format 'e9m3': 9 exponent bits, want 1 to 8"),
        ("macs(e2..8m3fn)", "format 'e8m3fn': 8 exponent bits, want 1 to 7 where there are no infinities"),
        ("macs(e2..8m0..3)", "format 'e2..8m0..3': open significand bits begin at 1"),
        ("macs(e2..8m3x)", "'e2..8m3x': want eXmY, eXmYn or eXmYfn, in which X and Y may be ranges like 2..8"),
        ("fma(a=2..3, acc=fp32)", "fma: a=2..3 is not a format"),
        ("fma(a=mxfp(2..3), acc=fp32)", "unknown format 'mxfp(...)'"),
        ("fmac(e2..8m3)", "acc=e2..8m3, an accumulator has fixed widths: want acc=fp32 or acc=eXmY"),
        ("fma(a=bfp(16,3,2..4), acc=fp32, datapath=fmac2)", "datapath 'fmac2' multiplies chunks of fixed widths"),
        ("fma(a=e8m1..7, acc=fp32, datapath=amx_bf16)", "datapath 'amx_bf16' takes only a=bf16"),
        ("fma(a=bfp(16,3,2..4):discard, acc=fp32)", "want 'bfp(16,3,2..4):sr8:discard'"),
        ("fma(a=bfp(16,8,2..23), acc=fp32, b=bfp(16,8,23..24))", "24 magnitude bits, want 1 to 23"),
    ],
)
def test_bad_operators(operator, error):
    with pytest.raises(NumcError) as caught:
        parse_fma(operator)
    assert error in str(caught.value)
    assert "\n" not in str(caught.value)


def test_where_no_run_chooses_a_width():
    refused = (
        "format 'e2..8m3': only the operands and the product of an FMA operator have open widths, which a run "
        "chooses: want fixed ones, such as 'e8m3'"
    )
    x = np.ones(2, np.float32)
    for attempt in (
        lambda: numc.round(x, "e2..8m3"),
        lambda: numc.pack(x, "e2..8m3"),
        lambda: parse_any_conversion("e2..8m3"),
        lambda: load_policy("default ops = e2..8m3"),
        lambda: numc.reference.round(1.0, "e2..8m3"),
    ):
        with pytest.raises(NumcError) as caught:
            attempt()
        assert refused in str(caught.value)
    with pytest.raises(NumcError, match=r"^fma: 'macs\(e2..8m3\)' has open widths, .*: want fixed ones$"):
        numc.fma(x, x, x, fma="macs(e2..8m3)")
