"""FMA operators: names, parts, products, and what is refused."""

from __future__ import annotations

import pytest

from numc.numerics.datapaths import Datapath
from numc.numerics.formats import FORMATS, Conversion
from numc.numerics.grammar import parse_fma
from numc.numerics.operators import ALIASES, BF16, BF16X2, BF16X3, FMAS, FP32, Fma, allowed_products
from numc.support.errors import NumcError


def test_chain_order_is_least_significant_first() -> None:
    """Section 3, step 2: i+j descending, equal i+j: larger i first; {3} and {6} drop the least significant."""
    nine = ((2, 2), (2, 1), (1, 2), (2, 0), (1, 1), (0, 2), (1, 0), (0, 1), (0, 0))
    assert FMAS["bf16_3_3{9}"].terms == nine
    assert FMAS["bf16_3_3{6}"].terms == nine[3:]
    assert FMAS["bf16_2_2{4}"].terms == ((1, 1), (1, 0), (0, 1), (0, 0))
    assert FMAS["bf16_2_2{3}"].terms == ((1, 0), (0, 1), (0, 0))
    assert FMAS["bf16_1_3"].terms == ((0, 0),)
    assert Fma(a=BF16X3, b=BF16X2, acc=FP32, products=6).terms == ((2, 1), (2, 0), (1, 1), (1, 0), (0, 1), (0, 0))


def test_the_table_of_section_3() -> None:
    rows = {
        "fp32": (FP32, FP32, 1),
        "mp": (BF16, FP32, 1),
        "bf16_1_1": (BF16, BF16, 1),
        "bf16_1_2": (BF16, BF16X2, 1),
        "bf16_1_3": (BF16, BF16X3, 1),
        "bf16_2_2{3}": (BF16X2, BF16X2, 3),
        "bf16_2_2{4}": (BF16X2, BF16X2, 4),
        "bf16_3_3{6}": (BF16X3, BF16X3, 6),
        "bf16_3_3{9}": (BF16X3, BF16X3, 9),
    }
    for name, (operand, acc, products) in rows.items():
        assert FMAS[name] == Fma(a=operand, b=operand, acc=acc, products=products)
    assert {n: FMAS[n] for n in ALIASES.values()} == {n: parse_fma(alias) for alias, n in ALIASES.items()}


def test_hybrid_fp8() -> None:
    """Forward, both operands have 4 exponent bits; backward, the errors (A) have 5, weights and activations (B) 4."""
    e4m3, e5m2 = Conversion(FORMATS["hfp8_fwd"]), Conversion(FORMATS["hfp8_bwd"])
    assert [str(c) for c in (e4m3, e5m2)] == ["e4m3", "e5m2"]
    assert FMAS["hfp8_fwd"] == Fma(a=e4m3, b=e4m3, acc=FP32, products=1) == parse_fma("fmacs(e4m3)")
    assert FMAS["hfp8_bwd"] == Fma(a=e5m2, b=e4m3, acc=FP32, products=1) == parse_fma("fma(a=e5m2,b=e4m3,acc=fp32)")


@pytest.mark.parametrize("name", FMAS)
def test_named_operators_print_as_their_name(name: str) -> None:
    fma = FMAS[name]
    assert (fma.name, str(fma), parse_fma(name)) == (name, name, fma)
    assert (
        str(Fma(a=fma.a, b=fma.b, acc=fma.acc, products=fma.products, datapath=fma.datapath, product=fma.product))
        == name
    )


def test_a_product_of_its_own() -> None:
    one = Fma(a=BF16, b=BF16, acc=FP32, products=1, product=Conversion(FORMATS["fp16"]))
    assert str(one) == "fma(a=bf16,acc=fp32,product=fp16)"
    assert parse_fma(str(one)) == one
    assert str(parse_fma("fma(a=bf16,acc=bf16,product=bf16)")) == "mac(bf16)"
    assert str(parse_fma("fma(a=bf16,acc=fp32,product=bf16)")) == "macs(bf16)"


def test_one_step_has_no_chunk() -> None:
    chunked = parse_fma("fmac(e6m9,chunk=8)")
    assert chunked.step == parse_fma("fmac(e6m9)") != chunked
    assert chunked.step.step == chunked.step
    assert parse_fma("fmac(e6m9,chunk=8,total=fp32)").step == chunked.step


@pytest.mark.parametrize(
    ("parts", "allowed"),
    [((1, 1), (1,)), ((2, 2), (3, 4)), ((3, 3), (6, 9)), ((2, 1), (2,)), ((1, 3), (3,)), ((3, 2), (6,))],
)
def test_allowed_products(parts: tuple[int, int], allowed: tuple[int, ...]) -> None:
    assert allowed_products(*parts) == allowed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((BF16, BF16, FP32, 3), "fma(a=bf16,b=bf16,acc=fp32): products=3, want 1 for 1 x 1 parts"),
        ((BF16X2, BF16X2, FP32, 5), "fma(a=bf16x2,b=bf16x2,acc=fp32): products=5, want 3 or 4 for 2 x 2 parts"),
        ((BF16X3, BF16X3, FP32, 3), "fma(a=bf16x3,b=bf16x3,acc=fp32): products=3, want 6 or 9 for 3 x 3 parts"),
        ((BF16X2, BF16, FP32, 1), "fma(a=bf16x2,b=bf16,acc=fp32): products=1, want 2 for 2 x 1 parts"),
        (
            (BF16, BF16, FP32, 1, Datapath("bytes")),
            "fma(a=bf16,b=bf16,acc=fp32): datapath 'bytes', "
            "want fp32, exact, fused, dot, pairwise, staged, amx_bf16, avx512_bf16, fmac2, int",
        ),
        (
            (BF16, BF16, BF16, 1, Datapath("amx_bf16")),
            "fma(a=bf16,b=bf16,acc=bf16): datapath 'amx_bf16' takes only a=bf16, b=bf16, acc=fp32, products=1",
        ),
        (
            (BF16, BF16, FP32, 1, Datapath("avx512_bf16"), BF16),
            "fma(a=bf16,b=bf16,acc=fp32): datapath 'avx512_bf16' takes only a=bf16, b=bf16, acc=fp32, products=1",
        ),
    ],
)
def test_operators_that_do_not_exist(arguments: tuple[Conversion, ...], message: str) -> None:
    fields = dict(zip(("a", "b", "acc", "products", "datapath", "product"), arguments, strict=False))
    with pytest.raises(NumcError) as error:
        Fma(**fields)
    assert str(error.value) == message
    with pytest.raises(NumcError, match="^operator 'mine': "):
        Fma(name="mine", **fields)
