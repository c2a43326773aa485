"""The trainings of the study: the columns of table II, the halves of figure 10, and the formats of figure 20."""

from __future__ import annotations

from collections.abc import Sequence

from published import COLUMNS

from numc.train import Fast, Recipe, Schedule, Static

BASE, FAST = "FP32", "FAST"
PRESETS = dict(
    zip(
        COLUMNS,
        ("fp32", "mp", "mp_fp16", "int8", "int12", "msfp12", "lowbfp", "midbfp", "highbfp", "hfp8"),
        strict=False,
    )
)
"""The preset of each column but the last."""
HALF = "midbfp"
"""The format of figure 10: groups of 16 values with 3 magnitude bits."""
STEPS = ("first half of the steps", "second half of the steps")
LAYERS = ("first half of the layers", "second half of the layers")
GROUPS, BITS = (8, 16, 32), (2, 3, 4, 5)


def cell(g: int, m: int) -> str:
    """Return the name of the trainings with groups of g values and m magnitude bits."""
    return f"g = {g}, m = {m}"


CELLS = {cell(g, m): (g, m) for g in GROUPS for m in BITS}


def recipe(name: str, steps: int, layers: Sequence[str]) -> Recipe:
    """Return the recipe of a training. layers: the names of the layers in the order of the forward pass."""
    if name == FAST:
        return Fast(steps)
    if name in CELLS:
        g, m = CELLS[name]
        form = f"bfp({g},3,{BITS[0]}..{BITS[-1]})"
        found = Static(f"fma(a={form}:sr8,b={form},acc=fp32) with forward={form} update=fp32 norm=fp32 softmax=fp32")
        found.widths = m
        return found
    if name in STEPS:
        halves = (HALF, "fp32") if name == STEPS[0] else ("fp32", HALF)
        return Schedule([(0.5, halves[0]), (1.0, halves[1])], steps)
    if name in LAYERS:
        middle = len(layers) // 2
        low = layers[:middle] if name == LAYERS[0] else layers[middle:]
        lines = [f'layer "{layer}", "{layer}/*" fma=fma(a={HALF},acc=fp32)' for layer in low]
        noisy = [f'layer "{layer}/*" a={HALF}:sr8' for layer in low]
        return Static("\n".join(["default fp32", *lines, *noisy]))
    return Static(PRESETS[name])
