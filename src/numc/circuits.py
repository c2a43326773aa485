"""Numbers that definitions of operators are made of, and functions of them (docs/own-arithmetic.md)."""

from numc.numerics.circuits import *  # noqa: F403
from numc.numerics.circuits import __all__ as __all__
