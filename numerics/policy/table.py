"""The rows of the table of a policy and a model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numc.numerics.policy.policy import Decision, Policy, Rule

COLUMNS = (
    "layer",
    "position",
    "kind",
    "role",
    "swapped",
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
    """Return one row for each contraction, and one for all other operations of the same name, role and arithmetic.

    Columns: layer, position, kind, role, swapped, b, m, n, k, shape, fma, ops, rule, fma_line, ops_line. Operations
    without float arithmetic have no row. swapped: fma is the policy's with A and B exchanged, because the gradient is
    the second operand. b, m, n and k are None for other operations, and for sizes that the model leaves free.
    fma is None for operations without multiply-adds. fma_line and ops_line are lines of the policy's text.
    """
    by_key: dict[tuple[Any, ...], dict[str, Any]] = {}
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
            "swapped": layer.swapped,
            **(layer.sizes if is_contraction else dict.fromkeys("bmnk")),
            "shape": layer.shape,
            "fma": str(decision.fma) if layer.multiplies else None,
            "ops": str(decision.ops),
            "rule": _words(decision.rule),
            "fma_line": _line(decision.fma_rule),
            "ops_line": _line(decision.ops_rule),
        }
        key = (number,) if is_contraction else (layer.name, layer.role, row["fma"], row["ops"])
        by_key.setdefault(key, row)
    return list(by_key.values())


def decided(found: Iterable[dict[str, Any]], policy: Policy) -> list[dict[str, Any]]:
    """Return the rows of contractions, and of operations to which a rule other than a default applies."""
    defaults = {rule.head for rule in policy.rules if rule.subject == "default"}
    return [
        row for row in found if row["position"] is not None or row["rule"].partition(": ")[2] not in {"", *defaults}
    ]


def _line(rule: Rule | None) -> int | None:
    return rule.line or None if rule is not None else None


def _words(rule: Rule | None) -> str:
    """Return the rule as a text: ``5: layer "conv1"``, without the number for a rule made from options."""
    if rule is None:
        return "fp32, as nothing else is said"
    return f"{rule.line}: {rule.head}" if rule.line else rule.head
