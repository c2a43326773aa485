"""The names of the parts of a program in a profile."""

from __future__ import annotations

from numc.numerics.grammar import stated_fma
from numc.runtime.program import Program

WHOLE_RUN, NO_PART = -2, -1
"""The numbers of a run and of what lies between parts, instead of that of a part: numc.h."""

Key = tuple[str, str, str, str]
"""Layer, role, kind and operator of a row."""


def keys_of(program: Program) -> list[Key]:
    """Return layer, role, kind and operator of every part of a program; parts without a layer are numbered.

    A chain has the names of its first and its last contraction, or that of its first step with a name.
    """
    manifest = program.manifest
    layers = {row["layer"]: row for row in reversed(manifest.get("layers", ())) if row["layer"]}
    numbered = {row["id"]: row for row in manifest.get("contractions", ())}
    keys = []
    for number, part in enumerate(manifest["parts"]):
        fma, layer, name = "", layers.get(part["layer"], {}), part["layer"] or f"part {number}"
        if part["kind"] == "chain" and part["contraction"] in numbered:
            last = numbered[part["contraction"]]
            name += f" to {last['name']}"
            fma = ", ".join(dict.fromkeys(each["fma"] for each in (layer, last) if each.get("fma")))
        if part["kind"] == "contraction":
            fma = numbered.get(part["contraction"], {}).get("fma") or layer.get("fma") or ""
            if part["contraction"] in numbered and layer.get("swapped"):
                fma = str(stated_fma(fma).swapped)
        keys.append((name, part["role"], part["kind"], fma))
    return keys
