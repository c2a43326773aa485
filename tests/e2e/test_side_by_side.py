"""Parts side by side: the same bits for any number of threads, in a limit of memory, and what happens at an error."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

import numc
from numc.runtime.program import Program
from numc.support.errors import NumcError

Arrays = list[npt.NDArray[np.float32]]


class Branches(torch.nn.Module):
    """Layers beside each other, whose results are joined."""

    def __init__(self) -> None:
        super().__init__()
        linear, relu = torch.nn.Linear, torch.nn.ReLU()
        self.long = torch.nn.Sequential(linear(256, 256), relu, linear(256, 256), relu, linear(256, 128))
        self.short = torch.nn.Sequential(linear(256, 256), torch.nn.Tanh(), linear(256, 256))
        self.one = linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.long(x), torch.softmax(self.short(x), -1), self.one(x)], 1).relu()


class Directions(torch.nn.Module):
    """A recurrent network in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(32, 64, bidirectional=True, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, (h, _) = self.lstm(x)
        return y, h


class Encoders(torch.nn.Module):
    """Attention, which is computed by rows, beside attention."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = (torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.one(x), self.other(x)], -1)


NETWORKS: dict[str, Callable[[], tuple[torch.nn.Module, tuple[int, ...]]]] = {
    "branches": lambda: (Branches(), (24, 256)),
    "encoders": lambda: (Encoders(), (2, 128, 64)),
    "directions": lambda: (Directions(), (3, 8, 32)),
}


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[..., tuple[Program, npt.NDArray[np.float32], int]]:
    """A function that compiles a network: the program, an input, and how often chains are called."""

    def compile_(name: str, **options: object) -> tuple[Program, npt.NDArray[np.float32], int]:
        torch.manual_seed(0)
        module, shape = NETWORKS[name]()
        x = torch.randn(*shape)
        told = {"dump_dir": tmp_path} if options.get("streams") != 0 else {}  # writing the IR takes half of the time
        program = numc.compile(module.eval(), (x,), **told, **options)
        text = (tmp_path / "vector.mlir").read_text() if told else ""
        return program, x.numpy(), text.count("llvm.call @numc_side_by_side")

    return compile_


def results(program: Program, x: npt.NDArray[np.float32], **options: int) -> Arrays:
    found = program(x, **options)
    return list(found.values()) if isinstance(found, dict) else [found]


def same(one: Arrays, other: Arrays) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("network", "options"),
    [
        ("branches", {"fma": "fma(a=e4m3:sr8,acc=e6m9:sr8)", "ops": "bf16:sr8"}),
        pytest.param("branches", {"fma": "fp32"}, marks=pytest.mark.slow),
        pytest.param("branches", {"fma": "bf16_1_1", "ops": "bf16"}, marks=pytest.mark.slow),
        pytest.param("branches", {"fma": "int8"}, marks=pytest.mark.slow),
        ("directions", {"fma": "fp32"}),
        pytest.param("encoders", {"fma": "fp32"}, marks=pytest.mark.slow),
        pytest.param("directions", {"fma": "mac(e5m10:sr4)"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_bits_are_those_of_one_part_after_the_other(
    compiled: Callable[..., tuple[Program, npt.NDArray[np.float32], int]], network: str, options: dict[str, str]
) -> None:
    plain, x, _ = compiled(network, streams=0, **options)
    program, _, calls = compiled(network, **options)
    assert calls > 0
    want = results(plain, x, threads=1, seed=7)
    for threads in (1, 2, 3, 8):
        for _ in range(10):
            assert same(results(program, x, threads=threads, seed=7), want)


def test_the_switch_is_another_name_for_no_memory(
    compiled: Callable[..., tuple[Program, npt.NDArray[np.float32], int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMC_DISABLE", "side-by-side")
    assert compiled("branches")[2] == 0


def test_profiles_and_observers_see_one_part_after_the_other(
    compiled: Callable[..., tuple[Program, npt.NDArray[np.float32], int]],
) -> None:
    (plain, x, _), (program, _, calls) = compiled("branches", streams=0), compiled("branches")
    assert calls > 0
    rows = []
    for each in (plain, program):
        found = [row for row in each.profile(x, threads=2, repeat=2).rows if row.layer]
        rows.append(sorted((row.layer, row.kind, row.calls, row.fmas, row.bytes) for row in found))
    assert rows[0] == rows[1]
    seen: list[tuple[int, int]] = []
    with program.observe(lambda kernel, _operands, phase: seen.append((kernel, phase))):
        program(x, threads=2)
    assert seen == [event for kernel, _ in seen[::2] for event in ((kernel, 0), (kernel, 1))]  # none inside another one
    assert sorted(kernel for kernel, phase in seen if phase == 0) == list(range(6))


@pytest.mark.parametrize("value", [-1, 1.5, "8", True])
def test_a_limit_is_a_whole_number_of_mib(value: object) -> None:
    with pytest.raises(NumcError, match=r"^streams: got .*, want a whole number from 0 to 1073741824$"):
        numc.compile(torch.nn.Linear(2, 2), (torch.randn(1, 2),), streams=value)


class Wide(torch.nn.Module):
    """Two branches whose buffers take 4 MiB each: more at once than one after the other."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([(x @ y).tanh().sum(0), (y @ x).tanh().sum(0)])


@pytest.mark.parametrize(("limit", "calls"), [(None, 1), (16, 1), (4, 0)])
def test_a_limit_of_memory_holds(tmp_path: Path, limit: int | None, calls: int) -> None:
    x, y = torch.randn(1024, 1024), torch.randn(1024, 1024)
    program = numc.compile(Wide(), (x, y), streams=limit, dump_dir=tmp_path)
    assert (tmp_path / "vector.mlir").read_text().count("llvm.call @numc_side_by_side") == calls
    assert program(x.numpy(), y.numpy(), threads=2).shape == (2048,)


def test_memory_that_is_short_in_a_chain_ends_the_run_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = torch.randn(1024, 1024).numpy(), torch.randn(1024, 1024).numpy()
    program = numc.compile(Wide(), (torch.from_numpy(x), torch.from_numpy(y)))
    want = program(x, y, threads=1)
    for _ in range(5):
        monkeypatch.setenv("NUMC_MEMORY", str(6 / 1024))
        with pytest.raises(NumcError, match=r"^the program ran out of memory: its buffers may take"):
            program(x, y, threads=2)
        monkeypatch.delenv("NUMC_MEMORY")
        assert program(x, y, threads=2).tobytes() == want.tobytes()


def test_an_interrupt_ends_between_two_runs(
    compiled: Callable[..., tuple[Program, npt.NDArray[np.float32], int]],
) -> None:
    program, x, _ = compiled("branches")
    want = results(program, x, threads=2)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT))

    def forever() -> None:
        while True:
            program(x, threads=2)

    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            forever()
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert same(results(program, x, threads=2), want)
