"""What every front end hands to the compiler: linalg text and the meaning of its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Argument:
    """A tensor that enters or leaves the program: `dtype` is a numpy name, -1 in `shape` is a dynamic size.

    `symbols` names the sizes ("" for static or nameless ones): sizes of the same name are equal in every run. The
    compiled code relies on that, and on dynamic sizes being at least 1, so whoever runs it checks both.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    symbols: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return for example ``x: float32[?, 64]``."""
        return f"{self.name}: {self.dtype}[{', '.join('?' if d < 0 else str(d) for d in self.shape)}]"


@dataclass(frozen=True)
class Imported:
    """A program in the linalg stage: one module whose ``func.func @main`` takes the inputs, then the weights.

    `weights` maps the position of a function argument to the tensor's name and value; these positions follow those of
    `inputs`. `sources` are the files that were read. `nodes` maps the name of each source operation to its kind; the
    names are also the ``loc("name")`` of the operations in `mlir`. `roles` maps some of these names to what the
    operation is for (arithmetic/policy/presets.py). `ranges` maps names of sizes to their smallest and largest values.
    `updates` maps the number of an output to that of an input of its type whose memory it may take: nobody needs its
    old value after a run.
    """

    mlir: str
    inputs: tuple[Argument, ...] = ()
    outputs: tuple[Argument, ...] = ()
    weights: Mapping[int, tuple[str, npt.NDArray[np.float32]]] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    nodes: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    updates: Mapping[int, int] = field(default_factory=dict)
