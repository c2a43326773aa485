"""Each row of docs/presets.md, "Sentence by sentence", is held by a check here or by another test that it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import numc
from numc.numerics.grammar import parse_fma
from numc.numerics.operators import Fma
from numc.numerics.policy.layer import Layer
from numc.numerics.policy.load import load_policy
from numc.numerics.recipes import BF16, KEEPS_LAST, RECIPES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "presets.md").read_text()
TE, DEEPSEEK, MX, NV, OSS = (
    "te_fp8@hopper", "deepseek_fp8@hopper", "mxfp8@blackwell", "nvfp4@blackwell", "gpt_oss_mxfp4@hopper",
)  # fmt: skip
ROLES = ("forward", "dgrad", "wgrad")


def of(name: str) -> list[Fma]:
    """The operators of a recipe: forward, dgrad, wgrad."""
    return [parse_fma(RECIPES[name][role]) for role in ROLES]


def sides(name: str) -> list[tuple[str, str]]:
    """The formats of the operands of a recipe, by role."""
    return [(str(fma.a), str(fma.b)) for fma in of(name)]


def _decides(name: str, layer: Layer) -> str:
    others = [_layer("first"), layer, _layer("head")] if layer.name != "head" else [_layer("first"), layer]
    return str(load_policy(name).decide(others)[1].fma)


def _layer(name: str, kind: str = "matmul") -> Layer:
    loops = (("m", 4), ("n", 4), ("k", 4))
    return Layer(name, ("matmul", kind), "forward", position=0, loops=loops, operands=((4, 4),) * 3)


def hybrid() -> None:
    for unit in ("hopper", "blackwell"):
        elements = [tuple(re.findall(r"mx\((\w+),", text)[0] for text in pair) for pair in sides(f"te_fp8@{unit}")]
        assert elements == [("e4m3fn", "e4m3fn"), ("e5m2", "e4m3fn"), ("e5m2", "e4m3fn")]


def split_accumulator() -> None:
    forward, *gradients = (fma.summed_by for fma in of(TE))
    assert forward.datapath.chunk is None
    assert [fma.datapath.chunk for fma in gradients] == [128, 128]
    assert all("chunk=128,total=fp32" in str(fma) for fma in gradients)
    assert {fma.summed_by.datapath.chunk for fma in of("te_fp8@blackwell")} == {None}  # it needs no split


def attention_in_bfloat16() -> None:
    for name in RECIPES:
        assert _decides(name, _layer("scores", "bmm")) == str(parse_fma(BF16))


def without_scale_nan() -> None:
    for value in (np.nan, np.inf):
        a = np.ones((2, 32), np.float32)
        a[0, 3] = value
        found = numc.matmul(a, np.ones((32, 2), np.float32), fma=TE)
        assert np.isnan(found).all()


def no_e5m2() -> None:
    assert not any(
        "e5m2" in text for unit in ("hopper", "blackwell") for text in RECIPES[f"deepseek_fp8@{unit}"].values()
    )


def tiles() -> None:
    tile, square = "mx(e4m3fn,128,scale=fp32)", "mx(e4m3fn,128,scale=fp32,rows=128)"
    assert sides(DEEPSEEK) == [(tile, square), (tile, square), (tile, tile)]
    x = np.random.default_rng(0).standard_normal((1, 128)).astype(np.float32)
    scale = np.abs(x).max() / np.float32(448)
    assert np.array_equal(np.abs(numc.round(x, tile)).max(), np.float32(448) * scale)
    powers = numc.round(x, "mx(e4m3fn,128,scale=fp32,rule=ceil)")
    exponent = np.ceil(np.log2(np.abs(x).max() / 448))
    assert np.array_equal(powers, numc.round(x / np.exp2(exponent), "fp8_e4m3") * np.float32(np.exp2(exponent)))
    assert all("rule=ceil" in text for text in RECIPES["deepseek_fp8@blackwell"].values())


def unit_of_128() -> None:
    assert {(fma.group_length, str(fma.unit)) for fma in of(DEEPSEEK)} == {(128, "hopper_e4m3")}


def last_and_attention() -> None:
    assert sorted(KEEPS_LAST) == ["deepseek_fp8", "gpt_oss_mxfp4", "nvfp4"]
    for name in RECIPES:
        keeps = name.partition("@")[0] in KEEPS_LAST
        assert (_decides(name, _layer("head")) == str(parse_fma(BF16))) == keeps
        decisions = load_policy(name).decide([Layer("x", ("softmax",), "softmax"), Layer("y", ("norm",), "norm")])
        assert {str(decision.ops) for decision in decisions} == {"fp32"}


def masters_in_float32() -> None:
    for name in RECIPES:
        (decision,) = load_policy(name).decide([Layer("w", ("add",), "update")])
        assert str(decision.ops) == "fp32"


def eight_bits_of_blocks() -> None:
    assert sides(MX) == [(sides(MX)[0][0],) * 2] * 3
    assert all("e4m3fn,32" in text and "ceil" in text for text in sides(MX)[0])


def nothing_saturates() -> None:
    x = np.random.default_rng(1).standard_normal((8, 64)).astype(np.float32) * np.float32(1000)
    rounded = numc.round(x, "mx(e4m3fn,32,ceil)")
    assert np.abs(rounded - x).max() <= np.abs(x).max() / 16  # half a step of three bits: none is cut


def along_the_reduction() -> None:
    x = np.random.default_rng(2).standard_normal((64, 64)).astype(np.float32)
    y = np.random.default_rng(3).standard_normal((64, 64)).astype(np.float32)
    rows, columns = numc.round(x, "mx(e4m3fn,32,ceil)", axis=1), numc.round(y, "mx(e4m3fn,32,ceil)", axis=0)
    assert np.array_equal(numc.matmul(x, y, fma=MX), numc.matmul(rows, columns, fma=MX))


def four_bits() -> None:
    assert sides(NV)[0][0] == "nvfp4"
    assert of(NV)[0].a.format.tensor
    squares = "mx(e2m1fn,16,scale=e4m3fn,tensor=fp32,rows=16)"
    assert [pair[1] for pair in sides(NV)] == [squares, squares, "nvfp4"]
    assert [pair[0] for pair in sides(NV)] == ["nvfp4", "nvfp4:sr8", "nvfp4:sr8"]
    assert [(fma.hadamard, fma.signs) for fma in of(NV)] == [(0, 0), (0, 0), (16, 0)]


def scales_of_four_bits() -> None:
    x = np.random.default_rng(4).standard_normal((1, 16)).astype(np.float32)
    largest = np.abs(x).max()
    tensor = largest / np.float32(448 * 6)
    block = numc.round((largest / np.float32(6)) / tensor, "e4m3fn")
    factor = np.float32(block * tensor)
    assert np.array_equal(numc.round(x, "nvfp4"), numc.round(x / factor, "e2m1fn") * factor)


def released_weights() -> None:
    first, *gradients = sides(OSS)
    assert first == ("bf16", "mxfp4_e2m1")
    assert gradients == [("bf16", "bf16")] * 2


DELAYED = "tests/train/test_delayed_scaling.py::"
TEN, REFUSED, RESUMED = (DELAYED + name for name in (
    "test_ten_steps", "test_what_is_refused", "test_several_blocks_of_a_step_keep_the_largest"))  # fmt: skip
KEPT = DELAYED + "test_magnitudes_that_give_no_scale_leave_the_old_one"
SQUARES = "tests/arithmetic/test_tiles.py::test_square_tiles_are_the_same_in_both_directions"
CHECKS: dict[str, Callable[[], None] | str] = {
    "gradients e5m2; weights and activations e4m3": hybrid,
    "`rule=inverse`, the same float32": "tests/arithmetic/test_tiles.py::test_the_scale_of_a_tensor_in_numpy",
    "`mx(e4m3fn,tensor,scale=fp32,rule=inverse)`, equal": "tests/arithmetic/test_tiles.py::test_against_torchao",
    "forward: the unit's chain": split_accumulator,
    "`op bmm` is in bfloat16": attention_in_bfloat16,
    "the result is NaN": without_scale_nan,
    "`history=1024`; a tensor is multiplied": TEN,
    "rounded alike": TEN,
    "the float32 operations of the kernel, by `margin`": TEN,
    "neither changes": DELAYED + "test_a_step_that_sees_nothing_keeps_scale_and_history",
    "the same float32 divisions": scales_of_four_bits,
    '`algorithm="max"`': TEN,
    "the same; the scale is 1 at first": KEPT,
    "the same: the entry of the step": RESUMED,
    "the same, in all Linear layers": TEN,
    "the largest of all ranks": "tests/train/test_recipe.py::test_two_ranks_have_the_largest_magnitudes_of_both",
    "all at `recipe.update()`": RESUMED,
    "in `torch.nn.Linear`; a model": REFUSED,
    "no e5m2": no_e5m2,
    "`mx(e4m3fn,128,scale=fp32)` and `rows=128`": tiles,
    "`unit=hopper_e4m3` for each": unit_of_128,
    "all three roles; wgrad has": tiles,
    "`layer last`, `op bmm`": last_and_attention,
    "float32": masters_in_float32,
    "`mx(e4m3fn,32,...)`": eight_bits_of_blocks,
    "rule `ceil`": nothing_saturates,
    "the same operator in all roles": eight_bits_of_blocks,
    "groups are always along": along_the_reduction,
    "`nvfp4`": four_bits,
    "`rows=16` in forward": SQUARES,
    "groups of one row": four_bits,
    "`nvfp4:sr8` for the gradient": four_bits,
    "`hadamard=16`": four_bits,
    "`layer last` is one module": last_and_attention,
    "`mxfp4`, of every contraction": released_weights,
    "`a=bf16` and the bfloat16": released_weights,
    "`layer last`; name routers": last_and_attention,
}
"""How a row's right cell begins -> a check, or the test that holds it."""


