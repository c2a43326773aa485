"""The table of areas after synthesis: ``python -m tools.write_areas [OPERATOR ...]`` writes hardware/areas.json anew.

Operators that are given are synthesized and put into the table. ``--missing`` takes the named operators and units that
have no row; ``--all`` makes all of it again. The smallest circuits come first.
``--seconds N`` is what Yosys may take for a module: an operator that takes longer is left out. Units of one circuit are
synthesized once, as those of several generations are, and those that differ in which of A and B has which format.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace

from numc.hardware.areas import TABLE, table
from numc.hardware.circuits.operator_circuit import circuit
from numc.hardware.synthesis import CELLS, Synthesized, synthesized
from numc.numerics.grammar import parse_fma
from numc.numerics.operators import Fma
from numc.numerics.policy.presets import narrow_accumulator
from numc.support.errors import NumcError
from tools.proofs.comparison import fingerprint
from tools.proofs.names import named_operators

_SECONDS = 4 * 3600  # that Yosys may take for a module: sums of many products take it more than an hour
_GIVEN = "mx(e2m1fn,16,scale=e4m3fn,rule=given)"
OTHERS = (
    "fmac(posit8,datapath=exact)", "fmac(e4m3)", "fmac(e4m3,datapath=exact)", "fma(a=e4m3,acc=fp16)",
    "fma(a=e4m3,acc=fp32)", "fmac(fp16)", "fmac(bf16,datapath=exact)", "fmac(e6m9)", "fmac(e6m9n)",
    "fmac(e6m9,datapath=exact)", "fmac(e6m9n,datapath=exact)", "fmac(e6m9n,chunk=8)", "fma(a=fp16,acc=fp32)",
    "fma(a=e4m3fn,acc=fp32)", "fma(a=e5m2,b=e4m3fn,acc=fp32)", "fma(a=e4m3,acc=e6m9,chunk=64)",
    "fma(a=e5m2,b=e4m3,acc=e6m9,chunk=64)",
    "fma(a=bf16,acc=bf16:rtz,product=bf16:rtz)",
    "fma(a=e5m2,b=e4m3fn,acc=fp32:rtz,datapath=fused(l=32,bits=25,least=-133))",
    "fma(a=bf16,acc=fp32:rtz,datapath=fused(l=16,bits=25,least=-133))",
    *(
        f"fma({operands},acc=fp32:rtz,datapath=fused(l=64,bits=35,least=-139,run=16))"
        for operands in ("a=nvfp4", f"a={_GIVEN}", f"a={_GIVEN},b=nvfp4")
    ),
    *(f"fma(a=bfp({block}),acc=fp32)" for block in ("16,8,5", "64,8,3", "64,8,5")),
    *(narrow_accumulator(bits) for bits in (7, 5, 3)), narrow_accumulator().replace("fma(", "fma(chunk=16,"),
)  # fmt: skip


def main(arguments: list[str]) -> int:
    """Synthesize, and write the table after each. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.write_areas")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seconds", type=int, default=_SECONDS)
    parser.add_argument("operators", nargs="*")
    options = parser.parse_args(arguments)
    rows: dict[str, Synthesized] = {} if options.all else dict(table())
    names = [*named_operators(), *OTHERS] if options.all or options.missing else options.operators
    order = {str(parse_fma(text)): n for n, text in enumerate([*named_operators(), *OTHERS])}
    of_circuits = {_circuit(parse_fma(text)): row for text, row in rows.items()}
    for op in sorted(map(parse_fma, names), key=lambda op: len(circuit(op).numbers)):
        if options.missing and str(op) in rows:
            continue
        key = _circuit(op)
        try:
            row = of_circuits.get(key) if options.missing or options.all else None
            rows[str(op)] = replace(row or synthesized(op, seconds=options.seconds), operator=str(op))
        except NumcError as error:
            print(error, flush=True)
            continue
        of_circuits[key] = rows[str(op)]
        print(rows[str(op)], flush=True)
        made = sorted(rows.values(), key=lambda row: order.get(row.operator, len(order)))
        content = {"cells": CELLS, "unit": "NAND2", "rows": [each.as_json() for each in made]}
        TABLE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


def _circuit(op: Fma) -> tuple[str, str, str]:
    """The circuit of an operator, or that with A and B exchanged, and the formats that operands are converted to."""
    sides = (op, replace(op, a=op.b, b=op.a))
    return min((fingerprint(each), str(each.a), str(each.b)) for each in sides)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
