"""The multiply-adds that a model has, by role and operator: the sizes of all loops around each ``numc.fma``."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from torch_mlir import ir

from numc.passes import facts, linalg
from numc.passes.dialect import contracted, fma_of


@dataclass(frozen=True)
class FmaRow:
    """Multiply-adds of a program: a row of `fmas` in its manifest.

    fma: the operator, as the policy has it. contraction: whether they belong to contractions, which kernels compute.
    count: their number in one run.
    """

    role: str
    fma: str
    contraction: bool
    count: int


def fmas_of(module: ir.Operation) -> list[FmaRow] | None:
    """Return the multiply-adds of a module after stage ``numc``; None if their number depends on free sizes or on data.

    Later stages compute some products when a program is compiled, or not at all: those count as the model defines them.
    """
    found: Counter[tuple[str, str, bool]] = Counter()
    for step in linalg.operations(module, "numc.fma"):
        runs, role, contraction, fma = 1, "", False, fma_of(step)
        around = step.parent.operation
        if around.name == "linalg.generic":
            sizes = linalg.loop_sizes(around)
            if None in sizes:
                return None
            runs = math.prod(size for size in sizes if size is not None)
            layer = facts.get(around, "numc.layer", {})
            role = str(layer.get("role", ""))
            fma = fma.swapped if layer.get("swapped") else fma
            contraction = contracted(around) is not None
            around = around.parent.operation
        if around.name != "func.func" or ir.StringAttr(around.attributes["sym_name"]).value != "main":
            return None  # in a loop, a branch, or a function that may be called several times
        found[role, str(fma), contraction] += runs
    return [FmaRow(*key, count) for key, count in found.items()]
