"""Vectors hold what the definition says, in every file, and cover what a test bench has to meet."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import gmpy2
import numpy as np
import pytest

from numc.hardware.encodings import Encoding
from numc.hardware.ports import interface
from numc.hardware.stimulus import cases
from numc.hardware.vector_files import checked_kinds, dots_of, vectors
from numc.numerics import reference
from numc.numerics.exact.value import POINT, to_float
from numc.numerics.formats.rounding import round_real
from numc.numerics.grammar import parse_fma
from numc.numerics.operators import FMAS, FP32
from numc.numerics.reference.datapaths import Draws
from numc.numerics.reference.group_operators import Vector
from numc.numerics.reference.scaled_blocks import scaled_dot
from numc.numerics.units import NAMED
from numc.support.errors import NumcError

STEPS = ["bf16_1_3", "bf16_2_2{3}", "hfp8_bwd"]
OTHERS = [
    "fmac(e4m3)",
    "fmac(e6m9n:rup,datapath=exact)",
    "mac(e4m3)",
    "fma(a=posit8,acc=fp32)",
    "fma(a=nf4,acc=e4m3:odd)",
]
BLOCKS = ["hopper_e4m3", "volta_fp16", "cdna1_bf16", "cdna2_fp16", "cdna3_fp8", "avx512_bf16", "amx_bf16"]
CHUNKS = ["fmac(e4m3,chunk=8)", "fma(a=fp16,acc=fp16,chunk=32,total=fp32,datapath=fused(l=16,bits=25))"]


def _values(to, codes) -> np.ndarray:
    return np.array([to_float(Encoding(to.format).decode(code)) for code in codes], np.float32)


def _same(found: float, want: float) -> bool:
    return (found != found and want != want) or (found == want and np.signbit(found) == np.signbit(want))


@pytest.mark.parametrize("text", STEPS + OTHERS)
def test_steps_are_those_of_the_definition(text):
    """Which takes float32 arrays, and converts them: codes have been converted."""
    of = interface(parse_fma(text))
    chosen = [codes for kind in ("corner", "random") for _, codes in cases(of, kind, 300, 1)][::37]
    assert len(chosen) > 10
    a, b, c = (
        _values(to, [codes[n][0] for codes in chosen]) for n, to in zip("abc", (*of.op.singles, of.op.acc), strict=True)
    )
    want = reference.fma(a, b, c, of.op)
    for codes, result in zip(chosen, want, strict=True):
        code = of.expected(codes)
        found = float("nan") if code is None else to_float(Encoding(of.op.acc.format).decode(code))
        assert _same(found, float(result)), (text, codes, found, result)


@pytest.mark.parametrize("text", ["bf16_2_2{3}", *BLOCKS, *CHUNKS])
def test_dot_products_are_those_of_the_definition(text):
    of = interface(parse_fma(text))
    for dot in dots_of(of, 1 if of.products > 16 else 300, 3):
        x, y = (
            _values(to, [c for step in dot.steps for c in step[n]]) for n, to in zip("ab", of.op.singles, strict=True)
        )
        start = _values(of.op.acc, dot.steps[0]["c"])[0]
        want = reference.dot(x, y, start, of.op)
        assert _same(to_float(Encoding(of.op.total.format).decode(dot.result)), float(want)), text


def test_groups_of_block_floating_point_are_exact_sums():
    of = interface(parse_fma("fma(a=bfp(16,3,4),b=bfp(16,3,2),acc=fp32)"))
    for _, codes in cases(of, "random", 100, 5):
        total = Fraction(0)
        for n in range(16):
            term = Fraction(1)
            for name, bits in (("a", 4), ("b", 2)):
                code, top = codes[name][n], codes[f"{name}_top"][0]
                power = (top - 512 if top & 256 else top) - 7 + codes[f"{name}_exponent"][0] - (bits - 1)
                term *= (-1) ** (code >> bits) * (code & (1 << bits) - 1) * Fraction(2) ** power
            total += term
        start = Encoding(FP32.format).decode(codes["c"][0])
        is_nan = any(
            codes[f"{n}_exponent"][0] == 7 and not any(c & (1 << m) - 1 for c in codes[n])
            for n, m in (("a", 4), ("b", 2))
        )
        if type(start) is int and not is_nan:
            rounded = round_real(total, FP32)
            want = rounded + 0.0
            if abs(rounded) != float("inf"):
                want = round_real(Fraction(rounded) + Fraction(start, 1 << POINT), FP32)
            assert to_float(Encoding(FP32.format).decode(of.expected(codes))) == want, codes


def test_a_sum_of_integers_is_one_step():
    assert {len(dot.steps) for dot in dots_of(interface(parse_fma("int8")), 3, 1)} == {1}


@pytest.mark.parametrize("text", ["turing_int4", "fma(a=int8,acc=fp32,datapath=int(bits=12,saturate=1,l=3))"])
def test_sums_of_integers_wrap_or_saturate(text):
    """And the scales multiply what is left of them: two roundings to binary32 by MPFR."""
    of = interface(parse_fma(text))
    path = of.op.datapath
    bound = 1 << path["bits"] - 1
    for dot in dots_of(of, 300, 2):
        total = 0
        for step in dot.steps:
            x, y = ([code - (code >> p.bits - 1 << p.bits) for code in step[p.name]] for p in of.operands)
            total += sum(i * j for i, j in zip(x, y, strict=True))
            if path["saturate"]:
                total = min(max(total, -bound), bound - 1)
        total = (total + bound) % (2 * bound) - bound
        a, b, c = (float(np.uint32(dot.steps[0][name][0]).view(np.float32)) for name in ("a_scale", "b_scale", "c"))
        with gmpy2.context(gmpy2.ieee(32)):
            want = gmpy2.fma(gmpy2.mpfr(total), gmpy2.mpfr(a) * gmpy2.mpfr(b), gmpy2.mpfr(c))
        assert np.uint32(dot.result).view(np.float32) == float(want)


@pytest.mark.parametrize(
    "text", ["blackwell_mxfp8", "blackwell_mxfp4", "fma(a=mxfp6,acc=bf16,datapath=fused(l=8,bits=9))"]
)
def test_dots_of_blocks_with_scales_are_those_of_the_definition(text):
    """Which cuts a whole row into blocks and groups itself."""
    of = interface(parse_fma(text))
    for dot in dots_of(of, 20, 5):
        sides = []
        for name, to in zip("ab", of.op.groups, strict=True):
            elements, scales = Encoding(to.format.single), Encoding(to.format.scales)
            each = [scales.decode(code) for step in dot.steps for code in step[f"{name}_scale"]]
            each = each[:: max(to.format.group // of.products, 1)]  # every step of a group has its scale
            values = [elements.decode(code) for step in dot.steps for code in step[name]]
            sides.append(Vector(values, to, 0, quantized=True, scales=each))
        start = Encoding(of.op.acc.format).decode(dot.steps[0]["c"][0])
        want = scaled_dot(of.op, *sides, start, Draws(0, 0))
        assert Encoding(of.op.acc.format).encode(want) == dot.result


def test_every_named_operator_has_vectors():
    for op in [*NAMED.values(), *(parse_fma(t) for t in ("highbfp", "mxfp8", "mxint8", "nvfp4", "int8", "mxfp4"))]:
        of = interface(op)
        for _, codes in cases(of, "random", 2, 0):
            assert 0 <= (of.expected(codes) or 0) < 1 << of.output.bits
            assert all(0 <= code < 1 << port.bits for port in of.inputs for code in codes[port.name])


def test_corners_meet_what_a_unit_gets_wrong():
    covered = vectors(FMAS["bf16_1_1"], ["corner"], 1).as_json()
    assert len(covered["patterns"]) == 16
    assert set(range(1, 9)) <= {int(depth) for depth in covered["cancellation"]}
    for kind in ("tie", "below a tie", "above a tie", "beyond the largest number", "rounded to the next power of two"):
        assert covered["met"][f"sum: {kind}"] > 20
    assert covered["met"]["sum: subnormal, rounded to the smallest normal number"] > 5
    small = vectors(parse_fma("fmac(e2m1)"), ["corner"], 1).as_json()
    assert small["met"]["sum: tie"] > 20


def test_testfloat_has_the_flags_of_mpfr():
    """The result, and all flags but underflow, which is stated: tiny when rounded with an unbounded exponent."""
    lines = vectors(FMAS["fp32"], ["corner"], 100).files["mulAdd.txt"].decode().splitlines()[::13]
    seen = set()
    for line in lines:
        a, b, c, result, flags = (int(word, 16) for word in line.split())
        numbers = [float(np.uint32(code).view(np.float32)) for code in (a, b, c)]
        if any(x != x for x in numbers):
            continue
        with gmpy2.context(gmpy2.ieee(32)) as context:
            want = gmpy2.fma(*map(gmpy2.mpfr, numbers))
            told = 16 * context.invalid | 4 * context.overflow | int(context.inexact)
        if all(np.isfinite(numbers)) and told & 1:  # gmpy2 also raises it for a tiny product in a large sum
            exact = Fraction(numbers[0]) * Fraction(numbers[1]) + Fraction(numbers[2])
            told |= 2 * (abs(exact) < Fraction(1, 1 << 126) - Fraction(1, 1 << 151))
        assert _same(float(np.uint32(result).view(np.float32)), float(want)), line
        assert flags == (16 if told & 16 else told), line
        seen.add(flags)
    assert seen == {0, 1, 3, 5, 16}


def test_the_command_writes_every_layout(numc_run, tmp_path):
    done = numc_run("vectors", "fmac(e4m3:sr4)", "--count", 130, "--seed", 3, "-o", "found", "--json")
    assert done.status == 0, done.err
    told = json.loads(done.out)
    folder = tmp_path / "found"
    names = {path.name for path in folder.iterdir()}
    ports = {"a", "b", "c", "u", "d"}
    assert names == {f"{p}.hex" for p in ports} | {f"dot_{p}.hex" for p in ports} | {
        "steps.csv",
        "dots.csv",
        "vectors.json",
    }
    rows = [line.split(",") for line in (folder / "steps.csv").read_text().splitlines()]
    assert rows[0] == ["a", "b", "c", "u", "d", "made for"]
    assert len(rows) - 1 == told["steps"] == len((folder / "a.hex").read_text().split())
    of = interface(parse_fma("fmac(e4m3:sr4)"))
    for row in rows[1::50]:
        assert of.expected({n: (int(word, 16),) for n, word in zip("abcu", row, strict=False)}) == int(row[4], 16)
    head = json.loads((folder / "vectors.json").read_text())
    assert head["ports"]["u"] == {"bits": 4, "count": 1, "holds": "random bits"}
    assert told["dots"] == 2 == len((folder / "dot_d.hex").read_text().split())
    assert len((folder / "dot_u.hex").read_text().split()) == 2 * head["steps_of_a_dot"]
    assert numc_run("vectors", "fmac(e4m3:sr4)", "--count", 130, "--seed", 3, "-o", "again").status == 0
    assert all((tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes() for name in names)
    assert numc_run("vectors", "fp32", "--kind", "random", "--count", 9, "-o", "ieee").out.startswith(
        "what\tcount\nmade for random\t9\n"
    )
    assert "mulAdd.txt" in {path.name for path in (tmp_path / "ieee").iterdir()}


def test_a_nan_without_a_code_is_left_out():
    found = vectors(parse_fma("fma(a=e4m3,acc=e3m2b3fnuz)"), ["corner"], 1)
    assert not found.unencoded
    found = vectors(parse_fma("fma(a=e4m3,acc=fixed(4,4))"), ["corner"], 1)
    assert found.unencoded > 100


def test_what_cannot_be_made_is_one_line(numc_run, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    for arguments, text in (
        (("fp32", "-o", "full"), "full: exists: name a new folder for the output"),
        (("fp32", "-o", "no/where"), "no/where: cannot write: there is no folder no: create it first"),
        (("fp32", "--kind", "corners", "-o", "x"), "kind of vectors 'corners', want corner, random, dot, with commas "
         "between them"),
        (("fma(a=e5m2..4,acc=fp32)", "-o", "x"), "operator 'fma(a=e5m2..4,acc=fp32)': its widths are open, hardware "
         "has fixed ones: want a format such as e5m2"),
    ):  # fmt: skip
        found = numc_run("vectors", *arguments)
        assert (found.status, found.error) == (2, text)
    assert not (tmp_path / "x").exists()
    with pytest.raises(NumcError, match="count: got 0, want a whole number from 1 to 100000000"):
        vectors(FMAS["fp32"], ["corner"], 0)
    assert checked_kinds("dot,corner") == ("corner", "dot")


def test_a_folder_appears_whole(tmp_path, monkeypatch):
    from numc.support import files

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(NumcError, match="x: cannot write: No space left on device"):
        files.write_folder(tmp_path / "x", {"a": b"1"})
    assert not list(tmp_path.iterdir())
