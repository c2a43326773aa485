"""How a model is compiled."""

from __future__ import annotations

from dataclasses import dataclass

from numc.compiler.targets import resolve
from numc.numerics.policy.policy import Policy, plain
from numc.passes.kernels.backend import Target
from numc.runtime.library import usable_features
from numc.support.arguments import checked, checked_integer
from numc.support.errors import NumcError


@dataclass(frozen=True)
class Options:
    """How to compile: the FMA operator, the format of other float operations, the target machine.

    policy: the arithmetic of every operation, instead of `fma` and `ops`, which are the policy of one default rule.
    `fast` False leaves the cheap rounding sequences out, for tests of the exact ones; no bit may depend on it.
    pack_weights: the program holds weights in the bits of their format; it expands those with groups when it is loaded.
    Activations that only contractions read are in the bytes of their format, too, except with `statistics`, which look
    at operands before they are rounded.
    statistics: kernels that can count their additions, for statistics of swamping; no bit of a result depends on it.
    calibration: of contractions by number, the largest magnitudes of their operands, where scales of intN are given.
    respect_dtypes: what tensors of narrow dtypes store is rounded to these; False computes on them as on float32.
    streams: the most MiB that buffers may take at once where parts that do not depend on each other run side by side;
    0 runs all parts one after the other, None is 64 or as many as buffers then take (docs/streams.md).
    Raises NumcError for values of other types.
    """

    fma: str = "fp32"
    ops: str = "fp32"
    target: str = "host"
    fast: bool = True
    policy: Policy | None = None
    pack_weights: bool = False
    statistics: bool = False
    calibration: tuple[tuple[int, int, int], ...] = ()
    respect_dtypes: bool = True
    streams: int | None = None

    def __post_init__(self) -> None:
        for name in ("fma", "ops", "target"):
            checked(getattr(self, name), name, str, "a text")
        for name in ("fast", "pack_weights", "statistics", "respect_dtypes"):
            checked(getattr(self, name), name, bool, "True or False")
        if self.streams is not None:
            checked_integer(self.streams, "streams", 0, 1 << 30)

    def resolved(self) -> tuple[Policy, Target]:
        """Parse the texts. Raises NumcError for unknown names."""
        if self.policy is not None and (self.fma, self.ops) != ("fp32", "fp32"):
            raise NumcError("a policy says what every operation computes in: leave fma and ops out, or write `default`")
        host = usable_features() if self.target == "host" else frozenset()
        return self.policy or plain(self.fma, self.ops), resolve(self.target, host)
