"""Times of pieces of networks in fp32, against onnxruntime and torch.compile with inductor."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import numc
from benchmarks.measure import Call, in_turns
from benchmarks.models import graphs
from benchmarks.peers.peers import exported, inductor_call, onnxruntime_call

Row = dict[str, Any]
Shape = tuple[int, ...]

#: What a piece may take, as a multiple of the faster of the two peers.
BAR = 1.1


class Function(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        """Call the function."""
        return self.function(*inputs)


def _windows(x: Tensor) -> Tensor:
    """Windows of 7 x 7 pixels, as in Swin: (n, h, w, c) to (n h/7 w/7, 49, c)."""
    n, h, w, c = x.shape
    return x.view(n, h // 7, 7, w // 7, 7, c).transpose(2, 3).reshape(-1, 49, c)


def _image(x: Tensor) -> Tensor:
    """Back to an image of 56 x 56 pixels."""
    return x.view(1, 8, 8, 7, 7, -1).transpose(2, 3).reshape(1, 56, 56, -1)


class Modulated(nn.Module):
    """A convolution whose result has a factor for every channel of every image, as by squeeze-and-excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(64, 64, 3, padding=1)

    def forward(self, x: Tensor, factor: Tensor) -> Tensor:
        """The images, and what they are multiplied by."""
        return torch.relu(self.conv(x) * factor)


#: The name, the shapes of the inputs, and what is computed: a module, or a function of tensors.
PIECES: tuple[tuple[str, tuple[Shape, ...], nn.Module | Callable[..., Tensor]], ...] = (
    ("erf", ((3136, 384),), torch.erf),
    ("exp", ((3136, 384),), torch.exp),
    ("tanh", ((3136, 384),), torch.tanh),
    ("sigmoid", ((3136, 384),), torch.sigmoid),
    ("GELU, erf", ((3136, 384),), nn.GELU()),
    ("GELU, tanh", ((3136, 384),), nn.GELU("tanh")),
    ("SiLU", ((3136, 384),), nn.SiLU()),
    ("hardswish", ((3136, 384),), nn.Hardswish()),
    ("sum of two", ((3136, 384), (3136, 384)), torch.add),
    ("softmax over 49", ((64, 3, 49, 49),), nn.Softmax(-1)),
    ("softmax over 197", ((12, 197, 197),), nn.Softmax(-1)),
    ("softmax over 1000", ((8, 1000),), nn.Softmax(-1)),
    (
        "scale, mask, softmax",
        ((64, 3, 49, 49), (64, 1, 49, 49)),
        lambda x, mask: functional.softmax(x * 0.125 + mask, -1),
    ),
    ("LayerNorm over 96", ((3136, 96),), nn.LayerNorm(96)),
    ("LayerNorm over 768", ((197, 768),), nn.LayerNorm(768)),
    ("RMSNorm over 768", ((197, 768),), lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)),
    ("GroupNorm, 32 groups", ((1, 320, 32, 32),), nn.GroupNorm(32, 320)),
    ("sum over rows", ((3136, 384),), lambda x: x.sum(1)),
    ("sum over columns", ((3136, 384),), lambda x: x.sum(0)),
    ("NCHW to NHWC", ((1, 96, 56, 56),), lambda x: x.permute(0, 2, 3, 1).contiguous()),
    ("NHWC to NCHW", ((1, 56, 56, 96),), lambda x: x.permute(0, 3, 1, 2).contiguous()),
    ("transpose", ((768, 3072),), lambda x: x.t().contiguous()),
    ("windows", ((1, 56, 56, 96),), _windows),
    ("windows to image", ((64, 49, 96),), _image),
    ("shifted windows", ((1, 56, 56, 96),), lambda x: _windows(torch.roll(x, (-3, -3), (1, 2)))),
    ("heads", ((1, 197, 12, 64),), lambda x: x.transpose(1, 2).contiguous()),
    ("max pooling 3x3, stride 2", ((1, 64, 112, 112),), nn.MaxPool2d(3, 2, 1)),
    ("max pooling 2x2, stride 2", ((1, 64, 112, 112),), nn.MaxPool2d(2)),
    ("average pooling 3x3", ((1, 64, 56, 56),), nn.AvgPool2d(3, 1, 1)),
    ("global average", ((1, 2048, 7, 7),), nn.AdaptiveAvgPool2d(1)),
    ("linear 768 to 3072", ((1, 7, 7, 768),), nn.Linear(768, 3072)),
    ("linear 96 to 384", ((1, 56, 56, 96),), nn.Linear(96, 384)),
    ("depthwise 7x7", ((1, 96, 56, 56),), nn.Conv2d(96, 96, 7, padding=3, groups=96)),
    ("depthwise 7x7", ((1, 384, 14, 14),), nn.Conv2d(384, 384, 7, padding=3, groups=384)),
    ("depthwise 31x31", ((1, 64, 56, 56),), nn.Conv2d(64, 64, 31, padding=15, groups=64)),
    ("depthwise, 31 of a line", ((1, 256, 1000),), nn.Conv1d(256, 256, 31, padding=15, groups=256)),
    ("convolution 7x7, stride 4", ((1, 3, 224, 224),), nn.Conv2d(3, 32, 7, stride=4, padding=3)),
    ("convolution 3x3, 16 filters", ((1, 16, 32, 32),), nn.Conv2d(16, 16, 3, padding=1)),
    ("convolution 3x3, 64 filters", ((1, 64, 56, 56),), nn.Conv2d(64, 64, 3, padding=1)),
    ("convolution 3x3, scaled by image", ((8, 64, 28, 28), (8, 64, 1, 1)), Modulated()),
    ("convolution 3x3, 512 filters", ((1, 512, 7, 7),), nn.Conv2d(512, 512, 3, padding=1)),
    ("convolution 1x1, 2048 filters", ((1, 512, 7, 7),), nn.Conv2d(512, 2048, 1)),
    ("convolution 1x1, 512 filters", ((1, 2048, 7, 7),), nn.Conv2d(2048, 512, 1)),
    ("resize, nearest", ((1, 64, 56, 56),), nn.Upsample(scale_factor=2)),
    ("resize, bilinear", ((1, 64, 56, 56),), nn.Upsample(scale_factor=2, mode="bilinear")),
    ("resize, bilinear", ((1, 256, 7, 7),), nn.Upsample(scale_factor=2, mode="bilinear")),
)


