"""Times on a GPU, for gpu_check.py: products, a training step of ResNet-50, and a profile of the slowest operator."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

import torch

import numc
from tools.house import ROOT

TIMED = ("fp32", "mp", "bf16_1_1", "bf16_1_2", "bf16_2_2{3}", "fmac(e6m9)", "hopper_bf16")
#: What is aimed at, of the peak in float32 multiply-adds.
AIMS = {"fp32": 0.6, "mp": 0.6, "bf16_1_1": 0.25, "bf16_2_2{3}": 0.08, "hopper_bf16": 0.05}
_PROFILE = """
import torch
from tools.gpu_times import product
a, b = torch.randn({size}, {size}, device="cuda"), torch.randn({size}, {size}, device="cuda")
product({fma!r}, a, b)(a, b)
"""


class Product(torch.nn.Module):
    """Two factors as they come."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def product(fma: str, a: torch.Tensor, b: torch.Tensor) -> Any:
    """The program of a product under an operator, on the device of the factors."""
    return numc.compile(Product(), (a.cpu(), b.cpu()), fma=fma, target="cuda").to(str(a.device.type))


def times(size: int) -> dict[str, dict[str, float]]:
    """Multiply-adds a second of products, and over those of the vendor's float32."""
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = torch.randn(size, size, device="cuda"), torch.randn(size, size, device="cuda")
    vendor = size**3 / _seconds(lambda: a @ b)
    found = {"torch float32": {"tera multiply-adds a second": vendor / 1e12, "of the vendor's": 1.0}}
    for fma in TIMED:
        program = product(fma, a, b)
        rate = size**3 / _seconds(lambda program=program: program(a, b))  # type: ignore[misc]
        found[fma] = {"tera multiply-adds a second": rate / 1e12, "of the vendor's": rate / vendor}
    return found


def slowest(measured: Mapping[str, Mapping[str, float]]) -> str:
    """The operator that is furthest below its aim."""
    return min(AIMS, key=lambda fma: measured[fma]["of the vendor's"] / AIMS[fma])


def profile(fma: str, size: int) -> str:
    """What Nsight Compute tells of the kernels of a product, or why there is nothing."""
    tool = shutil.which("ncu")
    if tool is None:
        return "there is no ncu"
    code = _PROFILE.format(size=size, fma=fma)
    command = [tool, "--set", "basic", "--launch-count", "4", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    return done.stdout if done.returncode == 0 else f"ncu failed: {(done.stdout + done.stderr)[-2000:]}"


def training_step(arithmetic: str, device: str, *, target: str | None, small: bool) -> Callable[[], torch.Tensor]:
    """A step of SGD of ResNet-50, whose result is the loss; ``eager`` is torch alone.

    small: a network of the same blocks on 2 images of 16x16, in place of 64 of 224x224. target: as `numc.backend`.
    """
    networks = _networks()
    torch.manual_seed(0)
    model = networks.resnet50(4, (1,)) if small else networks.resnet50(classes=1000)
    images = torch.randn(2, 3, 16, 16) if small else torch.randn(64, 3, 224, 224)
    model, images = model.to(device), images.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    backend = None if arithmetic == "eager" else numc.backend(arithmetic, target=target)
    compiled = model if backend is None else torch.compile(model, backend=backend)

    def run() -> torch.Tensor:
        optimizer.zero_grad()
        loss = networks.FULL["resnet50"].loss(compiled(images))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return run


def step_times() -> dict[str, float]:
    """Seconds of a step under ``bf16_1_1`` and in eager torch, and their ratio."""
    torch.backends.cudnn.allow_tf32 = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, eager = (
            _seconds(training_step(arithmetic, "cuda", target=None, small=False))
            for arithmetic in ("bf16_1_1", "eager")
        )
    return {"bf16_1_1": ours, "eager torch": eager, "ratio": ours / eager}


def _networks() -> ModuleType:
    """The networks of examples/models."""
    spec = spec_from_file_location("zoo", ROOT / "examples" / "models" / "zoo.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def _seconds(function: Callable[[], object]) -> float:
    """The least time of five runs, each of which the GPU has finished."""
    function()
    best = float("inf")
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best
