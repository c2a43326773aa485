"""Normalise one layer after another by TrainBF: how long a step takes, and the error of the last layer.

Run from anywhere: ``python examples/trainbf/layers.py``. Needs torch. Times are CPU times of one thread, relative to a
step in bfloat16 alone, in turns; errors are bits, and the same everywhere.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "formats_compared"))
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from cells import markdown
from study import positive, status
from torch import Tensor, nn

import numc
from numc.train import TrainBF, layer_errors

NONE, SCALE, ALL = "no layer", "no layer, the loss is scaled", "all layers"
CHANNELS, BATCH, SIDE, CLASSES = 64, 16, 32, 10
INNER = ("2", "4", "6", "8")
"""The layers between the first and the last."""


@dataclass(frozen=True)
class Row:
    """A choice of normalised layers. time: of a step, the median over the turns. error: of the last layer."""

    layers: str
    time: float
    error: float


def network() -> nn.Module:
    """Return five convolutions of 3 x 3 with random weights, an average and a dense layer; input [n, 3, 32, 32]."""
    body: list[nn.Module] = []
    for inputs in (3, *[CHANNELS] * len(INNER)):
        body += [nn.Conv2d(inputs, CHANNELS, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(CHANNELS, CLASSES))


def training(layers: Sequence[str], is_scaled: bool) -> tuple[Callable[[], None], float]:
    """Return a step under TrainBF with normalised layers, and the error of the last layer before the first step."""
    torch.manual_seed(0)
    model, x, y = network(), torch.randn(BATCH, 3, SIDE, SIDE), torch.randint(0, CLASSES, (BATCH,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    techniques = dict.fromkeys(("range", "weights"), bool(layers))
    recipe = TrainBF(model, optimizer, x, steps=1000, layers=layers or None, scale=is_scaled, **techniques)
    compiled = torch.compile(backend=numc.backend(strict=True))

    @compiled
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        recipe.scaled(loss).backward()
        recipe.step_optimizer()
        return loss

    @compiled
    def predict(x: Tensor) -> Tensor:
        with torch.no_grad():
            return model(x)

    errors = list(layer_errors(lambda: predict(x)).values())
    recipe.prepare(step, x, y)

    def run() -> None:
        with recipe:
            loss = step(x, y)
        recipe.update(float(loss.detach()))

    return run, errors[-1]


def measured(turns: int) -> list[Row]:
    """Return a row for each choice of layers."""
    choices: dict[str, tuple[Sequence[str], bool]] = {NONE: ((), False), SCALE: ((), True)}
    choices |= {f"layer {layer}": ((layer,), True) for layer in INNER} | {ALL: (INNER, True)}
    with torch._dynamo.config.patch(recompile_limit=1000, accumulated_recompile_limit=1000):
        steps = {name: training(*choice) for name, choice in choices.items()}
        times = np.array([[_seconds(step) for step, _ in steps.values()] for _ in range(turns + 1)])[1:]
    ratios = np.median(times / times[:, :1], axis=0)
    return [Row(name, float(ratio), error) for (name, (_, error)), ratio in zip(steps.items(), ratios, strict=True)]


def _seconds(step: Callable[[], None]) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table."""
    lines = [["normalised", "time of a step", "error of the last layer"]]
    return markdown(lines + [[row.layers, f"{row.time:.2f}", f"{row.error:.1e}"] for row in rows])


def report(args: argparse.Namespace) -> None:
    """Measure, print, and write."""
    rows = measured(args.turns)
    print(table(rows))
    if args.results:
        text = json.dumps([asdict(row) for row in rows], indent=1)
        args.results.write_text(text + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and report. Returns the exit status: 2 for bad input, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=positive, default=15, metavar="N", help="steps of each choice; default: 15")
    parser.add_argument("--results", type=Path, metavar="FILE", help="write the rows as JSON")
    return status(report, parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
