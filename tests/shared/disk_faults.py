"""``python -m disk_faults FOLDER``, with disk.c loaded before it: writes a program while one call after another fails.

Prints, as JSON, what was wrong: nothing where every file is complete or absent and every error is one line.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

import runtime_programs as programs
from numc.runtime import load, write_program
from numc.support.errors import NumcError

KINDS = {"short": "s", "interrupted": "i", "full": "f", "broken": "b"}


def main(folder: Path) -> dict[str, object]:
    disk = ctypes.CDLL(None)
    disk.numc_test_left.restype = ctypes.c_long
    contents = programs.add_packed()
    wrong: list[str] = []
    calls = {}
    for kind, letter in KINDS.items():
        for call in range(1, 200):
            for before in (False, True):
                path = folder / f"{kind}{call}{before}.numc"
                if before:
                    path.write_bytes(b"what was there")
                said = ""
                disk.numc_test_arm(ord(letter), ctypes.c_long(call))
                try:
                    write_program(path, contents)
                except NumcError as error:
                    said = str(error)
                reached = said != "" or disk.numc_test_left() == 0
                disk.numc_test_arm(0, ctypes.c_long(0))
                if said:
                    if "\n" in said or not ("No space left" in said or "Input/output" in said or "Interrupted" in said):
                        wrong.append(f"{kind} {call}: {said}")
                    if path.exists() != before or (before and path.read_bytes() != b"what was there"):
                        wrong.append(f"{kind} {call}: a file that failed is there")
                else:
                    load(path)
                path.unlink(missing_ok=True)
                wrong += [f"{kind} {call}: {left.name} is left" for left in folder.iterdir()]
                for left in folder.iterdir():
                    left.unlink()
            if not reached:
                calls[kind] = call - 1
                break
    return {"wrong": wrong, "calls": calls}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
