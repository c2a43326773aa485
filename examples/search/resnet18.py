"""Search the cheapest operands of a ResNet-18's training: widths for its forward pass, dgrad and wgrad.

``python examples/search/resnet18.py FOLDER`` writes the policy, all evaluations and a page; the same command goes on
with a search that was interrupted. One training step with open widths serves all candidates: each is a short training,
and nothing is compiled for it. Data and weights are the same in every training.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

import numc

sys.path.append(str(Path(__file__).parents[1] / "formats_compared"))
from tasks import Digits

TASK = Digits(depths=(2, 2, 2, 2), batch=64, steps=160)
SPACE = "e=3..8 m=1..7"
OPEN = "fmacs(e2..8m1..23)"
CHOICE = re.compile(r"^role (\w+) +fma = fmacs\(e(\d)m(\d+)\)$", re.MULTILINE)


def network() -> nn.Module:
    """Return the network with the same random weights at every call."""
    torch.manual_seed(0)
    return TASK.model()


def accuracy(policy: str, split: str) -> float:
    """Return the percentage of right answers after the training; half of the held-out images are of each split."""
    widths = {role: (int(e), int(m)) for role, e, m in CHOICE.findall(policy)}
    every = {"*": widths["forward"], **{f"*/{role}": widths[role] for role in ("dgrad", "wgrad")}} if widths else {}
    net, step = _step(OPEN if widths else "fp32")
    net.load_state_dict(network().state_dict())
    optimizer = torch.optim.SGD(net.parameters(), TASK.rate, TASK.momentum)
    batches = TASK.batches(0)
    with numc.widths(every):
        for _ in range(TASK.steps):
            optimizer.zero_grad()
            step(*next(batches)).backward()
            optimizer.step()
    return _score(net, split)


@cache
def _step(operator: str) -> tuple[nn.Module, Callable[[Tensor, Tensor], Tensor]]:
    net, loss = network(), nn.CrossEntropyLoss()
    return net, torch.compile(lambda images, labels: loss(net(images), labels), backend=numc.backend(fma=operator))


def _score(net: nn.Module, split: str) -> float:
    """Return the score in fp32, so that the arithmetic of the training alone decides."""
    net.eval()
    scores = []
    with torch.no_grad():
        for images, labels in TASK.held_out():
            some = slice(0, 250) if split == "search" else slice(250, 500)
            scores.append(TASK.score(net(images[some]), labels[some]))
    net.train()
    return sum(scores) / len(scores)


def main() -> None:
    """Search, and print the outcome and the front of cost and loss."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tolerance", type=float, default=2.0, help="percentage points of accuracy")
    parser.add_argument("--trials", type=int, default=40, help="try no more candidates than these")
    args = parser.parse_args()
    found = numc.search(
        network(),
        example_inputs=next(TASK.batches(0))[0],
        evaluate=accuracy,
        tolerance=args.tolerance,
        by="role",
        space=SPACE,
        objective="bytes",
        sampler="nsga2",
        folder=args.folder,
        resume=(args.folder / "results.jsonl").exists(),
        trials=args.trials,
        progress=lambda count, best, _: print(
            f"{count} evaluated, best area {best.cost if best else None}", flush=True
        ),
    )
    print(found.policy)
    for row in found.rows:
        print(f"{row.name}: {row.cost} bytes, search {row.search:.1f} %, report {row.report:.1f} %")
    for trial in found.front():
        widths = ", ".join(f"{name} e{v['e']}m{v['m']}" for name, v in found.values(trial).items())
        print(f"{trial.cost} bytes: {trial.value:.1f} %: {widths}")


if __name__ == "__main__":
    main()
