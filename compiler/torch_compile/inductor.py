"""torch's compiler without Inductor, of which torch asks three small things whatever the backend is.

Importing it for their sake takes 27 MB, and most of a second.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import fx

_REGION = "mutation_region_id"
# The names of Python's operations that overwrite something, as Inductor tells them.
_OVERWRITING = re.compile(r"(?<!_)(_$|_[.]|(\b|_)(set|enter|exit|seed)(\b|_))(?!_)")


def _number_regions(graph: fx.Graph) -> None:
    """Number the operations so that equal numbers have none between them that overwrites something."""
    number = 0
    for node in graph.nodes:
        number += _overwrites(node)
        node.meta[_REGION] = number


def _overwrites(node: fx.Node) -> bool:
    if isinstance(node.target, torch._ops.OpOverload):
        return bool(node.target._schema.is_mutable)
    name = getattr(node.target, "__name__", str(node.target))
    is_call = node.op in ("call_function", "call_method")
    return (is_call and _OVERWRITING.search(name) is not None) or node.kwargs.get("out") is not None


def _same_region(one: fx.Node, other: fx.Node) -> bool:
    return bool(one.meta[_REGION] == other.meta[_REGION])


_ASKED: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "torch._inductor.pattern_matcher": {  # before equal operations become one
        "compute_mutation_region_ids": _number_regions,
        "same_mutation_regions": _same_region,
    },
    "torch._inductor.debug": {"enable_aot_logging": contextlib.nullcontext},
}


class _StandIn(ModuleType):
    """A module with what torch asks for. Whoever asks for anything else gets that of the module itself."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        vars(self).update(_ASKED[name])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


@contextlib.contextmanager
def without_inductor() -> Iterator[None]:
    """Answer here what torch asks of Inductor in a ``with`` block, unless that has been imported anyway."""
    logs = os.environ.get("TORCH_COMPILE_DEBUG", "0") == "1"
    names = [name for name in _ASKED if name not in sys.modules and not logs]
    stand_ins = {name: _StandIn(name) for name in names}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, module in stand_ins.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
