"""Texts, sizes and errors of formats with groups."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import numc
from numc.numerics.formats import FORMATS, ROUNDINGS, SYNTAX
from numc.numerics.grammar import parse_any_conversion, parse_conversion, parse_fma, parse_group_conversion
from numc.numerics.groups import GroupConversion
from numc.numerics.kinds import GROUP_FORMATS, Bfp, Int, Mx
from numc.support.errors import NumcError

FORMATS_WITH_GROUPS = st.one_of(
    st.builds(Bfp, st.integers(1, 10**6), st.integers(1, 8), st.integers(1, 23)),
    st.sampled_from(list(GROUP_FORMATS.values())),
    st.builds(Int, st.integers(4, 16)),
)


@given(st.builds(GroupConversion, FORMATS_WITH_GROUPS, st.sampled_from(ROUNDINGS)))
def test_text_parses_back(conversion: GroupConversion) -> None:
    assert parse_any_conversion(str(conversion)) == parse_group_conversion(str(conversion)) == conversion


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (" bfp( 16, 3, 4 ) ", "bfp(16,3,4)"),
        ("bfp(16,3,4):rtz", "bfp(16,3,4)"),
        ("bfp(16,3,4):rne", "bfp(16,3,4):rne"),
        ("msfp12", "bfp(16,8,3)"),
        ("lowbfp", "bfp(16,3,2)"),
        ("midbfp", "bfp(16,3,3)"),
        ("highbfp:odd", "bfp(16,3,4):odd"),
        ("mxfp8", "mxfp8_e4m3"),
        ("mxfp6", "mxfp6_e2m3"),
        ("mxfp4:rne", "mxfp4_e2m1"),
        ("mxint8:rtz", "mxint8:rtz"),
        ("int8", "int8"),
        ("int13:rna", "int13:rna"),
    ],
)
def test_texts(text: str, canonical: str) -> None:
    assert str(parse_group_conversion(text)) == canonical


def test_names_are_formats_and_print_what_parses_back() -> None:
    assert numc.group_formats is GROUP_FORMATS
    for name, fmt in GROUP_FORMATS.items():
        assert parse_group_conversion(name).format == fmt
        assert parse_group_conversion(fmt.name).format == fmt
        assert name not in FORMATS


# OCP MX v1.0, table 1 and section 5.3; the exponents are those of the largest and of the smallest normal element.
@pytest.mark.parametrize(
    ("name", "bits", "largest", "emax", "emin"),
    [
        ("mxfp8_e5m2", 8, 57344, 15, -14),
        ("mxfp8_e4m3", 8, 448, 8, -6),
        ("mxfp6_e3m2", 6, 28, 4, -2),
        ("mxfp6_e2m3", 6, Fraction(15, 2), 2, 0),
        ("mxfp4_e2m1", 4, 6, 2, 0),
        ("mxint8", 8, Fraction(127, 64), 0, 0),
    ],
)
def test_elements_of_mx(name: str, bits: int, largest: Fraction, emax: int, emin: int) -> None:
    fmt = GROUP_FORMATS[name]
    assert isinstance(fmt, Mx)
    assert (fmt.element_bits, fmt.largest, fmt.emax, fmt.emin, fmt.group) == (bits, largest, emax, emin, 32)
    assert fmt.bits_per_value == bits + Fraction(1, 4)


_CALL = "want bfp(g,e,m), three numbers: group, exponent and magnitude bits"
_NAMES = f"want a name of 'numc list formats', {SYNTAX}, or along an axis the text of a format of groups such as "
_NAMES += "bfp(16,3,4)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bfp(0,3,4)", "format 'bfp(0,3,4)': groups of 0 values, want 1 or more"),
        (
            "bfp(16,0,4)",
            "format 'bfp(16,0,4)': 0 exponent bits, want 1 to 8 (float32 itself has 8)",
        ),
        ("bfp(16,9,4)", "format 'bfp(16,9,4)': 9 exponent bits, want 1 to 8 (float32 itself has 8)"),
        (
            "bfp(16,3,0)",
            "format 'bfp(16,3,0)': 0 magnitude bits, want 1 to 23 (a float32 holds 24, and needs no group)",
        ),
        (
            "bfp(16,3,24)",
            "format 'bfp(16,3,24)': 24 magnitude bits, want 1 to 23 (a float32 holds 24, and needs no group)",
        ),
        ("bfp(16,3)", f"format 'bfp(...)': {_CALL}"),
        ("bfp()", f"format 'bfp(...)': {_CALL}"),
        ("bfp(16,3,bf16)", f"format 'bfp(...)': {_CALL}"),
        ("bfp(g=16,e=3,m=4)", f"format 'bfp(...)': {_CALL}"),
        ("bfp", "format 'bfp' needs its sizes: want bfp(g,e,m), as in bfp(16,3,4)"),
        ("int3", "format 'int3': 3 bits, want 4 to 16"),
        ("int17", "format 'int17': 17 bits, want 4 to 16"),
        ("mxfp7", f"unknown format 'mxfp7' (did you mean 'mxfp8', 'mxfp6' or 'mxfp4'?): {_NAMES}"),
        ("lowbpf", f"unknown format 'lowbpf' (did you mean 'lowbfp'?): {_NAMES}"),
        ("bfp(16,3,4):nan", "'bfp(16,3,4):nan': only formats without infinities (eXmYfn) take ':nan'"),
        ("int8:channel", "'int8:channel': channels are those of a contraction's operands, leave ':channel' out"),
        ("mxfp4:rtz:rne", "'mxfp4_e2m1': ':rne' after ':rtz', keep one of them"),
        ("int8:rnd", "unknown rounding 'rnd' of 'int8' (did you mean 'rne' or 'rna'?): "
         "want rne, rtz, rna, rup, rdn, odd, srN, nan, sat"),
        ("int4(128)", "format 'int4(...)': want int4(group=g), and scale=F for other scales than fp16"),
        ("uint2(group=4,rule=amax)",
         "format 'uint2(...)': want uint2(group=g), and scale=F for other scales than fp16"),
    ],
)  # fmt: skip
def test_errors(text: str, message: str) -> None:
    with pytest.raises(NumcError) as error:
        numc.round(np.zeros(4, np.float32), text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("bfp(16,3,4)", "fma(a=bfp(16,3,4),acc=fp32)"),
        ("highbfp", "fma(a=bfp(16,3,4),acc=fp32)"),
        ("mxfp8", "fma(a=mxfp8_e4m3,acc=fp32)"),
        ("int5", "fma(a=int5,acc=fp32)"),
        ("fma(bfp(16,3,4), bfp(16,3,2):rne, acc=fp32)", "fma(a=bfp(16,3,4),b=bfp(16,3,2):rne,acc=fp32)"),
        ("fma(a=int8, b=int8:channel:rtz, acc=fp32)", "fma(a=int8,b=int8:rtz:channel,acc=fp32)"),
        (
            "fma(a=int4(group=128), b=uint4(group=128, scale=bf16):rtz, acc=fp32)",
            "fma(a=mx(int4,128,scale=fp16),b=mx(uint4,128,scale=bf16):rtz,acc=fp32)",
        ),
        ("fma(a=highbfp, acc=fp32, datapath=fmac2)", "fma(a=bfp(16,3,4),acc=fp32,datapath=fmac2)"),
    ],
)
def test_operators(text: str, full: str) -> None:
    operator = parse_fma(text)
    assert str(operator) == full
    assert parse_fma(full) == operator
    assert str(operator.step) == "fp32"


_A = "fma(a=bfp(16,3,4),b=bfp(16,3,4),acc="


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fmacs(mxfp4:rtz)", "fmacs(mxfp4_e2m1:rtz): fmacs takes a format of single values, "
         "want fma(a=mxfp4_e2m1:rtz, acc=fp32)"),
        ("fma(a=mxfp4:channel,acc=fp32)",
         "'mxfp4_e2m1:channel': only intN has scales that channels can have of their own"),
        ("fma(a=int8,acc=int8)", "fma: acc=int8 has groups, an accumulator is a single value: want acc=fp32"),
        ("fma(a=highbfp,acc=bf16)", f"{_A}bf16): the dot products of groups are summed in fp32, want acc=fp32"),
        ("fma(a=highbfp,acc=fp32,datapath=exact)", f"{_A}fp32): datapath 'exact', 'bfp(16,3,4)' takes fp32 or fmac2"),
        ("fma(a=int8,acc=fp32,datapath=fmac2)",
         "fma(a=int8,b=int8,acc=fp32): datapath 'fmac2', 'int8' takes fp32 or int"),
        ("fma(a=bf16,acc=fp32,datapath=fmac2)",
         "fma(a=bf16,b=bf16,acc=fp32): datapath 'fmac2' multiplies block floating point, want a=bfp(g,e,m)"),
        ("fma(a=highbfp,acc=fp32,chunk=8)",
         f"{_A}fp32): chunk=8, formats with groups are summed by groups: leave chunk out"),
        ("fma(a=highbfp,acc=fp32,products=2)",
         f"{_A}fp32): products=2, formats with groups have all: leave products out"),
        ("fma(a=highbfp,b=int8,acc=fp32)", "fma(a=bfp(16,3,4),b=int8,acc=fp32): bfp, mx and intN do not mix, "
         "nor do scales e8m0fnu and others: give a and b formats of one kind"),
        ("fma(a=highbfp,b=bfp(8,3,4),acc=fp32)", "fma(a=bfp(16,3,4),b=bfp(8,3,4),acc=fp32): groups of 16 and 8 values, "
         "give a and b groups of one size"),
        ("fma(a=int8,acc=fp32:sr8)",
         "fma(a=int8,b=int8,acc=fp32:sr8): the dot products of groups are summed in fp32, want acc=fp32"),
        ("bfp(4097,3,4)", "fma(a=bfp(4097,3,4),b=bfp(4097,3,4),acc=fp32): groups of 4097 values, an operator takes up "
         "to 4096"),
        ("bfp(129,3,23)", "fma(a=bfp(129,3,23),b=bfp(129,3,23),acc=fp32): the dot product of a group takes more than "
         "53 bits, use shorter groups or fewer magnitude bits"),
    ],
)  # fmt: skip
def test_operators_that_do_not_exist(text: str, message: str) -> None:
    with pytest.raises(NumcError) as error:
        parse_fma(text)
    assert str(error.value) == message


def test_not_as_the_format_of_other_operations_yet() -> None:
    with pytest.raises(NumcError) as error:
        parse_conversion("mxint8")
    assert str(error.value) == (
        "format 'mxint8': a format with groups is for the operands of an FMA operator, numc.round and numc.pack; "
        "use a name, eXmY, eXmYn, eXmYfn or 1/X/Y/d"
    )


def test_roundings_and_texts_without_groups() -> None:
    with pytest.raises(NumcError) as error:
        GroupConversion(Bfp(16, 3, 4), "up")
    assert str(error.value) == "rounding 'up' of 'bfp(16,3,4)': want rne, rtz, rna, rup, rdn, odd, srN"
    with pytest.raises(NumcError) as error:
        parse_group_conversion("bf16")
    assert str(error.value).startswith("format 'bf16' has no groups: want bfp(g,e,m), mx(element,g), msfp12, lowbfp, ")
