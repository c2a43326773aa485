"""The multiply-adds that a model has, by role and operator: the sizes of all loops around each ``numc.fma``."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from torch_mlir import ir

from numc.passes import facts, linalg
from numc.passes.dialect import contracted, fma_of
from numc.passes.explicit.size_formulas import Formula, SizeFormulas


@dataclass(frozen=True)
class FmaRow:
    """Multiply-adds of a program: a row of `fmas` in its manifest.

    fma: the operator, as the policy has it. contraction: whether they belong to contractions, which kernels compute.
    count: their number in one run. free: what a run has besides, a formula of the sizes of its inputs
    (runtime/run_counts.py); "" if there is nothing.
    """

    role: str
    fma: str
    contraction: bool
    count: int
    free: str = ""


def fmas_of(module: ir.Operation) -> tuple[list[FmaRow] | None, list[Formula]]:
    """Return the multiply-adds of a module after stage ``numc``, and the sizes that the formulas of its rows refer to.

    The rows are None if their number depends on data.
    Later stages compute some products when a program is compiled, or not at all: those count as the model defines them.
    """
    counts: Counter[tuple[str, str, bool]] = Counter()
    free: dict[tuple[str, str, bool], list[Formula]] = {}
    of_sizes = SizeFormulas()
    for step in linalg.operations(module, "numc.fma"):
        runs, role, contraction, fma = 1, "", False, fma_of(step)
        formulas: list[Formula | None] = []
        around = step.parent.operation
        if around.name == "linalg.generic":
            sizes = linalg.loop_sizes(around)
            runs = math.prod(size for size in sizes if size is not None)
            formulas = [_size_of_loop(of_sizes, around, n) for n, size in enumerate(sizes) if size is None]
            layer = facts.get(around, "numc.layer", {})
            role = str(layer.get("role", ""))
            fma = fma.swapped if layer.get("swapped") else fma
            contraction = contracted(around) is not None
            around = around.parent.operation
        if around.name != "func.func" or ir.StringAttr(around.attributes["sym_name"]).value != "main":
            return None, []  # in a loop, a branch, or a function that may be called several times
        key = role, str(fma), contraction
        counts[key] += 0 if formulas else runs
        if formulas:
            known = [formula for formula in formulas if formula is not None]
            if len(known) < len(formulas):
                return None, []
            free.setdefault(key, []).append(" ".join([str(runs), *known, *["*"] * len(known)]))
    return [FmaRow(*key, count, _sum(free.get(key, []))) for key, count in counts.items()], of_sizes.steps


def _size_of_loop(of_sizes: SizeFormulas, generic: ir.Operation, loop: int) -> Formula | None:
    """The trip count of a loop of a linalg.generic that is no number."""
    for operand, indexing in zip(generic.operands, linalg.indexing_maps(generic), strict=True):
        for n, expr in enumerate(indexing.results):
            if isinstance(expr, ir.AffineDimExpr) and expr.position == loop:
                formula = of_sizes.of((operand, n))
                if formula is not None:
                    return formula
    return None


def _sum(formulas: list[Formula]) -> Formula:
    """The sum of formulas, equal ones as one product."""
    times = Counter(formulas)
    terms = [formula if n == 1 else f"{formula} {n} *" for formula, n in times.items()]
    return " ".join([*terms, *["+"] * (len(terms) - 1)])
