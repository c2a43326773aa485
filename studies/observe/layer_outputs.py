"""The results of contractions in a running program: the accumulators at the end, before fused operations."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.numerics.operators import INTERNAL
from numc.runtime.program import Program
from numc.runtime.tensors import as_numbers
from numc.studies.observe.operands import Operands

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class LayerOutput:
    """The result of one execution of a contraction.

    position: its number among the contractions of the program, from 0. execution: how often it ran before in this run;
    not 0 only in a loop. name: of the layer. values: float32 [batches, rows, lanes] in the order of the model: rows of
    its first operand and columns of its second, even if the kernel has exchanged them.
    """

    position: int
    execution: int
    name: str
    values: npt.NDArray[np.float32]


def tap(
    program: Program,
    inputs: Mapping[str, Array],
    each: Callable[[LayerOutput], None],
    *,
    threads: int | None = None,
    seed: int | None = None,
) -> dict[str, Array]:
    """Run `program` on `inputs` and call `each` with the result of every contraction; return the outputs by name.

    Raises NumcError for inputs that do not fit; an exception of `each` is raised after the run.
    """
    table = {c["id"]: c for c in program.manifest["contractions"]}
    executions = dict.fromkeys(table, 0)
    thread = threading.get_ident()  # a program may run in several threads at once, and all of them are observed
    probe = np.empty(0, np.float32)

    def observe(kernel: int, operands: int, phase: int) -> None:
        nonlocal probe
        if threading.get_ident() != thread:
            return
        view = Operands(operands, table[kernel])
        if phase == 0:
            probe = view.watch()
            return
        view.unwatch()
        values, probe = probe[1], np.empty(0, np.float32)
        if table[kernel]["fma"] in INTERNAL:
            values = values.view(np.int32).astype(np.float32)
        if table[kernel]["swap"]:
            values = values.transpose(0, 2, 1)
        execution, executions[kernel] = executions[kernel], executions[kernel] + 1
        each(LayerOutput(kernel, execution, table[kernel]["name"], values))

    with program.observe(observe):
        return program.by_name(inputs, threads=threads, seed=seed)


def layer_outputs(
    program: Program, inputs: Mapping[str, Array], *, threads: int | None = None, seed: int | None = None
) -> Generator[LayerOutput, None, dict[str, Array]]:
    """Run `program` on `inputs` and yield the result of every contraction, in the order in which they are computed.

    The program waits until each result has been taken, so that at most two results are in memory, and two programs can
    be compared step by step. The return value of the generator is the outputs by name, narrow ones as float32. Raises
    NumcError for inputs that do not fit.
    """
    taken: queue.Queue[LayerOutput | None] = queue.Queue(maxsize=1)
    outputs: dict[str, Array] = {}
    failures: list[BaseException] = []
    abandoned = threading.Event()

    def put(layer: LayerOutput) -> None:
        if not abandoned.is_set():
            taken.put(layer)

    def run() -> None:
        try:
            outputs.update(tap(program, inputs, put, threads=threads, seed=seed))
        except BaseException as failure:
            failures.append(failure)
        taken.put(None)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    try:
        while (layer := taken.get()) is not None:
            yield layer
    finally:
        abandoned.set()
        while worker.is_alive():  # machine code cannot be stopped: its further results are dropped
            try:
                taken.get(timeout=0.05)
            except queue.Empty:
                continue
    if failures:
        raise failures[0]
    return {name: as_numbers(value) for name, value in outputs.items()}
