"""The circuits of the built-in operators compute what the definition says."""

from __future__ import annotations

import random
from itertools import product

import pytest

from numc.hardware.circuits.operator_circuit import circuit, surrounding_circuits
from numc.hardware.circuits.reals import decode, encode
from numc.hardware.encodings import Encoding
from numc.hardware.ports import interface
from numc.hardware.stimulus import cases
from numc.numerics.circuits import trace
from numc.numerics.exact.value import POINT, from_bits
from numc.numerics.formats.rounding import rounder
from numc.numerics.grammar import parse_conversion, parse_fma
from numc.numerics.operators import FP32
from numc.support.errors import NumcError
from operators_of_hardware import ALL, GROUPS, OTHERS

# For every tier: one of each kind.
FEW = ["fp32", "bf16_2_2{3}", *OTHERS[1:3], *OTHERS[13:15], "hopper_e4m3", "cdna1_fp16", "cdna2_bf16"]
FEW += ["cdna3_fp8", "highbfp", "nvfp4", "blackwell_mxfp8", "blackwell_nvfp4", "turing_int4", *GROUPS[-5:]]


def differences(text: str, count: int, seed: int = 0) -> list[str]:
    """Steps of which a circuit and the definition differ, of `count` corner cases and `count` random ones."""
    op = parse_fma(text)
    of, made = interface(op), circuit(op)
    corners = list(cases(of, "corner", 1, seed))
    chosen = random.Random(seed).sample(corners, min(count, len(corners)))
    found = []
    for about, codes in [*chosen, *cases(of, "random", count, seed)]:
        want = of.expected(codes)
        got = made(**{port.name: port.joined(codes[port.name]) for port in of.inputs})["d"]
        if want is not None and got != want:
            found.append(f"{text} {about} {codes}: {got:#x}, want {want:#x}")
    return found


@pytest.mark.parametrize("text", FEW)
def test_circuits_of_operators(text):
    assert not differences(text, 12)[:1]


ONE_BIT = ["fma(a=e5m0,acc=fp16,datapath=exact)", "fma(a=e8m0fnu,acc=fp32)", "fma(a=binary8p1,acc=fp32)"]
ONE_BIT += ["fma(a=nf4,acc=fp16,datapath=exact)", "fma(a=table(-8,-0.0625,0,0.25,1),acc=e3m4,datapath=exact)"]


@pytest.mark.parametrize("text", ONE_BIT)
def test_numbers_of_one_bit_at_any_exponent(text):
    """Below which a sum has to see as much as below other numbers."""
    of, source = interface(parse_fma(text)), random.Random(2)
    made = circuit(of.op)
    for _ in range(700):
        codes = {port.name: (source.getrandbits(port.bits),) for port in of.inputs}
        want = of.expected(codes)
        assert want is None or made(**{name: code for name, (code,) in codes.items()})["d"] == want, codes


@pytest.mark.slow
@pytest.mark.parametrize("text", ALL)
def test_circuits_of_all_operators(text):
    assert not differences(text, 3000, 1)[:1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["fmac(e4m3)", "fmac(e3m2fn)", "hfp8_bwd", "fmac(e5m2:rup)", "fmac(binary8p3)", "fmac(e1m5)"]
)
def test_all_pairs_of_small_operands(text):
    op = parse_fma(text)
    of, made, source = interface(op), circuit(op), random.Random(1)
    a, b, c = of.inputs
    for x, y in product(range(1 << a.bits), range(1 << b.bits)):
        for z in (0, source.getrandbits(c.bits), source.getrandbits(c.bits)):
            want = of.expected({"a": (x,), "b": (y,), "c": (z,)})
            assert want is None or made(a=x, b=y, c=z)["d"] == want, (text, x, y, z)


CONVERSIONS = [
    f"{fmt}:{how}"
    for fmt in ("fp16", "bf16", "e4m3fn", "e6m9n", "e5m2", "fixed(3,4)", "e3m0")
    for how in ("rne", "rna", "rtz", "rup", "rdn", "odd", "sr3", "sr12")
] + [
    "bf16x2",
    "bf16x3",
    "bf16x2:sr8",
    "bf16x3:sr4",
    "e4m3fn:nan",
    "e4m3fn:rup:nan",
    "fp16:rtz:sat",
    "binary8p1",
    "binary6p2s",
    "e4m3fnuz:rna",
    *(f"{fmt}:{how}" for fmt in ("posit8", "posit(12,3)", "nf4") for how in ("rne", "rna", "rtz", "rup", "rdn", "odd")),
    "posit16:sat",
    "posit(5,0):sr6",
    "table(-3,0.1,7)",
    *("e1m3:odd", "e1m3:rdn", "e1m5fn:nan"),
]


