"""numc.compare: several arithmetics of one model on the same data, compared with fp32."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.compiler.arrays.statistics import Statistics, counting, sampling
from numc.compiler.cache.cache import own_sources
from numc.compiler.lower import signature
from numc.compiler.options import Options
from numc.compiler.policy_table import PolicyTable, policy_table
from numc.compiler.programs.compile import contents
from numc.frontends.imported import Imported
from numc.frontends.load import load, title_of
from numc.frontends.pytorch.folder import logits_of
from numc.numerics.dtypes import NARROW
from numc.numerics.operators import FMAS as FMAS_BY_NAME
from numc.numerics.policy.load import load_policy
from numc.numerics.policy.policy import Policy
from numc.numerics.policy.table import decided
from numc.numerics.units import UNITS
from numc.runtime.abi import TensorSpec, Weight
from numc.runtime.container import Contents
from numc.runtime.program import Program
from numc.studies.comparison import Comparison
from numc.studies.cost import report
from numc.studies.data import Data, Judged, check_batch, check_data
from numc.studies.diff import layers_of_both, side_by_side
from numc.studies.metrics import METRICS, SquaredError, Sums, check_metrics, check_names
from numc.studies.observe.collect import Collector
from numc.studies.observe.layer_outputs import LayerOutput, layer_outputs
from numc.studies.peer import Peer
from numc.studies.results import LayerError, Result
from numc.studies.store import Store
from numc.support.arguments import (
    check_function,
    checked,
    checked_texts,
)
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, did_you_mean, quoted, shown
from numc.support.files import checked_path, is_language_model
from numc.support.keywords import about, keywords
from numc.support.processor import processor_name
from numc.support.versions import own_version, version_of

Array = npt.NDArray[Any]
#: Called with a text that says what is being done, and the fraction of all work that is done.
Progress = Callable[[str, float], None]
FMAS = ("fp32", "mp", "bf16_1_1", "bf16_1_2", "bf16_2_2{3}")

_COUNTED = ("swamping", "exponents", "denormals", "fmas")
_ROUNDS, _SECONDS = 7, 0.5  # the most runs of a batch that are timed, and the seconds after which no further one starts


class Interrupted(KeyboardInterrupt):
    """The comparison was interrupted by Ctrl-C.

    finished, total: the number of results. path: the file that keeps the finished ones, or None.
    """

    def __init__(self, finished: int, total: int, path: Path | None) -> None:
        super().__init__(f"{finished} of {total} finished")
        self.finished, self.total, self.path = finished, total, path


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Judged):
    """The keywords of numc.compare."""

    fmas: Sequence[str] | Mapping[str, str] = field(
        default=FMAS, metadata=about("names or texts of FMA operators; or a mapping from names of your own to them")
    )
    policies: Mapping[str, str | os.PathLike[str] | Policy] | Sequence[str | os.PathLike[str] | Policy] = field(
        default=(),
        metadata=about("more arithmetics, as a mapping from names or as a sequence (docs/policies.md)"),
    )
    metrics: Sequence[str] = field(
        default=(),
        metadata=about(f"of {', '.join(METRICS)}; if there are none, top1 with class numbers as labels, else cosine"),
    )
    statistics: bool = field(
        default=True,
        metadata=about("count swamping and exponents too, which compiles and runs each program once more"),
    )
    sample: str | float | Fraction = field(
        default=1, metadata=about("the fraction 1/n of the additions that is observed for statistics")
    )
    results: str | os.PathLike[str] | None = field(
        default=None,
        metadata=about("a file that keeps every finished result; results found in it are not computed again"),
    )
    progress: Progress | None = field(
        default=None,
        metadata=about("called with a text that says what is being done, and the fraction of all work that is done"),
    )

    partial: Callable[[Comparison], None] | None = field(
        default=None, metadata=about("called with the comparison so far, after every arithmetic but the last")
    )

    def check(self) -> None:
        """Raise NumcError for a value that is not allowed, before the model is read, which takes a while."""
        check_names(checked_texts(self.metrics, "metrics"))
        check_batch(self.batch)
        if counting():  # a kernel counts for one observer only
            raise NumcError(
                "compare: a block of collect_stats around it counts swamping: leave swamping out of the block, or "
                "compare outside of it"
            )
        checked_texts(self.commands, "commands"), checked(self.statistics, "statistics", bool, "True or False")
        check_function(self.progress, "progress")
        check_function(self.partial, "partial")
        self.checked_threads()


@in_default_environment
@keywords(CompareOptions)
def compare(model: Any, given: CompareOptions) -> Comparison:
    """Run a model on the same data in several arithmetics and compare each with fp32, which is always the first.

    model: as for numc.compile, or a folder with a language model of transformers, whose data are tokens [windows,
    length] (numc.token_windows).
    Raises NumcError if the model, the data or an option is not valid, before anything is compiled, and Interrupted for
    Ctrl-C.
    """
    given.check()
    threads, fixed = given.checked_threads(), given.fixed()
    fraction = sampling(given.sample) if given.statistics else None
    columns = _columns(given.fmas, given.policies)
    name, imported = judged_model(model, given, fixed)
    tables = [column.check(imported) for column in columns]
    inputs, outputs = signature(imported)
    chosen = named_output(given.output, outputs)
    symbols = {argument.name: argument.symbols for argument in imported.inputs}
    ready = check_data(given.data, given.labels, inputs, output=chosen, symbols=symbols, batch=given.batch)
    names = check_metrics(given.metrics, ready.labels, chosen)
    digest = _digest(imported)
    store = Store(checked_path(given.results) if given.results is not None else None, name, digest)
    work = _Work(
        imported=imported,
        data=ready,
        metrics=names,
        output=chosen,
        threads=threads,
        sample=fraction,
        columns=columns,
        tables=tables,
    )
    peer = Peer.find(model, imported.sources, threads, fixed)
    described = [ready.sha256(), names, chosen.name, threads, str(fraction), own_version(), own_sources()]
    keys = [_key(digest, str(column.options.resolved()[0]), described) for column in columns]

    def made(results: Mapping[str, Result]) -> Comparison:
        finished = [(results[key], column) for key, column in zip(keys, columns, strict=True) if key in results]
        return Comparison(
            model=name,
            samples=ready.samples,
            batch=ready.steps[0][1],
            threads=threads,
            metrics=names,
            labels=ready.kind,
            results=tuple(replace(result, name=column.name) for result, column in finished),
            sources={"model": digest, "data": ready.sha256()},
            versions=_versions(),
            commands=tuple(given.commands),
        )

    def tell(results: Mapping[str, Result]) -> None:
        if given.partial is not None and keys[0] in results and len(results) < len(keys):
            given.partial(made(results))

    return made(_results(work, keys, store, peer, progress=given.progress, tell=tell))


@dataclass(frozen=True)
class Column:
    """An arithmetic that is compared, and the options that compile it."""

    name: str
    options: Options

    @classmethod
    def plain(cls, fma: str, name: str) -> Column:
        """Return the column of an operator under a name. Raises NumcError for an unknown one."""
        options = Options(fma=fma, pack_weights=True)
        options.resolved()
        return cls(name.strip(), options)

    def check(self, imported: Imported) -> PolicyTable:
        """Return the arithmetic of every layer. Raises NumcError if the model or the policy does not allow it."""
        try:
            return policy_table(imported, self.options)
        except NumcError as error:
            text = str(error)
            raise NumcError(text if self.name in text else f"{self.name}: {text}") from None


def _columns(fmas: Sequence[str] | Mapping[str, str], policies: Mapping[str, Any] | Sequence[Any]) -> list[Column]:
    """Return the columns, fp32 first. Names or texts of the same arithmetic give one column, under the first name."""
    columns: dict[str, Column] = {}
    named = dict(fmas) if isinstance(fmas, Mapping) else {text: text for text in checked_texts(fmas, "fmas")}
    for name, text in named.items():
        if not isinstance(name, str) or not name.strip() or not isinstance(text, str):
            raise NumcError(f"fmas: got {shown(name)}: {shown(text)}, want texts of operators by names that are texts")
        if name != text and name.strip() in (*FMAS_BY_NAME, *UNITS):
            raise NumcError(
                f"fmas: {quoted(name)} is the name of an operator, want a name of your own for {quoted(text)}"
            )
    plain = [Column.plain(text, name) for name, text in {"fp32": "fp32", **named}.items()]
    for column in [*plain, *_policies(policies)]:
        if any(column.name == other.name for other in columns.values()):
            column = replace(column, name=f"policy {column.name}")  # a preset or a file that is called like an operator
        columns.setdefault(str(column.options.resolved()[0]), column)
    return list(columns.values())


def _policies(given: Mapping[str, Any] | Sequence[Any]) -> list[Column]:
    if isinstance(given, Mapping):
        checked_texts(list(given), "policies")
    else:
        named: dict[str, Any] = {}
        for policy in checked(given, "policies", (list, tuple), "a sequence, or a mapping from names"):
            checked(policy, "a policy", (str, os.PathLike, Policy), "a text, the name of a file, or a preset")
            is_text = isinstance(policy, Policy) or any(c in str(policy) for c in " =\n")
            name = f"policy {len(named) + 1}" if is_text else checked_path(policy).stem
            if name in named:
                raise NumcError(f"policy {quoted(name)}: there are two of this name: rename a file")
            named[name] = policy
        given = named
    return [Column(name, Options(pack_weights=True, policy=load_policy(policy))) for name, policy in given.items()]


@dataclass(kw_only=True)
class _Work:
    """The common part of all results: the data, and the program in fp32 that the others are compared with."""

    imported: Imported
    data: Data
    metrics: tuple[str, ...]
    output: TensorSpec
    threads: int | None
    sample: Fraction | None
    columns: Sequence[Column]
    tables: Sequence[PolicyTable]
    _reference: Program | None = None

    def run(self, number: int, peer: Peer | None, progress: Progress | None) -> Result:
        """Compute the result of one column."""
        column, table = self.columns[number], self.tables[number]

        def say(what: str, done: float) -> None:
            if progress is not None:
                progress(f"{column.name}: {what}", (number + done) / len(self.columns))

        say("compiling", 0)
        if self._reference is None:
            self._reference = Program(contents(self.imported, self.columns[0].options)[0])
        made = contents(self.imported, column.options)[0]
        program = self._reference if number == 0 else Program(made)
        say("running", 0.3)
        sums, layers, apart = self._outputs(program, peer, lambda done: say("running", 0.3 + 0.3 * done))
        say("timing", 0.6)
        seconds, fp32 = self._time(program)
        say("counting", 0.65)
        counted = self._statistics(column, lambda done: say("counting", 0.65 + 0.35 * done))
        costs = report(table.decisions, free=1)
        weights, packed = _weights(made)
        # The counted number if there is one: the other does not know free sizes and the number of executions of a loop.
        fmas = costs.total()["fmas"] // self.data.fixed
        if counted is not None and counted.rows:
            fmas = sum(row.fmas for row in counted.rows) // self.data.samples
        return Result(
            name=column.name,
            policy=str(table.policy),
            metrics=sums.values(),
            shares=sums.shares(),
            error=sums.error.relative,
            seconds=seconds,
            time=seconds / fp32,
            fmas=fmas,
            area=costs.area,
            iso_area=costs.iso_area,
            gates=costs.kept_gates,
            weights=weights,
            packed=packed,
            layers=layers,
            table=tuple(decided(table.layers, table.policy)),
            onnxruntime=peer.agreement() if peer is not None else None,
            statistics=counted,
            apart=apart,
        )

    def _outputs(
        self, program: Program, peer: Peer | None, progress: Callable[[float], None]
    ) -> tuple[Sums, tuple[LayerError, ...], tuple[str, ...]]:
        """Run both programs side by side on all data.

        Returns the sums over outputs, the errors of layers, and the names of layers that only one of the programs has.
        """
        assert self._reference is not None
        pair = (program, self._reference)
        keys, apart = layers_of_both(*pair)
        sums = Sums(self.metrics)
        errors: dict[tuple[int, str], SquaredError] = {}

        def add(key: tuple[str, int], x: LayerOutput, r: LayerOutput) -> None:
            if x.values.shape == r.values.shape:
                errors.setdefault((r.position, r.name), SquaredError()).add(x.values, r.values)
            else:
                apart.add(key[0])

        for step, (inputs, labels) in enumerate(self.data):
            streams = [layer_outputs(side, inputs, threads=self.threads, seed=step) for side in pair]
            outputs, wanted = side_by_side(streams, keys, add)
            sums.add(outputs[self.output.name], wanted[self.output.name], labels)
            if peer is not None:
                peer.add(inputs, self.output.name, wanted[self.output.name])
            progress((step + 1) / len(self.data.steps))
        layers = (LayerError(*key, error.relative) for key, error in sorted(errors.items()) if key[1] not in apart)
        return sums, tuple(layers), tuple(sorted(apart))

    def _time(self, program: Program) -> tuple[float, float]:
        """Return the shortest time of one batch in seconds, and that of fp32, measured in turns."""
        assert self._reference is not None
        inputs, _ = next(iter(self.data))
        best = {program: np.inf, self._reference: np.inf}
        begin = time.perf_counter()
        for done in range(_ROUNDS):
            for timed in best:
                start = time.perf_counter()
                timed(inputs, threads=self.threads, seed=0)
                best[timed] = min(best[timed], time.perf_counter() - start)
            if done >= 1 and time.perf_counter() - begin > _SECONDS:
                break
        return float(best[program]), float(best[self._reference])

    def _statistics(self, column: Column, progress: Callable[[float], None]) -> Statistics | None:
        """Run a program that counts on all data, and return its statistics."""
        if self.sample is None:
            return None
        program = Program(contents(self.imported, replace(column.options, statistics=True))[0])
        collector = Collector(program, _COUNTED, self.sample)
        for step, (inputs, _) in enumerate(self.data):
            progress((step + 1) / (len(self.data.steps) + 1))
            with program.observe(collector.observe):
                program.by_name(inputs, threads=self.threads, seed=step)
        return Statistics(collector.rows(), _COUNTED, self.sample)


def _results(
    work: _Work,
    keys: Sequence[str],
    store: Store,
    peer: Peer | None,
    *,
    progress: Progress | None,
    tell: Callable[[Mapping[str, Result]], None],
) -> dict[str, Result]:
    """Return the results of all columns by key, from the store or computed and then stored. Raises Interrupted.

    tell: called with those that are there, whenever one is.
    """
    by_key = {key: result for key in keys if (result := store.get(key)) is not None}
    for number, key in enumerate(keys):
        if key not in by_key:
            try:
                by_key[key] = work.run(number, peer if number == 0 else None, progress)
                store.put(key, by_key[key])
                tell(by_key)
            except KeyboardInterrupt:
                raise Interrupted(len(by_key), len(keys), store.path) from None
    return by_key


def _weights(made: Contents) -> tuple[int, int]:
    """Return the size of the weights in bytes, in memory and in the file."""
    weights = [argument for argument in made.abi.arguments if isinstance(argument, Weight)]
    return sum(weight.nbytes for weight in weights), sum(array.nbytes for array in made.weights)


def judged_model(model: Any, given: Judged, fixed: Any, purpose: str = "compare") -> tuple[str, Imported]:
    """Return what `named_model` does, also of a folder with a language model, for windows of tokens as data."""
    if not is_language_model(model):
        return named_model(model, given.example_inputs, fixed, given.dynamic_shapes, purpose=purpose)
    module, example_inputs = logits_of(model, given.data)
    return os.fspath(model), named_model(module, example_inputs, fixed, given.dynamic_shapes, purpose=purpose)[1]


def named_model(
    model: Any, example_inputs: Any, shapes: Any, dynamic_shapes: Any, *, purpose: str = "compare"
) -> tuple[str, Imported]:
    """Return the name of a model and the imported model. purpose: as for load. Raises NumcError."""
    imported = load(model, example_inputs, dynamic_shapes=dynamic_shapes, shapes=shapes, purpose=purpose)
    if isinstance(model, Imported):
        return (model.sources or ("model",))[0], imported
    return title_of(model), imported


def named_output(name: str | None, outputs: Sequence[TensorSpec]) -> TensorSpec:
    """Return an output of floats by its name, by default the first. Raises NumcError if there is none."""
    names = [spec.name for spec in outputs]
    if name is not None and checked(name, "output", str, "the name of an output") not in names:
        known = ", ".join(map(quoted, names))
        raise NumcError(f"output {quoted(name)}: no such output{did_you_mean(name, names)}: the model has {known}")
    output = outputs[names.index(name) if name is not None else 0]
    if not output.dtype.startswith("float") and output.dtype not in NARROW:
        raise NumcError(f"output {quoted(output.name)}: is {output.dtype}: want an output of floats to compare")
    return output


def _digest(imported: Imported) -> str:
    """Return a hash of the imported model, which does not depend on the file that it comes from."""
    hashed = hashlib.sha256(imported.mlir.encode())
    hashed.update(repr((imported.inputs, imported.outputs)).encode())
    for position, (name, value) in imported.weights.items():
        hashed.update(repr((position, name, value.dtype.str, value.shape)).encode())
        hashed.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    return hashed.hexdigest()


def _key(digest: str, policy: str, about: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps([digest, policy, *about]).encode()).hexdigest()


def _versions() -> dict[str, str]:
    versions = {"numc": own_version()}
    for package in ("torch-mlir", "onnxruntime", "numpy"):
        if (version := version_of(package)) is not None:
            versions[package] = version
    versions["Python"] = platform.python_version()
    versions["machine"] = processor_name()
    return versions
