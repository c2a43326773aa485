"""Four steps of the studies of several pages give the stored bits, so that what the pages show is what numc computes.

A change that is meant: ``pytest tests/examples/test_short_runs.py -m "" --update-golden``, and the whole studies anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from example_scripts import example

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

ROOT = Path(__file__).resolve().parents[2]
STORED = Path(__file__).with_suffix(".json")
STEPS = 4


def tick() -> None:
    """Nothing, after each step."""


def formats_compared(run: ModuleType) -> Any:
    _, lstm = run.FULL
    with run.arithmetic("bf16_1_1"):
        return run.Trainer(replace(lstm, steps=STEPS)).run(0)


def trainbf(run: ModuleType) -> Any:
    mlp, *_ = run.FULL
    variant = run.VARIANTS["all, fp32 update"]
    return run.Trainer(replace(mlp, steps=STEPS), variant.techniques).run(0, variant.arithmetic)


def dynamic_precision(run: ModuleType) -> Any:
    _, seq2seq = run.FULL
    return run.Trainer(replace(seq2seq, steps=STEPS)).run(0, tick, run.settings.Static("mp"))


def fast(run: ModuleType) -> Any:
    return run.Runner(replace(run.FULL, steps=STEPS)).run("FAST", 0, tick)


def one_six_nine(run: ModuleType) -> Any:
    task = replace(run.FULL[0], steps=STEPS)
    name = run.arithmetics.ALL[1]
    return run.Trainer(task).run(0, run.arithmetics.policy(name), False, tick)


STUDIES: list[Any] = [
    trainbf,
    one_six_nine,
    *(pytest.param(study, marks=pytest.mark.slow) for study in (formats_compared, dynamic_precision, fast)),
]


@pytest.mark.parametrize("study", STUDIES)
def test_a_shortened_run_gives_the_stored_bits(study: Callable[[ModuleType], Any], request: Any) -> None:
    torch._dynamo.reset()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the studies do: sums that torch computes itself have one order
    try:
        with example(ROOT / "examples" / study.__name__) as module:
            outcome = asdict(study(module))
    finally:
        torch.set_num_threads(threads)
    del outcome["cpu_seconds"]
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    if request.config.getoption("--update-golden"):
        stored[study.__name__] = outcome
        STORED.write_text(json.dumps(dict(sorted(stored.items())), indent=1) + "\n", encoding="utf-8")
    else:
        want = stored[study.__name__]
        assert {name: value for name, value in json.loads(json.dumps(outcome)).items() if value != want[name]} == {}
    torch._dynamo.reset()
