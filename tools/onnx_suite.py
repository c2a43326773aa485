"""Runs the node suite of ONNX through numc.onnx_backend, and says of each case whether it is right.

    python tools/onnx_suite.py [--jobs 2] [--every 30] [--only REGEX] [--known known.json]

A case is right; or refused, with the line that says why; or wrong; or it crashes, which includes errors that are
numc's own and cases that take longer than the limit.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.runner import Runner

SECONDS = 120.0
REASON = 160  # characters of a reason that are kept
KINDS = ("right", "refused", "wrong", "crash")
Result = tuple[str, str]
"""One of KINDS, and why, in one line."""


def cases() -> dict[str, TestCase]:
    """Return the cases of the suite by name."""
    return {case.name: case for case in collect_testcases(None)}


def is_float32(case: TestCase) -> bool:
    """Whether what enters and leaves the model are float32, and besides that int64 and bool only."""
    types = {_element(value.type) for value in [*case.model.graph.input, *case.model.graph.output]} - {0}
    floats = onnx.TensorProto.FLOAT
    return floats in types and types <= {floats, onnx.TensorProto.INT64, onnx.TensorProto.BOOL}


def _element(kind: onnx.TypeProto) -> int:
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return _element(kind.sequence_type.elem_type)
    if which == "optional_type":
        return _element(kind.optional_type.elem_type)
    return int(kind.tensor_type.elem_type)


def run(case: TestCase) -> Result:
    """Run one case in this process."""
    import numc

    try:
        prepared = numc.onnx_backend.prepare(case.model)
        for inputs, wants in case.data_sets:
            arrays, wanted = [_array(x) for x in inputs], [_array(x) for x in wants]
            # The runner cannot compare scalars in sequences.
            wanted, outputs = _with_lists(wanted), _with_lists(prepared.run(arrays))
            try:
                Runner.assert_similar_outputs(wanted, outputs, case.rtol, case.atol)
            except AssertionError as error:
                return "wrong", _line(error)
    except numc.NumcError as error:
        return "refused", _line(error)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return "crash", f"{type(error).__name__}: {_line(error)} ({place.filename}:{place.lineno})"
    return "right", ""


def _array(value: Any) -> Any:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _with_lists(values: Iterable[Any]) -> list[Any]:
    """Return results with a list of one number for each scalar that is in a sequence."""
    return [[np.atleast_1d(x) for x in value] if isinstance(value, list) else value for value in values]


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:1000]


def run_all(
    chosen: Sequence[TestCase], *, jobs: int = 2, seconds: float = SECONDS, note: Callable[[str, Result], None]
) -> dict[str, Result]:
    """Run cases in processes of their own, of which each runs one case after the other until it crashes.

    seconds: the longest that a case may take. note: called with each result. Returns the results by name.
    """
    context = multiprocessing.get_context("fork")
    waiting, found = list(reversed(chosen)), {}
    busy: dict[Connection, tuple[Any, TestCase, float]] = {}
    idle: list[tuple[Connection, Any]] = []

    def start() -> tuple[Connection, Any]:
        mine, theirs = context.Pipe()
        worker = context.Process(target=_work, args=(theirs, {case.name: case for case in chosen}), daemon=True)
        worker.start()
        theirs.close()
        return mine, worker

    while waiting or busy:
        while waiting and len(busy) < jobs:
            connection, worker = idle.pop() if idle else start()
            case = waiting.pop()
            connection.send(case.name)
            busy[connection] = worker, case, time.monotonic() + seconds
        for connection in wait(list(busy), timeout=1):
            worker, case, _ = busy.pop(connection)
            try:
                result: Result = connection.recv()
                idle.append((connection, worker))
            except EOFError:
                worker.join()
                result = "crash", f"the process ended with status {worker.exitcode}"
            found[case.name] = result
            note(case.name, result)
        for connection, (worker, case, end) in list(busy.items()):
            if time.monotonic() > end:
                del busy[connection]
                worker.kill()
                found[case.name] = "crash", f"took longer than {seconds:g} s"
                note(case.name, found[case.name])
    for connection, worker in idle:
        connection.send(None)
        worker.join()
    return {case.name: found[case.name] for case in chosen}


def _work(connection: Connection, chosen: dict[str, TestCase]) -> None:
    while (name := connection.recv()) is not None:
        connection.send(run(chosen[name]))


def counts(results: dict[str, Result], names: Iterable[str]) -> str:
    """Return the numbers of results of each kind among some cases, in one line."""
    number = Counter(results[name][0] for name in names)
    return f"{sum(number.values())} cases: " + ", ".join(f"{number[kind]} {kind}" for kind in KINDS)


def main() -> None:
    """Run the suite, print what is not right, and the numbers of results of each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    parser.add_argument("--every", type=int, default=1, help="run only one case in this many")
    parser.add_argument("--only", default="", help="run only cases whose names match this regular expression")
    parser.add_argument("--known", help="a JSON file for the kind and the reason of what is not right, by name")
    options = parser.parse_args()
    chosen = [case for case in list(cases().values())[:: options.every] if re.search(options.only, case.name)]

    def note(name: str, result: Result) -> None:
        if result[0] != "right":
            print(f"{result[0]:8}{name}: {result[1]}", flush=True)

    results = run_all(chosen, jobs=options.jobs, note=note)
    print("all types:", counts(results, results))
    print("float32:  ", counts(results, [case.name for case in chosen if is_float32(case)]))
    if options.known:
        rows = [f"{json.dumps(n)}: {json.dumps([k, w[:REASON]])}" for n, (k, w) in results.items() if k != "right"]
        with open(options.known, "w") as file:
            file.write("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
