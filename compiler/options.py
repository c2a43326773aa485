"""How a model is compiled."""

from __future__ import annotations

from dataclasses import dataclass

from numc.compiler.fma import Fma
from numc.compiler.formats import Conversion
from numc.compiler.grammar import parse_conversion, parse_fma
from numc.compiler.targets import Target, resolve
from numc.runtime.library import cpu_features


@dataclass(frozen=True)
class Options:
    """How to compile: the FMA operator, the format of other float operations, the target machine.

    `calibration`: of contractions by number, the largest magnitudes of their operands, where scales of intN are given.
    `fast` False leaves the cheap rounding sequences out, for tests of the exact ones; no bit may depend on it.
    pack_weights: the program holds weights in the bytes of their format, and expands them when it is loaded.
    `roles`: (role, FMA operator, format) for the operations of a role (compiler/roles.py) with another arithmetic.
    """

    fma: str = "fp32"
    ops: str = "fp32"
    target: str = "host"
    fast: bool = True
    pack_weights: bool = False
    calibration: tuple[tuple[int, int, int], ...] = ()
    roles: tuple[tuple[str, str, str], ...] = ()

    def resolved(self) -> tuple[Fma, Conversion, Target]:
        """Parse the texts. Raises NumcError for unknown names."""
        host = cpu_features() if self.target == "host" else frozenset()
        return parse_fma(self.fma), parse_conversion(self.ops), resolve(self.target, host)

    def by_role(self) -> dict[str, tuple[Fma, Conversion]]:
        """Parse the texts of `roles`. Raises NumcError for unknown names."""
        return {role: (parse_fma(fma), parse_conversion(ops)) for role, fma, ops in self.roles}
