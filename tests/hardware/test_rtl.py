"""The SystemVerilog of operators in Verilator gives the bits of the definition; Yosys proves two small operators."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from numc.hardware.emission import identifier
from numc.hardware.port import Interface
from numc.hardware.ports import interface
from numc.hardware.rtl import rtl
from numc.hardware.stimulus import cases
from numc.hardware.vector_files import dot_of_steps, dots_of
from numc.numerics.exact.value import to_float
from numc.numerics.grammar import parse_fma
from numc.numerics.reference import Draws, dot
from numc.numerics.reference.random import accumulator_draws, mix
from operators_of_hardware import ALL
from verilated import Port, compiled, needs_verilator, outputs

needs_yosys = pytest.mark.skipif(shutil.which("yosys") is None, reason="no yosys on this machine")
# The units of one test bench, which takes one compilation: steps, a pipeline, chunks, random bits.
BENCH = ["fmac(e4m3)", "bf16_1_2", "fma(a=nf4,acc=e4m3)"]
PIPELINED, ACCUMULATES = "fmac(e5m2)", "fmac(e4m3:sr4.lfsr,chunk=4)"
STAGES = 3


def _ports(of: Interface) -> list[Port]:
    return [Port(port.name, port.width) for port in of.inputs]


def _numbers(of: Interface, codes: dict[str, tuple[int, ...]]) -> list[int]:
    return [port.joined(codes[port.name]) for port in of.inputs]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All units with one set of inputs; `which` chooses the output."""
    lines, outs = [], []
    for n, text in enumerate([*BENCH, PIPELINED]):
        of = interface(parse_fma(text))
        wires = ", ".join(f".{port.name}({port.name}[{port.width - 1}:0])" for port in of.inputs)
        clock = ".clk(clk), " if text == PIPELINED else ""
        lines.append(f"  wire [{of.output.bits - 1}:0] d{n}; {identifier(str(of.op))} u{n} ({clock}{wires}, .d(d{n}));")
        outs.append(f"which == {n} ? 32'(d{n}) : ")
    name = identifier(str(parse_fma(ACCUMULATES)))
    lines.append(f"  wire [7:0] acc; {name}_accumulator unit (.a(a[7:0]), .b(b[7:0]), .c(c[7:0]), .d(acc), .*);")
    top = ["module top(input logic clk, valid, first, seeded, input logic [31:0] seed, which, a, b, c,",
           "  output logic [31:0] d);", *lines, f"  assign d = {''.join(outs)}32'(acc);", "endmodule"]  # fmt: skip
    texts = [rtl(parse_fma(text), STAGES if text == PIPELINED else 0) for text in (*BENCH, PIPELINED, ACCUMULATES)]
    inputs = [Port(each, 1) for each in ("valid", "first", "seeded")]
    inputs += [Port(each, 32) for each in ("seed", "which", "a", "b", "c")]
    return compiled("\n".join([*texts, *top]), "top", inputs, Port("d", 32), tmp_path_factory.mktemp("bench"), True)


_INPUTS = [Port(each, 32) for each in ("valid", "first", "seeded", "seed", "which", "a", "b", "c")]


@needs_verilator
@pytest.mark.parametrize("which", range(len(BENCH)))
def test_steps(bench, which):
    of = interface(parse_fma(BENCH[which]))
    corners = list(cases(of, "corner", 1, 3))
    chosen = [codes for _, codes in random.Random(3).sample(corners, min(len(corners), 500))]
    chosen += [codes for _, codes in cases(of, "random", 300, 3)]
    found = outputs(bench, _INPUTS, [[0, 0, 0, 0, which, *_numbers(of, codes)] for codes in chosen])
    for codes, got in zip(chosen, found, strict=True):
        want = of.expected(codes)
        assert want in (None, got), f"{BENCH[which]} {codes}: {got:#x}, want {want:#x}"


@needs_verilator
def test_a_pipeline_gives_a_result_each_cycle(bench):
    of = interface(parse_fma(PIPELINED))
    chosen = [codes for _, codes in cases(of, "random", 300, 3)]
    lines = [[0, 0, 0, 0, len(BENCH), *_numbers(of, codes)] for codes in chosen]
    found = outputs(bench, _INPUTS, lines + lines[: STAGES - 1])[STAGES - 1 :]
    assert found == [of.expected(codes) for codes in chosen]


