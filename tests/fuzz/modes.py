"""Arrays of any bits in an environment that a process may set: the results are those of the default environment."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import numc
from environments import ENVIRONMENTS, data, environment
from fuzz.differential import Finding
from numc.support.errors import NumcError

FORMATS = (
    *(
        "bf16",
        "fp16",
        "e4m3",
        "e5m2fn",
        "e8m10:rtz",
        "e3m2:odd",
        "tf32:nan",
        "dlfloat16",
        "bf16:sr8",
        "bf16x2",
        "bf16x3",
    ),
    *("mxint8", "mxfp8_e4m3", "mxfp6_e2m3", "mxfp4", "bfp(16,8,4)", "bfp(7,3,5)", "int8", "int4", "bf16x3"),
)
FMAS = ("fp32", "bf16_1_2", "bf16_2_2", "mp", "mxint8", "highbfp", "int8", "fma(a=e4m3,acc=e6m9)", "fmac(bf16,chunk=5)")


def modes(number: int) -> str:
    """One function of arrays in one environment."""
    rng = random.Random(f"modes {number}")
    name, kind = rng.choice(ENVIRONMENTS), rng.choice(("round", "pack", "fma", "matmul", "reference"))
    drawn = np.random.default_rng(number)
    bits = drawn.integers(0, 2**32, (3, 4, 33), dtype=np.uint32)
    if rng.random() < 0.7:  # near one another, else sums are of their largest terms alone
        low, high = sorted(rng.choices(range(254), k=2))
        bits = bits & 0x807FFFFF | drawn.integers(low, high + 1, bits.shape, dtype=np.uint32) << 23
    a, b, c = bits.view(np.float32)
    to, fma = rng.choice(FORMATS), rng.choice(FMAS)
    functions: dict[str, Callable[[], Any]] = {
        "round": lambda: numc.round(a, to, seed=number),
        "pack": lambda: numc.unpack(numc.pack(a, to)),
        "fma": lambda: numc.fma(a, b, c, fma),
        "matmul": lambda: numc.matmul(a, b.T, fma=fma),
        "reference": lambda: numc.reference.matmul(a[:1, :9], b[:2, :9].T, fma=fma),
    }

    def answer() -> Any:
        try:
            return data(functions[kind]())
        except NumcError as error:
            return str(error)

    want = answer()
    with environment(name):
        found = answer()
    if found != want:
        raise Finding(f"{kind} ({to if kind in ('round', 'pack') else fma}) has other bits in the environment '{name}'")
    return "refused" if isinstance(want, str) else "the same"
