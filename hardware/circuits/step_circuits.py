"""The datapaths of steps, ``fp32`` and ``exact``, as circuits."""

from __future__ import annotations

from numc.hardware.circuits.exact_real import Real
from numc.hardware.circuits.reals import decode, encode, multiply, split
from numc.hardware.circuits.sums import add, exact_sum, fused_multiply_add, to_binary32
from numc.numerics.circuits import Whole
from numc.numerics.formats import Conversion, Format, Record
from numc.numerics.operators import FP32, Fma
from numc.support.errors import NumcError


def step_circuit(op: Fma, operands: tuple[Whole, Whole], c: Whole, noise: Whole, product_noise: Whole) -> Whole:
    """The code of the new accumulator of one product."""
    to_a, to_b = op.singles
    x, y = _parts(to_a.format, operands[0]), _parts(to_b.format, operands[1])
    start = decode(op.acc.format, c)
    if op.datapath.name == "exact":
        products = [multiply(x[i], y[j]) for i, j in op.terms]
        return _exact(op, products, start, noise, product_noise)
    first, *others = op.terms
    if not others and op.product is None:
        return _accumulated(op.acc, fused_multiply_add(x[first[0]], y[first[1]], start), noise)
    product = to_binary32(multiply(x[first[0]], y[first[1]]))
    for i, j in others:
        product = fused_multiply_add(x[i], y[j], product)
    if op.product is not None:
        product = decode(op.product.format, encode(product, op.product, product_noise))
    return _accumulated(op.acc, to_binary32(add(product, start, FP32)), noise)


def _parts(fmt: Format, code: Whole) -> list[Real]:
    return split(fmt, code) if isinstance(fmt, Record) else [decode(fmt, code)]


def _accumulated(to: Conversion, x: Real, noise: Whole) -> Whole:
    """A binary32 number in the format of the accumulator."""
    return encode(x, FP32 if to.format == FP32.format and not to.overflow else to, noise)


def _exact(op: Fma, products: list[Real], start: Real, noise: Whole, product_noise: Whole) -> Whole:
    if op.acc.format.parts > 1:
        raise NumcError(f"operator '{op}' has no circuit: datapath exact rounds to one part, want datapath=fp32")
    if op.product is None and (len(products) > 1 or not isinstance(op.acc.format, Record)):
        return encode(exact_sum([*products, start]), op.acc, noise)
    product = products[0] if len(products) == 1 else exact_sum(products)
    if op.product is not None:
        product = decode(op.product.format, encode(product, op.product, product_noise))
    if not isinstance(op.acc.format, Record):
        return encode(exact_sum([product, start]), op.acc, noise)
    return encode(add(product, start, op.acc), op.acc, noise)
