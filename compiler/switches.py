"""What can be switched off to find or to test the cause of a difference: ``NUMC_DISABLE=fuse-elementwise,...``.

No output bit may depend on any of them.
"""

from __future__ import annotations

import os

from numc.compiler.errors import NumcError, did_you_mean

SWITCHES = ("fold-constants", "fuse-elementwise", "parallel-loops")


def disabled(name: str) -> bool:
    """Whether the environment switches `name`, one of SWITCHES, off. Raises NumcError for unknown names in the list."""
    assert name in SWITCHES
    listed = [part.strip() for part in os.environ.get("NUMC_DISABLE", "").split(",") if part.strip()]
    for part in listed:
        if part not in SWITCHES:
            near = did_you_mean(part, SWITCHES)
            raise NumcError(f"NUMC_DISABLE: no such switch {part!r}{near}: choose from {', '.join(SWITCHES)}")
    return name in listed
