"""Statistics of chosen steps: the same counts as separate blocks, files that a killed run leaves, and denormals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import numc
import numc.train
from numc.frontends.imported import Imported
from numc.runtime.program import Program
from numc.support.errors import NumcError
from numc.train import DenormalMonitor, EpochStatistics, StepStatistics, read_statistics

# Operands of docs/statistics.md: after rounding to e6m9, 3 of 8 are denormal, and 2 are zero.
VECTOR = np.ldexp(np.float32([1, 1, 1, 1, 0, 1, -3, 1]), [-31, -39, -40, -41, 0, 0, -40, -30])[:, None]


@cache
def product() -> Program:
    return numc.compile(
        Imported(
            mlir="""func.func @main(%a: tensor<8x1xf32>, %b: tensor<1x1xf32>, %c: tensor<8x1xf32>) -> tensor<8x1xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<8x1xf32>, tensor<1x1xf32>) outs(%c : tensor<8x1xf32>)
    -> tensor<8x1xf32> loc("product")
  return %r : tensor<8x1xf32>
}"""
        ),
        fma="fmac(e6m9)",
        statistics=True,
    )


def run(scale: float = 1.0) -> None:
    """Run the product of `scale` times the vector."""
    product()(VECTOR * np.float32(scale), np.ones((1, 1), np.float32), np.ones((8, 1), np.float32))


def steps_of(file: Path) -> list[int]:
    return [row.step for row in read_statistics(file)]


def test_epochs_have_the_counts_of_separate_blocks() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(24, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    compiled = torch.compile(model, backend=numc.backend())
    epochs = [[torch.randn(5, 24) for _ in range(2)] for _ in range(2)]

    def step(x: torch.Tensor) -> None:
        model.zero_grad()
        compiled(x).square().sum().backward()

    first, second = (numc.train.Static("bf16_1_2 with wgrad=fmac(e5m2:sr8)") for _ in range(2))
    first.prepare(step, epochs[0][0])
    before = numc.counters().programs
    statistics = EpochStatistics("1/4", every=1)
    for epoch, batches in enumerate(epochs):
        statistics.epoch(epoch)
        for x in batches:
            with first, statistics:
                step(x)
            first.update()
    assert numc.counters().programs == before + 2  # forward and backward, once
    for epoch, batches in enumerate(epochs):
        with numc.collect_stats(sample="1/4") as block:
            for x in batches:
                with second:
                    step(x)
                second.update()
        assert statistics.epochs()[epoch] == block.statistics
    assert {row.role for row in statistics.rows[0].statistics.rows} == {"forward", "dgrad", "wgrad"}
    # A curve over the epochs is that of all additions of a role, or of a layer.
    for k, chosen in ((2, {"role": "forward"}), (5, {"layer": "0/wgrad"}), (9, {})):
        curve = statistics.without_swamping(k, nonzero=True, **chosen)
        for epoch, found in statistics.epochs().items():
            rows = [r for r in found.rows if chosen.items() <= {"role": r.role, "layer": r.layer}.items()]
            pairs = [row.swamping.total / float(row.sampled) for row in rows]
            shares = [row.without_swamping(k, nonzero=True) for row in rows]
            assert curve[epoch] == pytest.approx(np.average(shares, weights=pairs), abs=1e-12)
            assert 0 < curve[epoch] < 1
    assert statistics.without_swamping(7, layer="no such layer") == {}


def test_a_killed_run_goes_on_in_its_file(tmp_path: Path) -> None:
    file = tmp_path / "statistics.jsonl"

    def train(first: int, last: int, checkpoint: dict[str, int] | None = None) -> EpochStatistics:
        statistics = EpochStatistics(1, every=2, what="swamping,denormals", file=file)
        if checkpoint is not None:
            statistics.load_state_dict(checkpoint)
        for number in range(first, last):
            statistics.epoch(number // 3)
            with statistics:
                run(number)
        return statistics

    whole = train(0, 8)
    assert [(row.epoch, row.step) for row in whole.rows] == [(0, 0), (0, 2), (1, 4), (2, 6)]
    text = file.read_text()
    assert [StepStatistics.from_json(line) for line in text.splitlines()] == list(whole.rows) == read_statistics(file)
    # Killed while it wrote the line of step 6, and begun again from a checkpoint after step 2.
    file.write_text(text[:-50])
    assert steps_of(file) == [0, 2, 4]
    checkpoint = json.loads(json.dumps({"step": 3, "epoch": 0}))
    resumed = train(3, 8, checkpoint)
    assert file.read_text() == text
    assert resumed.rows == whole.rows
    assert resumed.state_dict() == whole.state_dict() == {"step": 8, "epoch": 2}
    # Back to a checkpoint in the same process, and with a number of a step.
    resumed.load_state_dict(checkpoint)
    with pytest.raises(ZeroDivisionError), resumed.step(4):
        run(1 / 0)
    assert resumed.state_dict()["step"] == 3
    with resumed.step(4):
        run(4)
    assert steps_of(file) == [0, 2, 4]
    train(0, 1)  # a new run
    assert steps_of(file) == [0]


def test_tensorboard_hides_what_a_killed_run_had_done(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def train(steps: range, scale: float) -> None:
        statistics = EpochStatistics(every=1, what="denormals", tensorboard=tmp_path)
        for number in steps:
            with statistics.step(number):
                run(scale)

    train(range(3), 1.0)
    train(range(1, 4), 0.0)
    events = EventAccumulator(str(tmp_path)).Reload().Scalars("rounded subnormals of a/product")
    assert [(event.step, event.value) for event in events] == [(0, 0.375), (1, 0), (2, 0), (3, 0)]


def test_the_largest_fractions_of_denormals_and_their_steps(tmp_path: Path) -> None:
    monitor = DenormalMonitor(every=2, file=tmp_path / "denormals.jsonl")
    for number, scale in enumerate((0, 1, 2**20, 9, 1, 1, 1, 9)):
        monitor.epoch(number // 4)
        with monitor:
            run(scale)
    assert monitor.curve("product", "a") == {0: 0.0, 2: 0.0, 4: 0.375, 6: 0.375}
    assert monitor.curve("product", "a", "flushed") == {0: 0.0, 2: 0.0, 4: 0.25, 6: 0.25}
    peak = monitor.maxima()["product", "a"]
    assert (peak.fraction, peak.epoch, peak.step) == (0.375, 1, 4)
    assert monitor.maxima("flushed")["product", "a"].fraction == 0.25
    assert monitor.maxima()["product", "b"].fraction == 0
    assert DenormalMonitor(file=tmp_path / "denormals.jsonl").maxima() == monitor.maxima()
    for call, text in (
        (
            lambda: monitor.maxima("flush"),
            "unknown count 'flush' (did you mean 'flushed'?): want zeros, subnorm",
        ),
        (
            lambda: monitor.curve("produkt", "a"),
            "no tensor 'a' of a layer 'produkt' was observed (did you mean 'product a' or 'product b'?)",
        ),
    ):
        with pytest.raises(NumcError, match=re.escape(text)):
            call()


def test_texts_of_errors(tmp_path: Path) -> None:
    statistics, other = EpochStatistics(what="exponents"), tmp_path / "other.jsonl"
    other.write_text('{"epoch": 0}\n')

    def nested() -> None:
        with statistics, statistics.step():
            pass

    def nothing() -> None:
        with statistics:
            pass

    def backwards() -> None:
        with statistics.step(0):
            run()
        with statistics.step(0):
            run()

    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: EpochStatistics(every=0), "every: got 0, want a whole number from 1 to"),
        (lambda: EpochStatistics("2/3"), "sample '2/3': want 1 or a fraction 1/n"),
        (lambda: EpochStatistics(what="x"), "unknown statistic 'x': want some of swamping"),
        (lambda: EpochStatistics(file=tmp_path / "no" / "x"), "cannot write: there is no folder"),
        (
            lambda: EpochStatistics(file=other),
            f"{other}: line 1: not the statistics of a step ('step'): want what EpochStatistics writes",
        ),
        (lambda: read_statistics(tmp_path / "none"), "none: cannot read: No such file or directory"),
        (lambda: statistics.epoch(-1), "epoch: got -1, want a whole number from 0"),
        (nested, "EpochStatistics: the block of a step is open already: leave it first"),
        (nothing, "no statistics: no program of numc with a contraction ran in the block"),
        (backwards, "step 0: the next step is 1: count the steps over all epochs, or go back with load_state_dict"),
        (lambda: statistics.load_state_dict({"step": 1}), "checkpoint: got {'step': 1}, want what state_dict returns"),
        (lambda: statistics.load_state_dict({"step": -1, "epoch": 0}), "checkpoint: step: got -1, want a whole number"),
        (lambda: statistics.load_state_dict(3), "EpochStatistics: checkpoint: got int, want what state_dict returns"),
    ]
    for call, text in wrong:
        with pytest.raises(NumcError, match=re.escape(text)):
            call()
    assert statistics.state_dict() == {"step": 1, "epoch": 0}
