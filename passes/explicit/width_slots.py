"""The widths that runs of a program choose: one slot for each operand, or product, of a layer in an open format.

Generated code asks for the widths of a slot by its number; the table of all slots tells whoever runs the program what
can be chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch_mlir import ir

from numc.numerics.formats import Open
from numc.numerics.operators import Fma
from numc.numerics.policy.layer import Layer
from numc.passes import facts, linalg

_SLOTS = "numc.widths"  # of the module
_SWAPPED = {"a": "b", "b": "a"}


@dataclass
class Slots:
    """The slots of a module, in the order of their numbers: layer, operand as a policy names it, and ranges."""

    found: dict[tuple[str, str, Open], int] = field(default_factory=dict)

    def of(self, layer: Layer, fma: Fma) -> dict[str, int]:
        """Return the numbers of the slots of an operator in a layer, by what they are of: ``a``, ``b``, ``product``."""
        numbers = {}
        for name, widths in fma.open_operands.items():
            named = _SWAPPED.get(name, name) if layer.swapped else name
            numbers[name] = self.found.setdefault((layer.name, named, widths), len(self.found))
        return numbers

    def write(self, module: ir.Operation) -> None:
        """Write the table into the module."""
        if self.found:
            facts.put(
                module,
                _SLOTS,
                [[layer, operand, *widths.exponent, *widths.significand] for layer, operand, widths in self.found],
            )


def slots_of(module: ir.Operation) -> list[tuple[str, str, Open]]:
    """Return the slots of a module by their numbers: layer, operand, ranges."""
    rows = facts.get(module, _SLOTS, [])
    return [(layer, operand, Open((e0, e1), (m0, m1))) for layer, operand, e0, e1, m0, m1 in rows]


def measures(op: ir.Operation) -> bool:
    """Whether an operation, or one inside it, converts operands to open widths, so that a run may measure them."""
    return any({"a", "b"} & facts.get(each, "widths", {}).keys() for each in linalg.operations(op, "numc.fma"))