@needs_verilator
def test_a_dot_product_with_chunks_and_a_shift_register(bench):
    """The seeds are those of the definition: each 16 draws, that of the hash of the element and of k."""
    op = parse_fma(ACCUMULATES)
    of, stream, element = interface(op), 0x0123456789ABCDEF, 5
    for n, each in enumerate(dots_of(of, 200, 7)):
        depth = len(each.steps)
        assert depth % 16 == 0
        seeds = [_seed(stream, element, k // 16) for k in range(depth)]
        lines = [
            [1, k == 0, k % 16 == 0, seeds[k], 9, *(step[name][0] for name in "abc")]
            for k, step in enumerate(each.steps)
        ]
        last = [0, 0, 1, _seed(stream, element, depth // 16), 9, 0, 0, 0]
        got = outputs(bench, _INPUTS, [*lines, last])[-1]
        noise = accumulator_draws(stream, element, np.arange(depth + 1), op.acc.noise)
        steps = [{**step, "u": (u,)} for step, u in zip(each.steps, noise, strict=False)]
        want = dot_of_steps(of, steps, noise[-1])
        a, b = (np.array([op.a.format.decode(step[name][0]) for step in each.steps], np.float32) for name in "ab")
        start = op.acc.format.decode(each.steps[0]["c"][0])
        of_definition = dot(a, b, start, op, draws=Draws(stream, element))
        assert np.array_equal(to_float(want), of_definition, equal_nan=True), n
        assert np.array_equal(op.acc.format.decode(got), of_definition, equal_nan=True), n


def _seed(stream: int, element: int, group: int) -> int:
    word = np.array([element], np.uint32)
    of_element = mix(mix(word) + np.uint32(stream & 0xFFFFFFFF))
    return int(mix(of_element + mix(np.array([group], np.uint32) + np.uint32(stream >> 32)))[0])


def differences(text: str, count: int, folder: Path, *, broken: tuple[str, str] = ("", ""), stages: int = 0) -> int:
    """The number of steps of which Verilator and the definition differ."""
    op = parse_fma(text)
    of = interface(op)
    program = compiled(
        rtl(op, stages).replace(*broken), identifier(str(op)), _ports(of), Port("d", of.output.bits), folder, stages > 0
    )
    chosen = [codes for kind in ("corner", "random") for _, codes in cases(of, kind, count, 11)]
    lines = [_numbers(of, codes) for codes in chosen]
    held = max(stages - 1, 0)
    found = outputs(program, _ports(of), lines + lines[:1] * held)[held:]
    return sum(of.expected(codes) not in (None, got) for codes, got in zip(chosen, found, strict=True))


@pytest.mark.slow
@needs_verilator
@pytest.mark.parametrize("text", ALL)
def test_all_operators(text, tmp_path):
    assert not differences(text, 10_000, tmp_path / "unit")


@pytest.mark.slow
@needs_verilator
@pytest.mark.parametrize(("text", "stages"), [("fp32", 1), ("fp32", 7), ("hopper_fp16", 5), ("bf16_2_2{4}", 12)])
def test_pipelines(text, stages, tmp_path):
    assert not differences(text, 2000, tmp_path / "unit", stages=stages)


@pytest.mark.slow
@needs_verilator
def test_a_broken_bit_of_rounding_is_found(tmp_path):
    text = rtl(parse_fma("fmac(e4m3)"))
    lines = [line.partition("//") for line in text.splitlines()]
    # The last rounding: that to binary32 before it is exact here.
    ups = [code for code, _, comment in lines if '"rne": half & (rest | odd)' in comment and " & " in code]
    up = ups[-1]
    assert differences("fmac(e4m3)", 100, tmp_path / "unit", broken=(up, up.replace(" & ", " | "))) > 10


TABLE = """module table_({ports}, output logic [{bits}:0] d);
  always_comb case ({{{names}}})
{lines}
  default: d = '0;
  endcase
endmodule
"""


@pytest.mark.slow
@needs_yosys
@pytest.mark.parametrize("text", ["fma(a=e2m1fn,acc=e2m1fn)", "fma(a=e2m1fn,acc=e3m2fn:rtz)"])
def test_equivalence_by_sat(text, tmp_path):
    """With a table of all products, which the definition gives; the accumulator is +0."""
    of = interface(parse_fma(text))
    operands = of.inputs[:2]
    sizes = [port.width for port in operands]
    lines = []
    for n in range(1 << sum(sizes)):
        codes, rest = {"c": (0,)}, n
        for port in reversed(operands):
            codes[port.name], rest = (rest & (1 << port.width) - 1,), rest >> port.width
        lines.append(f"  {sum(sizes)}'d{n}: d = {of.output.bits}'d{of.expected(codes)};")
    ports = ", ".join(f"input logic [{port.width - 1}:0] {port.name}" for port in operands)
    table = TABLE.format(ports=ports, bits=of.output.bits - 1, names="a, b", lines="\n".join(lines))
    name = identifier(str(of.op))
    script = (
        "read_verilog -sv unit.sv; hierarchy -top equal; proc -norom; flatten; opt -full; techmap; opt; "
        "sat -verify -prove same 1 -show-inputs equal"
    )
    wires = ", ".join(f".{port.name}({port.name})" for port in operands)
    equal = (
        f"module equal({ports}, output logic same); wire [{of.output.bits - 1}:0] x, y;"
        f" {name} one ({wires}, .c(0), .d(x)); table_ two ({wires}, .d(y)); assign same = x == y; endmodule\n"
    )
    module = rtl(of.op)
    step = module[module.index("module ") : module.index("endmodule") + len("endmodule")]
    for broken in (False, True):
        text_of_table = table.replace(
            f"d = {of.output.bits}'d{of.expected({'a': (2,), 'b': (2,), 'c': (0,)})};", "d = 1;", 1
        )
        (tmp_path / "unit.sv").write_text(f"{step}\n{text_of_table if broken else table}\n{equal}")
        done = subprocess.run(["yosys", "-q", "-p", script], cwd=tmp_path, capture_output=True, text=True, timeout=100)
        assert (done.returncode != 0) == broken, done.stdout[-2000:] + done.stderr[-2000:]
