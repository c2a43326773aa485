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
        "1/6/9": {"fma": "fmac(e6m9n,chunk=8)", **_FP32},
        "1/6/9/strict": {"policy": _STRICT.format(fma="fmac(e6m9n,chunk=8)")},
        "1/6/9/strict/fmacs": {"policy": _STRICT.format(fma="fmacs(e6m9n)")},
        **{name: {"policy": recipe_policy(name)} for name in (*SHORT, *RECIPES)},
    }
)
