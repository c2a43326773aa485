"""Graphs of users' operators are split into what depends on one operand alone and what every accumulator computes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import definitions
from numc.numerics.circuits.number import Number
from numc.numerics.defined import traced
from numc.numerics.grammar import parse_fma
from numc.passes.kernels.datapaths.defined.operand_parts import OperandParts
from numc.passes.kernels.datapaths.table import datapath_of
from numc.passes.kernels.isa.avx2 import AVX2
from numc.passes.kernels.isa.avx512 import AVX512
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.micro_kernel import kernel_text


@pytest.fixture(scope="module", autouse=True)
def own() -> Iterator[None]:
    with definitions.own_operators():
        yield


def test_products_of_a_block_share_the_parts_of_their_operands() -> None:
    """The fused unit: of each operand its exponent, its sign and its significand, which has been shifted."""
    parts = OperandParts([traced(parse_fma("own_fused"), usual=True)])
    assert [sorted(each.op for each in side) for side in parts.parts] == [
        ["select", "shl", "sub"],
        ["select", "shl", "sub"],
    ]
    assert {use.product for use in parts.uses.values()} == set(range(8))
    assert len(parts.uses) == 8 * 6
    assert not [
        node for node in parts.rest[0] if isinstance(node, Number) and node.op == "part" and node.of.data != "c"
    ]


def test_numbers_of_both_operands_are_left() -> None:
    parts = OperandParts([traced(parse_fma("mitchell"), usual=True)])
    left = {id(node) for node in parts.rest[0]}
    assert not left & parts.uses.keys()
    for node in parts.rest[0]:
        if isinstance(node, Number) and node.op == "add":
            assert {id(arg) for arg in node.args} <= left | parts.uses.keys()


def test_usual_operands_cannot_reach_the_highest_binade() -> None:
    """The bounds of exponents leave out what the unit does there: it compares with 127 and takes infinities."""
    fma = parse_fma("own_fused")
    compared = [
        [node for node in traced(fma, usual=usual, regular=usual).numbers if node.op == "le"] for usual in (False, True)
    ]
    assert [len(each) for each in compared] == [2, 0]


@pytest.mark.parametrize(("isa", "vectors"), [(AVX512, 4), (AVX2, 2)])
def test_rows_of_large_graphs_are_in_turn(isa: object, vectors: int) -> None:
    for text, row in (("own_fused", vectors), ("kulisch_bf16", 1), ("own_1_1", 0)):
        kernel = Kernel(fma=parse_fma(text), tile=isa.tile, isa=isa)
        assert kernel.datapath.in_turn(kernel) == row, text
    draws = parse_fma("fma(a=bf16,acc=bf16:sr4,datapath=own_fused)")
    assert datapath_of(draws).in_turn(Kernel(fma=draws, tile=isa.tile, isa=isa)) == 0


def test_operands_are_taken_apart_before_the_products() -> None:
    """In the loop over rows there is a multiplication for each product and vector, and no look at an operand's bits."""
    tile = AVX512.tile.__class__(width=16, vectors=2, rows=8)
    text = kernel_text(Kernel(fma=parse_fma("own_fused"), tile=tile, isa=AVX512))
    fast = next(part for part in text.split("func.func") if "_fast8(" in part)
    likely = fast[fast.rindex("} else {") :]
    assert likely.count("llvm.x86.avx512.pmaddw.d.512") == 8 * 2
    assert len(re.findall(r"arith\.cmpf une|arith\.cmpf oeq", likely)) == 2, "of the accumulators alone"
