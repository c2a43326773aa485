"""Every operation and attribute of numc that the text of IR can hold: what it is on, and what it means.

Data for the reference of the dialect (docs/dialect.md), which a test compares with dumps and with the sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

OPERATIONS: Mapping[str, str] = MappingProxyType({
    "numc.round": "`%x {to = \"bf16\"}`: a float32 or float64, rounded to a format once, as a float32 number",
    "numc.fma": "`%a, %b, %c {fma = \"bf16_1_1\"}`: one step of an FMA operator, whose operands are converted already",
    "numc.encode": "`%x {to = \"bf16\"}`: a float32 number rounded to a format, as the code in its dtype",
})  # fmt: skip

# Attribute -> (on what, what it says).
ATTRIBUTES: Mapping[str, tuple[str, str]] = MappingProxyType({
    "numc.activations": ("module", "tensors between operations that are held in fewer bytes: rows of the manifest"),
    "numc.arguments": ("entry", "the attributes that the arguments of `@main` had before `packed-entry` replaced it"),
    "numc.batches": ("region", "its rows are the batches of its contractions (see `numc.rows`)"),
    "numc.buffers": ("module", "the buffers of `@main`: which parts read and write them"),
    "numc.by_phases": ("contraction", "it is computed by phases where nobody observes it: `skip-zeros`"),
    "numc.calibration": ("module", "the largest magnitudes of operands of contractions, from data"),
    "numc.constants": ("module", "a program of what follows from weights, which runs when the program file is written"),
    "numc.contraction": ("region", "what a contraction computes: its loops, sizes, operator, layer and role"),
    "numc.contractions": ("module", "all contractions: rows of the manifest"),
    "numc.conversion": ("argument", "a weight is rounded to this when the program file is written"),
    "numc.empty": ("argument", "a weight that is used in packed form only: the program holds no other"),
    "numc.failures": ("module", "the messages of checks of the run, by their numbers"),
    "numc.fmas": ("call", "the multiply-adds of a contraction, where its sizes are known"),
    "numc.folded": ("argument", "it is result number N of `numc.constants`"),
    "numc.finite": ("contraction", "no element of its second operand is infinite or NaN in its format"),
    "numc.inserted": ("contraction", "the zeros between and around the elements of its first operand are none of the "
                      "model's: it is a transposed convolution"),
    "numc.inside": ("linalg.generic", "all indices that it computes are inside of their tensors"),
    "numc.kernel": ("function", "code of a kernel, which no pass changes before the stage `llvm`"),
    "numc.largest": ("argument", "the largest magnitude in a weight, or NaN"),
    "numc.layer": ("linalg.generic", "the operation of the model: its name, kind, role and number among contractions"),
    "numc.layers": ("module", "what a policy decided for every operation: rows of the manifest"),
    "numc.nodes": ("module", "names of operations of the model, by those that the importer gave them"),
    "numc.number": ("call", "the number of a contraction, -1 where it has none"),
    "numc.packing": ("argument", "how a packed weight is made from the weight"),
    "numc.packs": ("call", "it packs its second operand into its first"),
    "numc.parts": ("module", "the parts of `@main` that profiles name"),
    "numc.phase": ("contraction", "it is one phase of a contraction of the model"),
    "numc.plan": ("region", "how it is computed: [read a plan](inspect-the-ir.md#read-a-plan-and-change-it)"),
    "numc.role": ("contraction", "`forward`, `dgrad`, `wgrad`, ...: what it is in a training step"),
    "numc.roles": ("module", "the roles of operations, by their names"),
    "numc.rows": ("region, linalg.generic", "a chain that is computed some rows at a time: its contractions; how many "
                  "of the first dimensions are rows"),
    "numc.scalar_loops": ("module", "it has loops that LLVM must not make vectors of"),
    "numc.seen": ("call", "its first operand is read only if an observer looks on"),
    "numc.stage": ("module", "the last stage whose passes have all run; on texts only"),
    "numc.stored": ("argument", "the format in whose codes it is stored"),
    "numc.stored_results": ("module", "the same of results: pairs of a number and a format"),
    "numc.tiles": ("call", "of target `cuda`: the texts of a contraction's kernels, and what they are given"),
    "numc.updates": ("argument", "the number of the result that may take its memory"),
    "numc.weight": ("argument", "it is a weight, with this name"),
    "numc.widths": ("module", "open widths of operands, one row for each slot that a run fills"),
})  # fmt: skip
