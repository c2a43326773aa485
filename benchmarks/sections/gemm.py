"""Matrix products: every operator against torch's sgemm, packed weights, sizes, threads, and small shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import numc
from benchmarks.cases import (
    FEW,
    GEMM_SHAPES,
    OPERATORS,
    PACKED,
    PACKED_SHAPES,
    PRODUCTS,
    SKINNY_FACTOR,
    SQUARES,
    THREADS_SPEEDUP,
    Product,
)
from benchmarks.measure import Call, in_turns, ratio
from benchmarks.models import graphs
from benchmarks.peers import native
from benchmarks.peers.peers import onnxruntime_call

Row = dict[str, Any]

_LONG = 1_000_000  # steps that take milliseconds, so that starting a thread takes little of the time


def operands(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return A (m, k) and B (k, n), standard normal."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)


def operators(seconds: float, quick: bool) -> list[Row]:
    """Time each operator at each shape on one thread, and in the same turns the peak rate of the vector units."""
    torch.set_num_threads(1)
    rows = []
    with graphs.folder() as folder:
        for m, n, k in GEMM_SHAPES[:1] if quick else GEMM_SHAPES:
            a, b = operands(m, n, k)
            calls = {fma: matmul(a, b, fma) for fma in OPERATORS}
            calls["torch bf16"] = _torch_bf16(a, b)
            model, _, _ = graphs.matmul(Product(m, n, k), folder)
            calls["onnxruntime fp32"] = onnxruntime_call(model, {"a": a, "b": b})
            for name, call in calls.items():
                bar = OPERATORS.get(name)
                row = {"shape": f"{m}x{n}x{k}", "operator": name, **against_sgemm(call, a, b, seconds)}
                rows.append({**row, "must": bar and bar.must, "aim": bar and bar.aim})
    return rows


def matmul(a: np.ndarray, b: np.ndarray, fma: str, threads: int = 1) -> Call:
    """Return a call of the product under an operator."""
    return lambda: numc.matmul(a, b, fma=fma, threads=threads)


def _torch_bf16(a: np.ndarray, b: np.ndarray) -> Call:
    x, y = torch.from_numpy(a).bfloat16(), torch.from_numpy(b).bfloat16()
    return lambda: x @ y


def against_sgemm(call: Call, a: np.ndarray, b: np.ndarray, seconds: float) -> Row:
    """Time `call` and torch's product of `a` and `b`, and the peak rate, in turns."""
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    timings = in_turns({"numc": call, "sgemm": lambda: x @ y, "peak": native.peak}, seconds=seconds)
    flops = 2.0 * a.shape[0] * a.shape[1] * b.shape[1]
    peak = native.peak() / timings["peak"].best
    return {
        "seconds": timings["numc"].best,
        "sgemm_seconds": timings["sgemm"].best,
        "slowdown": ratio(timings, "numc", "sgemm"),
        "times_peak": timings["numc"].best * peak / flops,
        "sgemm_times_peak": timings["sgemm"].best * peak / flops,
        "peak_gflops": peak / 1e9,
    }


def packed(seconds: float, quick: bool) -> list[Row]:
    """Time one row times a weight in the bits of its format, on one thread, in turns with fp32 and with torch."""
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


def sizes(seconds: float, quick: bool) -> list[Row]:
    """Time square products from small to large on one thread."""
    torch.set_num_threads(1)
    rows = []
    for size in SQUARES[1:5:2] if quick else SQUARES:
        a, b = operands(size, size, size)
        for fma in ("fp32", "bf16_1_1", "bf16_1_2", "bf16_2_2{4}"):
            rows.append({"size": size, "operator": fma, **against_sgemm(matmul(a, b, fma), a, b, seconds)})
    return rows


def threads(seconds: float, quick: bool) -> list[Row]:
    """Time one and two threads at 1024^3, and in the same turns what two processors reach together at best."""
    a, b = operands(*(512,) * 3 if quick else (1024,) * 3)
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    rows = []

    def sgemm(count: int) -> object:
        torch.set_num_threads(count)
        return x @ y

    for fma in (*FEW, "torch sgemm"):
        calls: dict[str, Call] = {}
        for count in (1, 2):
            if fma == "torch sgemm":
                calls[str(count)] = lambda c=count: sgemm(c)
            else:
                calls[str(count)] = matmul(a, b, fma, count)
        calls |= {"alone": lambda: native.peak(_LONG), "together": lambda: native.two_peaks(_LONG)}
        timings = in_turns(calls, seconds=seconds, threads=2)
        bar = None if fma == "torch sgemm" else THREADS_SPEEDUP
        row = {f"seconds_{count}": timings[count].best for count in ("1", "2")} | {"speedup": ratio(timings, "1", "2")}
        rows.append({"operator": fma, **row, "machine": 2 * ratio(timings, "alone", "together"), "must": bar})
    torch.set_num_threads(1)
    return rows


def skinny(seconds: float, quick: bool) -> list[Row]:
    """Time small and skinny products against torch. The programs are compiled before, as those of models are."""
    torch.set_num_threads(1)
    rows = []
    with graphs.folder() as folder:
        for product in PRODUCTS[:3] if quick else PRODUCTS:
            model, feeds, weight = graphs.matmul(product, folder)
            x = torch.from_numpy(feeds["a"])
            y = torch.from_numpy(weight if weight is not None else feeds["b"])
            for fma in FEW:
                program = numc.compile(model, fma=fma)
                arrays = list(feeds.values())
                timings = in_turns(
                    {"numc": lambda: program(*arrays, threads=1), "torch": lambda: x @ y},  # noqa: B023
                    seconds=seconds,
                )
                bar = OPERATORS[fma]
                row = {"shape": product.name, "operator": fma}
                row |= {"seconds": timings["numc"].best, "torch_seconds": timings["torch"].best}
                must, aim = (bar.must * SKINNY_FACTOR, bar.aim * SKINNY_FACTOR) if bar else (None, None)
                rows.append({**row, "slowdown": ratio(timings, "numc", "torch"), "must": must, "aim": aim})
        rows.append(_call_overhead(seconds, folder))
    return rows


def _call_overhead(seconds: float, folder: Any) -> Row:
    """Time a program that adds two numbers: the cost of a call from Python, of numc and of onnxruntime."""
    model, feeds = graphs.scalar(folder)
    program, arrays = numc.compile(model), list(feeds.values())
    x, y = (torch.from_numpy(v) for v in arrays)
    timings = in_turns({"numc": lambda: program(*arrays, threads=1), "torch": lambda: x + y}, seconds=seconds)
    best = {"seconds": timings["numc"].best, "torch_seconds": timings["torch"].best}
    return {"shape": "call overhead", "operator": "1 + 1", **best, "slowdown": ratio(timings, "numc", "torch")}
