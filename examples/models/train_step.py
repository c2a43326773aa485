"""Training steps of a network of zoo.py in an arithmetic: their time and memory, and the error of the gradients.

``python examples/models/train_step.py resnet50 --arithmetic bf16_1_1`` prints one line of JSON. ``--arithmetic eager``
is torch alone, ``--small`` takes a network that compiles in seconds. ``--check`` adds the relative error (the norm of
the difference over the norm) of the gradients of the first step, and of eager torch's, against float64. The gradient of
a ReLU jumps where its input is nearly zero, in any arithmetic: ``--smooth`` replaces it by SiLU.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
import warnings
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from zoo import FULL, SMALL, Case

import numc

STEPS = 3  # the second one creates the state of the optimizer, the third one creates nothing


def peak() -> float:
    """Return the peak memory of this process in MiB. (The maximum of getrusage includes memory of the parent.)"""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def gradients(model: nn.Module) -> torch.Tensor:
    """Return the gradients of all parameters as one vector of float64."""
    return torch.cat([p.grad.flatten().double() for p in model.parameters() if p.grad is not None])


def training(model: nn.Module, case: Case, arithmetic: str) -> Any:
    """Return a step of SGD with momentum, compiled with numc unless the arithmetic is ``eager``."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step(*inputs: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = case.loss(model(*inputs))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step if arithmetic == "eager" else torch.compile(step, backend=numc.backend(arithmetic))


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
    }


def measured(case: Case, arithmetic: str, *, steps: int = STEPS, check: bool = False) -> dict[str, Any]:
    """Train for some steps in this process; return the measurements. Times are wall times in seconds."""
    torch.manual_seed(0)
    model, inputs = case.model(), case.inputs()
    start = copy.deepcopy(model) if check else None
    step = training(model, case, arithmetic)
    seconds, programs, found = [], [], None
    for n in range(steps):
        torch.manual_seed(1)
        begin, cpu = time.perf_counter(), time.process_time()
        loss = float(step(*inputs))
        seconds.append(time.perf_counter() - begin)
        programs.append(numc.counters().programs)
        if n == 0:
            row = {"loss": loss, "first_cpu_seconds": time.process_time() - cpu}
            found = gradients(model) if check else None
    row |= {"first_seconds": seconds[0], "later_seconds": seconds[-1], "peak_mib": peak()}
    made = [after - before for before, after in zip([0, *programs[:-1]], programs, strict=True)]
    row |= {**vars(numc.counters()), "new_programs": made}
    assert all(p.grad.isfinite().all() for p in model.parameters())
    return {**row, **error(start, case, inputs, found)} if check else row


def main() -> None:
    """Measure one network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=FULL)
    parser.add_argument("--arithmetic", default="fp32", help="as numc.backend takes it, or eager")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--smooth", action="store_true")
    args = parser.parse_args()
    if args.smooth:
        F.relu = F.relu6 = F.hardtanh = lambda x, *_, **__: F.silu(x)
    case = (SMALL if args.small else FULL)[args.model]
    warnings.simplefilter("ignore")
    row = measured(case, args.arithmetic, check=args.check)
    print(json.dumps({"model": args.model, "arithmetic": args.arithmetic, **row}))


if __name__ == "__main__":
    main()
