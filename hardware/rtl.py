"""The RTL of an operator: its step, what surrounds chunks, and a unit with an accumulator register."""

from __future__ import annotations

from numc.hardware.circuits.operator_circuit import circuit, surrounding_circuits
from numc.hardware.emission import identifier
from numc.hardware.port import Interface
from numc.hardware.ports import interface
from numc.hardware.systemverilog import Module, joined
from numc.numerics.operators import Fma
from numc.support.versions import own_version


def rtl(op: Fma, stages: int = 0) -> str:
    """Return the SystemVerilog of an operator. Raises NumcError for one that has no circuit, or for too many stages."""
    of, name = interface(op), identifier(str(op))
    cycles = f", a result {stages} clock cycles after its operands" if stages else ", without registers"
    about = [f"One step of {op}{cycles}: d is the new accumulator, {of.output.bits} bits, {of.output.holds}."]
    about += [f"  {port.name}: {_shape(port.count, port.bits)}, {port.holds}" for port in of.inputs]
    modules = [Module(circuit(op), name, stages).text(about)]
    texts = {
        "start": "The binary32 total that a reduction starts from: the initial accumulator, converted.",
        "total": f"The binary32 total after a chunk of {op.datapath.chunk} steps whose sum, from +0, is p.",
        "finish": f"The result ({op.total.format.name}) of a binary32 total.",
        "last": f"The result ({op.acc.format.name}) of a reduction that began with c and ends with {_ending(of)}.",
    }
    chunks = surrounding_circuits(op)
    modules += [Module(each, f"{name}_{part}").text([texts[part]]) for part, each in chunks.items()]
    if not stages:
        modules.append(
            _registered_unit(of, name) if of.begins_at_zero else (_chunked_unit if chunks else _unit)(of, name)
        )
    if not stages and _noise(of):
        modules.insert(0, _generator(name, _noise(of)))
    return joined(modules, [f"The operator {op}, written by numc {own_version()}: `numc rtl` writes it again."])


def _ending(of: Interface) -> str:
    return f"the {'register' if of.register else 'sum'} r" + (", times the scales of the tensors" if of.ending else "")


def _shape(count: int, bits: int) -> str:
    return f"{bits} bits" if count == 1 else f"{count} codes of {bits} bits, the first one lowest"


def _noise(of: Interface) -> int:
    return next((port.bits for port in of.inputs if port.name == "u"), 0)


def _operands(of: Interface) -> list[tuple[str, int]]:
    """Ports of a unit besides clock, start and accumulator; the random bits are its own, those of a product are not."""
    return [(port.name, port.width) for port in of.inputs if port.name not in ("c", "u")]


def _ports(of: Interface, result: int) -> list[str]:
    noise, ends = _noise(of), [(port.name, port.width) for port in of.ending]
    ports = ["input  logic clk", "input  logic valid", "input  logic first"]
    ports += ["input  logic seeded", "input  logic [31:0] seed"] if noise else []
    ports += [f"input  logic [{width - 1}:0] {name}" for name, width in (*_operands(of), *ends)]
    ports += [f"input  logic [{of.start.bits - 1}:0] c", f"output logic [{result - 1}:0] d"]
    return [",\n".join(f"  {port}" for port in ports), ");"]


def _draws(of: Interface, name: str) -> list[str]:
    noise = _noise(of)
    if not noise:
        return []
    return [
        f"  logic [{noise - 1}:0] u;",
        f"  {name}_lfsr source (.clk(clk), .valid(valid), .seeded(seeded), .seed(seed), .u(u));",
    ]


def _connected(of: Interface, start: str) -> str:
    names = [f".{name}({name})" for name, _ in _operands(of)] + ([".u(u)"] if _noise(of) else [])
    return ", ".join([*names, f".c({start})", ".d(next)"])


def _unit(of: Interface, name: str) -> str:
    """A register that accumulates: `first` takes the accumulator from c."""
    bits = of.output.bits
    return "\n".join([
        "// An accumulator: with valid, it takes a step, from c if it is the first one; d is what it holds.",
        f"module {name}_accumulator (", *_ports(of, bits),
        *_draws(of, name),
        f"  logic [{bits - 1}:0] acc, next;",
        f"  {name} step ({_connected(of, 'first ? c : acc')});",
        "  always_ff @(posedge clk) if (valid) acc <= next;",
        "  assign d = acc;",
        "endmodule",
        "",
    ])  # fmt: skip


