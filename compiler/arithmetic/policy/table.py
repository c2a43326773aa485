"""The table of a policy and a model: layer, kind, shape, operator, format, and the rule that decided."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numc.compiler.arithmetic.policy.policy import Decision, Policy, Rule

COLUMNS = (
    "layer",
    "position",
    "kind",
    "role",
    "b",
    "m",
    "n",
    "k",
    "shape",
    "fma",
    "ops",
    "rule",
    "fma_line",
    "ops_line",
)
"""The columns of a row, in order."""


def rows(decisions: Iterable[Decision]) -> list[dict[str, Any]]:
    """Return one row a contraction, and one for the other operations of a name that are decided alike.

    Operations that compute nothing have no row. m, n, k and b are None where the model leaves them free. fma is None
    where nothing is multiplied and added.
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for number, decision in enumerate(decisions):
        layer = decision.layer
        if not layer.computes:
            continue
        is_contraction = layer.position is not None
        row = {
            "layer": layer.name,
            "position": layer.position,
            "kind": layer.kind,
            "role": layer.role,
            **(layer.sizes if is_contraction else dict.fromkeys("bmnk")),
            "shape": layer.shape,
            "fma": str(decision.fma) if layer.multiplies else None,
            "ops": str(decision.ops),
            "rule": _words(decision.rule),
            "fma_line": _line(decision.fma_rule),
            "ops_line": _line(decision.ops_rule),
        }
        key = (number,) if is_contraction else (layer.name, layer.role, row["fma"], row["ops"])
        found.setdefault(key, row)
    return list(found.values())


def decided(found: Iterable[dict[str, Any]], policy: Policy) -> list[dict[str, Any]]:
    """Return the rows of contractions, and those that a rule of the policy other than its defaults is about."""
    defaults = {rule.head for rule in policy.rules if rule.subject == "default"}
    return [
        row for row in found if row["position"] is not None or row["rule"].partition(": ")[2] not in {"", *defaults}
    ]


def _line(rule: Rule | None) -> int | None:
    return rule.line or None if rule is not None else None


def _words(rule: Rule | None) -> str:
    """``5: layer "conv1"``; a rule made of options has no line."""
    if rule is None:
        return "fp32, as nothing else is said"
    return f"{rule.line}: {rule.head}" if rule.line else rule.head
