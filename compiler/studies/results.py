"""The records of a comparison, and their JSON form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from numc.compiler.statistics import Statistics
from numc.compiler.support.json_values import json_values

BREAKS = 1e-2
"""A layer is broken where its relative error is above: where the error is more than a tenth of the values' norm."""
AGREES = 1e-8
"""Relative error up to which fp32 agrees with onnxruntime, which adds in another order."""


@dataclass(frozen=True)
class LayerError:
    """Σ(x - r)² / Σr² of the accumulators of a contraction against fp32, over all data and all of its executions."""

    position: int
    name: str
    error: float


@dataclass(frozen=True)
class Agreement:
    """How far fp32 is from onnxruntime: relative error, and the largest difference of two outputs.

    note: why nothing was compared, or "".
    """

    version: str
    error: float = 0.0
    largest: float = 0.0
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether they agree; True where nothing was compared."""
        return bool(self.note) or self.error <= AGREES


@dataclass(frozen=True)
class Result:
    """One arithmetic on the data.

    policy: the text that says what computes in what; table: the same by layer, as in a program's manifest["layers"], of
    contractions and of what rules are about.
    error: Σ(x - r)² / Σr² of the outputs x against those of fp32, r. seconds: the fastest run of one batch; time: its
    ratio to that of fp32, which took turns with it. area: area units of an FMA, the mean over the FMAs of the model.
    iso_area: how many times more of them fit into the area of fp32. fmas: of one sample. weights, packed: bytes of the
    weights in memory and in a file made with --pack-weights. statistics: None where none were collected. apart: names
    of layers that are not the same contractions as in fp32, because products of them are merged or computed before.
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

    @property
    def breaks(self) -> LayerError | None:
        """The first layer that is broken (BREAKS), or None."""
        return next((layer for layer in self.layers if not layer.error <= BREAKS), None)

    @property
    def operators(self) -> tuple[str, ...]:
        """The FMA operators of its contractions, in the order in which they come."""
        return tuple(dict.fromkeys(str(row["fma"]) for row in self.table if row["position"] is not None))

    def as_json(self) -> dict[str, Any]:
        """Return it in types that JSON has; numbers that are not finite are strings."""
        found = asdict(replace(self, statistics=None))
        if self.statistics is not None:
            found["statistics"] = self.statistics.to_json()
        return json_values(found)  # type: ignore[no-any-return]

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Result:
        """Return what `as_json` gave. Raises KeyError, TypeError or ValueError for anything else."""
        values = dict(found)
        for name in ("error", "seconds", "time", "area", "iso_area"):
            values[name] = float(values[name])
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


@dataclass(frozen=True)
class ComparisonData:
    """Arithmetics of one model on the same data; the first result is fp32.

    metrics: their names, the most important first. labels: classes, values or "". sources: the name and the SHA-256
    of the model and of the data. versions: of what was involved. commands: what reproduces it.
    """

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
        """How far fp32 is from onnxruntime; None where that is not installed or the model is no ONNX file."""
        return self.results[0].onnxruntime

    def __getitem__(self, name: str) -> Result:
        """The result of the arithmetic of that name. Raises KeyError."""
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(name)

    def as_json(self) -> dict[str, Any]:
        """Return it in types that JSON has; numbers that are not finite are strings."""
        found = asdict(replace(self, results=()))
        return {**found, "results": [result.as_json() for result in self.results]}

    def to_json(self) -> str:
        """Return JSON text, which `from_json` reads."""
        return json.dumps(self.as_json(), indent=1, ensure_ascii=False, allow_nan=False)
