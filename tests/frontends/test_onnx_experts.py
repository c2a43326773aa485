"""Mixtures of experts (MoE, QMoE) and weights of 4 bits by tables (MatMulBnb4) against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import numc
from onnx_nodes import Alone, Array, in_numc, in_onnxruntime, same_bits

pytest.importorskip("onnxruntime", minversion="1.24")
MS = "com.microsoft"
EXPERTS, WIDTH, HIDDEN, ROWS = 4, 32, 32, 5
GATED = {"swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 1.0}
RANDOM = np.random.default_rng(0)


def _rows() -> dict[str, Array]:
    return {"x": RANDOM.standard_normal((ROWS, WIDTH)).astype(np.float32),
            "p": RANDOM.standard_normal((ROWS, EXPERTS)).astype(np.float32) * 2}  # fmt: skip


def _bias(rows: int) -> Array:
    return RANDOM.standard_normal((EXPERTS, rows)).astype(np.float32) * 0.1


def _floats(activation: str, **given: Any) -> Alone:
    rows = 2 * HIDDEN if activation == "swiglu" else HIDDEN
    first, second = ((EXPERTS, rows, WIDTH), (EXPERTS, WIDTH, HIDDEN))
    weights = {"w": RANDOM.standard_normal(first).astype(np.float32) / 6, "b": _bias(rows),
               "v": RANDOM.standard_normal(second).astype(np.float32) / 6, "c": _bias(WIDTH)}  # fmt: skip
    return Alone(operator="MoE", domain=MS, feeds=_rows(), constants=weights, order="x p w b v c",
                 attributes={"k": 2, "activation_type": activation, **given})  # fmt: skip


def _packed(activation: str, bits: int, block: int, *, zeros: bool, **given: Any) -> Alone:
    constants: dict[str, Array] = {}
    for name, rows, columns in (("w", 2 * HIDDEN if activation == "swiglu" else HIDDEN, WIDTH), ("v", WIDTH, HIDDEN)):
        blocks = columns // block if block else 1
        constants[name] = RANDOM.integers(0, 256, (EXPERTS, rows, columns * bits // 8)).astype(np.uint8)
        scales = RANDOM.uniform(0.01, 0.05, (EXPERTS, rows, blocks)).astype(np.float32) * np.float32(2.0 ** (4 - bits))
        constants[f"s{name}"] = scales if block else scales[..., 0]
        of_blocks = (EXPERTS, rows, -(-blocks * bits // 8)) if block else (EXPERTS, -(-rows * bits // 8))
        constants[f"z{name}"] = RANDOM.integers(0, 256, of_blocks).astype(np.uint8)
        constants[f"b{name}"] = _bias(rows)
    order = "x p w sw bw v sv bv - - -" + (" zw zv" if zeros else "")
    given = {"k": 2, "activation_type": activation, "expert_weight_bits": bits, "weights_prepacked": 0, **given}
    return Alone(operator="QMoE", domain=MS, feeds=_rows(), constants=constants, order=order,
                 attributes={**given, **({"block_size": block} if block else {})})  # fmt: skip


def _near(cases: list[Alone]) -> None:
    """Equal but for the order of sums of floats."""
    numbered = dict(enumerate(cases))
    wants = {number: found for number, case in numbered.items() if (found := in_onnxruntime(case, 17)) is not None}
    assert len(wants) == len(cases)
    for number, (mine,) in in_numc(numbered, wants, 17).items():
        (theirs,) = wants[number]
        assert np.abs(mine - theirs).max() <= 4e-7 * np.abs(theirs).max(), numbered[number].label()


@pytest.mark.all
def test_experts_of_floats() -> None:
    """The probabilities are those of all experts, and are made to sum to 1 if that is asked for."""
    plain = [_floats(name, normalize_routing_weights=n) for n, name in enumerate(("relu", "gelu"))]
    _near([*plain, _floats("silu"), _floats("identity"), _floats("swiglu", **GATED, normalize_routing_weights=1)])


@pytest.mark.all
def test_experts_of_integers() -> None:
    """onnxruntime's kernel makes weights sum to 1, whatever it is asked for, and takes 8 bits in blocks as bytes."""
    shapes = [(2, 0), (2, 16), (4, 0), (4, 16), (4, 32), (8, 0)]
    cases = [_packed("relu", *shape, zeros=n % 2 == 0, normalize_routing_weights=1) for n, shape in enumerate(shapes)]
    _near([*cases, _packed("swiglu", 4, 16, zeros=True, normalize_routing_weights=1, **GATED)])


