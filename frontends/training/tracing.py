"""Settings of torch.compile with which torch traces what numc compiles."""

from __future__ import annotations

import os

import torch._dynamo
from torch._dynamo import guards
from torch._dynamo.variables import optimizer

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
