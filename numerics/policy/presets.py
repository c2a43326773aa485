"""Presets: arithmetics known by a name, which may give each role of an operation its own operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from types import MappingProxyType

from numc.numerics.policy.policy import Policy, plain
from numc.numerics.recipes import RECIPES, SHORT, recipe_policy

Given = str | tuple[str, str] | PathLike[str] | Policy | None
"""A value that a user may give for fma, ops, a role or policy."""


@dataclass(frozen=True)
class Arithmetic:
    """The FMA operator, the format of other float operations, and (role, fma, ops) for the roles that differ.

    given: a policy, which replaces all the others. respect_dtypes: what tensors of narrow dtypes store is rounded to
    these (docs/arithmetic.md).
    """

    fma: str = "fp32"
    ops: str = "fp32"
    roles: tuple[tuple[str, str, str], ...] = ()
    given: Policy | None = None
    respect_dtypes: bool = True

    def policy(self) -> Policy:
        """Return this arithmetic as a policy.

        It is not strict: each graph of a training step has only some of the layers, so that a rule may match nothing.
        """
        return plain(self.fma, self.ops, self.roles) if self.given is None else replace(self.given, strict=False)


_FP32: Mapping[str, Given] = {"update": "fp32", "norm": "fp32", "softmax": "fp32"}
_EXCEPT = "role update, norm, softmax fp32"


def hbfp(bits: int, block: int = 64) -> str:
    """Return the operator of HBFP: so many bits a value, its sign among them, and blocks of so many values.

    Both operands are block floating point with 8 exponent bits, rounded stochastically; sums of blocks are fp32.
    """
    values = f"bfp({block},8,{bits - 1}):sr8"
    return f"fma(a={values},b={values},acc=fp32)"


def boosted(narrow: str, wide: str) -> str:
    """Return the policy of Accuracy Booster before its last epoch: the first and the last layer are wide."""
    return f"default fma = {narrow}; layer first, last fma = {wide}; {_EXCEPT}"


def narrow_accumulator(significand: int = 7, exponent: int = 4, bias: int = 10, chunk: int = 16) -> str:
    """Return an operator of bf16 operands whose products and sums have few bits, and are truncated.

    The bias of products is larger by log2(chunk) / 2, as far as chunks of sums are larger than products. Underflow is
    to zero, and an overflow is the largest value. Sums are one chain.
    """
    form = "float({e},{s},bias={b},infinities=0,nan=none,subnormals=0):rtz"
    acc, product = (form.format(e=exponent, s=significand, b=b) for b in (bias, bias + (chunk.bit_length() - 1) // 2))
    return f"fma(a=bf16,product={product},acc={acc})"


_STRICT = "default fma = {fma}, ops = e6m9n, bias = last; role update, norm, softmax fp32"
# Name -> fma, ops and roles, or a policy. docs/pytorch.md gives the publication of each.
PRESETS: Mapping[str, Mapping[str, Given]] = MappingProxyType(
    {
        "fp32": {},
        "mp": {"fma": "mp", **_FP32},
        "mp_fp16": {"fma": "fma(a=fp16,acc=fp32)", **_FP32},
        "bf16": {"fma": "bf16_1_1", "ops": "bf16", **_FP32},
        "fase_bf16": {"fma": "bf16_1_1", "update": "fp32", "norm": "fp32"},
        "hfp8": {
            "fma": "fma(a=e5m2,b=e4m3,acc=e6m9,chunk=64)",
            "forward": "fma(a=e4m3,acc=e6m9,chunk=64)",
            **_FP32,
        },
        **{
            name: {"fma": f"fma(a={name}:sr8,b={name},acc=fp32)", "forward": name, **_FP32}
            for name in ("lowbfp", "midbfp", "highbfp", "msfp12", "int8", "int12")
        },
        "hbfp4": {"fma": hbfp(4), **_FP32},
        "hbfp6": {"fma": hbfp(6), **_FP32},
        "accuracy_booster": {"policy": boosted(hbfp(4), hbfp(6))},
        "lba12": {"policy": f"role forward fma = {narrow_accumulator()}"},
        "1/6/9": {"fma": "fmac(e6m9n,chunk=8)", **_FP32},
        "1/6/9/strict": {"policy": _STRICT.format(fma="fmac(e6m9n,chunk=8)")},
        "1/6/9/strict/fmacs": {"policy": _STRICT.format(fma="fmacs(e6m9n)")},
        **{name: {"policy": recipe_policy(name)} for name in (*SHORT, *RECIPES)},
    }
)
