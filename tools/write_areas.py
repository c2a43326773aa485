"""The table of areas after synthesis: ``python -m tools.write_areas [OPERATOR ...]`` writes hardware/areas.json anew.

Operators that are given are synthesized and put into the table; without any, all of it are, which takes hours.
"""

from __future__ import annotations

import json
import sys

from numc.hardware.areas import TABLE, table
from numc.hardware.synthesis import CELLS, synthesized
from numc.numerics.grammar import parse_fma
from numc.numerics.operators import FMAS

_SECONDS = 4 * 3600  # that Yosys may take for a module: sums of many products take it more than an hour
OPERATORS = (
    *(name for name, op in FMAS.items() if op.datapath.name == "fp32"),
    "fmac(posit8,datapath=exact)", "fmac(e4m3)", "fmac(e4m3,datapath=exact)", "fma(a=e4m3,acc=fp16)",
    "fma(a=e4m3,acc=fp32)", "fmac(fp16)", "fmac(bf16,datapath=exact)", "fmac(e6m9)", "fmac(e6m9n)",
    "fmac(e6m9,datapath=exact)", "fmac(e6m9n,datapath=exact)", "lowbfp", "midbfp", "highbfp", "msfp12", "int8",
    "mxint8", "mxfp4", "mxfp6", "mxfp8", "nvfp4", "volta_fp16", "volta_fp16_into_fp16", "ampere_bf16", "hopper_fp16",
    "hopper_bf16", "hopper_e4m3", "cdna2_bf16",
)  # fmt: skip


def main(operators: list[str]) -> int:
    """Synthesize, and write the table after each. Returns the exit status."""
    rows = {row.operator: row for row in table().values()} if operators else {}
    for text in operators or OPERATORS:
        row = synthesized(parse_fma(text), seconds=_SECONDS)
        rows[row.operator] = row
        print(row, flush=True)
        content = {"cells": CELLS, "unit": "NAND2", "rows": [each.as_json() for each in rows.values()]}
        TABLE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
