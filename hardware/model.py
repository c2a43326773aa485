"""The model of an operator in C++17: a step, and what surrounds chunks."""

from __future__ import annotations

from numc.hardware.circuits.operator_circuit import circuit, surrounding_circuits
from numc.hardware.cpp import Argument, function, header
from numc.hardware.emission import identifier
from numc.hardware.ports import interface
from numc.numerics.operators import Fma
from numc.support.versions import own_version


def model(op: Fma) -> str:
    """Return the header of an operator. Raises NumcError for an operator that has no circuit."""
    of, name = interface(op), identifier(str(op))
    ports = [Argument(port.name, port.width, port.holds) for port in of.inputs]
    about = [f"The new accumulator ({of.output.bits} bits, {of.output.holds}) after one step."]
    about += [f"{port.name}: {_shape(port.count, port.bits)}, {port.holds}" for port in of.inputs]
    functions = [function(circuit(op), "step", ports, about)]
    texts = {
        "start": "The binary32 total that a reduction starts from: the code of the initial accumulator, converted.",
        "total": f"The binary32 total after a chunk of {op.datapath.chunk} steps whose sum, from +0, is p.",
        "finish": f"The result ({op.total.format.name}) of a binary32 total.",
        "last": f"The result ({op.acc.format.name}) of a reduction from c on, which ends with the sum r.",
    }
    for part, each in surrounding_circuits(op).items():
        arguments = [Argument(name, number.width, "") for name, number in each.inputs.items()]
        functions.append(function(each, part, arguments, [texts[part]]))
    return header(f"One step of the operator {op}, bit for bit.", f"numc_{name}", own_version(), functions)


def _shape(count: int, bits: int) -> str:
    return f"{bits} bits" if count == 1 else f"{count} codes of {bits} bits, the first one lowest"
