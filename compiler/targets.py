"""The targets that a user can name, of all backends."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from numc.passes.gpu import gpu_backend as gpu
from numc.passes.kernels.backend import Target, aarch64, x86
from numc.support.errors import NumcError, did_you_mean, quoted

TARGETS: Mapping[str, Target] = MappingProxyType(
    {target.name: target for target in (*x86.TARGETS, *aarch64.TARGETS, *gpu.TARGETS)}
)


def resolve(name: str, host_features: frozenset[str]) -> Target:
    """Return the target called `name`; ``host`` is the best one for this machine's processor, which has these features.

    Raises:
        NumcError: for an unknown target.
    """
    if name in TARGETS:
        return TARGETS[name]
    if name != "host":
        names = ["host", *TARGETS]
        near = did_you_mean(name, names)
        raise NumcError(f"unknown target {quoted(name)}{near}: want {', '.join(names)}")
    return next(t for t in reversed(list(TARGETS.values())) if t.runs_with(host_features))
