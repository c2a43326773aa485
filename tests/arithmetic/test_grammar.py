"""The texts of formats, conversions and operators: what they mean, and the errors of wrong ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numc.numerics.datapaths import DATAPATHS, MAX_CHUNK, Blocks, Datapath, Own
from numc.numerics.expressions import read_conversion, read_fma
from numc.numerics.formats import FORMATS, ROUNDINGS, Conversion, exmy
from numc.numerics.grammar import parse_any_conversion, parse_conversion, parse_fma
from numc.numerics.operators import ALIASES, FMAS, FP32, Fma, allowed_products
from numc.support.errors import NumcError


def test_names_mean_what_the_parser_reads():
    """Names are looked up without it."""
    for name in FORMATS:
        assert parse_conversion(name) == read_conversion(name) == read_conversion(f" {name}")
    for name in (*FMAS, *ALIASES):
        assert parse_fma(name) == read_fma(name) == read_fma(f" {name}")


@st.composite
def conversions(draw: st.DrawFn, parts: int | None = None) -> Conversion:
    if parts is None and draw(st.booleans()):
        fmt = draw(st.sampled_from(list(FORMATS.values())))
    elif parts is None:
        kind = draw(st.sampled_from(["", "n", "fn"]))
        x, y = draw(st.integers(2, 7 if kind == "fn" else 8)), draw(st.integers(0, 23))
        fmt = exmy(x, y, subnormals=kind != "n", finite=kind == "fn")
    else:
        fmt = draw(st.sampled_from([f for f in FORMATS.values() if f.parts == parts]))
    rounding = draw(st.sampled_from(ROUNDINGS)) if fmt.parts == 1 else "rne"
    overflows = ["", "nan"] if fmt.can_overflow_to_nan else ["", "sat"] if fmt.has_infinities else [""]
    return Conversion(fmt, rounding, draw(st.sampled_from(overflows if fmt.parts == 1 else [""])))


@st.composite
def fmas(draw: st.DrawFn) -> Fma:
    if draw(st.booleans()):
        return draw(st.sampled_from(list(FMAS.values())))
    name = draw(st.sampled_from([name for name, each in DATAPATHS.items() if each.order is not Own]))
    in_blocks = DATAPATHS[name].order is Blocks
    a = draw(conversions(1 if in_blocks else None))
    if a.format.parts == 1 and not in_blocks and draw(st.booleans()):
        acc = draw(st.sampled_from([a, FP32] if a.format.has_zero else [FP32]))
        return Fma(a=a, b=a, acc=acc, products=1, datapath=draw(datapaths(name, acc)), product=a)
    b = draw(st.one_of(st.just(a), conversions(in_blocks or None)))
    acc = draw(conversions(in_blocks or None).filter(lambda each: each.format.has_zero))
    products = draw(st.sampled_from(allowed_products(a.format.parts, b.format.parts)))
    return Fma(a=a, b=b, acc=acc, products=products, datapath=draw(datapaths(name, acc)))


@st.composite
def datapaths(draw: st.DrawFn, name: str, acc: Conversion) -> Datapath:
    """One with parameters, and with chunks, which hold whole blocks."""
    known = {key: each for key, each in DATAPATHS[name].parameters.items() if key != "run"}  # of groups
    parameters = tuple((key, draw(st.integers(each.least, each.most))) for key, each in known.items())
    unit = dict(parameters).get("l", 1)
    chunk = draw(st.none() | st.integers(1, MAX_CHUNK // unit).map(lambda n: n * unit))
    keeps = chunk is not None and acc.format != FP32.format and draw(st.booleans())
    splits = draw(st.none() | st.integers(1, MAX_CHUNK)) if chunk is None else None
    return Datapath(name, parameters, chunk, keeps, splits)


@given(conversions())
def test_conversion_text_parses_back(conversion: Conversion) -> None:
    parsed = parse_conversion(str(conversion))
    assert parsed == conversion
    assert str(parse_conversion(str(parsed))) == str(parsed)


@given(fmas())
def test_fma_text_parses_back(fma: Fma) -> None:
    assert parse_fma(str(fma)) == fma


@given(st.text(alphabet="abefmnprtxz0123456789:/(){},= _", max_size=24))
def test_any_text_parses_or_is_one_line_for_the_user(text: str) -> None:
    def message(parse: Callable[[str], object]) -> str:
        try:
            parse(text)
        except NumcError as error:
            return str(error)
        return ""

    assert "\n" not in message(parse_conversion) + message(parse_fma)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("bf16", "bf16"),
        ("e8m7", "bf16"),
        ("e8m23", "fp32"),
        ("bf16x1", "bf16"),
        ("hfp8_bwd", "e5m2"),
        ("dlfloat16:rtz", "e6m9n:rtz"),
        ("fp8_e4m3:nan", "e4m3fn:nan"),
        ("e4m3fn:nan:rup", "e4m3fn:rup:nan"),
        ("bf16:rne", "bf16"),
        (" e6m9 : odd ", "e6m9:odd"),
        # the papers' notation
        ("1/6/9/d", "e6m9"),
        ("1/6/9/n", "e6m9n"),
        ("1/5/10/d", "fp16"),
        ("1/8/7/n", "e8m7n"),
    ],
)
def test_conversion_texts(text: str, canonical: str) -> None:
    assert str(parse_conversion(text)) == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("bf16_2_2", "bf16_2_2{4}"),
        ("bf16_3_3", "bf16_3_3{9}"),
        ("bf16_3_3 {6}", "bf16_3_3{6}"),
        ("fma(bf16,bf16,acc=fp32)", "mp"),
        ("fma(bf16, acc=fp32)", "mp"),
        ("fma(a=fp16,acc=fp32)", "fma(a=fp16,acc=fp32)"),
        ("fma(a=bf16x2,b=bf16,acc=fp32,products=2)", "fma(a=bf16x2,b=bf16,acc=fp32)"),
        ("fma(a=bf16x2,acc=bf16x2,products=3)", "bf16_2_2{3}"),
        ("fma(a=bf16,acc=bf16x2,datapath=exact)", "fma(a=bf16,acc=bf16x2,datapath=exact)"),
        ("fma(acc=fp32,a=bf16,datapath=amx_bf16)", "amx_bf16"),
        ("mac(e6m9)", "mac(e6m9)"),
        ("macs(e6m9:rtz)", "macs(e6m9:rtz)"),
        ("mac(a=e6m9,datapath=exact)", "mac(e6m9,datapath=exact)"),
        ("fmac(bf16)", "bf16_1_1"),
        ("fmac(e6m9)", "fma(a=e6m9,acc=e6m9)"),
        ("fmacs(e6m9)", "fma(a=e6m9,acc=fp32)"),
        ("fmac(e6m9, chunk=8)", "fma(a=e6m9,acc=e6m9,chunk=8)"),
        ("fmac(bf16,chunk=8)", "fma(a=bf16,acc=bf16,chunk=8)"),
        ("mac(1/6/9/n:rtz, chunk=32, datapath=exact)", "mac(e6m9n:rtz,datapath=exact,chunk=32)"),
        ("fma(chunk=1,a=bf16x2,acc=bf16x2,products=3)", "fma(a=bf16x2,acc=bf16x2,products=3,chunk=1)"),
        ("fmac(e6m9, chunk=8, total=fp32)", "fma(a=e6m9,acc=e6m9,chunk=8,total=fp32)"),
        ("mac(e6m9, total=fp32, chunk=8)", "mac(e6m9,chunk=8,total=fp32)"),
        ("fmacs(e6m9, chunk=8)", "fma(a=e6m9,acc=fp32,chunk=8)"),
        # the papers' notation
        ("fmac(1/6/9/d)", "fma(a=e6m9,acc=e6m9)"),
        ("fmac(1/5/10/d,chunk=8)", "fma(a=fp16,acc=fp16,chunk=8)"),
        ("fmac(e6m9, splits=8, total=fp32)", "fma(a=e6m9,acc=e6m9,splits=8,total=fp32)"),
        (
            "fma(a=bf16,acc=fp32,datapath=fused(l=8,bits=9,round=rtz,out=e8m23))",
            "fma(a=bf16,acc=fp32:rtz,datapath=fused(l=8,bits=9))",
        ),
        ("fma(a=bf16,datapath=fused(out=fp16:rtz,l=8,bits=9))", "fma(a=bf16,acc=fp16:rtz,datapath=fused(l=8,bits=9))"),
        (
            "fma(a=bf16,acc=fp16,datapath=fused(round=odd,l=8,bits=9))",
            "fma(a=bf16,acc=fp16:odd,datapath=fused(l=8,bits=9))",
        ),
        ("macs(1/8/7/n)", "macs(e8m7n)"),
        ("fma(a=1/8/7/d, b=1/6/9/n, acc=1/8/23/d)", "fma(a=bf16,b=e6m9n,acc=fp32)"),
    ],
)
def test_fma_texts(text: str, canonical: str) -> None:
    assert str(parse_fma(text)) == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("e6m9:sr", "e6m9:sr8"),
        ("e6m9:sr16", "e6m9:sr16"),
        ("bf16x2:sr.lfsr", "bf16x2:sr8.lfsr"),
        ("e4m3fn:nan:sr1", "e4m3fn:sr1:nan"),
        ("bfp(16,3,4):sr", "bfp(16,3,4):sr8"),
        ("mxfp4:sr4.lfsr", "mxfp4_e2m1:sr4.lfsr"),
    ],
)
def test_stochastic_roundings(text: str, canonical: str) -> None:
    to = parse_any_conversion(text)
    assert str(to) == canonical
    assert parse_any_conversion(canonical) == to
    assert to.noise is not None


def test_stochastic_operators() -> None:
    assert str(parse_fma("fmac(e6m9:sr)")) == "fma(a=e6m9:sr8,acc=e6m9:sr8)"
    assert parse_fma("fma(a=bf16,acc=bf16:sr8.lfsr)").draws
    assert parse_fma("fma(a=bf16:sr8,acc=fp32)").stochastic
    assert not parse_fma("fma(a=bf16:sr8,acc=fp32)").draws


def test_mac_rounds_the_product_and_fmac_does_not() -> None:
    e6m9 = parse_conversion("e6m9")
    for text, acc, product in [
        ("mac(e6m9)", e6m9, e6m9),
        ("macs(e6m9)", FP32, e6m9),
        ("fmac(e6m9)", e6m9, None),
        ("fmacs(e6m9)", FP32, None),
    ]:
        assert parse_fma(text) == Fma(a=e6m9, b=e6m9, acc=acc, products=1, product=product)


_FMA = (
    "fma(a=F, b=F, acc=G, products=k, product=F, datapath=fp32|exact|fused(l=...,bits=...)|dot(l=...)|"
    "pairwise(l=...)|staged(l=...,bits=...,sum=...)|amx_bf16|avx512_bf16|fmac2|int, "
    "chunk=c, splits=n, total=fp32, unit=..., hadamard=h, signs=s)"
)
_SHORT = "mac(F), macs(F), fmac(F, chunk=c), fmacs(F)"
_CALLS = f"{_FMA}, {_SHORT}"
_EACH = f"want fma(a=F, b=F, acc=G), {_SHORT}"
_NAMES = (
    f"want a name of 'numc list fmas' or 'numc list units', fma(a=F, b=F, acc=G), {_SHORT}, or the text of a format of "
    "groups such as bfp(16,3,4)"
)
_ALLOWED = "want fp32, exact, fused, dot, pairwise, staged, amx_bf16, avx512_bf16, fmac2, int"
_FUSED, _F = "fmac(bf16,datapath=fused(least=-9", "fma(a=bf16,b=bf16,acc=bf16): "
_RESULT = "in datapath 'fused', and a block is rounded to the accumulator: want"
_CHUNK = "want a whole number from 1 to 2147483647"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("e6m9:sr25", "rounding 'sr25': 25 random bits, want 1 to 24"),
        ("e6m9:sr0", "rounding 'sr0': 0 random bits, want 1 to 24"),
        ("bfp(16,3,4):sr99", "rounding 'sr99': 99 random bits, want 1 to 24"),
        ("e6m9:sr8.mt", "rounding 'sr8.mt': unknown generator 'mt', want sr8 or sr8.lfsr"),
        ("e6m9:sr8:rne", "'e6m9': ':rne' after ':sr8', keep one of them"),
        ("e6m9:rne:sr8", "'e6m9': ':sr8' after ':rne', keep one of them"),
        ("bf16x2:rtz", "'bf16x2:rtz': the parts of a number round to nearest even, use rne or srN"),
        ("bf16x4", "format 'bf16x4': 4 parts, want 1 to 3 of 8 significant bits"),
        ("bf16x0", "format 'bf16x0': 0 parts, want 1 to 3 of 8 significant bits"),
        (
            "fp16x2x2",
            "unknown format 'fp16x2x2' (did you mean 'bf16x2' or 'fp16'?): want a name of 'numc list formats', "
            "eXmY, eXmYn, eXmYfn, eXmYbBfnuz, binaryKpP, float(X,Y,...), table(v,w,...), posit(n,es), fixed(i,f), "
            "ufixed(i,f), or along an axis the text of a format of groups such as bfp(16,3,4)",
        ),
        ("e4m3fnx2", "format 'e4m3fnx2': parts have a sign, subnormals and infinities, want parts in eXmY"),
        ("e9m3", "format 'e9m3': 9 exponent bits, want 1 to 8"),
        ("2/5/2/d", "format '2/5/2/d': want 1/X/Y/d (with subnormals) or 1/X/Y/n (without)"),
        ("1/5/2/s", "format '1/5/2/s': want 1/X/Y/d (with subnormals) or 1/X/Y/n (without)"),
        (
            "bf17(3)",
            "unknown format 'bf17(...)': want a name, eXmY, eXmYn, eXmYfn or 1/X/Y/d or bfp(g,e,m) or mx(element,g)",
        ),
        ("bf16:rtz:rna", "'bf16': ':rna' after ':rtz', keep one of them"),
        ("e4m3fn:nan:nan", "'e4m3fn': ':nan' after ':nan', keep one of them"),
        (
            "bf16:rnee",
            "unknown rounding 'rnee' of 'bf16' (did you mean 'rne'?): want rne, rtz, rna, rup, rdn, odd, srN, nan, sat",
        ),
        (
            "BF16",
            "unknown format 'BF16' (did you mean 'bf16', 'bf16x3' or 'bf16x2'?): want a name of 'numc list formats', "
            "eXmY, eXmYn, eXmYfn, eXmYbBfnuz, binaryKpP, float(X,Y,...), table(v,w,...), posit(n,es), fixed(i,f), "
            "ufixed(i,f), or along an axis the text of a format of groups such as bfp(16,3,4)",
        ),
        ("", "format '': cannot read it from its end, want a name, eXmY, eXmYn, eXmYfn or 1/X/Y/d, then :rounding"),
        ("a b", "format 'a b': cannot read it from 'b', want a name, eXmY, eXmYn, eXmYfn or 1/X/Y/d, then :rounding"),
        ("a%", "format 'a%': cannot read it from '%', want a name, eXmY, eXmYn, eXmYfn or 1/X/Y/d, then :rounding"),
    ],
)
def test_conversion_errors(text: str, message: str) -> None:
    with pytest.raises(NumcError) as error:
        parse_conversion(text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bf16", "'bf16' is a format, not an FMA operator: want fmac(bf16) or fma(a=bf16, acc=...)"),
        ("e6m9", "'e6m9' is a format, not an FMA operator: want fmac(e6m9) or fma(a=e6m9, acc=...)"),
        ("mac", "operator 'mac' needs its formats: want mac(F)"),
        ("bf16_3_3{5}", "operator 'bf16_3_3{5}': 5 products, want bf16_3_3{6} or bf16_3_3{9}"),
        (
            "bf16_1_4",
            f"unknown FMA operator 'bf16_1_4' (did you mean 'bf16_1_3', 'bf16_1_2' or 'bf16_1_1'?): {_NAMES}",
        ),
        (
            "mxfp9",
            f"unknown FMA operator 'mxfp9' (did you mean 'mxfp8', 'mxfp6' or 'mxfp4'?): {_NAMES}",
        ),
        ("bfp", "format 'bfp' needs its sizes: want bfp(g,e,m), as in bfp(16,3,4)"),
        (
            "fmaa(bf16)",
            f"unknown FMA operator 'fmaa(...)' (did you mean 'fma' or 'fmac'?): want fma(a=F, b=F, acc=G), {_SHORT}",
        ),
        ("mac(bf16x2)", "mac(bf16x2): mac takes a format of one part, want fma(a=bf16x2, acc=...)"),
        ("fmac(e6m9, chunk=0)", f"fma(a=e6m9,b=e6m9,acc=e6m9): chunk=0, {_CHUNK}"),
        ("fmac(e6m9, chunk=-8)", f"fmac: chunk=-8, {_CHUNK}"),
        ("fma(a=e6m9, acc=e6m9, chunk=2.5)", f"fma: chunk=2.5, {_CHUNK}"),
        ("mac(e6m9, chunk=all)", f"mac: chunk=all, {_CHUNK}"),
        ("fmac(e6m9, chunk=2147483648)", f"fma(a=e6m9,b=e6m9,acc=e6m9): chunk=2147483648, {_CHUNK}"),
        (f"fmac(e6m9, chunk={'9' * 900})", f"fmac: chunk={'9' * 53}...{'9' * 20}, {_CHUNK}"),
        (
            "fmacs(e6m9, chunk=8, total=fp32)",
            "fma(a=e6m9,b=e6m9,acc=fp32): total=fp32, but an fp32 accumulator is kept anyway: leave total out",
        ),
        ("fmac(e6m9, total=fp32)", "fma(a=e6m9,b=e6m9,acc=e6m9): total=fp32, but there are no chunks: leave total out"),
        (
            "fmac(e6m9, chunk=8, total=bf16)",
            "fmac: total=bf16, a sum of chunks is rounded to acc or kept: want total=fp32",
        ),
        (
            "fma(a=bf16,acc=fp32,datapath=amx_bf16,chunk=8)",
            "fma(a=bf16,b=bf16,acc=fp32): chunk=8 with datapath 'amx_bf16', "
            "which has an order of its own: leave chunk out",
        ),
        ("fma(a=bf16,acc=fp32,datapath=x87)", f"datapath 'x87', {_ALLOWED}"),
        ("fmac(bf16,datapath=fussed(l=8,bits=9))", f"datapath 'fussed' (did you mean 'fused'?), {_ALLOWED}"),
        ("fmac(bf16,datapath=exact(l=8))", "datapath 'exact': unknown parameter 'l', it takes none"),
        (
            f"{_FUSED},l=8,bitz=9))",
            "datapath 'fused': unknown parameter 'bitz' (did you mean 'bits'?), want l, bits, least, run",
        ),
        (
            f"{_FUSED},l=8))",
            "datapath 'fused': parameter bits is missing, the bits that are kept below the largest "
            "exponent: want bits=...",
        ),
        (
            f"{_FUSED},l=257,bits=9))",
            "datapath 'fused': l=257, want a whole number from 1 to 256, how many products are added together",
        ),
        (
            "fmac(bf16,datapath=fused(l=8,bits=9,least=-299))",
            "datapath 'fused': least=-299, want a whole number from -298 to 127, the "
            "least exponent that terms are aligned to",
        ),
        (f"{_FUSED},l=eight,bits=9))", "datapath 'fused': l=eight, want a whole number"),
        (f"{_FUSED},l={'9' * 99},bits=9))", f"datapath 'fused': l={'9' * 53}...{'9' * 20}, want a whole number"),
        (f"{_FUSED},l=8,l=8,bits=9))", "datapath 'fused': 'l' is given twice, keep one of them"),
        (
            "fma(a=e4m3fn,acc=fp16,datapath=fused(l=8,bits=25,round=rtz,out=e8m23))",
            f"fma: acc=fp16, but round=rtz, out=e8m23 {_RESULT} acc=fp32:rtz",
        ),
        (
            "fma(a=bf16,acc=fp16:rna,datapath=fused(l=8,bits=9,round=rtz))",
            f"fma: acc=fp16:rna, but round=rtz {_RESULT} acc=fp16:rtz",
        ),
        (
            "fma(a=bf16,acc=fp16,datapath=fused(l=8,bits=9,out=mxfp8))",
            "fma: acc=mxfp8_e4m3 has groups, an accumulator is a single value: want acc=fp32",
        ),
        (
            "fmac(bf16,datapath=fused(l=8,bits=9,round=rtz))",
            "fmac: datapath 'fused': round=rtz, want fma(a=F, acc=G:rounding, datapath=fused(...))",
        ),
        ("fmac(bf16,chunk=8,splits=2)", f"{_F}chunk=8 and splits=2 both divide a reduction, keep one of them"),
        (
            "fma(a=bf16,acc=fp32,datapath=amx_bf16,splits=2)",
            "fma(a=bf16,b=bf16,acc=fp32): splits=2 with datapath 'amx_bf16', "
            "which has an order of its own: leave splits out",
        ),
        (
            "fma(a=mxfp8,acc=fp32,splits=2)",
            "fma(a=mxfp8_e4m3,b=mxfp8_e4m3,acc=fp32): splits=2, formats with groups are summed by groups: "
            "leave splits out",
        ),
        ("fmac(bf16,splits=0)", f"{_F}splits=0, {_CHUNK}"),
        (f"{_FUSED},l=8,bits=9):rtz)", f"datapath 'fused:least:-9:l:8:bits:9:rtz', {_ALLOWED}"),
        ("fmac(bf16,datapath=fused(8,9))", "datapath 'fused': '8' has no name, want fused(l=16,...)"),
        (f"{_FUSED},l=8,bits=9),chunk=12)", f"{_F}chunk=12, want a multiple of l=8: chunks hold whole blocks"),
        (
            "mac(bf16,datapath=fused(l=8,bits=9))",
            f"{_F}product=bf16, datapath 'fused' adds products as they are: leave product out",
        ),
        (
            "fma(a=bf16,acc=bf16x2,datapath=fused(l=8,bits=9))",
            "fma(a=bf16,b=bf16,acc=bf16x2): datapath 'fused' takes formats of one part",
        ),
        (
            "fma(a=e2..5m3,acc=bf16,datapath=fused(l=8,bits=9))",
            "fma(a=e2..5m3,b=e2..5m3,acc=bf16): datapath 'fused' takes fixed widths, want a=eXmY",
        ),
        (
            "fma(a=int8,acc=fp32,datapath=fused(l=8,bits=9))",
            "fma(a=int8,b=int8,acc=fp32): datapath 'fused', 'int8' takes fp32 or int",
        ),
        ("fmac(e6m9, chunck=8)", "fmac: unknown argument 'chunck' (did you mean 'chunk'?): want fmac(F, chunk=c)"),
        (
            "fmac8(e6m9)",
            f"unknown FMA operator 'fmac8(...)' (did you mean 'fmac' or 'fmacs'?): want fma(a=F, b=F, acc=G), {_SHORT}",
        ),
        ("fma(a=bf16,acc=fp32,products=1.5)", "fma: products: got '1.5', want a whole number"),
        (
            "fma(a=1/6/9,acc=fp32)",
            f"FMA operator 'fma(a=1/6/9,acc=fp32)': cannot read it from '/6/9,acc=fp32)', want a name or {_CALLS}",
        ),
        ("fmac(1/6/9/x)", "format '1/6/9/x': want 1/X/Y/d (with subnormals) or 1/X/Y/n (without)"),
        ("fma(acc=fp32)", f"fma: the format 'a' is missing, want {_FMA}"),
        ("fma(bf16)", f"fma: the format 'acc' is missing, want {_FMA}"),
        ("fma(bf16,bf16,fp32)", f"fma: 'fp32' has no name, want {_FMA}"),
        ("fma(a=3,acc=fp32)", "fma: a=3 is not a format, want a name, eXmY, eXmYn, eXmYfn or 1/X/Y/d"),
        ("fma(a=bf16,a=bf16,acc=fp32)", "fma: 'a' is given twice, keep one of them"),
        ("fma(a=bf16,ac=fp32)", f"fma: unknown argument 'ac' (did you mean 'acc' or 'a'?): want {_FMA}"),
        ("fma(a=bf16,acc=fp32,products=all)", "fma: products: got 'all', want a whole number"),
        ("fma(a=bf16,acc=fp32,products=3)", "fma(a=bf16,b=bf16,acc=fp32): products=3, want 1 for 1 x 1 parts"),
        (
            "fma(a=tf32x2,acc=tf32x2)",
            "fma(a=tf32x2,b=tf32x2,acc=tf32x2): acc=tf32x2, want acc=bf16x2, acc=bf16x3 or an accumulator of one part",
        ),
        (
            "fma(a=table(-1,0.5),acc=table(-1,0.5))",
            "fma(a=table(-1,0.5),b=table(-1,0.5),acc=table(-1,0.5)): "
            "acc=table(-1,0.5) has no zero, which sums begin with: want a format with one",
        ),
        (
            "fma(a=bf16,acc=fp32,product=bf16x2)",
            "fma(a=bf16,b=bf16,acc=fp32): product=bf16x2, a product is rounded to a format of one part",
        ),
        (
            "fma(a=bf16,acc=fp32,product=int8)",
            "fma: product=int8 has groups, a product is a single value: want product=eXmY",
        ),
        (
            "fma(a=int8,acc=fp32,product=bf16)",
            "fma(a=int8,b=int8,acc=fp32): product=bf16, products of groups are not rounded: leave product out",
        ),
        ("fma(a=bf16,acc=e6m9:sr32)", "rounding 'sr32': 32 random bits, want 1 to 24"),
        (
            "fma(a=bf16,acc=fp32",
            f"FMA operator 'fma(a=bf16,acc=fp32': cannot read it from its end, want a name or {_CALLS}",
        ),
    ],
)
def test_fma_errors(text: str, message: str) -> None:
    with pytest.raises(NumcError) as error:
        parse_fma(text)
    assert str(error.value) == message
