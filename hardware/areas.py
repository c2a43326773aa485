"""The table of areas after synthesis that comes with numc, so that nobody needs Yosys to read them.

``python -m tools.write_areas --all`` makes it again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from numc.hardware.synthesis import Synthesized, synthesized
from numc.numerics.operators import Fma

TABLE = Path(__file__).with_name("areas.json")
NAME = "hardware/areas.json: yosys 0.23, cells of OSU 0.18 um, in NAND2 gates"


@cache
def table() -> Mapping[str, Synthesized]:
    """Return the rows by the text of the operator."""
    if not TABLE.exists():
        return {}
    rows = json.loads(TABLE.read_text(encoding="utf-8"))["rows"]
    keys = Synthesized.__dataclass_fields__
    return {row["operator"]: Synthesized(**{key: row[key] for key in keys}) for row in rows}


def synthesized_area(op: Fma) -> Synthesized:
    """Return an operator after synthesis: from the table if it has it, otherwise by Yosys. Raises NumcError."""
    return table().get(str(op)) or synthesized(op)
