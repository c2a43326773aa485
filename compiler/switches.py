"""NUMC_DISABLE switches optimisations off, one by one, for tests and for finding faults: no bit depends on them."""

from __future__ import annotations

import os

from numc.compiler.errors import NumcError, did_you_mean

SWITCHES = {
    "fast": "cheap rounding sequences under guards",
    "pack-weights": "weights packed when the program is built",
    "fuse-first": "initial accumulators computed inside the kernel",
    "fuse-last": "elementwise operations computed inside the kernel",
}


def disabled(name: str) -> bool:
    """Whether NUMC_DISABLE, a list with commas, names `name`. Raises NumcError for names that do not exist."""
    assert name in SWITCHES
    names = [n.strip() for n in os.environ.get("NUMC_DISABLE", "").split(",") if n.strip()]
    for other in names:
        if other not in SWITCHES:
            hint = did_you_mean(other, SWITCHES)
            raise NumcError(f"NUMC_DISABLE names {other!r}{hint}: it lists some of {', '.join(SWITCHES)}")
    return name in names
