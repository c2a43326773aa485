"""The ports of an operator: the codes that enter one step of it, and the code that leaves it, by the definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from numc.hardware.encodings import Encoding
from numc.hardware.kinds import PORTS
from numc.hardware.port import Codes, Port, signed
from numc.numerics.circuits.known import Known
from numc.numerics.datapaths import Blocks, Own
from numc.numerics.defined import definition_of, is_defined
from numc.numerics.exact.value import POINT, Value
from numc.numerics.groups import GroupConversion
from numc.numerics.operators import FP32, Fma
from numc.numerics.reference.datapaths import BLOCKS, STEPS, Draws, contraction
from numc.numerics.reference.defined import defined_run
from numc.numerics.reference.group_operators import Vector, add_group, group_dot
from numc.support.errors import NumcError

INTEGERS = 16  # products that a step of intN takes: the format itself sets no number
_INSTRUCTIONS = {"avx512_bf16": 2, "amx_bf16": 32}


@dataclass(frozen=True)
class Interface:
    """One step of an operator on codes.

    products: how many it takes. Ports `a` and `b` hold the operands, `c` the accumulator, `u` and `v` the random bits
    of the accumulator's and of the product's rounding where these draw, and `d` is the new accumulator.
    evaluate: the exact products and the value of the accumulator become the value of the new one, by the definition.
    register: its bits, if the accumulator is a whole number in two's complement that a reduction begins at 0.
    """

    op: Fma
    products: int
    inputs: tuple[Port, ...]
    output: Port
    evaluate: Callable[[Codes], Value]
    register: int = 0

    @property
    def start(self) -> Port:
        """The accumulator that a whole reduction begins with; its result has the same format."""
        return Port("c", self.op.acc.format.bits, self.op.acc.format.name)

    def expected(self, codes: Codes) -> int | None:
        """Return the code of the result; None for a NaN for which the accumulator has no code."""
        return self.code(self.evaluate(codes))

    def code(self, value: Value) -> int | None:
        """Return the code of an accumulator."""
        if self.register:
            return int(value) & (1 << self.register) - 1
        return Encoding(self.op.acc.format).encode(value)

    def port(self, name: str) -> Port:
        """Return an input by its name."""
        return next(port for port in self.inputs if port.name == name)


@cache
def interface(op: Fma) -> Interface:
    """Return the ports of a step of an operator, without its chunks.

    Raises NumcError for widths and lengths that a run chooses, and for sums of groups that have no step here.
    """
    if op.written_out:
        raise NumcError(f"operator '{op}': contractions by it are written out in others, want one of those")
    if op.open_operands:
        raise NumcError(f"operator '{op}': its widths are open, hardware has fixed ones: want a format such as e5m2")
    if op.datapath.splits is not None:
        raise NumcError(f"operator '{op}': a reduction says how long its splits are, hardware knows none: want chunk=c")
    if op.groups is not None and op.datapath.name in ("fused", "int"):
        raise NumcError(f"operator '{op}': datapath '{op.datapath.name}' has no step on groups: want datapath=fp32")
    if op.groups is not None:
        return _of_groups(op, *op.groups)
    path, (to_a, to_b) = op.datapath, op.singles
    within = path.within
    products = within.length if isinstance(within, Blocks) else _INSTRUCTIONS.get(path.name, 1)
    a, b, c = (Encoding(to.format) for to in (to_a, to_b, op.acc))
    inputs = [
        Port("a", a.bits, to_a.format.name, products),
        Port("b", b.bits, to_b.format.name, products),
        Port("c", c.bits, op.acc.format.name),
    ]
    for name, to in (("u", op.acc), ("v", op.product)):
        if to is not None and to.noise is not None:
            inputs.append(Port(name, to.noise.bits, "random bits"))
    if is_defined(op) and (bits := definition_of(op).register):
        held = "a whole number, two's complement"
        inputs[2] = Port("c", bits, held)
        return Interface(op, products, tuple(inputs), Port("d", bits, held), _registered(op, a, b), register=bits)
    step = _step(op)

    def evaluate(codes: Codes) -> Value:
        x, y = ([each.split(each.decode(code)) for code in codes[name]] for name, each in (("a", a), ("b", b)))
        noise, product_noise = (codes[name][0] if name in codes else 0 for name in "uv")
        return step(x, y, c.decode(codes["c"][0]), noise, product_noise)

    return Interface(op, products, tuple(inputs), Port("d", c.bits, op.acc.format.name), evaluate)


def _registered(op: Fma, a: Encoding, b: Encoding) -> Callable[[Codes], Value]:
    definition, (to_a, to_b) = definition_of(op), op.singles

    def evaluate(codes: Codes) -> Value:
        x = [Known.counted(a.decode(code), to_a.settled) for code in codes["a"]]
        y = [Known.counted(b.decode(code), to_b.settled) for code in codes["b"]]
        return definition.registered(op, x, y, signed(codes["c"][0], definition.register))  # type: ignore[return-value]

    return evaluate


_Parts = list[tuple[Value, ...]]


def _step(op: Fma) -> Callable[[_Parts, _Parts, Value, int, int], Value]:
    name, within = op.datapath.name, op.datapath.within
    if isinstance(within, Own):
        whole = contraction(op)
        return lambda x, y, c, _, __: whole(x, y, c, Draws(0, 0))
    if is_defined(op):
        run = defined_run(op)
        return lambda x, y, c, noise, _: run(x, y, c, [(0, noise)])
    if isinstance(within, Blocks):
        block = BLOCKS[name](op)
        return lambda x, y, c, noise, _: block(x, y, c, noise)
    step = STEPS[name](op)
    return lambda x, y, c, noise, product_noise: step(x[0], y[0], c, product_noise, noise)


# Groups.


def _of_groups(op: Fma, to_a: GroupConversion, to_b: GroupConversion) -> Interface:
    size = to_a.format.group or INTEGERS
    (a_ports, read_a), (b_ports, read_b) = (
        PORTS[type(to.format)](name, to.format, size) for name, to in (("a", to_a), ("b", to_b))
    )
    fp32 = Encoding(FP32.format)

    def evaluate(codes: Codes) -> Value:
        (x, of_x), (y, of_y), c = read_a(codes), read_b(codes), fp32.decode(codes["c"][0])
        if op.group is not None and (op.group.sums_integers or op.group.sums_elements):
            return group_dot(op, _quantized(x, to_a, of_x), _quantized(y, to_b, of_y), c)
        return add_group(op, x, y, c)

    inputs = (*a_ports, *b_ports, Port("c", fp32.bits, "fp32"))
    return Interface(op, size, inputs, Port("d", fp32.bits, "fp32"), evaluate)


def _quantized(values: list[Value], to: GroupConversion, scale: Value) -> Vector:
    if to.format.sums_integers:
        return _Integers([int(value) << POINT for value in values], to, scale, quantized=True)
    return Vector(values, to, 0, quantized=True, scales=[scale])


class _Integers(Vector):
    """Integers whose scale is given, and not found from the largest magnitude of a tensor."""

    @property
    def scale(self) -> Value:
        return self.largest