def _registered_unit(of: Interface, name: str) -> str:
    """A register that begins at 0, and the initial accumulator, which the result is made of too."""
    bits, start = of.output.bits, of.start.bits
    ends = "".join(f".{port.name}({port.name}), " for port in of.ending)
    return "\n".join([
        "// An accumulator: with valid, it takes a step, the first one from 0, which keeps c; d is the result so far.",
        f"module {name}_accumulator (", *_ports(of, start),
        f"  logic [{bits - 1}:0] acc, next;",
        f"  logic [{start - 1}:0] begun;",
        f"  {name} step ({_connected(of, f'first ? {bits}{_TICK}d0 : acc')});",
        "  always_ff @(posedge clk) if (valid) begin",
        "    acc <= next;",
        "    if (first) begun <= c;",
        "  end",
        f"  {name}_last last (.c(begun), .r(acc), {ends}.d(d));",
        "endmodule",
        "",
    ])  # fmt: skip


def _chunked_unit(of: Interface, name: str) -> str:
    """Such a register with chunks: the accumulator begins at +0 again, and a binary32 total takes it."""
    bits, steps = of.output.bits, (of.op.datapath.chunk or 1) // of.products
    result = of.op.total.format.bits
    width = max(steps - 1, 1).bit_length()
    rounds = of.op.total.noise is not None
    return "\n".join([
        f"// An accumulator in chunks of {steps} steps: their sum goes into a binary32 total; d is the total, rounded.",
        f"module {name}_accumulator (", *_ports(of, result),
        *_draws(of, name),
        f"  logic [{bits - 1}:0] acc, next;",
        "  logic [31:0] begun, total, with_chunk;",
        f"  logic [{width - 1}:0] count;",
        f"  wire [{width - 1}:0] place = first ? '0 : count;",
        f"  wire last = place == {steps - 1};",
        f"  {name} step ({_connected(of, f'(place == 0) ? {bits}{_TICK}d0 : acc')});",
        f"  {name}_start start (.c(c), .t(begun));",
        f"  {name}_total adder (.t(first ? begun : total), .p(next), .t_next(with_chunk));",
        "  always_ff @(posedge clk) if (valid) begin",
        "    acc <= next;",
        "    count <= last ? '0 : place + 1'b1;",
        "    total <= last ? with_chunk : first ? begun : total;",
        "  end",
        "  // A chunk that is not complete is added to what is shown.",
        "  logic [31:0] shown, with_rest;",
        f"  {name}_total rest_adder (.t(total), .p(acc), .t_next(with_rest));",
        "  assign shown = (count == 0) ? total : with_rest;",
        f"  {name}_finish finish (.t(shown), {'.u(u), ' if rounds else ''}.d(d));",
        "endmodule",
        "",
    ])  # fmt: skip


_TICK = "'"


def _generator(name: str, noise: int) -> str:
    """numc-lfsr32-1: the next bits of a shift register, the first one lowest."""
    lines = [
        f"// The generator numc-lfsr32-1: {noise} bits a draw, the first one lowest. Bit n + 32 is the sum of bits n,",
        "// n + 1, n + 2 and n + 22. `seeded` makes `seed` (1 in place of 0) the register of this draw.",
        f"module {name}_lfsr (",
        "  input  logic clk,\n  input  logic valid,\n  input  logic seeded,\n  input  logic [31:0] seed,",
        f"  output logic [{noise - 1}:0] u\n);",
        "  logic [31:0] held;",
        f"  logic [{31 + noise}:0] bits;",
        "  always_comb begin",
        f"    bits = {{{noise}'d0, seeded ? ((seed == 0) ? 32'd1 : seed) : held}};",
        f"    for (int n = 0; n < {noise}; n++) bits[n + 32] = bits[n] ^ bits[n + 1] ^ bits[n + 2] ^ bits[n + 22];",
        "  end",
        f"  assign u = bits[{noise - 1}:0];",
        f"  always_ff @(posedge clk) if (valid) held <= bits[{31 + noise}:{noise}];",
        "endmodule",
        "",
    ]
    return "\n".join(lines)
