"""The records of a comparison, and their JSON form."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from numc.compiler.arrays.statistics import Statistics
from numc.studies.metrics import METRICS
from numc.studies.shares import Share
from numc.support import notebook
from numc.support.environment import in_default_environment
from numc.support.json_values import json_values

BREAKS = 1e-2
"""A layer with a larger relative error is broken: the norm of its error is more than a tenth of that of its values."""
AGREES = 1e-8
"""The largest relative error with which fp32 agrees with onnxruntime, which adds in another order."""


@dataclass(frozen=True)
class LayerError:
    """The error of a contraction against fp32: Σ(x - r)² / Σr² over its results x in all executions on all data."""

    position: int
    name: str
    error: float


@dataclass(frozen=True)
class Agreement:
    """The difference between fp32 and onnxruntime.

    version: of onnxruntime. error: the relative error of the output. largest: the largest absolute difference of two
    values. note: the reason why nothing was compared, or "".
    """

    version: str
    error: float = 0.0
    largest: float = 0.0
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether they agree; True if nothing was compared."""
        return bool(self.note) or self.error <= AGREES


@in_default_environment
@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of one arithmetic.

    name: of the arithmetic. policy: its text. metrics: values by name. shares: of those that are shares of samples, the
    counts that intervals are made of. error: Σ(x - r)² / Σr² of the outputs x against
    those of fp32, r. seconds: the shortest time of one batch. time: its ratio to that of fp32, measured in turns.
    fmas: the number of multiply-adds for one sample. area: the mean of the area units of an FMA over all FMAs of the
    model. iso_area: how many times more FMAs of this mean area fit into the area of those in fp32. gates: the mean of
    the gates of an FMA after synthesis, None if an operator has no row in the table that comes with numc.
    weights, packed: the size of the weights in bytes, in memory and in a file made with --pack-weights.
    layers: errors of the contractions. table: the arithmetic of contractions, and of operations that a rule selects, as
    in a program's ``manifest["layers"]``. onnxruntime: the check of fp32. statistics: None if they were not asked for.
    apart: the names of layers that could not be compared with fp32, because their products are merged differently or
    computed at compile time.
    """

    name: str
    policy: str
    metrics: Mapping[str, float]
    error: float
    seconds: float
    time: float
    fmas: int
    area: float
    iso_area: float
    weights: int
    packed: int
    layers: tuple[LayerError, ...] = ()
    table: tuple[Mapping[str, Any], ...] = ()
    onnxruntime: Agreement | None = None
    statistics: Statistics | None = None
    apart: tuple[str, ...] = ()
    gates: float | None = None
    shares: Mapping[str, Share] = field(default_factory=dict)

    @property
    def breaks(self) -> LayerError | None:
        """The first layer whose error is larger than BREAKS, or None."""
        return next((layer for layer in self.layers if not layer.error <= BREAKS), None)

    @property
    def operators(self) -> tuple[str, ...]:
        """The FMA operators of the contractions, in program order."""
        return tuple(dict.fromkeys(str(row["fma"]) for row in self.table if row["position"] is not None))

    def as_json(self) -> dict[str, Any]:
        """Return the result in types that JSON has; numbers that are not finite are strings."""
        fields = asdict(replace(self, statistics=None))
        if self.statistics is not None:
            fields["statistics"] = self.statistics.to_json()
        return json_values(fields)  # type: ignore[no-any-return]

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Result:
        """Return the result that `as_json` gave. Raises KeyError, TypeError or ValueError for anything else."""
        values = dict(found)
        for name in ("error", "seconds", "time", "area", "iso_area"):
            values[name] = float(values[name])
        values["gates"] = None if values.get("gates") is None else float(values["gates"])
        values["shares"] = {name: Share.of_json(share) for name, share in values.get("shares", {}).items()}
        values["metrics"] = {name: float(value) for name, value in values["metrics"].items()}
        values["layers"] = tuple(LayerError(r["position"], r["name"], float(r["error"])) for r in values["layers"])
        values["table"], values["apart"] = tuple(values["table"]), tuple(values["apart"])
        if (peer := values["onnxruntime"]) is not None:
            values["onnxruntime"] = Agreement(
                peer["version"], float(peer["error"]), float(peer["largest"]), peer["note"]
            )
        if values["statistics"] is not None:
            values["statistics"] = Statistics.from_json(values["statistics"])
        return cls(**values)


@in_default_environment
@dataclass(frozen=True, kw_only=True)
class ComparisonData:
    """The data of a comparison, from which a report is made; `Comparison` describes the fields."""

    model: str
    samples: int
    batch: int
    threads: int | None
    metrics: tuple[str, ...]
    labels: str
    results: tuple[Result, ...]
    sources: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[str, ...] = ()

    @property
    def onnxruntime(self) -> Agreement | None:
        """The check of fp32 against onnxruntime; None without onnxruntime, or if the model is not an ONNX file."""
        return self.results[0].onnxruntime

    def __getitem__(self, name: str) -> Result:
        """Return the result of the arithmetic with this name. Raises KeyError if there is none."""
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(name)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the table, without times, which another run changes, and a chart."""
        columns = ("arithmetic", *self.metrics, "error", "breaks at", "area", "iso-area", "packed")
        rows = [
            [
                result.name,
                *(METRICS[name].text(value) for name, value in result.metrics.items()),
                f"{result.error:.1e}" if result.error else "0",
                "-" if (first := result.breaks) is None else first.name or first.position,
                f"{result.area:.4g}",
                f"{result.iso_area:.4g} x",
                f"{result.packed:,} B",
            ]
            for result in self.results
        ]
        legend = "Error, breaks: against fp32. Area: multiplier area of an FMA. Packed: weights in a file."
        return notebook.card(
            os.path.basename(self.model) or "a model",
            notebook.table(columns, rows),
            notebook.note(legend),
            self._drawn(),
            about=f"in {len(rows)} arithmetics, {self.samples} samples",
        )

    def _drawn(self) -> str:
        """A chart for notebooks, which `Comparison` has."""
        return ""

    def as_json(self) -> dict[str, Any]:
        """Return the comparison in types that JSON has; numbers that are not finite are strings."""
        fields = asdict(replace(self, results=()))
        return {**fields, "results": [result.as_json() for result in self.results]}

    def to_json(self) -> str:
        """Return the comparison as JSON text, which `Comparison.from_json` reads."""
        return json.dumps(self.as_json(), indent=1, ensure_ascii=False, allow_nan=False)
