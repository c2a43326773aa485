"""The arithmetics of the study, which were written before its runs.

So were the task and its rate: a pilot of one other seed, 100, and 300 steps had fp32 and bf16 with rates of 0.002 and
0.01. Both showed a difference; that of the smaller rate was larger.
"""

from __future__ import annotations

from dataclasses import dataclass

BASE, FP32_UPDATE = "fp32", "bf16, update in fp32"


@dataclass(frozen=True)
class Arm:
    """An arithmetic of a training. kahan: whether the update keeps what its roundings lose, for the next step."""

    policy: str
    kahan: bool = False


ARMS = {
    BASE: Arm("fp32"),
    "MP": Arm("mp"),
    "bf16": Arm("default bf16_1_1"),
    FP32_UPDATE: Arm("default bf16_1_1; role update fp32"),
    "bf16, stochastic update": Arm("default bf16_1_1; role update fma=fma(a=bf16,acc=bf16:sr16)"),
    "bf16, Kahan's update": Arm("default bf16_1_1; role update fma=bf16_1_1, ops=bf16", kahan=True),
}
"""In all but the first two, products and accumulators of every contraction are bf16, and what an update writes, too."""
