"""Operators that users define as circuits, C++ models and RTL: the codes of their definitions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import numc
from definitions import own_operators
from numc.hardware.circuits import defined_circuits, few_values
from numc.hardware.circuits.operator_circuit import circuit
from numc.hardware.emission import identifier
from numc.hardware.encodings import Encoding
from numc.hardware.model import model
from numc.hardware.ports import interface
from numc.hardware.rtl import rtl
from numc.hardware.stimulus import cases
from numc.hardware.vector_files import vectors
from numc.numerics.circuits import Real, rounded, scaled
from numc.numerics.exact.value import from_bits
from numc.numerics.formats import Conversion
from numc.numerics.grammar import parse_fma
from numc.support.errors import NumcError
from tiers import one_in
from verilated import Port, compiled, needs_verilator, outputs

pytestmark = pytest.mark.usefixtures("own")
OPERATORS = [
    *("own_1_1", "own_exact", "mitchell", "by_table", "own_fused", "own_posit", "logarithmic"),
    *("fma(a=fp16,acc=e5m7:rtz,datapath=own_1_1)", "fma(a=e4m3,acc=e5m7:sr4,datapath=own_1_1)"),
    "fma(a=e5m2,acc=fp16,datapath=own_fused(l=3,bits=26))",
    "fma(a=lns8,acc=fp32,datapath=own_1_1)",
    "fma(a=posit8,acc=lns8:rtz,datapath=own_1_1)",
]
REGISTERS = ["kulisch", "saturating", "kulisch_bf16", "fma(a=e4m3fn,acc=fp32,datapath=saturating(l=3))"]


@pytest.fixture(autouse=True, scope="module")
def own() -> Iterator[None]:
    with own_operators():
        yield


@pytest.mark.parametrize("text", [*OPERATORS, *REGISTERS])
def test_circuits_have_the_codes_of_the_definition(text: str) -> None:
    of = interface(parse_fma(text))
    made = circuit(of.op)
    chosen = list(cases(of, "corner", 1, 2))
    chosen = random.Random(1).sample(chosen, min(150, len(chosen))) + list(cases(of, "random", 100, 2))
    for kind, codes in chosen:
        found = made(**{port.name: port.joined(codes[port.name]) for port in of.inputs})["d"]
        want = of.expected(codes)
        assert want is None or found == want, f"{text}, {kind} {codes}: {found:#x}, want {want:#x}"


def test_every_nan_has_one_code() -> None:
    numc.operator(a="bf16", acc="fp32", name="coded")(lambda a, b, c: rounded(scaled(a.code, 0), "fp32"))
    of = interface(parse_fma("coded"))
    for code in (0x7FC0, 0x7F81, 0xFFFF, 0x7F80, 0x3F80):
        assert circuit(of.op)(a=code, b=0, c=0)["d"] == of.expected({"a": (code,), "b": (0,), "c": (0,)}), hex(code)


def codes_of(to: Conversion, x: np.ndarray) -> list[int]:
    return [Encoding(to.format).encode(from_bits(int(word))) for word in np.asarray(x, np.float32).view(np.uint32)]


@pytest.mark.slow
@needs_verilator
@pytest.mark.parametrize("text", one_in(4, REGISTERS))
def test_registers_have_the_results_of_compiled_kernels(text: str, tmp_path: Path) -> None:
    """Whole reductions in Verilator, from an accumulator, beside numc.matmul, which is other code."""
    of = interface(parse_fma(text))
    name, source, steps, count = identifier(str(of.op)), np.random.default_rng(4), 7, 60
    a, b = (source.standard_normal((count, steps * of.products)).astype(np.float32) for _ in range(2))
    a, b = (numc.round(x * 2.0 ** source.integers(-4, 5, x.shape), str(to)) for x, to in ((a, of.op.a), (b, of.op.b)))
    start = numc.round(source.standard_normal(count).astype(np.float32), str(of.op.acc))
    want = [numc.matmul(a[n : n + 1], b[n : n + 1].T, start[n].reshape(1, 1), fma=text)[0, 0] for n in range(count)]
    ports = [*(Port(each, 1) for each in ("valid", "first")), *(Port(p.name, p.width) for p in of.inputs[:2])]
    ports.append(Port("c", of.start.width))
    program = compiled(rtl(of.op), f"{name}_accumulator", ports, Port("d", of.start.width), tmp_path, True)
    lines = []
    for n in range(count):
        for k in range(steps):
            each = slice(k * of.products, (k + 1) * of.products)
            x, y = (
                p.joined(tuple(codes_of(to, m[n, each])))
                for p, to, m in zip(of.inputs[:2], of.op.singles, (a, b), strict=True)
            )
            lines.append([1, k == 0, x, y, codes_of(of.op.acc, start[n : n + 1])[0]])
    found = outputs(program, ports, lines)[steps - 1 :: steps]
    assert found == codes_of(of.op.acc, np.array(want, np.float32))


def test_vectors_of_registers() -> None:
    found = vectors(parse_fma("saturating"), ["corner", "random", "dot"], 200)
    met = found.as_json()["met"]
    assert {"register: an end", "register: zero", "register: more", "register: less"} <= set(met)
    assert len(found.files["d.hex"].split()) == found.coverage.steps
    assert len(found.files["d.hex"].split()[0]) == 6  # 24 bits
    assert len(found.files["dot_d.hex"].split()[0]) == 4  # bf16
    text = model(parse_fma("saturating"))
    assert "step(" in text
    assert "last(" in text


@needs_verilator
def test_rtl_has_the_codes_of_the_definition(tmp_path: Path) -> None:
    of = interface(parse_fma("mitchell"))
    assert "step(" in model(of.op)
    ports = [Port(port.name, port.width) for port in of.inputs]
    program = compiled(rtl(of.op), identifier(str(of.op)), ports, Port("d", of.output.width), tmp_path)
    chosen = [codes for _, codes in random.Random(3).sample(list(cases(of, "corner", 1, 3)), 300)]
    found = outputs(program, ports, [[port.joined(codes[port.name]) for port in of.inputs] for codes in chosen])
    for codes, got in zip(chosen, found, strict=True):
        want = of.expected(codes)
        assert want in (None, got), f"{codes}: {got:#x}, want {want:#x}"


SQUARES = [n * abs(n) for n in range(-150, 151)]
LISTED = [
    "fma(a=squares,acc=squares:rtz,datapath=exact)",
    "fma(a=squares,acc=fp32)",
    "fma(a=squares,acc=fp32,datapath=mitchell)",
]


@pytest.mark.parametrize("text", LISTED)
def test_lists_of_more_than_256_values(text: str) -> None:
    numc.format_of(SQUARES, name="squares")
    of = interface(parse_fma(text))
    made = circuit(of.op)
    tried = random.Random(6).sample(list(cases(of, "corner", 1, 2)), 150) + list(cases(of, "random", 150, 2))
    for kind, codes in tried:
        found = made(**{port.name: port.joined(codes[port.name]) for port in of.inputs})["d"]
        want = of.expected(codes)
        assert want is None or found == want, f"{text}, {kind} {codes}: {found:#x}, want {want:#x}"


@pytest.mark.slow
@needs_verilator
def test_rtl_of_a_list(tmp_path: Path) -> None:
    numc.format_of(SQUARES, name="squares")
    of = interface(parse_fma(LISTED[0]))
    ports = [Port(port.name, port.width) for port in of.inputs]
    program = compiled(rtl(of.op), identifier(str(of.op)), ports, Port("d", of.output.width), tmp_path)
    chosen = [codes for _, codes in cases(of, "random", 2000, 3)]
    found = outputs(program, ports, [[port.joined(codes[port.name]) for port in of.inputs] for codes in chosen])
    assert not [codes for codes, got in zip(chosen, found, strict=True) if of.expected(codes) not in (None, got)]


def test_what_has_no_circuit_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NumcError, match=r"format 'float\(8,15,signed=0\)' has no circuit that rounds to it: want eXmY"):
        circuit(parse_fma("fma(a=bf16,acc=float(8,15,signed=0),datapath=exact)"))
    numc.format_of(SQUARES[1:], name="fewer")  # a kind of longer codes, which numc has none of
    for module in (few_values, defined_circuits):
        monkeypatch.setattr(module, "MOST_BITS", 8)
    for text, message in (
        ("fma(a=fewer,acc=fp32)", "format 'fewer#.*' has no circuit: want floating point, fixed point, posits, or"),
        ("fma(a=bf16,acc=fewer,datapath=exact)", "format 'fewer#.*' has no circuit: want floating point"),
        ("fma(a=fewer,acc=fp32,datapath=mitchell)", "format 'fewer#.*' has no circuit: want floating point"),
    ):
        with pytest.raises(NumcError, match=message):
            circuit(parse_fma(text))


def taking(part: str) -> Callable[[Real, Real, Real], Real]:
    return lambda a, b, c: rounded(scaled(getattr(a, part), 0), "fp32")


@pytest.mark.parametrize("fmt", ["posit8", "posit(7,1)", "posit16", "fixed(1,7)", "nf4", "bf16"])
def test_parts_of_every_kind_of_format(fmt: str) -> None:
    """All codes, or some hundred of them."""
    for part in ("sign", "exponent", "significand", "code", "is_nan", "is_infinite", "is_zero"):
        numc.operator(a=fmt, acc="fp32", name="taken")(taking(part))
        of = interface(parse_fma("taken"))
        bits, made = of.inputs[0].bits, circuit(of.op)
        ends = {0, 1, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) + 1}
        for code in range(1 << bits) if bits <= 9 else {*ends, *random.Random(fmt).sample(range(1 << bits), 150)}:
            want = of.expected({"a": (code,), "b": (0,), "c": (0,)})
            assert made(a=code, b=0, c=0)["d"] == want, f"{part} of {code:#x}"
