"""numc.bisect: which layers have to be in fp32 for a result within a tolerance, found by delta debugging."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.compiler.lower import signature
from numc.compiler.options import Arithmetic, Options, Sizes
from numc.compiler.policy_table import policy_table
from numc.compiler.programs.compile import contents
from numc.frontends.imported import Imported
from numc.frontends.load import has_inputs, load
from numc.frontends.pytorch.folder import logits_of
from numc.numerics.policy.policy import Policy
from numc.numerics.policy.text import parse_policy
from numc.runtime.program import Program, seed_number
from numc.runtime.tensors import as_numbers
from numc.studies.data import Samples, check_batch, check_data
from numc.studies.ddmin import ddmin
from numc.studies.metrics import SquaredError, Sums, check_metrics, check_share
from numc.support.arguments import check_function, checked
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, did_you_mean, escaped, quoted, shortened
from numc.support.files import is_language_model
from numc.support.keywords import about, keywords

Array = npt.NDArray[Any]

METRICS = ("relative", "mse", "top1")
"""The errors that can be bounded, of outputs x against the outputs r of the program in fp32.

relative: sum (x - r)^2 / sum r^2, of the worst output. mse: the mean of (x - r)^2, of the worst output. top1: the
decrease of the fraction of samples whose label is the largest value of the first output.
"""


@dataclass(frozen=True)
class Kept:
    """A layer that has to be in fp32.

    without: the error of the program in which only this layer of the set is not in fp32. fma: the operator that it has
    then.
    """

    position: int
    name: str
    shape: str
    fma: str
    without: float


@in_default_environment
@dataclass(frozen=True, kw_only=True)
class Bisection:
    """The layers that have to be in fp32.

    layers: a 1-minimal set, which is not enough without any one of its layers; None if even all layers are not enough.
    policy: the text of the policy that keeps them in fp32. start: the error with no layer in fp32. every: the error
    with all layers in fp32. error: the error with the set in fp32. candidates: the number of layers that are not in
    fp32 at the start. tries: the number of programs that were run.
    """

    layers: tuple[Kept, ...] | None
    policy: str
    metric: str
    tolerance: float
    start: float
    every: float
    error: float
    candidates: int
    tries: int

    def to_json(self) -> dict[str, Any]:
        """Return dictionaries, lists, strings and numbers; floats may be NaN or infinite."""
        return asdict(self)


@dataclass(frozen=True)
class Try:
    """One program that was run.

    size: the number of layers that it has in fp32. best: the size of the smallest set found so far that is enough.
    """

    number: int
    size: int
    error: float
    best: int | None


class Interrupted(KeyboardInterrupt):
    """The search was interrupted by Ctrl-C.

    best: the positions of the layers in the smallest set found so far that is enough, None if none was found. policy:
    the policy that keeps them in fp32.
    """

    def __init__(self, best: tuple[int, ...] | None, policy: str, tries: int) -> None:
        super().__init__(f"interrupted after {tries} tries")
        self.best, self.policy, self.tries = best, policy, tries


@dataclass(frozen=True, kw_only=True)
class BisectOptions(Arithmetic, Sizes, Samples):
    """The keywords of numc.bisect."""

    tolerance: float = field(metadata=about("the largest error that is allowed"))
    metric: str = field(default="relative", metadata=about(f"what an error is: {', '.join(METRICS)}"))
    seed: int = field(
        default=0,
        metadata=about("of the stochastic roundings in the first batch; batch n uses seed + n"),
    )
    cache: bool = field(default=True, metadata=about("False compiles anew and keeps nothing"))
    progress: Callable[[Try], None] | None = field(default=None, metadata=about("called after each try"))


@in_default_environment
@keywords(BisectOptions)
def bisect(model: Any, given: BisectOptions) -> Bisection:
    """Find a smallest set of contractions that have to be in fp32 for outputs within `tolerance` of those in fp32.

    The set is 1-minimal: it is not enough without any one of its layers, though there may be a smaller set. Each try
    compiles and runs a program.
    model: a file, an onnx.ModelProto or imported text; or a folder with a language model of transformers, whose data
    are tokens [windows, length] (numc.token_windows).
    Raises NumcError if the model, the data or an option is not valid, and Interrupted for Ctrl-C.
    """
    _check_options(model, given)
    seed, threads, fixed = seed_number(given.seed), given.checked_threads(), given.fixed()
    options = Options(fma=given.fma, ops=given.ops, policy=given.policy, target=given.target)
    policy, _ = options.resolved()
    if of_language := is_language_model(model):
        imported = load(*logits_of(model, given.data), shapes=fixed, purpose="bisect")
    else:
        imported = load(model, shapes=fixed, purpose="bisect")
    source = model if isinstance(model, (str, os.PathLike)) and not of_language else imported
    inputs, of_model = signature(imported)
    symbols = {argument.name: argument.symbols for argument in imported.inputs}
    data = check_data(given.data, given.labels, inputs, output=of_model[0], symbols=symbols, batch=given.batch)
    if given.metric == "top1":
        check_metrics((given.metric,), data.labels, of_model[0])
    candidates = _candidates(imported, options)

    def outputs(how: Options) -> Iterator[list[Array]]:
        program = Program(contents(source, how, fixed, cache=given.cache, imported=imported)[0])
        for step, (arrays, _) in enumerate(data):
            results = program.by_name(arrays, threads=threads, seed=(seed + step) % (1 << 64))
            yield [as_numbers(value) for value in results.values()]

    reference = list(outputs(Options(target=given.target)))
    measure = _measure(given.metric, reference, [labels for _, labels in data])

    def error(layers: tuple[int, ...], changed: Policy) -> float:
        return measure(outputs(Options(policy=changed, target=given.target) if layers else options))

    search = _Search(policy, candidates, error, given.tolerance, given.progress)
    kept = search.smallest()
    start = search.error(())
    every = search.errors.get(tuple(candidates), start)
    layers = tuple(candidates) if kept is None else tuple(kept)
    needed, reached = None if kept is None else search.needed(kept), search.errors[layers]
    return Bisection(
        layers=needed,
        policy=search.text(layers),
        metric=given.metric,
        tolerance=given.tolerance,
        start=start,
        every=every,
        error=reached,
        candidates=len(candidates),
        tries=len(search.errors),
    )


def _check_options(model: object, given: BisectOptions) -> None:
    if not isinstance(given.tolerance, Real) or not 0 <= given.tolerance < float("inf"):
        raise NumcError(f"tolerance: got {shortened(given.tolerance)}, want a number of at least 0")
    metric = given.metric
    if checked(metric, "metric", str, "a name") not in METRICS:
        near = did_you_mean(metric, METRICS)
        raise NumcError(f"metric {quoted(metric)}: no such metric{near}: want {', '.join(METRICS)}")
    check_share(given.tolerance, metric)
    if given.labels is not None and metric != "top1":
        raise NumcError(f"metric '{metric}': needs no labels, leave them out")
    check_batch(given.batch)
    check_function(given.progress, "progress")
    if not has_inputs(model):
        raise NumcError(
            f"cannot bisect a {type(model).__name__}: want a file name (torch.export.save writes one) or an "
            "onnx.ModelProto"
        )


def _candidates(imported: Imported, options: Options) -> dict[int, Mapping[str, Any]]:
    """Return the rows of the contractions that are not in fp32, by position."""
    rows = policy_table(imported, options).layers
    return {row["position"]: row for row in rows if row["position"] is not None and row["fma"] != "fp32"}


class _Search:
    """The error of every set of layers that was tried."""

    def __init__(
        self,
        given: Policy,
        rows: Mapping[int, Mapping[str, Any]],
        run: Callable[[tuple[int, ...], Policy], float],
        tolerance: float,
        progress: Callable[[Try], None] | None,
    ) -> None:
        self._given, self._rows, self._run, self._tolerance, self._progress = given, rows, run, tolerance, progress
        self.errors: dict[tuple[int, ...], float] = {}
        self.best: tuple[int, ...] | None = None

    def smallest(self) -> list[int] | None:
        """Return a 1-minimal set of layers that is enough, or None if all are not. Raises Interrupted for Ctrl-C."""
        every = tuple(self._rows)
        try:
            if self.error(()) <= self._tolerance:
                return []
            return ddmin(list(every), self.enough) if every and self.enough(every) else None
        except KeyboardInterrupt:
            text = "" if self.best is None else self.text(self.best)
            raise Interrupted(self.best, text, len(self.errors)) from None

    def needed(self, layers: Sequence[int]) -> tuple[Kept, ...]:
        """Return the layers of a set, each with the error without it."""
        kept = []
        for position in layers:
            row, without = self._rows[position], self.error([p for p in layers if p != position])
            kept.append(Kept(position, row["layer"], row["shape"], row["fma"], without))
        return tuple(kept)

    def text(self, layers: Sequence[int]) -> str:
        """Return the text of the policy that keeps `layers` in fp32."""
        if not layers:
            return str(self._given)
        names = " ".join(escaped(", ".join(dict.fromkeys(self._rows[p]["layer"] for p in layers))).split())
        return f"{self._given}layer {', '.join(map(str, layers))} fma = fp32  # {names}\n"

    def error(self, layers: Sequence[int]) -> float:
        """Return the error with `layers` in fp32."""
        key = tuple(layers)
        if key not in self.errors:
            error = self._run(key, parse_policy(self.text(key)))
            self.errors[key] = error
            if error <= self._tolerance and (self.best is None or len(key) < len(self.best)):
                self.best = key
            if self._progress:
                best = None if self.best is None else len(self.best)
                self._progress(Try(len(self.errors), len(key), error, best))
        return self.errors[key]

    def enough(self, layers: Sequence[int]) -> bool:
        """Whether the error with `layers` in fp32 is within the tolerance."""
        return self.error(layers) <= self._tolerance


def _measure(
    metric: str, reference: Sequence[Sequence[Array]], labels: Sequence[Array | None]
) -> Callable[[Iterable[Sequence[Array]]], float]:
    """Return a function from outputs, batch by batch, to their error. Raises NumcError if no output has an error."""
    if metric == "top1":
        right = _accuracy(reference, labels)
        return lambda outputs: right - _accuracy(outputs, labels)
    floats = [n for n, r in enumerate(reference[0]) if r.dtype.kind == "f"]
    if not floats:
        raise NumcError(f"metric '{metric}': the model has no output of floats: want top1 and labels")

    def worst(outputs: Iterable[Sequence[Array]]) -> float:
        errors = [SquaredError() for _ in floats]
        for x, r in zip(outputs, reference, strict=True):
            for n, error in zip(floats, errors, strict=True):
                error.add(x[n], r[n])
        return float(np.max([error.relative if metric == "relative" else error.mean for error in errors]))

    return worst


def _accuracy(outputs: Iterable[Sequence[Array]], labels: Sequence[Array | None]) -> float:
    """Return the fraction of samples whose label is the largest value of the first output."""
    sums = Sums(("top1",))
    for (first, *_), of_batch in zip(outputs, labels, strict=True):
        sums.add(first, first, of_batch)
    return sums.values()["top1"]