# Of the conversions, one in three and those of compound formats are tried in every tier.
ALWAYS = ("bf16x", "sat", "table", "e4m3fn:rne", "e1m3:odd")
TRIED = [
    text if n % 3 == 0 or any(part in text for part in ALWAYS) else pytest.param(text, marks=pytest.mark.slow)
    for n, text in enumerate(CONVERSIONS)
]


@pytest.mark.parametrize("text", TRIED)
def test_conversions_of_binary32(text):
    """Numbers around the values of the format, and any others."""
    to, source = parse_conversion(text), random.Random(text)
    bits = 0 if to.noise is None else to.noise.bits
    made = trace(
        text, lambda x, u: encode(decode(FP32.format, x), to, u), {"x": (0, 2**32 - 1), "u": (0, (1 << bits) - 1)}
    )
    encoding, exact = Encoding(to.format), rounder(to, POINT)
    tried = 0
    for _ in range(80):
        code = source.getrandbits(32)
        if source.randrange(3):  # few significant bits in the range of the format, and a little beside
            exponent = source.randint(max(to.format.emin - to.format.precision - 3, -140), to.format.emax + 1) + 127
            # Ties, half of them.
            low = min(source.choice((to.format.precision, source.randrange(to.format.precision + 3))), 23)
            code = source.getrandbits(1) << 31 | max(exponent, 0) << 23 | source.getrandbits(23) >> 23 - low << 23 - low
            code = code + source.choice((-1, 0, 0, 1)) & 2**32 - 1
        noise = source.getrandbits(bits) if bits else 0
        want = encoding.encode(exact(from_bits(code), noise))
        if want is not None:
            tried += 1
            got = made(x=code, u=noise)["result"]
            assert got == want, f"{text} of {code:#010x}, noise {noise}: {got:#x}, want {want:#x}"
    assert tried > 30


def test_a_second_part_that_is_a_tie_belongs_to_the_even_first_one():
    """A remainder just below half a unit of the first part rounds to it: the parts are those of their sum."""
    to = parse_conversion("bf16x2")
    made = trace("x", lambda x: encode(decode(FP32.format, x), to), {"x": (0, 2**32 - 1)})
    for first in (0x3F81, 0x3FFF, 0xBF83, 0x7F01):
        code = first << 16 | 0x7FFF
        want = Encoding(to.format).encode(rounder(to, POINT)(from_bits(code)))
        assert made(x=code)["result"] == want
        assert want is not None
        assert want & 0xFFFF == first + 1


def test_what_is_far_below_a_tie_decides_it():
    """(1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 is a tie in binary32."""
    made = circuit(parse_fma("fp32"))
    for c, want in ((0, 0x3F801000), (0x0D800000, 0x3F801001), (0x8D800000, 0x3F801000), (0x00000001, 0x3F801001)):
        assert made(a=0x3F800800, b=0x3F800800, c=c)["d"] == want


def test_chunks_are_surrounded_by_binary32():
    op = parse_fma("fmac(e4m3:sr4,chunk=4)")
    parts = surrounding_circuits(op)
    assert list(parts) == ["start", "total", "finish"]
    acc, fp32 = Encoding(op.acc.format), Encoding(FP32.format)
    for code in range(256):
        assert parts["start"](c=code)["t"] == fp32.encode(acc.decode(code))
        total = parts["total"](t=0x3F800001, p=code)["t_next"]
        value = acc.decode(code)
        if type(value) is int:
            assert total == fp32.encode(rounder(FP32, POINT)(value + int(fp32.decode(0x3F800001))))
            assert parts["finish"](t=fp32.encode(value), u=3)["d"] == code


def test_what_has_no_circuit_is_one_line():
    for text, message in (
        ("amx_bf16", "operator 'amx_bf16' has no circuit: it is an instruction of a processor, want another datapath"),
        ("avx512_bf16", "operator 'avx512_bf16' has no circuit: it is an instruction of a processor"),
        ("fma(a=bf16,acc=nf4:sr4)", "format 'nf4' has no circuit that rounds stochastically to it: want eXmY, eXmYn"),
        ("fma(a=bf16,acc=bf16x2,datapath=exact)", "datapath exact rounds to one part, want"),
        ("fma(a=posit8,acc=fp32,datapath=fused(l=4,bits=24))", "has no circuit: its blocks take binary records, want"),
        ("fma(a=bf16,acc=fp32,hadamard=16)", "contractions by it are written out in others, want one of those"),
        ("fma(a=e5m2..4,acc=fp32)", "its widths are open, hardware has fixed ones: want a format such as e5m2"),
        ("fmac(e4m3,splits=4)", "a reduction says how long its splits are, hardware knows none: want chunk=c"),
    ):  # fmt: skip
        with pytest.raises(NumcError, match=message):
            circuit(parse_fma(text))
