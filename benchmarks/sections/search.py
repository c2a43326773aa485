"""Evaluations of ``numc search``: one program for all against one for each candidate, and the rates of workers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.cases import SEARCH_SPEEDUP
from benchmarks.models import graphs, zoo
from numc.compiler.lower import signature
from numc.compiler.options import Options
from numc.compiler.policy_table import policy_table
from numc.frontends.load import load_file
from numc.studies.search.cluster import Cluster, threads_of
from numc.studies.search.evaluation import SPLITS, Answer, Evaluator, Message, message
from numc.studies.search.groups import groups
from numc.studies.search.space import width_space
from numc.studies.search.splits import splits

Row = dict[str, Any]
Array = np.ndarray[Any, Any]
SPLIT = SPLITS[0]
WORKERS = (1, 2)


def search(seconds: float, quick: bool) -> list[Row]:
    """Evaluate random candidates of the default space, for at least `seconds` seconds with each number of workers."""
    rows = []
    # A compiled candidate must not come from a cache, because a search never has it there.
    with graphs.folder() as folder, mock.patch.dict(os.environ, NUMC_CACHE_SIZE="0"):
        for name, case in (("digits CNN", _digits), ("light_resnet50", _resnet50))[: 1 if quick else 2]:
            subject, policy_of = _subject(*case(folder))
            rng = np.random.default_rng(0)
            shared, own = Evaluator(subject), Evaluator({**subject, "open": ""})
            _checked(shared(policy_of(rng), SPLIT))  # compiles the program that serves all
            trials = [policy_of(rng) for _ in range(1 if quick else 3)]
            open_answers = [_checked(shared(policy, SPLIT)) for policy in trials]
            own_answers = [_checked(own(policy, SPLIT)) for policy in trials]
            assert [answer.value for answer in open_answers] == [answer.value for answer in own_answers]
            once = [median(answer.seconds for answer in answers) for answers in (open_answers, own_answers)]
            row = {"model": name, "samples": subject["data"][SPLIT]["steps"][-1][1], "must": SEARCH_SPEEDUP}
            row |= {"seconds": once[0], "compiling_seconds": once[1], "speedup": once[1] / once[0]}
            count = max(4, int(seconds / once[0]))
            row["rates"] = {n: _rate(subject, n, [policy_of(rng) for _ in range(count)]) for n in WORKERS}
            rows.append(row)
    return rows


def _digits(_: str) -> tuple[str, Mapping[str, Array], Array]:
    digits = np.load(zoo.ROOT / "examples/digits/heldout.npz")
    return str(zoo.ROOT / "examples/digits/cnn.onnx"), {"x": digits["images"]}, digits["labels"]


def _resnet50(folder: str) -> tuple[str, Mapping[str, Array], Array]:
    """Sixty-four images for the search and as many for the report, eight at a time."""
    path, feeds = zoo.resnet50(8, folder)
    rng = np.random.default_rng(0)
    images = {name: rng.standard_normal((128, *x.shape[1:]), np.float32) for name, x in feeds.items()}
    return str(path), images, rng.integers(0, 1000, 128)


def _subject(
    path: str, inputs: Mapping[str, Array], labels: Array
) -> tuple[Message, Callable[[np.random.Generator], str]]:
    """Return what evaluations of a model share, and what draws a candidate as the text of its policy."""
    imported = load_file(path)
    wanted, outputs = signature(imported)
    symbols = {argument.name: argument.symbols for argument in imported.inputs}
    data = splits((inputs, labels), None, wanted, outputs[0], symbols)
    layers = [decision.layer for decision in policy_table(imported, Options()).decisions]
    space = width_space()
    space = replace(space, groups=groups(layers, "layer"))
    choices = space.choices()

    def drawn(rng: np.random.Generator) -> str:
        return space.policy(tuple(choices[n] for n in rng.integers(0, len(choices), len(space.groups))))

    sent = message(imported, data, metric="top1", output=outputs[0].name, threads=None)
    return {**sent, "open": space.open()}, drawn


def _rate(given: Message, workers: int, policies: Sequence[str]) -> float:
    """Return the evaluations per second of so many workers, which have compiled the program that serves all."""
    with Cluster({**given, "threads": threads_of(workers)}, workers=workers) as cluster:
        for _ in range(workers):
            list(cluster.evaluate(policies[: 4 * workers], SPLIT))
        begin = time.perf_counter()
        done = [_checked(answer) for _, answer in cluster.evaluate(policies, SPLIT)]
        return len(done) / (time.perf_counter() - begin)


def _checked(answer: Answer) -> Answer:
    if answer.error:
        raise RuntimeError(answer.error)
    return answer
