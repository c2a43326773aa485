"""The arithmetics of the study, which were written before its runs, as were the fields of `problems`.

Pilots with the seeds 100 and 101, in fp32 and bf16_1_1, chose rates and steps: the convolutional networks with the
thesis' schedule, for constant rates had left the running statistics of batch norm behind the weights.
"""

from __future__ import annotations

BASE, WHOLE_UPDATE = "fp32", "bf16_1_1, whole update"
OPERATORS = ("bf16_1_1", "bf16_1_2", "bf16_1_3", "bf16_2_2{3}", "bf16_2_2{4}", "bf16_3_3{6}", "bf16_3_3{9}")
"""The seven of the thesis, in its order: each is the operator of every multiply-add, that of the update included."""

ARMS = {
    **{name: name for name in (BASE, "mp", *OPERATORS)},
    WHOLE_UPDATE: "default fma = bf16_1_1; role update fma = bf16_1_1, ops = bf16",
}
"""The last one rounds whatever the update computes, not its multiply-adds alone: the step of Adam is a quotient."""
