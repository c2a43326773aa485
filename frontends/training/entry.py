"""The entry point of the torch.compile backend: what torch loads when it hears ``backend="numc"``.

The backend itself is in dynamo.py, which registers it when it is imported; torch refuses a second registration, so this
module must not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch._dynamo
from torch import fx

# Recurrent networks are traced, not left to torch: their products are what numc is for.
torch._dynamo.config.allow_rnn = True


def numc(graph_module: fx.GraphModule, example_inputs: Sequence[Any], options: Any = None) -> Callable[..., Any]:
    """The backend "numc"; `options` are the keywords of numc.backend, and `arithmetic`, a preset or an operator."""
    from numc.frontends.training.backend import backend

    given = dict(options or {})
    return backend(given.pop("arithmetic", "fp32"), **given)(graph_module, example_inputs)
