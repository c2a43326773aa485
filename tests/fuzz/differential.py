"""Random models through numc and through another runtime: onnxruntime for ONNX, eager torch for modules."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx

import numc
from fuzz.graphs import Graph, feeds_of, random_graph
from numc.frontends.imported import ConversionError, Imported
from numc.frontends.onnx import convert, prepare
from numc.support.errors import NumcError

Arrays = Mapping[str, np.ndarray]
OPERATORS = ("mp", "bf16_2_2", "fmac(e6m9)", "fmac(bf16,chunk=5)", "bfp(5,2,4)", "mxfp8", "int8", "mac(bf16:sr8)")


class Finding(Exception):  # noqa: N818
    """numc did what it must not do."""


def imported(model: onnx.ModelProto) -> Imported:
    """Import a model in this process: an importer that crashes takes it along, but it takes a tenth of the time."""
    prepared = prepare.prepare(onnx.ModelProto.FromString(model.SerializeToString()), {})
    text = convert.to_linalg(prepared.model, no_broadcast=prepared.no_broadcast)
    first = len(prepared.inputs)
    weights: dict[int, Any] = {first + n: item for n, item in enumerate(prepared.weights.items())}
    return Imported(text, prepared.inputs, prepared.outputs, weights, nodes=prepared.nodes)


@cache
def _options() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Fused operators round otherwise, and are not what is compared.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def by_onnxruntime(model: onnx.ModelProto) -> Any | None:
    """A session, or None for a model that onnxruntime does not take."""
    import onnxruntime

    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), _options(), providers=["CPUExecutionProvider"])
    except Exception:
        return None


def compare(name: str, got: np.ndarray, want: np.ndarray) -> None:
    """Raise Finding unless both agree: integers to the bit, floats to the rounding errors of other summation orders."""
    if got.shape != want.shape or got.dtype != want.dtype:
        raise Finding(f"'{name}' is {got.dtype}{list(got.shape)}, want {want.dtype}{list(want.shape)}")
    if got.dtype.kind != "f":
        good = np.array_equal(got, want)
    else:
        finite = np.abs(want[np.isfinite(want)])
        scale = max(1.0, float(finite.max())) if finite.size else 1.0
        good = np.allclose(got, want, rtol=1e-3, atol=1e-4 * scale, equal_nan=True)
    if not good:
        with np.errstate(all="ignore"):
            at = int(np.argmax(~np.isclose(got, want, rtol=1e-3, atol=1e-4, equal_nan=True)))
        raise Finding(f"'{name}' differs: element {at} is {got.flat[at]}, want {want.flat[at]}")


def graph_of(number: int) -> Graph:
    """The graph of a case of the kind `graphs`."""
    return random_graph(random.Random(f"graphs {number}"))


def check_graph(graph: Graph, *, fma: str = "fp32", runs: int = 4, isolated: bool = False) -> tuple[str, int]:
    """Compile a graph and run it with several sizes; return what became of it and how many runs there were.

    `fma`: operators other than fp32 have no peer: then only the shapes are compared. `isolated`: as a user imports.
    """
    model = graph.model()
    session = by_onnxruntime(model)
    if session is None:
        return "no peer", 0
    try:
        source = _from_file(model) if isolated else imported(model)
        program = numc.compile(source, fma=fma)
    except ConversionError:  # the process of its own, which users have, explains it
        return "refused", 0
    except NumcError as error:
        if "\n" in str(error):
            raise Finding(f"an error of several lines: {error}") from None
        return "refused", 0
    done = 0
    free = sorted({d for value in graph.inputs for d in value.shape if isinstance(d, str)})
    for run in range(runs):
        rng = random.Random(run)
        feeds = feeds_of(model, run, {name: rng.randrange(1, 8) for name in free})
        try:
            wanted = session.run(None, dict(feeds))
        except Exception:
            wanted = None
        try:
            results = program.by_name(feeds, threads=1 + run % 3, seed=run)
        except NumcError as error:
            if "the program stopped" in str(error):
                raise Finding(f"a run of {_shapes(feeds)}: {error}") from None
            if wanted is not None:
                raise Finding(f"numc refuses what onnxruntime runs, {_shapes(feeds)}: {error}") from None
            continue
        done += 1
        if wanted is None:
            continue
        for (name, got), want in zip(results.items(), wanted, strict=True):
            if fma == "fp32":
                compare(name, got, want)
            elif got.shape != want.shape:
                raise Finding(f"'{name}' is {list(got.shape)}, want {list(want.shape)}")
    return "ran", done


def _from_file(model: onnx.ModelProto) -> Imported:
    import tempfile
    from pathlib import Path

    from numc.frontends.load import load_file

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.onnx")
        path.write_bytes(model.SerializeToString())
        return load_file(path)


def _shapes(feeds: Arrays) -> str:
    return ", ".join(f"{name}{list(array.shape)}" for name, array in feeds.items())
