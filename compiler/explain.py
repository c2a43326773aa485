"""numc.explain: what computes in which arithmetic, and why, before anything is compiled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numc.compiler.arithmetic.policy.policy import Decision, Policy
from numc.compiler.arithmetic.policy.table import rows
from numc.compiler.build import chosen, load_source, lowered, pytorch
from numc.compiler.options import Options
from numc.compiler.support.errors import NumcError
from numc.frontends.imported import Imported
from numc.passes.explicit.layers_of import decide


@dataclass(frozen=True)
class PolicyTable:
    """The arithmetic of every operation of a model; ``str`` gives a table.

    layers: one row each, as in a program's ``manifest["layers"]``. decisions: what the rows are made from.
    """

    policy: Policy
    layers: list[dict[str, Any]]
    decisions: tuple[Decision, ...]

    def __str__(self) -> str:
        columns = ("layer", "kind", "shape", "fma", "ops", "rule")
        cells = [columns, *(tuple(str(row[c] or "-") for c in columns) for row in self.layers)]
        widths = [max(len(row[n]) for row in cells) for n in range(len(columns))]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)


def table(imported: Imported, options: Options) -> PolicyTable:
    """Return the arithmetic of every operation of a model. Raises NumcError for bad input."""
    policy, _ = options.resolved()
    module = lowered(imported, options, "linalg")
    decisions = tuple(decision for _, decision in decide(module.operation, policy))
    return PolicyTable(policy, rows(decisions), decisions)


def explain(
    model: Any,
    inputs: Any = None,
    *,
    policy: str | os.PathLike[str] | Policy | None = None,
    fma: str = "fp32",
    ops: str = "fp32",
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Any:
    """Say what computes in which arithmetic and why, before anything is compiled.

    model: a file, or an exported program of PyTorch: returns a PolicyTable. A module or a function that torch.compile
    takes, with its inputs: runs it, forward and backward, and returns an Explanation, which also says what torch does.
    policy, fma, ops, shapes: as for numc.compile. Raises NumcError for bad input.
    """
    options = Options(fma, ops, policy=chosen(policy))
    options.resolved()
    if isinstance(model, (str, os.PathLike, Imported)):
        if inputs is not None:
            raise NumcError(f"{model}: a file has its inputs: leave them out")
        imported = model if isinstance(model, Imported) else load_source(model, shapes)
        return table(imported, options)
    kind = type(model).__name__
    frontend = pytorch(kind)
    if shapes:
        raise NumcError(f"{kind}: shapes are for files: the inputs say what sizes are")
    if kind == "ExportedProgram":
        return table(frontend.load(model, inputs), options)
    if not callable(model):
        raise NumcError(f"cannot explain a {kind}: want a file name, a torch.nn.Module or a function")
    if inputs is None:
        raise NumcError(f"{kind}: it is run to see what it does: give its inputs")
    from numc.frontends.training import backend

    return backend.explain(model, inputs, options)
