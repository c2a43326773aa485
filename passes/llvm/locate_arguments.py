"""The arguments of loops get the location of their loop, as the text of a loop has none for them.

The branches that loops become have locations for their arguments: without this, what is lowered from a dumped file
would differ in its locations from what the pipeline lowers.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import linalg

_LOOPS = frozenset({"scf.for", "scf.while"})


def locate_arguments(module: ir.Operation) -> None:
    """Give the arguments of every loop of `module` the location of the loop, in place."""
    for loop in linalg.operations(module):
        if loop.name in _LOOPS:
            for region in loop.regions:
                for argument in region.blocks[0].arguments:
                    ir.BlockArgument(argument).set_location(loop.location)
