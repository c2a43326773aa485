"""The targets whose code this processor runs, and the choices among them that give different code."""

from __future__ import annotations

import pytest

from numc.compiler.targets import TARGETS
from numc.numerics.grammar import parse_fma
from numc.passes.kernels.datapaths.steps.guarded import splits
from numc.runtime.library import usable_features

HERE = [name for name, target in TARGETS.items() if target.runs_with(usable_features())]
WITHOUT_CHEAP = ("portable", "x86-64-v2")  # no target of these has cheap sequences
_LIKE_OTHERS = ("x86-64-v4-vnni", "x86-64-v4-amx", "zen4")
WITHOUT_GROUPS = [name for name in HERE if name not in _LIKE_OTHERS]  # whose code differs without groups


def runnable(target: str) -> str:
    """The target, or the test is skipped: "host" runs everywhere."""
    if target not in ("host", *HERE):
        pytest.skip(f"needs a CPU that runs {target}")
    return target


def variants(fma: str) -> list[tuple[str, bool]]:
    """Return the pairs (target, fast) that compile to different code for the operator, the plainest one first.

    The others compile to the code of one of these, which `tests/kernels/test_same_code.py` holds: some targets have no
    cheap sequences, x86-64-v4-vnni differs from x86-64-v4 in the cheap sequences of operands with groups only, zen4
    from x86-64-v4-vnni in those of accumulators that are rounded by splits, and in the instruction of avx512_bf16, and
    x86-64-v4-amx in the instruction of amx_bf16.
    """
    chosen = []
    for target in HERE:
        for fast in (False, True):
            without_cheap = target in WITHOUT_CHEAP and fast
            like_v4 = target == "x86-64-v4-vnni" and not (fast and parse_fma(fma).groups)
            like_vnni = target == "zen4" and not (fast and has_code_for_zen4(fma))
            like_vnni |= target == "x86-64-v4-amx" and not (fast and parse_fma(fma).datapath.name == "amx_bf16")
            if not (without_cheap or like_v4 or like_vnni):
                chosen.append((target, fast))
    return chosen


def has_code_for_zen4(fma: str) -> bool:
    """Whether the cheap code of an operator for zen4 is its own."""
    operator = parse_fma(fma)
    return operator.datapath.name == "avx512_bf16" or (not operator.groups and splits(operator))


def some_variants(fma: str, number: int) -> list[tuple[str, bool]]:
    """Return what this processor gets by default, and one other variant: they take turns by the number of the case.

    The former has the code of the best of `variants(fma)`, and the tests that choose no target compile it too.
    """
    *others, _ = variants(fma)
    return [("host", True), *others[number % len(others) :][:1]] if others else [("host", True)]
