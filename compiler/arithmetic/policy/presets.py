"""Roles of operations in training, and arithmetics that give each role its own operator.

forward: the forward pass. dgrad: gradients of activations. wgrad: gradients of parameters. update: the optimizer. norm
and softmax: normalisation and softmax, in both directions. In contractions of dgrad and wgrad, the operator's A is the
gradient and its B the weight or the activation, whatever their order in the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from types import MappingProxyType

from numc.compiler.arithmetic.grammar import parse_conversion, parse_fma
from numc.compiler.arithmetic.policy.policy import Policy, plain
from numc.compiler.options import Options
from numc.compiler.support.errors import NumcError, did_you_mean

ROLES = ("forward", "dgrad", "wgrad", "update", "norm", "softmax")
SWAPPED = ":ba"
"""Behind a role: the gradient is the contraction's second operand."""

Given = str | tuple[str, str] | PathLike[str] | Policy | None


@dataclass(frozen=True)
class Arithmetic:
    """The FMA operator, the format of other float operations, and (role, fma, ops) for the roles that differ.

    given: a policy instead of all these.
    """

    fma: str = "fp32"
    ops: str = "fp32"
    roles: tuple[tuple[str, str, str], ...] = ()
    given: Policy | None = None

    def policy(self) -> Policy:
        """Return the policy that it is. Each graph of a training step has some of the layers only: none is missed."""
        return plain(self.fma, self.ops, self.roles) if self.given is None else replace(self.given, strict=False)

    def options(self) -> Options:
        """Return how the compiler is told."""
        return Options(policy=self.policy())


_FP32: Mapping[str, Given] = {"update": "fp32", "norm": "fp32", "softmax": "fp32"}
# Name -> fma, ops and roles. The sources of each are in docs/pytorch.md.
PRESETS: Mapping[str, Mapping[str, Given]] = MappingProxyType(
    {
        "fp32": {},
        "mp": {"fma": "mp", **_FP32},
        "mp_fp16": {"fma": "fma(a=fp16,acc=fp32)", **_FP32},
        "bf16": {"fma": "bf16_1_1", "ops": "bf16", **_FP32},
        "hfp8": {
            "fma": "fma(a=e5m2,b=e4m3,acc=e6m9,chunk=64)",
            "forward": "fma(a=e4m3,acc=e6m9,chunk=64)",
            **_FP32,
        },
        "bfp": {"fma": "fma(a=bfp(16,3,4):sr8,b=bfp(16,3,4),acc=fp32)", "forward": "highbfp", **_FP32},
        "1/6/9": {"fma": "fmac(e6m9n,chunk=8)", **_FP32},
    }
)


def arithmetic(name: str | Arithmetic = "fp32", /, **given: Given) -> Arithmetic:
    """Return an arithmetic: a preset, or an FMA operator for everything, with what is `given` in its place.

    given: fma, ops and roles. A role's value is an operator, which comes with `ops` unless it is fp32, or a pair
    (operator, format). Or a policy alone: a file, a text or a compiler.policy.Policy.
    Raises NumcError for unknown names.
    """
    if (policy := given.pop("policy", None)) is not None:
        if given or name not in ("fp32", Arithmetic()):
            raise NumcError("a policy says what every operation computes in: leave operators, formats and roles out")
        from numc.compiler.arithmetic.policy.text import load_policy

        return Arithmetic(given=load_policy(policy))  # type: ignore[arg-type]
    if isinstance(name, Arithmetic) and name.given is not None:
        if given:
            raise NumcError("a policy says what every operation computes in: leave operators, formats and roles out")
        return name
    if isinstance(name, Arithmetic):
        chosen: dict[str, Given] = {"fma": name.fma, "ops": name.ops, **{r: (f, o) for r, f, o in name.roles}}
    else:
        chosen = dict(PRESETS[name]) if name in PRESETS else {"fma": name}
    for key, value in given.items():
        if key not in ("fma", "ops", *ROLES):
            raise NumcError(f"unknown role {key!r}{did_you_mean(key, ROLES)}: want fma, ops, {', '.join(ROLES)}")
        if value is not None:
            chosen[key] = value
    fma, ops = chosen.pop("fma", None) or "fp32", chosen.pop("ops", None) or "fp32"
    if not isinstance(fma, str) or not isinstance(ops, str):
        raise NumcError("fma and ops are one text each; a role may be a pair of both")
    parse_fma(fma), parse_conversion(ops)
    roles = []
    for role, value in sorted(chosen.items()):
        own_fma, own_ops = value if isinstance(value, tuple) else (value, "fp32" if value == "fp32" else ops)
        assert isinstance(own_fma, str)
        parse_fma(own_fma), parse_conversion(own_ops)
        roles.append((role, own_fma, own_ops))
    return Arithmetic(fma, ops, tuple(roles))
