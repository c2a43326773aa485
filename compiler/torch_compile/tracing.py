"""Settings of torch.compile with which torch traces what numc compiles."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
from collections.abc import Callable
from typing import Any

import torch._dynamo
from torch._dynamo import guards
from torch._dynamo.callback import callback_handler
from torch._dynamo.variables import builder, optimizer
from torch._functorch._aot_autograd import graph_compile
from torch._logging._internal import trace_log

from numc.compiler.torch_compile import leaving
from numc.support import collector
from numc.support.replaced import replaced

# Otherwise torch leaves recurrent networks out of its graphs.
torch._dynamo.config.allow_rnn = True
# Otherwise torch formats a call stack for every tensor that an optimizer makes, for a log that only these ask for.
_logs = any(os.environ.get(name) for name in ("TORCH_LOGS", "TORCH_TRACE"))
if torch._dynamo.config.side_effect_replay_policy == "info" and not _logs:
    torch._dynamo.config.side_effect_replay_policy = "silent"
# Otherwise torch allocates 32 MiB for every graph, to flush the caches before it measures its guards for a log.
if hasattr(guards, "profile_guard_manager") and not _logs:
    guards.profile_guard_manager = lambda *_: 0.0
# Otherwise torch imports Inductor for every optimizer, to ask whether a tensor is part of a graph of CUDA.
if (theirs := getattr(optimizer, "_is_static_for_cudagraphs", None)) is not None:
    optimizer._is_static_for_cudagraphs = lambda x: theirs(x) if x.is_cuda else True


def _pow(base: Any, exponent: Any) -> Any:
    return torch.sym_float(base) ** exponent if base >= 0 else math.pow(base, exponent)


def _tracked(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Keep what a compiled step writes into attributes of its optimizer."""

    @functools.wraps(theirs)
    def wrap(self: Any, value: Any) -> Any:
        variable, effects = theirs(self, value), self.tx.output.side_effects
        if isinstance(variable, optimizer.OptimizerVariable) and value not in effects:
            effects.track_object_existing(value, variable)
        return variable

    wrap.by_numc = True  # type: ignore[attr-defined]
    return wrap


# Otherwise torch forgets them: `self.steps += 1` did nothing, and a step that branches on it took one branch for ever.
if not hasattr(builder.VariableBuilder._wrap, "by_numc"):
    builder.VariableBuilder._wrap = _tracked(builder.VariableBuilder._wrap)
# Otherwise math.pow of a counter of steps makes a constant of it: torch looks for functions of its numbers here.
if not hasattr(torch, "_sym_pow"):
    torch._sym_pow = _pow
leaving.watch()


def without_texts() -> contextlib.AbstractContextManager[None]:
    """Let torch write no graph as text for logs that nobody reads, while a ``with`` block lasts."""
    logs = [getattr(graph_compile, name, None) for name in ("aot_joint_log", "aot_graphs_log")]
    if trace_log.handlers or any(log is not None and log.isEnabledFor(logging.INFO) for log in logs):
        return contextlib.nullcontext()
    return replaced(graph_compile, _log_joint_graph=lambda *_: None, _log_fw_bw_graphs=lambda *_: (None, None))


def with_numbers() -> contextlib.AbstractContextManager[None]:
    """Let floats that change from call to call be arguments of what torch traces, while a ``with`` block lasts.

    torch would make tensors of them where four operations read them, and constants where any other does, so that each
    value was another graph.
    """
    return replaced(graph_compile, _apply_tensorify_python_scalars=lambda module: None)


def collect_seldom() -> None:
    """Let Python collect garbage more seldom while torch traces, of whose time that is a seventh otherwise.

    torch._dynamo.reset forgets this, so that every backend asks for it.
    """
    if _begin not in callback_handler.start_callbacks:
        callback_handler.register_start_callback(_begin)
        callback_handler.register_end_callback(_end)


def _begin(_: object) -> None:
    collector.begin()


def _end(_: object) -> None:
    collector.end()
