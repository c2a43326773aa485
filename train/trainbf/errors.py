"""The errors of layers: the results of their contractions in one arithmetic, against those in another."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import torch

from numc.compiler.torch_compile import regions
from numc.runtime.context import CONTEXT
from numc.runtime.program import Program
from numc.studies.difference import Differences
from numc.studies.observe.operands import Operands
from numc.support.arguments import check_function
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError
from numc.train.recipes.arithmetics import Given, named

REFERENCE = "fma(a=tf32,acc=fp32)"
BFLOAT16 = "bf16_1_1 with ops=bf16"
Results = dict[tuple[str, int], npt.NDArray[Any]]


@in_default_environment
def layer_errors(
    run: Callable[[], Any], arithmetic: Given = BFLOAT16, reference: Given = REFERENCE
) -> dict[str, float]:
    """Run a forward pass in two arithmetics and return the relative error of every module with a contraction.

    run: what torch.compile compiled with numc, without arguments. The error is sum (x - r)^2 / sum r^2 over the results
    of all contractions of a module, before any operation that follows: the ``relative`` of numc.diff. r is computed in
    `reference`, TF32 operands by default, and x in `arithmetic`. Keys are paths of modules as torch writes them, which
    begin with the name that `run` has for the model, in the order of execution. Both runs see the same random numbers.
    Raises NumcError if no program of numc runs.
    """
    check_function(run, "layer_errors")
    expected, actual = (layer_results(run, choice) for choice in (reference, arithmetic))
    if not expected:
        raise NumcError("layer_errors: no contraction ran in numc: compile the model with backend=numc.backend()")
    sums: dict[str, Differences] = {}
    for key, values in expected.items():
        other = actual.get(key)  # absent if this arithmetic merges products that the other does not
        if other is not None and other.shape == values.shape:
            sums.setdefault(key[0].partition("/")[0], Differences()).add(values, other)
    return {path: each.result().relative for path, each in sums.items()}


def layer_results(run: Callable[[], Any], given: Given) -> Results:
    """Run in an arithmetic; return the results of the contractions, by name and number of the execution, float32."""
    outputs: Results = {}

    def around(program: Program) -> contextlib.AbstractContextManager[None]:
        table = {c["id"]: c for c in program.manifest.get("contractions", ())}
        probes: dict[int, npt.NDArray[Any]] = {}

        def observe(kernel: int, operands: int, phase: int) -> None:
            view = Operands(operands, table[kernel])
            if phase == 0:
                probes[operands] = view.watch()
                return
            view.unwatch()
            values, name = probes.pop(operands)[1], table[kernel]["name"]
            number = sum(key[0] == name for key in outputs)
            outputs[name, number] = (values.transpose(0, 2, 1) if table[kernel]["swap"] else values).copy()

        return program.observe(observe) if table else contextlib.nullcontext()

    with CONTEXT.watches.around(around), regions.arithmetic(named(given)[1]), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        run()
    return outputs
