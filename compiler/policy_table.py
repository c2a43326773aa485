"""The table of a policy and a model: which operation computes in which arithmetic, before anything is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numc.compiler.lower import lowered
from numc.compiler.options import Options
from numc.frontends.imported import Imported
from numc.numerics.policy.policy import Decision, Policy
from numc.numerics.policy.table import rows
from numc.passes.explicit.layers_of import decide


@dataclass(frozen=True)
class PolicyTable:
    """The arithmetic of every operation of a model; ``str`` gives a table of text.

    policy: the policy that was applied. layers: one dictionary per row, as in a program's ``manifest["layers"]``.
    decisions: one per operation, from which the rows are made. quantised: the scheme in which the weights were stored
    in their files, "" where they were plain numbers.
    """

    policy: Policy
    layers: list[dict[str, Any]]
    decisions: tuple[Decision, ...]
    quantised: str = ""

    def __str__(self) -> str:
        columns = ("layer", "kind", "shape", "fma", "ops", "rule")
        cells = [columns, *(tuple(str(row[c] or "-") for c in columns) for row in self.layers)]
        widths = [max(len(row[n]) for row in cells) for n in range(len(columns))]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)


def policy_table(imported: Imported, options: Options) -> PolicyTable:
    """Return the arithmetic of every operation of a model.

    Raises NumcError if an option is unknown, the model is not valid, or a rule of the policy does not fit it.
    """
    policy, _ = options.resolved()
    module = lowered(imported, options, "linalg")
    decisions = tuple(decision for _, decision in decide(module.operation, policy))
    return PolicyTable(policy, rows(decisions), decisions, imported.quantised)
