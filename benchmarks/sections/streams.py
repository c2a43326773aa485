"""What operations side by side gain on two threads, and what they would gain in simulations of networks."""

from __future__ import annotations

import copy
import functools
import os
import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

import numc
from benchmarks.cases import STREAM_THREADS
from benchmarks.measure import Call, in_turns, ratio
from benchmarks.models import graphs, zoo
from benchmarks.models.architectures import STEPS

Row = dict[str, Any]

#: GoogLeNet (Szegedy et al. 2015, table 1) from the first inception on: filters of the branches 1x1, 3x3 and 5x5, with
#: those of the reductions before them, and behind the pooling. None: a pooling of stride 2.
GOOGLENET = (
    (64, 96, 128, 16, 32, 32),
    (128, 128, 192, 32, 96, 64),
    None,
    (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128),
    None,
    (256, 160, 320, 32, 128, 128),
    (384, 192, 384, 48, 128, 128),
)


class Inception(nn.Module):
    """Four branches whose results are joined."""

    def __init__(self, channels: int, one: int, to3: int, three: int, to5: int, five: int, pooled: int) -> None:
        super().__init__()
        act = nn.ReLU()
        self.branches = nn.ModuleList(
            (
                nn.Sequential(nn.Conv2d(channels, one, 1), act),
                nn.Sequential(nn.Conv2d(channels, to3, 1), act, nn.Conv2d(to3, three, 3, padding=1), act),
                nn.Sequential(nn.Conv2d(channels, to5, 1), act, nn.Conv2d(to5, five, 5, padding=2), act),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(channels, pooled, 1), act),
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def googlenet() -> nn.Module:
    """GoogLeNet without local response normalisation and without its auxiliary classifiers."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    layers += [nn.Conv2d(64, 64, 1), nn.ReLU(), nn.Conv2d(64, 192, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 192
    for filters in GOOGLENET:
        layers.append(nn.MaxPool2d(3, 2, 1) if filters is None else Inception(channels, *filters))
        if filters is not None:
            channels = filters[0] + filters[2] + filters[4] + filters[5]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)).eval()


class Directions(nn.Module):
    """A recurrent layer of 256 features in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(256, 256, bidirectional=True, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.lstm(x)[0]
        return result


def streams(seconds: float, quick: bool) -> list[Row]:
    """Time each network on two threads with parts side by side and without, profile it, and simulate it on more."""
    warnings.simplefilter("ignore")
    rows, before = [], torch.get_num_threads()
    torch.set_num_threads(2)
    for name, calls, profile in _networks(max(3, round(seconds)), quick):
        timings = in_turns(calls, seconds=seconds, threads=2)
        row: Row = {"model": name, "measured": ratio(timings, "sequence", "side by side")}
        for threads in STREAM_THREADS:
            schedule = profile.schedule(threads=threads)
            limited = profile.schedule(threads=threads, memory=schedule.sequence_peak)
            row |= {
                "operations": len(schedule.graph.operations),
                f"seconds_{threads}": schedule.sequence,
                f"idle_{threads}": schedule.idle,
                f"speedup_{threads}": schedule.speedup,
                f"memory_{threads}": schedule.peak / schedule.sequence_peak - 1,
                f"limited_{threads}": limited.speedup,
            }
        rows.append(row)
    torch.set_num_threads(before)
    return rows


def _networks(repeat: int, quick: bool) -> Iterator[tuple[str, dict[str, Call], numc.Profile]]:
    """The networks by name: a call with parts side by side and one without, and a profile on two threads."""

    def inference(name: str, source: Any, inputs: Any) -> tuple[str, dict[str, Call], numc.Profile]:
        programs = {"side by side": numc.compile(*source), "sequence": numc.compile(*source, streams=0)}
        calls: dict[str, Call] = {what: lambda p=p: p(inputs, threads=2) for what, p in programs.items()}
        return name, calls, programs["sequence"].profile(inputs, threads=2, repeat=10 * repeat)

    with graphs.folder() as folder:
        for name, batch in [("LSTM", 1), ("transformer encoder", 1), ("transformer encoder", 8), ("MobileNetV2", 1)]:
            path, feeds = zoo.MODELS[name](batch, folder)
            yield inference(f"{name}, batch {batch}", (path,), feeds)
            if quick:
                return
    torch.manual_seed(0)
    tokens, images = torch.randn(4, 32, 256), torch.randn(1, 3, 224, 224)
    yield inference("LSTM, both directions, 4 x 32 tokens", (Directions().eval(), (tokens,)), tokens.numpy())
    yield inference("GoogLeNet, batch 1", (googlenet(), (images,)), images.numpy())
    for name in ("LSTM, 20 x 35 tokens", "transformer, 6 layers, 8 x 32 tokens"):
        yield _training(name, repeat)


def _training(name: str, repeat: int) -> tuple[str, dict[str, Call], numc.Profile]:
    from train_step import training as make

    case = STEPS[name]
    calls: dict[str, Call] = {}
    for what, switch in (("side by side", ""), ("sequence", "side-by-side")):
        torch._dynamo.reset()
        torch.manual_seed(0)
        inputs = case.inputs()
        step = make(copy.deepcopy(case.model().train()), case, "eager")
        step(*inputs)  # makes the state of the optimizer, without which a step would be compiled twice
        calls[what] = functools.partial(torch.compile(step, backend=numc.backend("fp32")), *inputs)
        with mock.patch.dict(os.environ, NUMC_DISABLE=switch):
            calls[what]()
    with numc.profile() as profiled:
        for _ in range(repeat):
            calls["sequence"]()
            profiled.step()
    return f"{name}, training", calls, profiled.profile
