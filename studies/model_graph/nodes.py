"""The records of a model's graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numc.support.environment import in_default_environment

INPUT, OUTPUT, WEIGHT = "input", "output", "weight"
"""The words for what is no layer."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A layer, an input or an output of a model.

    name: in the model. word: for what it is, such as ``conv``; INPUT or OUTPUT. role: as in the table of a policy.
    rows: its rows of that table. shape: of the tensor that it gives, free sizes as None. dtype: of its elements.
    weights: names and shapes of what it takes from the model's file. fmas: its multiply-adds, with free sizes as the
    run has them, otherwise 1. error: Σ(x - r)² / Σr² of the accumulators x of its contraction against those in fp32,
    r, of several the largest; None if it was not measured. seconds: that its parts take in a run; None if it was not
    measured, or if it is computed within the part of another layer.
    """

    name: str
    word: str
    role: str = ""
    rows: tuple[Mapping[str, Any], ...] = ()
    shape: tuple[int | None, ...] = ()
    dtype: str = ""
    weights: tuple[tuple[str, tuple[int | None, ...]], ...] = ()
    fmas: int = 0
    error: float | None = None
    seconds: float | None = None

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators of its multiply-adds, and without any the formats of its other operations."""
        own = tuple(dict.fromkeys(row["fma"] for row in self.rows if row["fma"]))
        return own or tuple(dict.fromkeys(row["ops"] for row in self.rows))

    @property
    def contracts(self) -> bool:
        """Whether it has a contraction."""
        return any(row["position"] is not None for row in self.rows)


@dataclass(frozen=True, kw_only=True)
class Run:
    """The run in which errors and times of a graph were measured.

    samples: that the model ran on. random: whether they are random numbers. threads: of the runs. machine: its
    processor. error: of the outputs, as of layers. seconds: of the fastest run.
    """

    samples: int
    random: bool
    threads: int
    machine: str
    error: float
    seconds: float


@in_default_environment
@dataclass(frozen=True, kw_only=True)
class GraphData:
    """The data of a graph, of which a page is made; `ModelGraph` describes the fields."""

    model: str
    policy: str
    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]
    run: Run | None = None

    @property
    def layers(self) -> tuple[Node, ...]:
        """The nodes that are neither inputs nor outputs, in program order."""
        return tuple(node for node in self.nodes if node.word not in (INPUT, OUTPUT))
