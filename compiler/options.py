"""Keywords by which a model is read and compiled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from numc.compiler.targets import resolve
from numc.numerics.policy.load import load_policy
from numc.numerics.policy.policy import Policy, plain
from numc.numerics.recipes import recipe_of
from numc.passes.kernels.backend import Target
from numc.runtime.library import usable_features
from numc.support.arguments import Fixed, checked, checked_fixed, checked_integer
from numc.support.errors import NumcError
from numc.support.keywords import about

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes and values of the inputs of a model that are fixed."""

    shapes: Fixed | None = field(default=None, metadata=about("fixes shapes of inputs, by name"))
    values: Mapping[str, npt.ArrayLike] | None = field(
        default=None,
        metadata=about("fixes inputs of an ONNX model, by name, which the program then does not have"),
    )

    def fixed(self) -> Fixed:
        """Return the shapes and the values by name. Raises NumcError for what is neither."""
        return checked_fixed(self.shapes, self.values)


_ABOUT_INPUTS = about("for a torch.nn.Module: the tuple of its inputs, which torch.export takes")


@dataclass(frozen=True, kw_only=True)
class Reading(Sizes):
    """Keywords by which a model is read."""

    example_inputs: Any = field(default=None, metadata=_ABOUT_INPUTS)
    dynamic_shapes: Any = field(
        default=None, metadata=about("for a torch.nn.Module: which sizes stay free, as torch.export takes them")
    )


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """The arithmetic of a program, and the machine that it is for. Raises NumcError for values of other types."""

    fma: str = field(default="fp32", metadata=about("the FMA operator of every contraction and multiply-add"))
    ops: str = field(
        default="fp32", metadata=about("the format of every other float operation, or F(sums=G), whose sums are G")
    )
    policy: str | os.PathLike[str] | Policy | None = field(
        default=None,
        metadata=about(
            "the arithmetic of every operation, instead of fma and ops, which are the policy of one default rule: a "
            "file, a text or a preset (docs/policies.md)"
        ),
    )
    target: str = field(default="host", metadata=about("host or a name of `numc list targets`"))

    def __post_init__(self) -> None:
        for name in ("fma", "ops", "target"):
            checked(getattr(self, name), name, str, "a text")
        if self.policy is not None:
            object.__setattr__(self, "policy", load_policy(self.policy))

    def resolved(self) -> tuple[Policy, Target]:
        """Parse the texts. Raises NumcError for unknown names."""
        host = usable_features() if self.target == "host" else frozenset()
        if self.policy is None and recipe_of(self.fma) is not None:
            return _of_recipe(self.fma, self.ops), resolve(self.target, host)
        if self.policy is None:
            return plain(self.fma, self.ops), resolve(self.target, host)
        if (self.fma, self.ops) != ("fp32", "fp32"):
            raise NumcError(
                "a policy says what every operation computes in: leave fma and ops out, or give a `default`"
            )
        return load_policy(self.policy), resolve(self.target, host)


def _of_recipe(name: str, ops: str) -> Policy:
    """The policy of a recipe that was given as an operator, with the format of other operations."""
    policy = replace(load_policy(name), strict=False)
    return policy if ops == "fp32" else replace(policy, rules=(*plain("fp32", ops).rules, *policy.rules))


@dataclass(frozen=True, kw_only=True)
class Options(Arithmetic):
    """Keywords of a compilation: arithmetic, target and code. Raises NumcError for values of other types."""

    fast: bool = field(
        default=True,
        metadata=about("False leaves the cheap rounding sequences out, for tests; no bit may depend on it"),
    )
    pack_weights: bool = field(
        default=False,
        metadata=about(
            "the program holds weights in the bits of their format, with the same results; those with groups it "
            "expands when it is loaded. Activations that only contractions read are in the bytes of their format, too, "
            "where that takes no longer and `statistics`, which look at operands before they are rounded, is False "
            "(docs/memory.md)"
        ),
    )
    statistics: bool = field(
        default=False,
        metadata=about(
            "kernels can count their additions (numc.collect_stats), which takes a little time even when they do not; "
            "no bit depends on it"
        ),
    )
    respect_dtypes: bool = field(
        default=True,
        metadata=about(
            "what tensors of bfloat16, float16 and float8 store is rounded to these; False computes on them as on "
            "float32, and rounds results only (docs/arithmetic.md)"
        ),
    )
    streams: int | None = field(
        default=None,
        metadata=about(
            "the most MiB that buffers may take at once where parts that do not depend on each other run side by side; "
            "0 runs all parts one after the other, None is 64 or as many as buffers then take (docs/streams.md)"
        ),
    )
    calibration: tuple[tuple[int, int, int], ...] = field(
        default=(),
        metadata=about("of contractions by number, the largest magnitudes of their operands, for scales of intN"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("fast", "pack_weights", "statistics", "respect_dtypes"):
            checked(getattr(self, name), name, bool, "True or False")
        if self.streams is not None:
            checked_integer(self.streams, "streams", 0, 1 << 30)


@dataclass(frozen=True, kw_only=True)
class CompileOptions(Options, Reading):
    """The keywords of numc.compile."""

    example_inputs: Any = field(default=None, kw_only=False, metadata=_ABOUT_INPUTS)
    calibration: tuple[tuple[int, int, int], ...] = field(default=(), init=False)
    calibrate: Mapping[str, npt.NDArray[Any]] | None = field(
        default=None,
        metadata=about(
            "inputs by name, on which the scales of intN are found once and for all, not in every execution"
        ),
    )
    cache: bool = field(default=True, metadata=about("False compiles anew and keeps nothing"))
    dump_dir: str | os.PathLike[str] | None = field(
        default=None,
        metadata=about("an existing folder that receives the IR after every pass, without the cache"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.calibrate is not None:
            checked(self.calibrate, "calibrate", Mapping, "arrays by name of the input")
