"""The ports of an operator: the codes that enter one step of it, and the code that leaves it, by the definition."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from numc.hardware.encodings import Encoding
from numc.hardware.kinds.interfaces import interface_of_groups
from numc.hardware.port import Codes, Interface, Port, signed
from numc.numerics.circuits.known import Known
from numc.numerics.datapaths import Blocks, Own
from numc.numerics.defined import definition_of, is_defined
from numc.numerics.exact.value import Value
from numc.numerics.operators import Fma
from numc.numerics.reference.datapaths import BLOCKS, STEPS, Draws, contraction
from numc.numerics.reference.defined import defined_run
from numc.support.errors import NumcError

_INSTRUCTIONS = {"avx512_bf16": 2, "amx_bf16": 32}


@cache
def interface(op: Fma) -> Interface:
    """Return the ports of a step of an operator, without its chunks.

    Raises NumcError for widths and lengths that a run chooses.
    """
    if op.written_out:
        raise NumcError(f"operator '{op}': contractions by it are written out in others, want one of those")
    if op.open_operands:
        raise NumcError(f"operator '{op}': its widths are open, hardware has fixed ones: want a format such as e5m2")
    if op.datapath.splits is not None:
        raise NumcError(f"operator '{op}': a reduction says how long its splits are, hardware knows none: want chunk=c")
    if op.groups is not None:
        return interface_of_groups(op, *op.groups)
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
