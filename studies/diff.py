"""numc.diff: two programs of one model on the same data, compared layer by layer."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import numpy.typing as npt

from numc.numerics.policy.text import parse_policy
from numc.runtime.program import Program, load_here, seed_number
from numc.runtime.tensors import as_array
from numc.studies.data import check_values
from numc.studies.difference import Difference, Differences
from numc.studies.observe.layer_outputs import LayerOutput, layer_outputs
from numc.support.arguments import check_function, checked
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted
from numc.support.files import checked_path, is_language_model

Array = npt.NDArray[Any]


@in_default_environment
@dataclass(frozen=True, kw_only=True)
class LayerDifference:
    """The difference of a contraction that both programs have.

    name, role: of the layer. positions: its positions among the contractions of the model, as policies count them;
    several if products are merged under this name. executions: how often it ran; more than once in a loop or in several
    runs. fma_a, fma_b: its operator in each program.
    """

    positions: tuple[int, ...]
    name: str
    fma_a: str
    fma_b: str
    executions: int
    difference: Difference


@in_default_environment
@dataclass(frozen=True)
class OutputDifference:
    """The difference of one output, which is None if the shapes in the two programs are not the same."""

    name: str
    shape_a: tuple[int, ...]
    shape_b: tuple[int, ...]
    difference: Difference | None


@in_default_environment
@dataclass(frozen=True)
class Diff:
    """The differences of two programs of one model, in program order.

    apart: the names of layers that could not be compared, because one program merges their products differently,
    computes them at compile time, or runs them as plain loops.
    """

    layers: tuple[LayerDifference, ...]
    outputs: tuple[OutputDifference, ...]
    apart: tuple[str, ...] = ()

    @property
    def first(self) -> LayerDifference | None:
        """The first layer with a bit that differs; None if there is none."""
        return next((layer for layer in self.layers if layer.difference.differ), None)

    @property
    def same(self) -> bool:
        """Whether all bits that were compared are equal."""
        return self.first is None and all(o.difference is not None and not o.difference.differ for o in self.outputs)

    def to_json(self) -> dict[str, Any]:
        """Return dictionaries, lists, strings and numbers; floats may be NaN or infinite."""
        first = self.first
        return {**asdict(self), "first": None if first is None else first.name, "same": self.same}


@in_default_environment
def diff(
    a: Program | str | os.PathLike[str],
    b: Program | str | os.PathLike[str],
    inputs: Mapping[str, Array] | Sequence[Mapping[str, Array]],
    *,
    threads: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Diff:
    """Run two programs of one model on the same inputs and compare the results of their contractions.

    a, b: programs or names of program files. inputs: arrays by name, or several such, which run one after the other
    and are counted together. threads: as for a Program. seed: of stochastic roundings; run n uses seed + n. progress:
    called with the number of layers compared and the number of all layers. Errors are relative to `a`. Both programs
    run at the same time and wait for each other, so that only a few layers are in memory at once.
    Raises NumcError if the programs are of different models, or if the inputs do not fit or are not finite.
    """
    first, second = (p if isinstance(p, Program) else load_program(p) for p in (a, b))
    check_same_model(first, second)
    check_function(progress, "progress")
    runs = _runs(inputs)
    keys, apart = layers_of_both(first, second)
    counts = Counter(name for name, _ in keys[0].values())
    sums: dict[tuple[str, int], Differences] = {}
    numbers: dict[tuple[str, int], tuple[int, int]] = {}
    executions: Counter[tuple[str, int]] = Counter()

    def add(key: tuple[str, int], of_a: LayerOutput, of_b: LayerOutput) -> None:
        if of_a.values.shape != of_b.values.shape:
            apart.add(key[0])
            return
        sums.setdefault(key, Differences()).add(of_a.values, of_b.values, executions[key])
        numbers[key] = of_a.position, of_b.position
        executions[key] += 1
        if progress:
            progress(len(sums), len(keys[0]))

    outputs = _Outputs([spec.name for spec in first.outputs])
    for number, arrays in enumerate(runs):
        draws = (seed_number(seed) + number) % (1 << 64)
        streams = [layer_outputs(p, arrays, threads=threads, seed=draws) for p in (first, second)]
        outputs.add(number, *side_by_side(streams, keys, add))
    fmas = [{c["id"]: c["fma"] for c in p.manifest["contractions"]} for p in (first, second)]
    rows = first.manifest["layers"]
    layers = [
        LayerDifference(
            positions=_positions(rows, key, counts[key[0]]),
            name=key[0],
            fma_a=fmas[0][a],
            fma_b=fmas[1][b],
            executions=executions[key],
            difference=sums[key].result(),
        )
        for key, (a, b) in numbers.items()
        if key[0] not in apart
    ]
    return Diff(tuple(layers), outputs.result(), tuple(sorted(apart)))


def _runs(inputs: Any) -> Sequence[Mapping[str, Array]]:
    """Return the inputs of each run. Raises NumcError if they are none."""
    runs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    if not runs:
        raise NumcError("inputs: got no run, want the arrays of at least 1")
    checked_runs: list[Mapping[str, Array]] = []
    for arrays in runs:
        checked_runs.append(checked(arrays, "inputs", Mapping, "arrays by name of the input"))
        for name, value in checked_runs[-1].items():
            check_values(name, as_array(f"input {quoted(name)}", value))
    return checked_runs


def load_program(path: str | os.PathLike[str]) -> Program:
    """Load a program file. Raises NumcError if it is not one, such as a model that is not compiled."""
    if checked_path(path).suffix in (".onnx", ".mlir", ".pt2") or is_language_model(path):
        raise NumcError(f"{path}: is a model: compile it (numc compile {path} --fma FMA) and name the program")
    return load_here(path)


def layers_of_both(a: Program, b: Program) -> tuple[list[dict[int, tuple[str, int]]], set[str]]:
    """Return, for each program, the contractions of layers that both have, by number; and the names of the others.

    The other layers are merged differently in the two programs, or have no kernel because they are computed at compile
    time or as plain loops.
    """
    tables = [_layer_keys(program.manifest["contractions"]) for program in (a, b)]
    counts = [Counter(name for name, _ in table.values()) for table in tables]
    apart = {name for name in counts[0] | counts[1] if counts[0][name] != counts[1][name]}
    apart |= {row["layer"] for row in a.manifest["layers"] if row["position"] is not None} - counts[0].keys()
    return [{n: key for n, key in table.items() if key[0] not in apart} for table in tables], apart


def _layer_keys(contractions: Sequence[Mapping[str, Any]]) -> dict[int, tuple[str, int]]:
    """Return the keys of contractions by number: the name, and how many contractions of that name came before."""
    seen: Counter[str] = Counter()
    keys = {}
    for contraction in contractions:
        keys[contraction["id"]] = contraction["name"], seen[contraction["name"]]
        seen[contraction["name"]] += 1
    return keys


def _positions(rows: Sequence[Mapping[str, Any]], key: tuple[str, int], count: int) -> tuple[int, ...]:
    """Return the positions in the model of one of `count` contractions of a name."""
    name, number = key
    positions = tuple(row["position"] for row in rows if row["layer"] == name and row["position"] is not None)
    return positions[number : number + 1] if len(positions) == count else positions


def side_by_side(
    streams: Sequence[Generator[LayerOutput, None, dict[str, Array]]],
    keys: Sequence[Mapping[int, tuple[str, int]]],
    add: Callable[[tuple[str, int], LayerOutput, LayerOutput], None],
) -> list[dict[str, Array]]:
    """Call `add` with both results of every execution of a layer in `keys`, and return the outputs of both programs."""
    outputs: list[dict[str, Array]] = [{}, {}]
    waiting: list[dict[tuple[tuple[str, int], int], LayerOutput]] = [{}, {}]
    running = [0, 1]
    with closing(streams[0]), closing(streams[1]):
        while running:
            for side in tuple(running):
                try:
                    layer = next(streams[side])
                except StopIteration as end:
                    outputs[side] = end.value
                    running.remove(side)
                    continue
                key = keys[side].get(layer.position)
                if key is None:
                    continue
                execution = key, layer.execution
                waiting[side][execution] = layer
                if execution in waiting[1 - side]:
                    add(key, waiting[0].pop(execution), waiting[1].pop(execution))
    return outputs


class _Outputs:
    """The differences of the outputs, over all runs; of shapes that differ in any run, only the shapes."""

    def __init__(self, names: Sequence[str]) -> None:
        self._sums = {name: Differences() for name in names}
        self._shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def add(self, run: int, a: Mapping[str, Array], b: Mapping[str, Array]) -> None:
        """Add the outputs of one run of both programs."""
        for name, sums in self._sums.items():
            shapes = a[name].shape, b[name].shape
            if shapes[0] == shapes[1]:
                sums.add(a[name], b[name], run)
            if len(set(self._shapes.setdefault(name, shapes))) == 1:
                self._shapes[name] = shapes

    def result(self) -> tuple[OutputDifference, ...]:
        """Return them in the order of the program."""
        differences = {name: sums.result() for name, sums in self._sums.items() if len(set(self._shapes[name])) == 1}
        return tuple(OutputDifference(name, *self._shapes[name], differences.get(name)) for name in self._sums)


def check_same_model(a: Program, b: Program) -> None:
    """Raise NumcError unless the manifests and the signatures of two programs are those of one model."""
    for what, specs_a, specs_b in (("input", a.inputs, b.inputs), ("output", a.outputs, b.outputs)):
        if len(specs_a) != len(specs_b):
            _differ(f"{len(specs_a)} {what}s", f"{len(specs_b)}")
        for x, y in zip(specs_a, specs_b, strict=True):
            if (x.name, x.dtype) != (y.name, y.dtype) or not _sizes_fit(x.shape, y.shape):
                _differ(f"the {what} '{x.name}' ({x})", f"'{y.name}' ({y})")
    manifests = a.manifest, b.manifest
    rows_a, rows_b = ([row for row in m["layers"] if row["position"] is not None] for m in manifests)
    if len({parse_policy(m["policy"]).draws for m in manifests}) == 2:
        # Equal operations are merged, but not if they draw random bits.
        fewer, more = sorted((rows_a, rows_b), key=len)
        lost = next((row for row in fewer if not any(_rows_fit(row, other) for other in more)), None)
        if lost is not None:
            raise NumcError(f"not two programs of one model: only one has a layer '{lost['layer']}' ({lost['shape']})")
        return
    for n, (x, y) in enumerate(zip(rows_a, rows_b, strict=False)):
        if not _rows_fit(x, y):
            _differ(f"layer {n} '{x['layer']}' ({x['shape']})", f"'{y['layer']}' ({y['shape']})")
    if len(rows_a) != len(rows_b):
        _differ(f"{len(rows_a)} contractions", f"{len(rows_b)}")


def _differ(a: str, b: str) -> None:
    raise NumcError(f"not two programs of one model: the first has {a}, the second {b}")


def _rows_fit(x: Mapping[str, Any], y: Mapping[str, Any]) -> bool:
    sizes = [[row[size] for size in "bmnk"] for row in (x, y)]
    return (x["layer"], x["kind"]) == (y["layer"], y["kind"]) and _sizes_fit(*sizes)


def _sizes_fit(x: Sequence[int | None], y: Sequence[int | None]) -> bool:
    """Whether two shapes are the same; None, a free size, fits any size."""
    return len(x) == len(y) and all(m is None or n is None or m == n for m, n in zip(x, y, strict=True))
