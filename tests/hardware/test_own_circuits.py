"""Operators that users define as circuits, C++ models and RTL: the codes of their definitions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import numc
from definitions import own_operators
from numc.hardware.circuits.operator_circuit import circuit
from numc.hardware.emission import identifier
from numc.hardware.model import model
from numc.hardware.ports import interface
from numc.hardware.rtl import rtl
from numc.hardware.stimulus import cases
from numc.numerics.circuits import rounded, scaled
from numc.numerics.grammar import parse_fma
from numc.support.errors import NumcError
from verilated import Port, compiled, needs_verilator, outputs

pytestmark = pytest.mark.usefixtures("own")
OPERATORS = [
    *("own_1_1", "own_exact", "mitchell", "by_table", "own_fused"),
    *("fma(a=fp16,acc=e5m7:rtz,datapath=own_1_1)", "fma(a=e4m3,acc=e5m7:sr4,datapath=own_1_1)"),
    "fma(a=e5m2,acc=fp16,datapath=own_fused(l=3,bits=26))",
    "fma(a=lns8,acc=fp32,datapath=own_1_1)",
]


@pytest.fixture(autouse=True, scope="module")
def own() -> Iterator[None]:
    with own_operators():
        yield


@pytest.mark.parametrize("text", OPERATORS)
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


def test_what_has_no_circuit_is_a_line() -> None:
    with pytest.raises(
        NumcError, match=r"operator 'kulisch#\w+' has no ports: its accumulator is a register, want one"
    ):
        circuit(parse_fma("kulisch"))
    with pytest.raises(NumcError, match="format 'lns8#.*' has no circuit that rounds to it"):
        circuit(parse_fma("fma(a=lns8,acc=lns8,datapath=own_1_1)"))
