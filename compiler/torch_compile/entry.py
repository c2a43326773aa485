"""The entry point of the torch.compile backend, which torch loads for ``backend="numc"``.

torch registers the function that it loads and refuses a second registration of the name. backend.py registers the name
too, for a numc that is not installed, so it is imported only when the first graph is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from numc.compiler.torch_compile import tracing  # noqa: F401 - torch reads these settings when it traces, before numc


def numc(
    graph_module: fx.GraphModule, example_inputs: Sequence[Any], options: Any = None, mode: Any = None
) -> Callable[..., Any]:
    """Compile a graph: see `numc` in backend.py."""
    from numc.compiler.torch_compile import backend

    return backend.numc(graph_module, example_inputs, options, mode)