def pieces(seconds: float, quick: bool) -> list[Row]:
    """Time each piece on one and two threads."""
    warnings.simplefilter("ignore")
    rows, before = [], torch.get_num_threads()
    with graphs.folder() as folder, torch.no_grad():
        for number, (name, shapes, make) in enumerate(PIECES[:2] if quick else PIECES):
            torch.manual_seed(0)
            module = (make if isinstance(make, nn.Module) else Function(make)).eval()
            inputs = tuple(map(torch.randn, shapes))
            path, feeds = exported(module, inputs, Path(folder) / f"{number}.onnx")
            program = numc.compile(module, inputs)
            for threads in (1,) if quick else (1, 2):
                calls = {
                    "numc": lambda p=program, f=feeds, t=threads: p(*f.values(), threads=t),
                    "onnxruntime": onnxruntime_call(path, feeds, threads),
                    "inductor": inductor_call(module, inputs, threads),
                }
                rows.append(_row(name, shapes, threads, calls, seconds))
    torch.set_num_threads(before)
    return rows


def _row(name: str, shapes: tuple[Shape, ...], threads: int, calls: dict[str, Call], seconds: float) -> Row:
    # Two processors of a virtual machine may share one core of the host for some seconds.
    timings = in_turns(calls, seconds=seconds if threads == 1 else 10 * seconds, threads=threads)
    times = {f"{who}_seconds": timing.best for who, timing in timings.items()}
    fastest = min(timings["onnxruntime"].best, timings["inductor"].best)
    shape = ", ".join("x".join(map(str, s)) for s in shapes)
    return {
        "piece": name,
        "shape": shape,
        "threads": threads,
        **times,
        "ratio": timings["numc"].best / fastest,
        "must": BAR,
    }
