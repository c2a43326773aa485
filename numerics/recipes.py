"""The recipes of training in eight and four bits as operators: one for each role, by the unit that runs it.

docs/presets.md has the sentences of their sources, what these leave open, and what was chosen. A recipe without a unit
in its name is the one with the first unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_E4M3 = "mx(e4m3fn,tensor,scale=fp32,rule=inverse)"
_E5M2 = "mx(e5m2,tensor,scale=fp32,rule=inverse)"
_TILE, _SQUARE = "mx(e4m3fn,128,scale=fp32)", "mx(e4m3fn,128,scale=fp32,rows=128)"
_TILE_POWER, _SQUARE_POWER = "mx(e4m3fn,128,scale=fp32,rule=ceil)", "mx(e4m3fn,128,scale=fp32,rule=ceil,rows=128)"
_NVFP4_SQUARE = "mx(e2m1fn,16,scale=e4m3fn,tensor=fp32,rows=16)"
_OF_32 = "datapath=fused(l=32,bits=25,least=-133)"
_OF_64 = "datapath=fused(l=64,bits=35,least=-139,run=16)"
_BF16_UNIT = "acc=fp32:rtz,datapath=fused(l=16,bits=25,least=-133)"
BF16 = f"fma(a=bf16,{_BF16_UNIT})"
"""The bfloat16 unit of a Hopper and of a Blackwell, which add alike."""


def _split(a: str, b: str) -> str:
    """A Hopper's unit whose sums are added up in binary32 after every 128 products."""
    of_b = "" if a == b else f",b={b}"
    return f"fma(a={a}{of_b},acc=e8m13:rtz,datapath=fused(l=32,bits=13,least=-133),chunk=128,total=fp32)"


def _fma(a: str, b: str, rest: str) -> str:
    return f"fma(a={a},b={b},{rest})"


#: Recipe -> role -> operator. In gradients, A is the gradient and B the weight or the activation.
RECIPES: Mapping[str, Mapping[str, str]] = MappingProxyType({
    "te_fp8@hopper": {
        "forward": _fma(_E4M3, _E4M3, "acc=fp32,unit=hopper_e4m3"),
        "dgrad": _fma(_E5M2, _E4M3, f"acc=fp32,unit={_split('e5m2', 'e4m3fn')}"),
        "wgrad": _fma(_E5M2, _E4M3, f"acc=fp32,unit={_split('e5m2', 'e4m3fn')}"),
    },
    "te_fp8@blackwell": {
        "forward": _fma(_E4M3, _E4M3, "acc=fp32,unit=blackwell_e4m3"),
        "dgrad": _fma(_E5M2, _E4M3, "acc=fp32,unit=blackwell_e5m2_e4m3"),
        "wgrad": _fma(_E5M2, _E4M3, "acc=fp32,unit=blackwell_e5m2_e4m3"),
    },
    "deepseek_fp8@hopper": {
        "forward": _fma(_TILE, _SQUARE, "acc=fp32,unit=hopper_e4m3"),
        "dgrad": _fma(_TILE, _SQUARE, "acc=fp32,unit=hopper_e4m3"),
        "wgrad": _fma(_TILE, _TILE, "acc=fp32,unit=hopper_e4m3"),
    },
    "deepseek_fp8@blackwell": {
        "forward": _fma(_TILE_POWER, _SQUARE_POWER, "acc=fp32,unit=blackwell_e4m3"),
        "dgrad": _fma(_TILE_POWER, _SQUARE_POWER, "acc=fp32,unit=blackwell_e4m3"),
        "wgrad": _fma(_TILE_POWER, _TILE_POWER, "acc=fp32,unit=blackwell_e4m3"),
    },
    "mxfp8@blackwell": dict.fromkeys(
        ("forward", "dgrad", "wgrad"), _fma("mx(e4m3fn,32,ceil)", "mx(e4m3fn,32,ceil)", f"acc=fp32:rtz,{_OF_32}")
    ),
    "nvfp4@blackwell": {
        "forward": _fma("nvfp4", _NVFP4_SQUARE, f"acc=fp32:rtz,{_OF_64}"),
        "dgrad": _fma("nvfp4:sr8", _NVFP4_SQUARE, f"acc=fp32:rtz,{_OF_64}"),
        "wgrad": _fma("nvfp4:sr8", "nvfp4", f"acc=fp32:rtz,{_OF_64},hadamard=16"),
    },
    **{
        f"gpt_oss_mxfp4@{unit}": {"forward": _fma("bf16", "mxfp4", _BF16_UNIT), "dgrad": BF16, "wgrad": BF16}
        for unit in ("hopper", "blackwell")
    },
})  # fmt: skip

#: Names without a unit, where they do not mean an operator already.
SHORT: Mapping[str, str] = MappingProxyType({
    name: f"{name}@hopper" for name in ("te_fp8", "deepseek_fp8", "gpt_oss_mxfp4")
})  # fmt: skip

#: The recipes that leave the last module with a contraction, and products of two activations, in bfloat16.
KEEPS_LAST = ("deepseek_fp8", "nvfp4", "gpt_oss_mxfp4")


def recipe_of(name: str) -> Mapping[str, str] | None:
    """Return the operators of a recipe, by role; None for any other name."""
    return RECIPES.get(SHORT.get(name, name))


def recipe_policy(name: str) -> str:
    """Return the policy of a recipe, as text."""
    full = SHORT.get(name, name)
    operators = RECIPES[full]
    lines = [f"default fma = {operators['forward']}"]
    lines += [f"role {role} fma = {operators[role]}" for role in ("dgrad", "wgrad")]
    lines.append(f"op bmm fma = {BF16}")
    if full.partition("@")[0] in KEEPS_LAST:
        lines.append(f"layer last fma = {BF16}")
    return "; ".join([*lines, "role update, norm, softmax fp32"])


def delayed_policy(unit: str) -> str:
    """Return the policy in which Linear layers multiply numbers of FP8 that have been scaled already.

    unit: hopper or blackwell. Products of two activations are in bfloat16, as in `te_fp8`.
    """
    gradient = {"hopper": _split("e5m2", "e4m3fn"), "blackwell": "blackwell_e5m2_e4m3"}[unit]
    lines = [f"default fma = {unit}_e4m3", *(f"role {role} fma = {gradient}" for role in ("dgrad", "wgrad"))]
    return "; ".join([*lines, f"op bmm fma = {BF16}", "role update, norm, softmax fp32"])
