"""x86-64: its targets."""

from __future__ import annotations

from collections.abc import Callable

from numc.passes.kernels.backend import Backend, CodeGenerator, Lower, Making, Target
from numc.passes.kernels.isa.amx import AMX
from numc.passes.kernels.isa.avx2 import AVX2
from numc.passes.kernels.isa.avx512 import AVX512
from numc.passes.kernels.isa.avx512_vnni import AVX512_VNNI
from numc.passes.kernels.isa.portable import PORTABLE
from numc.passes.kernels.isa.sse42 import SSE42
from numc.passes.kernels.isa.zen4 import ZEN4


def _generator() -> CodeGenerator:
    from numc.passes.kernels.backend.x86_code import GENERATOR

    return GENERATOR


def _making() -> Callable[[Target, str, Lower], Making]:
    from numc.passes.kernels.backend.x86_code import object_code

    return object_code


X86 = Backend("x86-64", _generator, _making, "x86_64", "sse2", by_engine=True)

_V2 = ("popcnt", "sse4.1", "sse4.2")
_V3 = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

# From the least to the most: a host gets the last that it can run.
TARGETS = (
    Target("portable", X86, PORTABLE, (), "x86-64"),
    Target("x86-64-v2", X86, SSE42, _V2, "x86-64-v2"),
    Target("x86-64-v3", X86, AVX2, _V3, "x86-64-v3"),
    Target("x86-64-v4", X86, AVX512, _V4, "x86-64-v4"),
    Target("x86-64-v4-vnni", X86, AVX512_VNNI, (*_V4, "avx512_vnni"), "x86-64-v4"),
    Target("x86-64-v4-amx", X86, AMX, (*_V4, "avx512_vnni", "amx_bf16", "amx_int8", "amx_tile"), "x86-64-v4"),
    # SSE4a tells AMD's processors from others: no code needs it.
    Target("zen4", X86, ZEN4, (*_V4, "avx512_vnni", "avx512_bf16", "sse4a"), "x86-64-v4"),
)