def _cells() -> list[str]:
    part = PAGE[PAGE.index("## Sentence by sentence") : PAGE.index("## Trained")]
    rows = [line.split(" | ")[-1].removesuffix("|").strip() for line in part.splitlines() if line.startswith("| ")]
    return [cell for cell in rows if cell != "here" and not cell.startswith("---")]


def _key(cell: str) -> str:
    return max((key for key in CHECKS if cell.startswith(key)), key=len, default="")


def test_every_row_has_a_check_and_every_check_a_row() -> None:
    keys = [_key(cell) for cell in _cells()]
    assert [cell for cell, key in zip(_cells(), keys, strict=True) if not key] == []
    assert set(keys) == set(CHECKS)
    for held in {check for check in CHECKS.values() if isinstance(check, str)}:
        file, _, name = held.partition("::")
        functions = {
            node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)
        }
        assert name in functions, held


@pytest.mark.parametrize("check", sorted({c for c in CHECKS.values() if callable(c)}, key=lambda c: c.__name__))
def test_a_row(check: Callable[[], None]) -> None:
    check()


def _gaps(text: str) -> dict[str, float]:
    """How far the loss of each recipe is from fp32's, by a table whose numbers are rendered from results."""
    rows = re.findall(r"^\| `([\w@]+)` \|.*\| ([\d.]+e-\d+) \|$", text, re.MULTILINE)
    return {name: float(gap) for name, gap in rows}


def test_what_the_results_say_in_prose() -> None:
    """Which recipe is nearest and which is farthest, by the tables, which are those of the results."""
    resnet, _, transformer = PAGE.partition("transformer: perplexity")
    shown = _gaps(resnet)
    assert min(shown, key=lambda name: shown[name]) == DEEPSEEK
    assert max(shown, key=lambda name: shown[name]) == NV
    shown = _gaps(transformer)
    assert min(shown, key=lambda name: shown[name]) == DEEPSEEK
    assert all(shown[name] > shown[NV] for name in (TE, OSS))
