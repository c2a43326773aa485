"""Random ONNX graphs on special values: NaN, infinities, zeros of both signs, subnormals, the largest numbers.

Runtimes differ in what ONNX does not say, so the oracle is a vote: where onnxruntime and onnx's reference evaluator
agree about an element, numc agrees with them.
"""

from __future__ import annotations

import random
import warnings

import numpy as np
import onnx

import numc
from fuzz.differential import Finding, by_onnxruntime, imported
from fuzz.graphs import feeds_of, random_graph
from numc.frontends.imported import ConversionError
from numc.support.errors import NumcError

BITS = (0x7FC00000, 0x7F800000, 0xFF800000, 0x80000000, 0x00000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000,
        0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0xBF800000, 0x4B000001, 0x5F000000, 0xDF000000)  # fmt: skip
VALUES = np.array(BITS, np.uint32).view(np.float32)
INTEGERS = np.array([0, 1, -1, 2, -7, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)])
RUNS = 4


def special(number: int) -> str:
    """A graph of one to three nodes on special values, beside two runtimes."""
    from onnx.reference import ReferenceEvaluator

    graph = random_graph(random.Random(f"special {number}"), most=2)
    model = graph.model()
    session = by_onnxruntime(model)
    if session is None:
        return "no peer"
    try:
        program = numc.compile(imported(model))
    except (ConversionError, NumcError):
        return "refused"
    nodes = [node.op_type for node in model.graph.node]
    evaluator = ReferenceEvaluator(model)
    free = sorted({d for value in graph.inputs for d in value.shape if isinstance(d, str)})
    compared = 0
    for run in range(RUNS):
        feeds = _feeds(model, number * RUNS + run, free)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                votes = list(zip(session.run(None, feeds), evaluator.run(None, feeds), strict=True))
            except Exception:
                continue
        try:
            results = program.by_name(feeds)
        except NumcError as error:
            raise Finding(f"numc refuses special values: {error}, from {nodes}") from None
        for (name, got), (one, other) in zip(results.items(), votes, strict=True):
            compared += _check(name, got, np.asarray(one), np.asarray(other), nodes)
    return "ran" if compared else "no vote"


def _feeds(model: onnx.ModelProto, seed: int, free: list[str]) -> dict[str, np.ndarray]:
    """The usual inputs, an eighth of whose elements are special."""
    rng = np.random.default_rng(seed)
    feeds = feeds_of(model, seed, {name: int(rng.integers(1, 6)) for name in free})
    for name, array in feeds.items():
        chosen = rng.random(array.shape) < 0.125
        feeds[name] = np.where(chosen, rng.choice(VALUES if array.dtype.kind == "f" else INTEGERS, array.shape), array)
    return feeds


def _check(name: str, got: np.ndarray, one: np.ndarray, other: np.ndarray, nodes: list[str]) -> int:
    """Compare where two runtimes agree; return the number of such elements."""
    if got.shape != one.shape or got.dtype != one.dtype:
        raise Finding(f"'{name}' is {got.dtype}{list(got.shape)}, want {one.dtype}{list(one.shape)}, from {nodes}")
    if one.shape != other.shape:
        return 0
    agreed = _alike(one, other)
    wrong = agreed & ~_alike(got, one)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise Finding(f"'{name}'[{at}] is {got.flat[at]!r}, and two runtimes have {one.flat[at]!r}, from {nodes}")
    return int(agreed.sum())


def _alike(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Integers are equal; floats are of one class and sign, and near each other. Zeros of both signs are one."""
    if a.dtype.kind != "f":
        return a == b
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= 1e-3 * np.abs(b) + 1e-6
    return (a == b) | near | (np.isnan(a) & np.isnan(b))
