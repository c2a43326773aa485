"""One row times a weight in the bits of its format (``--pack-weights``), against fp32 and torch's sgemv."""

from __future__ import annotations

from typing import Any

import torch

import numc
from benchmarks.cases import PACKED, PACKED_SHAPES, Product
from benchmarks.measure import Call, in_turns, ratio
from benchmarks.models import graphs

Row = dict[str, Any]


def packed(seconds: float, quick: bool) -> list[Row]:
    """Time each operator on one thread, in turns with fp32 and with torch."""
    torch.set_num_threads(1)
    rows = []
    with graphs.folder() as folder:
        for n, k in PACKED_SHAPES[:1] if quick else PACKED_SHAPES:
            model, feeds, weight = graphs.matmul(Product(1, n, k, constant=True), folder)
            (x,) = feeds.values()
            programs = {fma: numc.compile(model, fma=fma, pack_weights=True) for fma in ("fp32", *PACKED)}
            calls: dict[str, Call] = {
                fma: lambda program=program, x=x: program(x, threads=1) for fma, program in programs.items()
            }
            a, b = torch.from_numpy(x), torch.from_numpy(weight)
            calls["sgemv"] = lambda a=a, b=b: a @ b
            timings = in_turns(calls, seconds=seconds)
            for fma, must in PACKED.items():
                size = max(held["bytes"] for held in programs[fma].manifest["weights"])
                row = {"shape": f"1x{n}x{k}", "operator": fma, "bits": 8 * size / (n * k), "must": must}
                row |= {f"{who}_seconds": timings[name].best for who, name in (("numc", fma), ("fp32", "fp32"))}
                row |= {"ratio": ratio(timings, fma, "fp32"), "sgemv_ratio": ratio(timings, fma, "sgemv")}
                rows.append(row)
    return rows
