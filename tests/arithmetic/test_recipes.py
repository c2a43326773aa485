"""Recipes of training in eight and four bits, by name: as operators, as policies, and what their sources say."""

from __future__ import annotations

import re

import numpy as np
import pytest

import numc
from numc.numerics.formats import FORMATS
from numc.numerics.grammar import parse_fma
from numc.numerics.policy.layer import Layer
from numc.numerics.policy.load import arithmetic, load_policy
from numc.numerics.policy.policy import Policy
from numc.numerics.policy.text import parse_policy
from numc.numerics.recipes import BF16, RECIPES, SHORT
from numc.support.errors import NumcError


def contraction(name: str, role: str = "forward", kind: str = "matmul") -> Layer:
    loops = (("m", 4), ("n", 4), ("k", 4))
    return Layer(name, ("matmul", kind), role, position=0, loops=loops, operands=((4, 4),) * 3)


def decided(policy: Policy, *layers: Layer) -> list[str]:
    return [str(decision.fma) for decision in policy.decide(layers)]


@pytest.mark.parametrize("name", [*SHORT, *RECIPES])
def test_a_recipe_is_an_operator_and_a_policy(name: str) -> None:
    operators = RECIPES[SHORT.get(name, name)]
    assert parse_fma(name) == parse_fma(operators["forward"])
    policy = load_policy(name)
    assert load_policy(str(policy)).rules == policy.rules
    roles = ("forward", "dgrad", "wgrad")
    middle = [contraction(f"a{n}" + (f"/{role}" if n else ""), role) for n, role in enumerate(roles)]
    last = contraction("head")
    found = decided(policy, *middle, contraction("scores", kind="bmm"), last)
    assert found[:3] == [str(parse_fma(operators[role])) for role in roles]
    assert found[3] == str(parse_fma(BF16))
    keeps = not name.startswith(("te_fp8", "mxfp8"))
    assert found[4] == str(parse_fma(BF16 if keeps else operators["forward"]))
    assert arithmetic(name).policy().rules == policy.rules


def test_the_unit_of_a_recipe_is_the_unit() -> None:
    for name, operators in RECIPES.items():
        for role, text in operators.items():
            fma = parse_fma(text)
            summed = fma.summed_by if fma.unit is not None else fma
            path = summed.datapath.parameters, summed.acc
            same = [unit for unit, u in numc.units.items() if (u.datapath.parameters, u.acc) == path]
            factors = [[str(to) for to in numc.units[unit].factors] for unit in same]
            assert any(unit.startswith(name.partition("@")[2]) for unit in same), (name, role)
            own = [str(to) for to in summed.factors]
            assert own in factors or own == ["bf16", "fp32"], (name, role)


def test_recipes_as_options(tmp_path: object) -> None:
    from numc.compiler.options import Options

    policy, _ = Options(fma="nvfp4@blackwell").resolved()
    assert policy.rules == load_policy("nvfp4@blackwell").rules
    rounded, _ = Options(fma="nvfp4@blackwell", ops="bf16").resolved()
    assert str(rounded.decide([Layer("x", ("relu",), "forward")])[0].ops) == "bf16"
    a, b = np.random.default_rng(0).standard_normal((2, 32, 32)).astype(np.float32)
    assert np.array_equal(numc.matmul(a, b, fma="te_fp8"), numc.matmul(a, b, fma=RECIPES["te_fp8@hopper"]["forward"]))


def test_unknown_units_of_recipes() -> None:
    with pytest.raises(NumcError) as error:
        parse_fma("te_fp8@volta")
    known = ", ".join([*SHORT, *RECIPES])
    assert str(error.value) == f"recipe 'te_fp8@volta' (did you mean 'te_fp8' or 'te_fp8@blackwell'?): want {known}"


def test_the_first_and_the_last_modules_of_a_policy() -> None:
    policy = parse_policy("default fma = mp; layer last 2 fma = bf16_1_1; layer last fma = fp32")
    assert str(policy) == "default fma = mp\nlayer last 2 fma = bf16_1_1\nlayer last fma = fp32\n"
    forward = [contraction(name) for name in ("0", "block/mm", "block/mm_2", "head")]
    assert decided(policy, *forward) == ["mp", "bf16_1_1", "bf16_1_1", "fp32"]
    names = ("head/dgrad", "head/wgrad", "block/dgrad", "block/wgrad_2", "0/wgrad")
    backward = [contraction(name, re.findall("dgrad|wgrad", name)[0]) for name in names]
    assert decided(policy, *backward) == ["fp32", "fp32", "bf16_1_1", "bf16_1_1", "mp"]
    nodes = [contraction(name) for name in ("/layer/Conv", "/layer/Gemm")]
    assert decided(parse_policy("layer last fma = mp"), *nodes) == ["fp32", "mp"]
    assert not policy.repeats_products
    first = parse_policy("default fma = mp; layer first 2 fma = bf16_1_1; layer first, last fma = fp32")
    assert str(first) == "default fma = mp\nlayer first 2 fma = bf16_1_1\nlayer first, last fma = fp32\n"
    assert decided(first, *forward) == ["fp32", "bf16_1_1", "bf16_1_1", "fp32"]
    assert decided(first, *backward) == ["fp32", "fp32", "bf16_1_1", "bf16_1_1", "fp32"]
    for end in ("first", "last"):
        with pytest.raises(NumcError, match=f"policy:1: layer {end} 0: want 1 or more"):
            parse_policy(f"layer {end} 0 fma = mp")
    with pytest.raises(NumcError, match="policy:1: layer last matches nothing: the model has no contractions"):
        parse_policy("layer last fma = mp").decide([Layer("x", ("relu",), "forward")])


def test_formats_of_recipes_by_their_descriptions() -> None:
    """Largest values that the descriptions name: 448, 57344 and 6; tiles of 128, 32 and 16 values."""
    assert [float(FORMATS[name].max_finite) for name in ("fp8_e4m3", "fp8_e5m2", "fp4_e2m1")] == [448, 57344, 6]
    groups = {name: {parse_fma(text).group_length for text in each.values()} for name, each in RECIPES.items()}
    assert groups["te_fp8@hopper"] == {None}
    assert groups["deepseek_fp8@hopper"] == groups["deepseek_fp8@blackwell"] == {128}
    assert (groups["mxfp8@blackwell"], groups["nvfp4@blackwell"]) == ({32}, {16})
    nvfp4 = {role: parse_fma(text) for role, text in RECIPES["nvfp4@blackwell"].items()}
    assert [(role, fma.hadamard) for role, fma in nvfp4.items()] == [("forward", 0), ("dgrad", 0), ("wgrad", 16)]
    assert [fma.a.noise is not None for fma in nvfp4.values()] == [False, True, True]
    assert [fma.b.noise is not None for fma in nvfp4.values()] == [False, False, False]
    rows = [to.format.rows for fma in nvfp4.values() for to in fma.grouped if to is not None]
    assert rows == [1, 16, 1, 16, 1, 1]
