"""The ports of operators on groups: one step takes a group, a block of products with the scales of its groups, or some
integers."""

from __future__ import annotations

from numc.hardware.encodings import Encoding
from numc.hardware.kinds import PORTS
from numc.hardware.port import Codes, Interface, Port, signed
from numc.numerics.datapaths import Blocks
from numc.numerics.exact.value import ONE, POINT, Value
from numc.numerics.groups import GroupConversion
from numc.numerics.operators import FP32, Fma
from numc.numerics.reference.group_operators import Vector, add_group, add_integers, group_dot, scaled_integer
from numc.numerics.reference.scaled_blocks import one_block, scaled_total

INTEGERS = 16  # products that a step of intN takes, where nothing sets their number
_FP32 = Encoding(FP32.format)


def interface_of_groups(op: Fma, to_a: GroupConversion, to_b: GroupConversion) -> Interface:
    """Return the ports of a step."""
    if isinstance(op.datapath.within, Blocks):
        return _of_blocks(op, to_a, to_b)
    if op.datapath.name == "int":
        return _of_integers(op, to_a, to_b)
    size = to_a.format.group or INTEGERS
    (a_ports, read_a), (b_ports, read_b) = (
        PORTS[type(to.format)](name, to.format, size) for name, to in (("a", to_a), ("b", to_b))
    )

    def evaluate(codes: Codes) -> Value:
        (x, of_x), (y, of_y), c = read_a(codes), read_b(codes), _FP32.decode(codes["c"][0])
        if op.group is not None and (op.group.sums_integers or op.group.sums_elements):
            return group_dot(op, _quantized(x, to_a, of_x), _quantized(y, to_b, of_y), c)
        return add_group(op, x, y, c)

    inputs = (*a_ports, *b_ports, Port("c", _FP32.bits, "fp32"))
    return Interface(op, size, inputs, Port("d", _FP32.bits, "fp32"), evaluate)


def _quantized(values: list[Value], to: GroupConversion, scale: Value) -> Vector:
    if to.format.sums_integers:
        return _Integers([int(value) << POINT for value in values], to, scale, quantized=True)
    return Vector(values, to, 0, quantized=True, scales=[scale])


class _Integers(Vector):
    """Integers whose scale is given, and not found from the largest magnitude of a tensor."""

    @property
    def scale(self) -> Value:
        return self.largest


def _of_blocks(op: Fma, to_a: GroupConversion, to_b: GroupConversion) -> Interface:
    """Blocks of elements; what tensors share multiplies the sum of all blocks."""
    length, acc = op.datapath["l"], Encoding(op.acc.format)
    inputs, ending = [], []
    for name, to in (("a", to_a), ("b", to_b)):
        element, scale, group = to.format.single, to.format.scales, to.format.group
        assert element is not None
        assert scale is not None
        assert group is not None
        inputs.append(Port(name, element.bits, element.name, length))
        inputs.append(Port(f"{name}_scale", scale.bits, scale.name, max(length // group, 1)))
        if to.format.shares_tensor:
            ending.append(Port(f"{name}_tensor", _FP32.bits, "fp32"))
    inputs.append(Port("c", acc.bits, op.acc.format.name))
    if op.acc.noise is not None:
        inputs.append(Port("u", op.acc.noise.bits, "random bits"))

    def vector(name: str, to: GroupConversion, codes: Codes) -> Vector:
        both = to.format.single, to.format.scales
        (elements, scales) = (Encoding(fmt) for fmt in both if fmt is not None)
        values = [elements.decode(code) for code in codes[name]]
        return Vector(values, to, 0, True, scales=[scales.decode(code) for code in codes[f"{name}_scale"]])

    def evaluate(codes: Codes) -> Value:
        noise = codes["u"][0] if "u" in codes else 0
        return one_block(op, vector("a", to_a, codes), vector("b", to_b, codes), acc.decode(codes["c"][0]), noise)

    def finish(c: Value, total: Value, codes: Codes) -> Value:
        of_a, of_b = (
            _FP32.decode(codes[f"{name}_tensor"][0]) if to.format.shares_tensor else ONE
            for name, to in (("a", to_a), ("b", to_b))
        )
        return scaled_total(total, of_a, of_b, c)

    output = Port("d", acc.bits, op.acc.format.name)
    return Interface(
        op, length, tuple(inputs), output, evaluate, ending=tuple(ending), finish=finish if ending else None
    )


def _of_integers(op: Fma, to_a: GroupConversion, to_b: GroupConversion) -> Interface:
    """Integers in a register, which the scales of tensors multiply at the end."""
    bits = op.datapath["bits"]
    length = op.datapath["l"] if op.datapath["saturate"] else INTEGERS
    widths = {"a": to_a.format.code_bits, "b": to_b.format.code_bits}
    held, number = "a whole number, two's complement", "two's complement"
    inputs = tuple(Port(name, width, f"int{width}, {number}", length) for name, width in widths.items())

    def evaluate(codes: Codes) -> Value:
        x, y = ([signed(code, widths[name]) for code in codes[name]] for name in "ab")
        return add_integers(op, signed(codes["c"][0], bits), [i * j for i, j in zip(x, y, strict=True)])

    def finish(c: Value, total: Value, codes: Codes) -> Value:
        of_a, of_b = (_FP32.decode(codes[f"{name}_scale"][0]) for name in "ab")
        return scaled_integer(int(total), of_a, of_b, c)

    return Interface(
        op,
        length,
        (*inputs, Port("c", bits, held)),
        Port("d", bits, held),
        evaluate,
        register=bits,
        ending=tuple(Port(f"{name}_scale", _FP32.bits, "fp32") for name in "ab"),
        finish=finish,
    )
