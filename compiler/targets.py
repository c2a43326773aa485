"""The machines numc generates code for: LLVM's CPU name and features, and the tile its micro-kernels use."""

from __future__ import annotations

from dataclasses import dataclass

from numc.compiler.support.errors import NumcError, did_you_mean
from numc.passes.kernels.isa.avx2 import AVX2
from numc.passes.kernels.isa.avx512 import AVX512
from numc.passes.kernels.isa.avx512_vnni import AVX512_VNNI
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.isa.sse42 import SSE42

_V2 = ["popcnt", "sse4.1", "sse4.2"]
_V3 = ["avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt"]
_V4 = [*_V3, *["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]]


@dataclass(frozen=True)
class Target:
    """A code generation target; `features` are what a processor must have to load the program."""

    name: str
    features: tuple[str, ...]
    isa: InstructionSet
    cpu: str  # LLVM's name

    @property
    def has_fma(self) -> bool:
        """Whether an FMA is an instruction; the cheap sequences of guarded.py are worth their while only then."""
        return "fma" in self.features

    @property
    def has_dot(self) -> bool:
        """Whether dot products of pairs of 16-bit integers are an instruction on whole vector registers."""
        return "avx512_vnni" in self.features

    @property
    def function_attributes(self) -> str:
        """The attributes that make LLVM generate one function for this target, whatever the host is."""
        listed = ", ".join(f'"+{f.replace("_", "")}"' for f in ("sse4.2", "cx16", *self.features))
        width = f'["prefer-vector-width", "{32 * self.isa.width}"]'
        features = f"#llvm.target_features<[{listed}]>"
        return f'{{target_cpu = "{self.cpu}", target_features = {features}, passthrough = [{width}]}}'


# From the least to the most: a host gets the last that it can run.
TARGETS = {
    "x86-64-v2": Target("x86-64-v2", tuple(_V2), SSE42, "x86-64-v2"),
    "x86-64-v3": Target("x86-64-v3", tuple(_V3), AVX2, "x86-64-v3"),
    "x86-64-v4": Target("x86-64-v4", tuple(_V4), AVX512, "x86-64-v4"),
    "x86-64-v4-vnni": Target("x86-64-v4-vnni", (*_V4, "avx512_vnni"), AVX512_VNNI, "x86-64-v4"),
}


def resolve(name: str, host_features: frozenset[str]) -> Target:
    """Return the target called `name`; ``host`` is the best one this processor can run.

    Raises:
        NumcError: for an unknown target, or a host with no supported target.
    """
    if name in TARGETS:
        return TARGETS[name]
    if name != "host":
        allowed = ", ".join(["host", *TARGETS])
        raise NumcError(f"unknown target {name!r}{did_you_mean(name, ['host', *TARGETS])}: choose one of {allowed}")
    for target in reversed(TARGETS.values()):
        if host_features.issuperset(target.features):
            return target
    raise NumcError(
        "this processor lacks SSE4.2, the least numc needs: name a target with --target to compile for another one"
    )
