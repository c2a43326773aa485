"""``python -m tools.proofs [--count N] [--minutes M] [OPERATOR ...]`` compares units, and records what it found.

Without operators, it takes all named operators and units that have RTL whose row is missing or stale.
The results are in results.json, a row for each operator; a test says which of them are stale.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from numc.hardware.verilator import check_verilator
from numc.numerics.grammar import parse_fma
from tools.proofs.comparison import Compared, compared, fingerprint
from tools.proofs.names import named_operators

RESULTS = Path(__file__).with_name("results.json")


def recorded() -> dict[str, Compared]:
    """The rows of the results, by the text of the operator."""
    if not RESULTS.exists():
        return {}
    return {row["operator"]: Compared(**row) for row in json.loads(RESULTS.read_text(encoding="utf-8"))}


def main(arguments: list[str]) -> int:
    """Compare, and write the results after each. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.proofs")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("operators", nargs="*")
    options = parser.parse_args(arguments)
    check_verilator()
    rows, wrong, end = recorded(), 0, time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="numc-proofs-") as folder:
        for text in options.operators or named_operators():
            op = parse_fma(text)
            known = rows.get(str(op))
            current = known is not None and known.steps >= options.count and known.rtl == fingerprint(op)
            if current and not options.operators:
                continue
            if time.monotonic() > end:
                break
            begun = time.monotonic()
            row = compared(op, options.count, Path(folder) / "unit")
            shutil.rmtree(Path(folder) / "unit")
            rows[row.operator] = row
            wrong += row.wrong_steps + row.wrong_sums
            print(f"{time.monotonic() - begun:6.1f} s {row}", flush=True)
            content = [asdict(each) for _, each in sorted(rows.items())]
            RESULTS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
