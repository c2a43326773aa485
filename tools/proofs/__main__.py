"""``python -m tools.proofs [--pairs] [--count N] [--minutes M] [OPERATOR ...]`` compares units and records them.

Without operators, it takes all named operators and units that have RTL whose row is missing or stale. The results are
in results.json, a row for each operator; a test says which of them are stale. --pairs: operators of small formats,
with all pairs of operands, recorded in pairs.json.
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
from tools.proofs.comparison import Compared, compared, compared_pairs, fingerprint
from tools.proofs.names import named_operators, small_operators

RESULTS = Path(__file__).with_name("results.json")


PAIRS = RESULTS.with_name("pairs.json")


def recorded(path: Path) -> dict[str, Compared]:
    """The rows of the results, by the text of the operator."""
    if not path.exists():
        return {}
    return {row["operator"]: Compared(**row) for row in json.loads(path.read_text(encoding="utf-8"))}


def main(arguments: list[str]) -> int:
    """Compare, and write the results after each. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.proofs")
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("operators", nargs="*")
    options = parser.parse_args(arguments)
    check_verilator()
    path, compare, names = (
        (PAIRS, compared_pairs, small_operators) if options.pairs else (RESULTS, compared, named_operators)
    )
    rows, wrong, end = recorded(path), 0, time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="numc-proofs-") as folder:
        for text in options.operators or names():
            op = parse_fma(text)
            known = rows.get(str(op))
            current = (
                known is not None and (known.steps >= options.count or options.pairs) and known.rtl == fingerprint(op)
            )
            if current and not options.operators:
                continue
            if time.monotonic() > end:
                break
            begun = time.monotonic()
            row = compare(op, options.count, Path(folder) / "unit")
            shutil.rmtree(Path(folder) / "unit")
            rows[row.operator] = row
            wrong += row.wrong_steps + row.wrong_sums
            print(f"{time.monotonic() - begun:6.1f} s {row}", flush=True)
            content = [asdict(each) for _, each in sorted(rows.items())]
            path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
