"""Two training steps of a network of zoo.py in an arithmetic: what they cost, and whether the gradients are right.

``python examples/models/train_step.py resnet50 --arithmetic bf16_1_1`` prints one line of JSON. Gradients are those of
the first step; their error is the norm of the difference to eager torch's in float64, over the norm of these.
``--arithmetic eager`` is torch alone. ``--small`` takes a network that compiles in seconds.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from typing import Any

import torch
from torch import nn
from zoo import FULL, SMALL, Case

import numc


def peak() -> float:
    """Return the most memory that this process has had so far, in MiB. Not getrusage's: that has the parent's."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def gradients(model: nn.Module) -> torch.Tensor:
    """Return all of them as one vector of float64."""
    return torch.cat([p.grad.flatten().double() for p in model.parameters() if p.grad is not None])


def steps(model: nn.Module, case: Case, inputs: Any, arithmetic: str) -> tuple[dict[str, Any], torch.Tensor]:
    """Take two steps of SGD with momentum; return what was measured, and the gradients of the first."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def train(*inputs: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = case.loss(model(*inputs))
        loss.backward()
        optimizer.step()
        return loss

    step = train if arithmetic == "eager" else torch.compile(train, backend=numc.backend(arithmetic))
    torch.manual_seed(1)
    start, cpu = time.perf_counter(), time.process_time()
    loss = float(step(*inputs))
    row = {"first_step_seconds": time.perf_counter() - start, "first_step_cpu_seconds": time.process_time() - cpu}
    found = gradients(model)
    step(*inputs)  # the optimizer's state exists now: another program
    start = time.perf_counter()
    step(*inputs)
    return {**row, "loss": loss, "later_step_seconds": time.perf_counter() - start, "peak_mib": peak()}, found


def error(model: nn.Module, case: Case, inputs: Any, found: torch.Tensor) -> dict[str, float]:
    """Return the relative errors of `found`, and of eager torch's gradients, against float64."""
    vectors = []
    for dtype in (torch.float64, torch.float32):
        torch.manual_seed(1)
        one = copy.deepcopy(model).to(dtype)
        values = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
        case.loss(one(*values)).backward()
        vectors.append(gradients(one))
    exact, eager = vectors
    return {
        "gradient_error": float((found - exact).norm() / exact.norm()),
        "eager_gradient_error": float((eager - exact).norm() / exact.norm()),
        "gradient_difference": float((found - eager).abs().max() / eager.abs().max()),
    }


def main() -> None:
    """Measure one network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=FULL)
    parser.add_argument("--arithmetic", default="fp32", help="as numc.backend takes it, or eager")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--no-check", action="store_true", help="leave the float64 gradients out")
    args = parser.parse_args()
    case = (SMALL if args.small else FULL)[args.model]
    torch.manual_seed(0)
    model, inputs = case.model(), case.inputs()
    start = copy.deepcopy(model)
    row, found = steps(model, case, inputs, args.arithmetic)
    row = {"model": args.model, "arithmetic": args.arithmetic, **row, **vars(numc.counters())}
    if not args.no_check:
        row |= error(start, case, inputs, found)
    print(json.dumps(row))


if __name__ == "__main__":
    main()
