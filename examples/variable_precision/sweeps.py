"""The experiments in which all layers compute in the same format, one format after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import measure
import published
from rich.console import Console
from rich.progress import track

STANDARD = ("tf32", "fp16", "bf16", "dlfloat16", "fp8_e4m3", "fp8_e5m2")


@dataclass(frozen=True)
class Experiment:
    """Formats to compare. accumulators: `F` sums in the format of the operands, `fp32` in fp32."""

    title: str
    formats: tuple[str, ...]
    accumulators: tuple[str, ...] = ("F", "fp32")


EXPERIMENTS = {
    "standard": Experiment("Standard formats", STANDARD, ("F",)),
    "accumulate": Experiment("Accumulate to higher precision", STANDARD),
    "exponent": Experiment("Exponent sweep, 7 significand bits", tuple(f"e{x}m7" for x in range(8, 1, -1))),
    "significand": Experiment("Significand sweep, 8 exponent bits", tuple(f"e8m{y}" for y in range(7, 0, -1))),
    "12-bit": Experiment("Exponent or significand: 12 bits", tuple(f"e{x}m{11 - x}" for x in range(8, 1, -1))),
}


@dataclass(frozen=True)
class Row:
    """One model in one format: results by accumulator, and the published accuracy, if there is one."""

    model: str
    format: str
    results: dict[str, measure.Result]
    published: float | None


def arithmetic(name: str, accumulator: str) -> dict[str, str]:
    """Return the arithmetic that computes in format `name`, with sums in that format (F) or in fp32."""
    return {"fma": f"fmac({name})" if accumulator == "F" else f"fmacs({name})", "ops": name}


def run(experiment: str, models: Sequence[str], formats: Sequence[str], limit: int | None) -> list[Row]:
    """Return the rows of every model, fp32 first. Raises numc.NumcError for a format that does not exist."""
    accumulators = EXPERIMENTS[experiment].accumulators
    images = measure.held_out(limit)
    console = Console(stderr=True)
    rows: list[Row] = []
    for model in models:
        exact = measure.logits(model, images, fma="fp32")
        fp32 = measure.judge(exact, exact, images)
        known = partial(published.accuracy, experiment, model)
        rows.append(Row(model, "fp32", dict.fromkeys(accumulators, fp32), known("fp32")))
        for name in track(formats, f"{model}.onnx", console=console, transient=True, disable=not console.is_terminal):
            results = {
                accumulator: measure.judge(
                    measure.logits(model, images, **arithmetic(name, accumulator)), exact, images
                )
                for accumulator in accumulators
            }
            rows.append(Row(model, name, results, known(name)))
    return rows
