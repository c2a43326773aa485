"""The times of the operations that torch runs."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from torch import fx

from numc.compiler.torch_compile.draws import in_vectors


class Clock:
    """Measures operations of graphs. seconds: those that all operations of a name have taken."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def watch(self, graph_module: fx.GraphModule, names: set[str]) -> None:
        """Measure every operation of these names from now on."""
        for part in graph_module.modules():
            if isinstance(part, fx.GraphModule):
                for node in part.graph.nodes:
                    if node.op == "call_function" and str(node.target) in names:
                        node.target = self._measured(node.target)
                part.recompile()

    def _measured(self, operation: Any) -> Callable[..., Any]:
        faster = in_vectors(operation)

        def measured(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            try:
                return faster(*args, **kwargs)
            finally:
                self.seconds[str(operation)] += time.perf_counter() - begin

        return measured
