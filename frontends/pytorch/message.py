"""Graphs of aten operations as bytes, with which a process that loads MLIR can convert them for one that does not."""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensor, FakeTensorMode

from numc.frontends.pytorch import operators  # noqa: F401  (defines what a graph may have)

_KEPT = ("val", "tensor_meta")
_LIBRARIES = ("aten", "prims", "numc")
# pickle looks for these in all modules, and may find them in one of the user's that imports torch.
_CONSTANTS = (torch.dtype, torch.layout, torch.memory_format)
_MODE = FakeTensorMode()


def to_message(graph: fx.Graph, names: Mapping[fx.Node, str]) -> bytes | None:
    """Return a graph whose sizes are fixed, with the `names` of its nodes, as `from_message` takes it.

    Of tensors, everything but their elements is sent. None if it has operations of libraries that another process may
    not have, or arguments that no message can have.
    """
    rows = []
    for node in graph.nodes:
        known = {key: node.meta[key] for key in _KEPT if key in node.meta}
        rows.append((node.op, node.name, node.target, node.args, node.kwargs, known, names.get(node)))
    stream = io.BytesIO()
    reads_memory = any(node.target is torch.ops.aten.as_strided.default for node in graph.nodes)
    try:
        _Pickler(stream, reads_memory).dump(rows)
    except (pickle.PicklingError, TypeError, AttributeError, RuntimeError):
        return None
    return stream.getvalue()


def from_message(message: bytes) -> tuple[fx.Graph, dict[fx.Node, str]]:
    """Return the graph of `to_message`, which has a module of its own, and the names of its nodes."""
    graph, names = fx.Graph(), {}
    nodes: dict[str, fx.Node] = {}
    for op, name, target, args, kwargs, known, label in _Unpickler(io.BytesIO(message)).load():
        args, kwargs = _with_nodes(args, nodes), _with_nodes(kwargs, nodes)
        node = nodes[name] = graph.create_node(op, target, args, kwargs)
        node.name, node.meta = name, known
        if label is not None:
            names[node] = label
    graph.owning_module = fx.GraphModule(torch.nn.Module(), fx.Graph())  # torch-mlir puts constants there
    return graph, names


class _Pickler(pickle.Pickler):
    def __init__(self, stream: io.BytesIO, reads_memory: bool) -> None:
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self._reads_memory = reads_memory
        self._storages: dict[int, int] = {}

    def _storage(self, value: torch.Tensor) -> int:
        """Return the number of the memory of a tensor, from which torch-mlir finds what an as_strided reads.

        Graphs without one have a single number, so that tensors alike are made once.
        """
        known = self._storages
        return known.setdefault(value.untyped_storage()._cdata, len(known)) if self._reads_memory else 0

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, fx.Node):
            return "node", value.name
        if isinstance(value, _CONSTANTS):
            return "constant", str(value).removeprefix("torch.")
        if isinstance(value, torch._ops.OpOverload) and value.namespace in _LIBRARIES:
            return "operation", str(value)
        if isinstance(value, torch.Tensor):
            layout = value.stride(), value.storage_offset(), value.untyped_storage().nbytes(), self._storage(value)
            return "tensor", isinstance(value, FakeTensor), value.dtype, tuple(value.shape), *layout
        return None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, known: Any) -> Any:
        tag, *described = known
        if tag == "node":
            return _Name(*described)
        if tag == "constant":
            return getattr(torch, *described)
        if tag == "operation":
            return functools.reduce(getattr, described[0].split("."), torch.ops)
        return _tensor(*described)


class _Name(str):
    """The name of a node among arguments."""

    __slots__ = ()


def _with_nodes(value: Any, nodes: Mapping[str, fx.Node]) -> Any:
    return torch.utils._pytree.tree_map(lambda each: nodes[each] if isinstance(each, _Name) else each, value)


@functools.cache
def _tensor(
    is_fake: bool, dtype: torch.dtype, shape: Sequence[int], stride: Sequence[int], offset: int, size: int, _: int
) -> torch.Tensor:
    """Return a tensor like one that was described; size: the bytes of its storage, of which the last is the number."""
    if not is_fake:
        return torch.empty_strided(shape, stride, dtype=dtype)
    with _MODE:
        return torch.empty(size // dtype.itemsize, dtype=dtype).as_strided(shape, stride, offset)