def test_experts_of_integers_are_those_of_their_floats() -> None:
    """8 bits in blocks, and weights that do not sum to 1: by the definition of a weight, as MoE computes it."""
    packed = _packed("silu", 8, 16, zeros=True, normalize_routing_weights=0)

    def weight(name: str) -> Array:
        given = packed.constants
        zero, scale = (np.repeat(given[f"{kind}{name}"], 16, axis=2).astype(np.float32) for kind in "zs")
        return (given[name].astype(np.float32) - zero) * scale

    floats = {"w": weight("w"), "b": packed.constants["bw"], "v": weight("v"), "c": packed.constants["bv"]}
    plain = Alone(operator="MoE", domain=MS, feeds=packed.feeds, constants=floats, order="x p w b v c",
                  attributes={"k": 2, "activation_type": "silu", "normalize_routing_weights": 0})  # fmt: skip
    want = in_onnxruntime(plain, 17)
    assert want is not None
    ours = in_numc({0: packed, 1: plain}, {0: want, 1: want}, 17)
    assert same_bits(ours[0][0], ours[1][0])
    assert np.abs(ours[0][0] - want[0]).max() <= 4e-7 * np.abs(want[0]).max()


def test_weights_of_the_router_that_are_given() -> None:
    case = _packed("relu", 4, 0, zeros=False, normalize_routing_weights=0)
    feeds = {**case.feeds, "r": RANDOM.uniform(0.1, 1, (ROWS, EXPERTS)).astype(np.float32)}
    _near([Alone(**{**vars(case), "feeds": feeds, "order": f"{case.order} - - - r"})])


@pytest.mark.parametrize("quant_type", [0, 1])
def test_weights_by_tables(quant_type) -> None:
    """FP4 and NF4 of bitsandbytes: the identity times a weight is the weight."""
    cases = {}
    for number, (k, n, block) in enumerate(((32, 5, 16), (30, 7, 64), (64, 3, 128))):
        constants = {"w": RANDOM.integers(0, 256, -(-k * n // 2)).astype(np.uint8),
                     "a": RANDOM.uniform(0.1, 2, -(-k * n // block)).astype(np.float32)}  # fmt: skip
        cases[number] = Alone(
            operator="MatMulBnb4", domain=MS, feeds={"x": np.eye(k, dtype=np.float32)}, constants=constants,
            order="x w a", attributes={"K": k, "N": n, "block_size": block, "quant_type": quant_type},
        )  # fmt: skip
    wants = {number: found for number, case in cases.items() if (found := in_onnxruntime(case, 17)) is not None}
    assert len(wants) == len(cases)
    assert all(same_bits(found[0], wants[number][0]) for number, found in in_numc(cases, wants, 17).items())


def _changed(case: Alone, order: str = "", **given: Any) -> Alone:
    return Alone(**{**vars(case), "order": order or case.order, "attributes": {**case.attributes, **given}})


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (_floats("tanh"), "its activation_type is 'tanh': want relu, gelu, silu, swiglu, identity"),
        (_floats("silu", k=5), "its k is 5 of 4 experts: want 1 to their number, which is fixed"),
        (_changed(_floats("relu"), "x p w b v c w b"), "weights of fc3 are not available: want both halves in fc1"),
        (_floats("swiglu"), "its swiglu_fusion is 0, with 64 rows of fc1: want 1 or 2, with both halves"),
        (_changed(_packed("relu", 4, 16, zeros=False), block_size=8), "want one for each 8 of 32 inputs"),
        (_changed(_packed("relu", 4, 16, zeros=False), expert_weight_bits=3), "of 3 bits: want bytes"),
        (_changed(_packed("relu", 4, 16, zeros=False), weights_prepacked=1), "weights in the order of a kernel"),
        (_changed(_packed("relu", 4, 16, zeros=False), quant_type="fp8"), "its attribute quant_type is fp8: only int"),
        (_changed(_packed("relu", 4, 0, zeros=False), "x p w sw bw v sv bv - - - - - - - sw"),
         "its global and activation scales are not available"),
    ],
)  # fmt: skip
def test_what_is_refused(case, text) -> None:
    with pytest.raises(numc.NumcError, match=text):
        in_numc({0: case}, {0: [np.zeros((ROWS, WIDTH), np.float32)]}, 17)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"quant_type": 2}, r"quant_type=2, block_size=16, K=4, N=3: 0 \(FP4\) and 1 \(NF4\) are available"),
        ({"block_size": 4}, "its weight is 6 bytes with 1 float32: want 6 bytes with 3 float32"),
    ],
)
def test_tables_that_are_refused(given, text) -> None:
    constants = {"w": np.zeros(6, np.uint8), "a": np.ones(1, np.float32)}
    case = Alone(operator="MatMulBnb4", domain=MS, feeds={"x": np.eye(4, dtype=np.float32)}, constants=constants,
                 order="x w a", attributes={"K": 4, "N": 3, "block_size": 16, **given})  # fmt: skip
    with pytest.raises(numc.NumcError, match=text):
        in_numc({0: case}, {0: [np.zeros((4, 3), np.float32)]}, 17)
