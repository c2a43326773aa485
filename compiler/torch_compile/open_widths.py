"""The widths that the steps of a training choose for formats that leave them open."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from numc.runtime.abi import WidthRange
from numc.runtime.context import CONTEXT
from numc.runtime.gpu.gpu_program import GpuProgram
from numc.runtime.program import Program
from numc.runtime.widths import layers_like
from numc.support.errors import NumcError, did_you_mean, quoted


@dataclass
class _Block:
    """A block of `widths`: what was given, and the layers with open widths of the programs that ran."""

    given: Any
    layers: dict[str, None] = field(default_factory=dict)

    def see(self, ranges: tuple[WidthRange, ...]) -> None:
        self.layers.update(dict.fromkeys(each.layer for each in ranges))

    def check(self) -> None:
        """Raise NumcError for a layer that was given and that no program of the block has."""
        for pattern in self.given if isinstance(self.given, Mapping) else ():
            if self.layers and not layers_like(self.layers, pattern):
                near = did_you_mean(pattern, list(self.layers))
                what = f"layer {quoted(pattern)} has none to choose in what ran in the block"
                raise NumcError(f"widths: {what}{near}")


@contextlib.contextmanager
def widths(given: Any) -> Iterator[None]:
    """Let what torch.compile compiled with numc choose these widths while a ``with`` block lasts, in all threads.

    given: as the argument `widths` of a Program; layers have the names of `numc.explain`, such as ``fc1`` and
    ``fc1/dgrad``. It may be a function that returns them, which is called before every run of a program, with the rows
    of ``manifest["layers"]`` that have open widths. Nothing is compiled anew. Every graph takes what is given for its
    layers, and the widest for others.
    Raises NumcError for widths that a layer does not have, and at the end of the block for a layer that no graph had.
    """
    block = _Block(given)
    with CONTEXT.widths.around(block):
        yield
    block.check()


def widths_of(program: Program | GpuProgram) -> Any:
    """Return what the innermost block gives to a program: the argument `widths` of its run."""
    if not CONTEXT.widths or not program.widths:
        return None
    block: _Block = CONTEXT.widths[-1]
    block.see(program.widths)
    layers = [each.layer for each in program.widths]
    if callable(block.given):
        rows = program.manifest["layers"]
        return block.given([row for row in rows if row["position"] is not None and row["layer"] in layers])
    if not isinstance(block.given, Mapping):
        return block.given
    return {pattern: value for pattern, value in block.given.items() if layers_like(layers, pattern)}
