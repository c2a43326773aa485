"""The evaluation of a policy: a model on data, or a function of the user's. Workers run it, in any process.

Everything that it needs is plain data: texts, numbers and arrays, of which `message` makes one value.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.compiler.cache.cache import own_sources
from numc.compiler.options import Options
from numc.compiler.policy_table import policy_table
from numc.compiler.programs.compile import contents
from numc.frontends.imported import Imported, from_message, to_message
from numc.numerics.formats import Record
from numc.numerics.policy.layer import Layer
from numc.numerics.policy.text import parse_policy
from numc.runtime.program import Program
from numc.runtime.tensors import as_numbers
from numc.studies.data import Data
from numc.studies.metrics import Sums
from numc.support.errors import CompilerBug, NumcError, did_you_mean, quoted, shortened
from numc.support.versions import own_version

Array = npt.NDArray[Any]
Message = Mapping[str, Any]
SPLITS = ("search", "report")
"""The samples that decide, and those that are only reported."""
FP32 = "default fp32\n"


def identity() -> str:
    """Return the version of numc with a hash of its sources: another compiler could give other bits."""
    return f"{own_version()} ({own_sources()[:12]})"


@dataclass(frozen=True)
class Answer:
    """The value of a metric, or the reason why there is none. seconds: that the evaluation took."""

    value: float
    seconds: float = 0.0
    error: str = ""


def message(
    model: Imported | None,
    data: Mapping[str, Data],
    *,
    metric: str,
    output: str,
    threads: int | None,
    function: str = "",
) -> Message:
    """Return everything that evaluations of a search share, as plain data, with a hash of it as ``digest``.

    data: by split. function: ``module:function``, which is called instead of running the model; see `named`.
    ``open`` may be set to the policy of one program that serves many policies, with the widths of each.
    """
    about, parts = ({}, []) if model is None else to_message(model)
    shared = {
        "model": about,
        "parts": parts,
        "data": {split: vars(split_data) for split, split_data in data.items()},
        "metric": metric,
        "output": output,
        "function": function,
    }
    hashed = hashlib.sha256(json.dumps([about, metric, output, function, identity()], default=vars).encode())
    for part in parts:
        hashed.update(part)
    for split, split_data in sorted(data.items()):
        hashed.update(f"{split} {split_data.sha256()}".encode())
    return {**shared, "threads": threads, "open": "", "digest": hashed.hexdigest()}


def named(text: str) -> Callable[[str, str], float]:
    """Return the function that ``module:function`` names. Raises NumcError if there is none."""
    module, colon, name = text.partition(":")
    if not (colon and module and name):
        raise NumcError(f"evaluate {quoted(text)}: want MODULE:FUNCTION, such as my_study:accuracy")
    try:
        imported = import_module(module)
    except ImportError as error:
        raise NumcError(f"evaluate {quoted(text)}: cannot import it: {shortened(error, 200)}") from None
    function = getattr(imported, name, None)
    if not callable(function):
        near = did_you_mean(name, [attribute for attribute in vars(imported) if callable(getattr(imported, attribute))])
        raise NumcError(f"evaluate {quoted(text)}: {module} has no function {quoted(name)}{near}")
    return function  # type: ignore[no-any-return]


class Evaluator:
    """Evaluates policies on what `message` gave.

    function: the user's function, if it is not to be imported by its name.
    """

    def __init__(self, given: Message, function: Callable[[str, str], float] | None = None) -> None:
        self._given = given
        self._function = function or (named(given["function"]) if given["function"] else None)
        self._fp32: dict[str, list[Array]] = {}

    @cached_property
    def _model(self) -> Imported:
        return from_message(self._given["model"], self._given["parts"])

    def __call__(self, policy: str, split: str) -> Answer:
        """Return the metric under a policy. Whatever goes wrong is an answer, too: one policy does not end a search."""
        begin = time.perf_counter()
        try:
            value = float(self._function(policy, split) if self._function is not None else self._metric(policy, split))
            return Answer(value, time.perf_counter() - begin)
        except (NumcError, CompilerBug) as error:
            reason = str(error)
        except Exception as error:  # the user's function may raise anything
            reason = f"{type(error).__name__}: {error}"
        return Answer(float("nan"), time.perf_counter() - begin, shortened(reason.splitlines()[0], 500))

    def _metric(self, policy: str, split: str) -> float:
        data = Data(**self._given["data"][split])
        metric = self._given["metric"]
        # Only these compare with the outputs of fp32, which are kept: they are small beside the data.
        reference = self._reference(split, data) if metric in ("cosine", "mse") and data.kind != "values" else None
        run, sums = self._program(policy), Sums((metric,))
        for step, (inputs, labels) in enumerate(data):
            outputs = run(inputs, step)
            sums.add(outputs, outputs if reference is None else reference[step], labels)
        return sums.values()[metric]

    def _reference(self, split: str, data: Data) -> list[Array]:
        if split not in self._fp32:
            run = self._program(FP32)
            self._fp32[split] = [run(inputs, step) for step, (inputs, _) in enumerate(data)]
        return self._fp32[split]

    def _program(self, policy: str) -> Callable[[Mapping[str, Array], int], Array]:
        """Return what runs the model on a batch of a number, which seeds stochastic roundings."""
        program, widths = self._open, None
        if program is not None and policy != FP32:
            widths = self._widths(program, policy)
        if program is None or widths is None:
            program = Program(contents(self._model, Options(policy=parse_policy(policy)))[0])

        def run(inputs: Mapping[str, Array], step: int) -> Array:
            outputs = program.by_name(inputs, threads=self._given["threads"], seed=step, widths=widths)
            return as_numbers(np.asarray(outputs[self._given["output"]]))

        return run

    @cached_property
    def _open(self) -> Program | None:
        """The program that serves every candidate, None if its formats cannot leave open what is searched."""
        if not self._given["open"]:
            return None
        try:
            return Program(contents(self._model, Options(policy=parse_policy(self._given["open"])))[0])
        except NumcError:
            return None

    @cached_property
    def _layers(self) -> list[Layer]:
        return [decision.layer for decision in policy_table(self._model, Options()).decisions]

    def _widths(self, program: Program, policy: str) -> Mapping[str, Mapping[str, tuple[int, int]]] | None:
        """Return the widths with which the open program computes what a policy says, by layer and operand.

        None if names of layers do not tell which is which.
        """
        wanted: dict[str, set[str]] = {}
        for entry in program.widths:
            wanted.setdefault(entry.layer, set()).add(entry.operand)
        by_layer: dict[str, dict[str, tuple[int, int]]] = {}
        for decision in parse_policy(policy).decide(self._layers):
            name, fma = decision.layer.name, decision.fma
            if decision.layer.position is None or name not in wanted:
                continue
            operands = {"a": fma.a, "b": fma.b, "product": fma.product}
            widths = {
                key: _bits(conversion.format)
                for key, conversion in operands.items()
                if conversion is not None and key in wanted[name]
            }
            if by_layer.setdefault(glob.escape(name), widths) != widths:
                return None
        return by_layer if len(by_layer) == len(wanted) else None


def _bits(fmt: Any) -> tuple[int, int]:
    """Return the exponent bits, and the significand or magnitude bits, of a format whose widths may be open."""
    return fmt.exponent_bits, fmt.significand_bits if isinstance(fmt, Record) else fmt.magnitude_bits


_KEPT: dict[tuple[str, str], Evaluator] = {}  # of this process: the last search that it worked for


def task(given: Message, policy: str, split: str, version: str) -> dict[str, Any]:
    """Evaluate a policy in a worker, whose numc has to be `version`; return the fields of an Answer.

    Raises NumcError for another version of numc, which could give other bits.
    """
    if version != identity():
        raise NumcError(f"{here()} has numc {identity()}, the search has numc {version}: install the same everywhere")
    key = given["digest"], given["open"]
    evaluator = _KEPT.get(key)
    if evaluator is None:
        evaluator = Evaluator(given)
        _KEPT.clear()
        _KEPT[key] = evaluator
    return asdict(evaluator(policy, split))


def here() -> str:
    """Return the name of this process for messages."""
    return f"worker {socket.gethostname()}:{os.getpid()}"
