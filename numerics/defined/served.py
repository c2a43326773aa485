"""Definitions that say what a datapath of numc does: its kernels serve them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from numc.numerics.circuits.ordering import Node
from numc.numerics.circuits.traced import Traced
from numc.numerics.defined.definition import definition_of, is_defined
from numc.numerics.defined.graphs import Graph, traced
from numc.numerics.operators import FP32, Fma


@cache
def served_by(fma: Fma) -> Fma:
    """Return the operator with a datapath of numc that an operator of a user is, or else the operator as it is.

    The sum of the accumulator and one product is the datapath ``exact``; rounded to binary32 first, it is ``fp32``.
    """
    if not is_defined(fma) or definition_of(fma).register:
        return fma
    graph = traced(fma)
    total, name = graph.result, "exact"
    if isinstance(total, Traced) and total.op == "rounded" and total.to == FP32:
        (total, *_), name = total.args, "fp32"
    if len(graph.a) > 1 or not _is_step(graph, total):
        return fma
    return replace(fma, name="", datapath=replace(fma.datapath, name=name, parameters=()))


def _is_step(graph: Graph, total: Node) -> bool:
    """Whether a number is the exact sum of the accumulator and the product of the operands."""
    if not isinstance(total, Traced) or total.op != "sum" or total.to is not None:
        return False
    products = [each for each in total.args if each is not graph.c]
    if len(products) != 1 or not isinstance(products[0], Traced) or products[0].to is not None:
        return False
    factors = {id(each) for each in products[0].args}
    return products[0].op == "product" and factors == {id(graph.a[0]), id(graph.b[0])}
