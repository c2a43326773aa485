"""The targets whose code this processor runs."""

from __future__ import annotations

from numc.compiler.targets import TARGETS
from numc.runtime.library import cpu_features

HERE = [name for name, target in TARGETS.items() if cpu_features().issuperset(target.features)]
