"""Train the small transformer of this example, and export it: transformer.onnx and held_out.npz.

Run from anywhere: ``python examples/own_unit/train.py``. Needs torch, onnx and onnxscript. Takes a minute.
"""

from __future__ import annotations

import math
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import cross_entropy

sys.path.append(str(Path(__file__).parents[1] / "formats_compared"))
sys.path.append(str(Path(__file__).parents[1] / "models"))
import make
import tasks
import zoo

HERE = Path(__file__).parent
TASK = tasks.Language(length=16, steps=1500)
"""A random language of 16 letters, of which two give the probabilities of the next one."""
WINDOWS = 256
"""Held-out texts."""


def main() -> None:
    """Train, report, export."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = zoo.Decoder(TASK.letters, 48, layers=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, TASK.steps)
    for letters, following in islice(TASK.batches(0), TASK.steps):
        optimizer.zero_grad()
        cross_entropy(model(letters).flatten(0, -2), following).backward()
        optimizer.step()
        schedule.step()
    letters, following = (part.numpy() for part in TASK.held_out()[0])
    letters, following = letters[:WINDOWS], following.reshape(len(letters), -1)[:WINDOWS]
    np.savez_compressed(HERE / "held_out.npz", letters=letters, following=following)
    model.eval()
    with torch.no_grad():
        logits = model(torch.from_numpy(letters)).flatten(0, -2)
    loss = cross_entropy(logits.double(), torch.from_numpy(following).flatten())
    print(f"perplexity {math.exp(loss):.3f} on {following.size} letters; the least possible: {TASK.floor():.3f}")
    torch.onnx.export(
        model,
        (torch.zeros(2, TASK.length, dtype=torch.int64),),
        HERE / "transformer.onnx",
        input_names=["letters"],
        output_names=["logits"],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        opset_version=18,
        external_data=False,
        dynamo=True,
    )
    make.strip(HERE / "transformer.onnx")


if __name__ == "__main__":
    main()
