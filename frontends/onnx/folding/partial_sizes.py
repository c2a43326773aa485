"""Sizes that are fixed among others that are free, while the nodes of an ONNX graph are folded.

An exporter reads one size of a shape, such as the channels of images of any number, and lets a branch depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx

from numc.frontends.onnx.folding.evaluate import Reference
from numc.frontends.onnx.folding.types import Types

FREE = np.iinfo(np.int64).min
"""What stands for a size that is free: no size has this value."""
_PICKS = {"Concat", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze"}
"""Operators whose results are elements of their first operand; of Concat, of all."""

Array = npt.NDArray[np.generic]


class PartialSizes:
    """The values of a graph in topological order that consist of sizes, of which some are free."""

    def __init__(self, constants: Mapping[str, Array], types: Types, reference: Reference) -> None:
        self._constants, self._types, self._reference = constants, types, reference
        self._values: dict[str, Array] = {}

    def evaluate(self, node: onnx.NodeProto) -> list[Array] | None:
        """Return the result of a node if it consists of sizes that are fixed; otherwise note what is known of it."""
        value = self._shape(node) if node.op_type == "Shape" else self._picked(node)
        if value is None:
            return None
        if (value != FREE).all():
            return [value]
        self._values[node.output[0]] = value
        return None

    def _shape(self, node: onnx.NodeProto) -> Array | None:
        sizes = self._types.partial_sizes(node.input[0])
        if sizes is None:
            return None
        bounds = {attribute.name: attribute.i for attribute in node.attribute}
        known = [FREE if size is None else size for size in sizes]
        return np.array(known, dtype=np.int64)[bounds.get("start", 0) : bounds.get("end")]

    def _picked(self, node: onnx.NodeProto) -> Array | None:
        if node.op_type not in _PICKS or self._values.keys().isdisjoint(node.input):
            return None
        read = list(node.input) if node.op_type == "Concat" else [node.input[0]]
        feeds = {name: self._constants[name] for name in node.input if name in self._constants}
        feeds |= {name: self._values[name] for name in read if name in self._values}
        if not all(name in feeds for name in node.input if name):
            return None
        outputs = self._reference.evaluate(node, feeds)
        return None if outputs is None else outputs[0]
