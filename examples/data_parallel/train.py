"""Data-parallel training of a digits classifier in a chosen arithmetic: every process takes a part of each batch.

``torchrun --nproc-per-node 2 examples/data_parallel/train.py --arithmetic bf16_1_2``. Needs torch. A single
process computes the parts one after the other. In both cases half the gradient of the second part is added to half that
of the first in fp32, so one process and two give the same bits of the weights, which are printed as a hash.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

import numc

DIGITS = Path(__file__).parents[1] / "digits" / "heldout.npz"
PARTS = 2


def main() -> None:
    """Train for some steps and print a hash of the weights."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--arithmetic", default="mp", help="a preset or an operator")
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--patience", type=float, default=300, help="seconds that a process waits for the others")
    chosen = options.parse_args()
    # A process that waits longer for the others ends with an error that names the operation; gloo waits for 30 minutes.
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=chosen.patience))
    rank, processes = dist.get_rank(), dist.get_world_size()
    if PARTS % processes:
        raise SystemExit(f"{processes} processes: want one or {PARTS}")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    parallel = nn.parallel.DistributedDataParallel(torch.compile(model, backend=numc.backend(chosen.arithmetic)))
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1, momentum=0.9)
    digits = np.load(DIGITS)
    images, labels = torch.from_numpy(digits["images"]), torch.from_numpy(digits["labels"])
    for _ in range(chosen.steps):
        batch = torch.randint(len(images), (PARTS, 32))  # every process has the same seed, so the batches are the same
        optimizer.zero_grad()
        mine = batch[rank::processes]
        for part in mine:
            (F.cross_entropy(parallel(images[part]), labels[part]) / len(mine)).backward()
        optimizer.step()
    weights = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    if rank == 0:
        print(f"weights {weights[:16]}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
