"""The circuit of a step of an operator: from the codes at its ports to the code of the new accumulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from numc.hardware.circuits.block_circuits import block_circuit
from numc.hardware.circuits.defined_circuits import defined_circuit, ending_circuit
from numc.hardware.circuits.group_circuits import group_circuit, integer_circuit, scaled_ending
from numc.hardware.circuits.reals import decode, encode
from numc.hardware.circuits.scaled_block_circuits import scaled_block_circuit
from numc.hardware.circuits.step_circuits import step_circuit
from numc.hardware.circuits.sums import add
from numc.hardware.port import Interface
from numc.hardware.ports import interface
from numc.numerics.circuits import Circuit, Whole, trace
from numc.numerics.datapaths import Blocks, Own
from numc.numerics.defined import is_defined
from numc.numerics.operators import FP32, Fma
from numc.support.errors import NumcError


@cache
def circuit(op: Fma) -> Circuit:
    """Return the circuit of a step, without its chunks. Raises NumcError for an operator that has none."""
    of = interface(op)
    try:
        function = _function(of)
        return trace(str(op), function, {port.name: (0, (1 << port.width) - 1) for port in of.inputs})
    except NumcError as error:
        if str(error).startswith(("operator", "format")):
            raise
        raise NumcError(f"operator '{op}' has no circuit: {error}") from None


def _function(of: Interface) -> Callable[..., dict[str, Whole]]:
    op = of.op
    if isinstance(op.datapath.within, Own) and not op.groups:
        raise NumcError(f"operator '{op}' has no circuit: it is an instruction of a processor, want another datapath")

    def step(a: Whole, b: Whole, c: Whole, u: Whole = 0, v: Whole = 0) -> dict[str, Whole]:
        return {"d": step_circuit(op, (a, b), c, u, v)}

    def block(a: Whole, b: Whole, c: Whole, u: Whole = 0) -> dict[str, Whole]:
        circuit_of = defined_circuit if is_defined(op) else block_circuit
        return {"d": circuit_of(op, of.products, (a, b), c, u)}

    def group(**ports: Whole) -> dict[str, Whole]:
        in_blocks = isinstance(op.datapath.within, Blocks)
        made = scaled_block_circuit if in_blocks else integer_circuit if of.register else group_circuit
        return {"d": made(op, of.products, ports)}

    return group if op.groups else block if isinstance(op.datapath.within, Blocks) else step


@cache
def surrounding_circuits(op: Fma) -> Mapping[str, Circuit]:
    """Return the circuits around the steps of an operator, none without chunks where a reduction begins with `c`.

    start: the code of the initial accumulator becomes that of a binary32 total. total: the sum of a chunk is added to
    it. finish: the total becomes the result. last: the code of the initial accumulator and that of the sum do, or of a
    register, and the scales of tensors.
    """
    of = interface(op)
    if of.begins_at_zero:

        def last(**ports: Whole) -> dict[str, Whole]:
            if of.ending:
                return {"d": scaled_ending(op, of.register, ports)}
            return {"d": ending_circuit(op, ports["c"], ports["r"])}

        widths = {"c": of.start.bits, "r": of.output.bits, **{port.name: port.bits for port in of.ending}}
        return {"last": trace("last", last, {name: (0, (1 << bits) - 1) for name, bits in widths.items()})}
    if op.datapath.chunk is None:
        return {}
    acc, noise = op.acc.format, op.total.noise

    def start(c: Whole) -> dict[str, Whole]:
        return {"t": encode(decode(acc, c), FP32)}

    def total(t: Whole, p: Whole) -> dict[str, Whole]:
        return {"t_next": encode(add(decode(FP32.format, t), decode(acc, p), FP32), FP32)}

    def finish(t: Whole, u: Whole = 0) -> dict[str, Whole]:
        return {"d": encode(decode(FP32.format, t), op.total, u)}

    fp32, part = (0, (1 << 32) - 1), (0, (1 << acc.bits) - 1)
    draws = {} if noise is None else {"u": (0, (1 << noise.bits) - 1)}
    return {
        "start": trace("start", start, {"c": part}),
        "total": trace("total", total, {"t": fp32, "p": part}),
        "finish": trace("finish", finish, {"t": fp32, **draws}),
    }
