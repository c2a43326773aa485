"""Write runtime/src/kernels/generated_abi.hpp: the structures and constants of passes/kernels/abi.py as a C++ header.

Run ``python tools/write_abi.py`` after a change of that table. With ``--check`` nothing is written: the exit status is
1 if the header is not what the table gives.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

from numc.passes.kernels.abi import CONSTANTS, STRUCTURES, Constant, Field, Structure

HEADER = Path(__file__).resolve().parent.parent / "runtime" / "src" / "kernels" / "generated_abi.hpp"

_BEGIN = """\
// What generated code and the runtime share. Written by tools/write_abi.py from passes/kernels/abi.py: change the table
// there, then run the tool.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numc {
"""
_END = "}  // namespace numc\n"


def header_text() -> str:
    """The text of the header."""
    constants = "".join(_constant(name, constant) for name, constant in CONSTANTS.items())
    return "\n".join([_BEGIN, constants, *(_structure(s) for s in STRUCTURES), _END])


def _name(name: str) -> str:
    """The name of a constant in C++."""
    return "k" + "".join(word.capitalize() for word in name.split("_"))


def _comment(text: str, indent: str = "") -> str:
    text = re.sub("|".join(CONSTANTS), lambda found: _name(found.group()), text)
    return textwrap.fill(text, 120, initial_indent=f"{indent}// ", subsequent_indent=f"{indent}// ") + "\n"


def _constant(name: str, constant: Constant) -> str:
    value = "INT64_MIN" if constant == -(2**63) else str(constant) if abs(constant) < 1 << 32 else hex(constant)
    return _comment(constant.about) + f"constexpr int64_t {_name(name)} = {value};\n"


def _structure(structure: Structure) -> str:
    lines = [_comment(structure.about), f"struct {structure.name} {{\n", *map(_field, structure.fields)]
    if structure.tail is not None:
        tail = structure.tail
        lines += [_comment(tail.about, "  "), f"  {tail.c_type} {tail.name}[];\n"]
    name, size = structure.name, 8 * structure.words
    lines += ["};\n", f'static_assert(sizeof({name}) == {size}, "generated code counts words of 8 bytes");\n']
    return "".join(lines)


def _field(field: Field) -> str:
    space = "" if field.c_type.endswith("*") else " "
    size = "" if field.count == 1 else f"[{field.count}]"
    return _comment(field.about, "  ") + f"  {field.c_type}{space}{field.name}{size};\n"


def main(arguments: list[str]) -> int:
    """Write the header, or with ``--check`` compare it; returns the exit status."""
    text = header_text()
    if arguments == ["--check"]:
        if HEADER.read_text() == text:
            return 0
        print(f"{HEADER} is not what passes/kernels/abi.py gives: run `python tools/write_abi.py`", file=sys.stderr)
        return 1
    HEADER.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
