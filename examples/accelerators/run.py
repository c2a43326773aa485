"""Measure three networks and a dot product under every matrix unit, and compare each unit with its published model.

``python examples/accelerators/run.py`` writes docs/accelerators/results.json and the tables of docs/accelerators.md;
``--render`` writes the tables from the file that is there. Needs mmasim, torch and onnxruntime.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import measured
import page

from numc.support.errors import NumcError

ROOT = Path(__file__).parents[2]
RESULTS, PAGE = ROOT / "docs" / "accelerators" / "results.json", ROOT / "docs" / "accelerators.md"


def results(names: Sequence[str], steps: int) -> list[dict[str, Any]]:
    """What was found of the operators, each with the units that compute the same."""
    same = measured.distinct()
    errors = measured.networks(names)
    found = []
    for name in names:
        print(name)
        published = measured.published(name, steps) if name in same else None
        found.append({
            "names": same.get(name, (name,)),
            "errors": {network: measured.as_json(error) for network, error in errors[name].items()},
            "dots": measured.as_json(measured.dots(name)),
            "published": measured.as_json(published),
        })  # fmt: skip
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="the results file")
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps of a unit beside the published model")
    parser.add_argument("--render", action="store_true", help="only write the tables of the page")
    parser.add_argument("units", nargs="*", help="units, which are then only printed; default: all")
    given = parser.parse_args(arguments)
    try:
        if not given.render:
            names = given.units or [*measured.PLAIN, *measured.distinct()]
            found = results(names, given.steps)
            if given.units:
                print(page.tables(found)["units"])
                return 0
            given.output.parent.mkdir(exist_ok=True)
            lines = ",\n".join(json.dumps(row) for row in found)
            given.output.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        rows = json.loads(given.output.read_text(encoding="utf-8"))
        PAGE.write_text(page.written(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    except (NumcError, OSError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
