"""A made-up comparison: what a report shows, without a compiler."""

from __future__ import annotations

import math
from fractions import Fraction

from numc.compiler.arrays.statistics import Histogram, LayerStatistics, Statistics, TensorStatistics
from numc.numerics.grammar import parse_fma
from numc.studies.comparison import Comparison
from numc.studies.results import Agreement, LayerError, Result

LAYERS = ("stem/conv", "block.1", "block.2", "head")
FMAS = ("fp32", "mp", "bf16_1_1", "bf16_2_2{3}", "fmac(e4m3)", "int8")


def _bell(middle: int, wide: int) -> Histogram:
    return Histogram(middle - wide, tuple(1000 >> abs(n) for n in range(-wide, wide + 1)))


def _statistics(fma: str) -> Statistics:
    operator, rows = parse_fma(fma), []
    for position, layer in enumerate(LAYERS):
        formats = zip(("a", "b", "result"), (operator.a, operator.b, operator.acc), strict=True)
        tensors = {
            name: TensorStatistics(
                elements=4000,
                zeros=1000,
                subnormals=3,
                infinities=0,
                nans=0,
                exponents=_bell(n - position - 3, 6),
                format=str(to),
            )
            for n, (name, to) in enumerate(formats)
        }
        grouped = operator.group is not None
        swamping = None if grouped else Histogram(0, tuple(400 // (n + 1 + position) for n in range(32)))
        note = "formats with groups add exactly" if grouped else ""
        adds = 0 if swamping is None else swamping.total
        rows.append(
            LayerStatistics(layer, "forward", position, fma, 5000, 1, swamping, Fraction(1), tensors, None, note, adds)
        )
    return Statistics(tuple(rows))


def _result(number: int, fma: str) -> Result:
    errors = (0.0, 1e-6, 3e-4, 1e-9, 4e-3, math.inf)
    table = tuple(
        {"layer": layer, "position": n, "kind": "conv", "role": "forward", "b": 1, "m": None, "n": 16, "k": 9 * (n + 1),
         "shape": f"? x 16 x {9 * (n + 1)}", "fma": fma, "ops": "fp32", "rule": "default", "fma_line": None,
         "ops_line": None}
        for n, layer in enumerate(LAYERS)
    )  # fmt: skip
    layers = tuple(LayerError(n, layer, errors[number] * 4**n) for n, layer in enumerate(LAYERS))
    metrics = {"top1": (0.95, 0.95, 0.95, 0.95, 0.90, 0.1)[number], "perplexity": 1.5 + number}
    area = (576.0, 64.0, 64.0, 192.0, 16.0, 49.0)[number]
    peer = Agreement("1.2.3", 1e-13, 2e-5) if number == 0 else None
    policy = f"default fma = {fma}, ops = fp32\n"
    return Result(
        name=fma,
        policy=policy,
        metrics=metrics,
        error=errors[number],
        seconds=0.001 * (1 + number),
        time=1.0 + number,
        fmas=123456,
        area=area,
        iso_area=576 / area,
        weights=4000,
        packed=2000,
        layers=layers,
        table=table,
        onnxruntime=peer,
        statistics=_statistics(fma),
    )


def made_up(*, statistics: bool = True) -> Comparison:
    """Six arithmetics, three of the same area and accuracy; the last one gives infinities. The fourth has a policy."""
    results = [_result(n, fma) for n, fma in enumerate(FMAS)]
    policy = 'default fma = bf16_2_2{3}, ops = fp32\nlayer "<b>" fma = mp\n'
    results[3] = Result(**{**vars(results[3]), "name": 'mixed "<i>"', "policy": policy})
    if not statistics:
        results = [Result(**{**vars(result), "statistics": None}) for result in results]
    return Comparison(
        model="models/<net>.onnx",
        samples=100,
        batch=10,
        threads=1,
        metrics=("top1", "perplexity"),
        labels="classes",
        results=tuple(results),
        sources={"model": "a" * 64, "data": "b" * 64},
        versions={"numc": "0.1.0", "machine": "a machine"},
        commands=("numc compare 'models/<net>.onnx' --fma 'fp32,mp' --data x.npz --report out.html",),
    )
