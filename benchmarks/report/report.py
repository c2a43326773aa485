"""Makes a table of each section of the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import geometric_mean

from benchmarks.cases import OPERATORS, SKINNY_FACTOR, STREAM_THREADS, TRAINBF_STREAMS, model_bar
from benchmarks.report.tables import Row, Table, against, duration, number, pivot, short

Rows = Sequence[Row]


def gemm(rows: Rows) -> Table:
    """Slowdown against sgemm by operator and shape, with the bars."""
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    fp32 = _largest({row["shape"]: row for row in rows if row["operator"] == "fp32"}, "times_peak")
    body = []
    for operator in dict.fromkeys(row["operator"] for row in rows):
        mine = {row["shape"]: row for row in rows if row["operator"] == operator}
        first = next(iter(mine.values()))
        cells = [against(mine[s]["slowdown"], mine[s].get("must")) if s in mine else "" for s in shapes]
        bars = [number(first.get(key)) for key in ("must", "aim")]
        peak = _largest(mine, "times_peak")
        body.append((short(operator), *cells, *bars, number(peak / fp32), number(peak)))
    return Table(("operator", *shapes, "must", "aim", "time / numc fp32", "time / peak"), tuple(body))


def _largest(mine: Mapping[str, Row], key: str) -> float:
    """The value of `key` at the shape with the most multiply-adds."""
    return float(max(mine.values(), key=lambda row: row["sgemm_seconds"])[key])


def units(rows: Rows) -> Table:
    """Slowdown of matrix units against sgemm, and their time beside that of the model of single instructions."""
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    body = []
    for unit in dict.fromkeys(row["unit"] for row in rows):
        mine = {row["shape"]: row for row in rows if row["unit"] == unit}
        last = mine[shapes[-1]]
        slowdowns = [against(mine[shape]["slowdown"], last["must"]) for shape in shapes]
        times = [number(last["ns"]), number(last["model_ns"])]
        body.append((f"`{unit}`", f"`{last['datapath']}`", *slowdowns, number(last["must"]), *times))
    return Table(("unit", "adds by", *shapes, "must", "ns / FMA", "MMA-Sim, ns / FMA"), tuple(body), 2)


def own(rows: Rows) -> Table:
    """Operators that are written as functions: time / the operator of numc that computes the same."""
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    body = []
    for operator in dict.fromkeys(row["operator"] for row in rows):
        mine = {row["shape"]: row for row in rows if row["operator"] == operator}
        last = mine[shapes[-1]]
        ratios = [against(mine[shape]["ratio"], last["must"]) for shape in shapes]
        body.append((f"`{operator}`", f"`{last['built_in']}`", *ratios, number(last["must"])))
    return Table(("function", "operator", *shapes, "must"), tuple(body), 2)


def sizes(rows: Rows) -> Table:
    """GFLOP/s by size."""
    table = pivot(rows, ("size",), "operator", lambda r: number(2 * r["size"] ** 3 / r["seconds"] / 1e9), short)
    sgemm = {str(r["size"]): number(2 * r["size"] ** 3 / r["sgemm_seconds"] / 1e9) for r in rows}
    body = tuple((*row, sgemm[row[0]]) for row in table.rows)
    return Table((*table.columns, "torch sgemm"), body)


def threads(rows: Rows) -> Table:
    """Speed-up of two threads."""
    body = [
        (
            short(r["operator"]),
            duration(r["seconds_1"]),
            duration(r["seconds_2"]),
            number(r["speedup"]) + (" ✗" if r["must"] and r["speedup"] < r["must"] else ""),
            number(r["must"]),
            number(r["machine"]),
        )
        for r in rows
    ]
    return Table(("operator", "1 thread", "2 threads", "speed-up", "at least", "speed-up of the machine"), tuple(body))


def skinny(rows: Rows) -> Table:
    """Slowdown against torch by shape and operator."""
    table = pivot(
        [r for r in rows if r["shape"] != "call overhead"],
        ("shape",),
        "operator",
        lambda r: against(r["slowdown"], r["must"]),
        short,
    )
    bars = ("at most", *(_bar(name, SKINNY_FACTOR) for name in table.columns[1:]))
    torch = {r["shape"]: duration(r["torch_seconds"]) for r in rows}
    body = [(*row, torch[row[0]]) for row in table.rows]
    return Table((*table.columns, "torch"), (*body, (*bars, "")))


def _bar(shown: str, factor: float) -> str:
    bar = OPERATORS.get(shown.strip("`"))
    return number(bar.must * factor) if bar else ""


def widths(rows: Rows) -> Table:
    """Operators with open widths against fixed ones, and runs that change the width."""
    body = [
        (
            r["shape"],
            short(r["operator"]),
            duration(r["fixed_seconds"]),
            duration(r["seconds"]),
            against(r["slowdown"], r["must"]),
            number(r["must"]),
            duration(r["changing_seconds"]),
        )
        for r in rows
    ]
    columns = ("shape", "operator", "fixed", "open", "open / fixed", "at most", "widths change in every run")
    return Table(columns, tuple(body))


def search(rows: Rows) -> Table:
    """Evaluations of a search that share a program against those that compile their own, and the rates of workers."""
    body = [
        (
            r["model"],
            str(r["samples"]),
            duration(r["compiling_seconds"]),
            duration(r["seconds"]),
            number(r["speedup"]) + " ✗" * (r["speedup"] < r["must"]),
            number(r["must"]),
            *(number(rate) for rate in r["rates"].values()),
        )
        for r in rows
    ]
    workers = [f"evaluations/s, {n} worker{'s' * (int(n) > 1)}" for n in rows[0]["rates"]]
    columns = ("model", "samples", "compiling each", "one program", "speed-up", "at least", *workers)
    return Table(columns, tuple(body))


def overhead(rows: Rows) -> Table:
    """The cost of a call from Python."""
    (row,) = [r for r in rows if r["shape"] == "call overhead"]
    body = (("numc program", duration(row["seconds"])), ("torch operation", duration(row["torch_seconds"])))
    return Table(("adding two numbers", "time"), body)


def models(rows: Rows) -> Table:
    """Time over that of the faster peer by network, threads and operator, with geometric means."""
    table = pivot(rows, ("model", "threads"), "operator", lambda r: against(r["ratio"], r["must"]), short)
    theirs = {(r["model"], str(r["threads"])): r for r in rows}
    peers = ("onnxruntime", "inductor")
    body = [(*row, *(duration(theirs[row[:2]][f"{peer}_seconds"]) for peer in peers)) for row in table.rows]
    operators = list(dict.fromkeys(r["operator"] for r in rows))
    for count in dict.fromkeys(r["threads"] for r in rows):
        of_all = {n: [r["ratio"] for r in rows if (r["threads"], r["operator"]) == (count, n)] for n in operators}
        body.append(("geometric mean", str(count), *(number(geometric_mean(all_)) for all_ in of_all.values()), "", ""))
    return _with_model_bars(Table((*table.columns, *peers), tuple(body), 2))


def convs(rows: Rows) -> Table:
    """Time over onnxruntime's by kind of convolution and operator."""
    table = pivot(rows, ("conv",), "operator", lambda r: against(r["ratio"], r["must"]), short)
    theirs = {r["conv"]: duration(r["onnxruntime_seconds"]) for r in rows}
    body = [(*row, theirs[row[0]]) for row in table.rows]
    return _with_model_bars(Table((*table.columns, "onnxruntime"), tuple(body)))


def quantised(rows: Rows) -> Table:
    """Times of quantised layers and networks, and the ratio to onnxruntime."""
    who = ("numc", "loops", "onnxruntime")
    body = []
    for r in rows:
        times = (r[f"{w}_seconds"] for w in who)
        body.append((r["layer"], *("" if t is None else duration(t) for t in times), number(r["ratio"])))
    return Table(("layer or network", "numc", "loops over integers", "onnxruntime", "time / onnxruntime"), tuple(body))


def packed(rows: Rows) -> Table:
    """Times of one row times packed weights, and the ratios to fp32 and to torch's sgemv."""
    columns = ("shape", "operator", "bits per weight", "time", "fp32", "time / fp32", "at most", "time / torch sgemv")
    body = []
    for r in rows:
        times = duration(r["numc_seconds"]), duration(r["fp32_seconds"])
        bars = against(r["ratio"], r["must"]), number(r["must"]), number(r["sgemv_ratio"])
        body.append((r["shape"], short(r["operator"]), number(r["bits"]), *times, *bars))
    return Table(columns, tuple(body), left=2)


def matrix(rows: Rows) -> Table:
    """Times in matrix registers and without them, and the ratios to the peer and to torch's sgemm."""
    who = ("numc", "without", "peer")
    columns = ("contractions", "numc", "without these registers", "peer", "time / peer", "time / torch sgemm")
    body = []
    for r in rows:
        *times, peer = (duration(r[f"{w}_seconds"]) for w in who)
        slowdown = "" if r["slowdown"] is None else number(r["slowdown"])
        body.append((r["case"], *times, f"{r['peer']}: {peer}", number(r["ratio"]), slowdown))
    return Table(columns, tuple(body))


def pieces(rows: Rows) -> Table:
    """Times of pieces and of their peers, and the ratio to the faster peer, by the number of threads."""
    who = ("numc", "onnxruntime", "inductor")
    body: dict[tuple[str, str], list[str]] = {}
    for r in rows:
        cells = [duration(r[f"{w}_seconds"]) for w in who] if r["threads"] == 1 else []
        body.setdefault((r["piece"], r["shape"]), []).extend([*cells, against(r["ratio"], r["must"])])
    columns = ("piece", "shape", *who, "ratio", "on two threads")
    return Table(columns, tuple((*key, *cells) for key, cells in body.items()), left=2)


def _with_model_bars(table: Table) -> Table:
    cells = []
    for name in table.columns[table.left :]:
        known = name.strip("`") in OPERATORS
        bar = model_bar(name.strip("`")) if known else None
        cells.append(number(bar.must) if bar else "")
    return Table(table.columns, (*table.rows, ("at most", *[""] * (table.left - 1), *cells)), table.left)


def emulators(rows: Rows) -> Table:
    """Time of a product at 1024^3 by emulator."""
    body = [
        (
            r["emulator"],
            short(r["operator"]) if r["operator"] != "MXFP8 operands" else r["operator"],
            "every partial sum" if r["exact"] else "operands only",
            str(r["size"]),
            number(r["ns_per_fma"]),
            duration(r["seconds_1024"]),
            duration(r.get("numc_seconds_1024")),
            number(r.get("ratio")),
        )
        for r in rows
    ]
    head = (
        "emulator",
        "arithmetic",
        "rounds",
        "measured size",
        "ns / FMA",
        "1024x1024x1024",
        "numc",
        "emulator / numc",
    )
    return Table(head, tuple(body), 3)


def compile(rows: Rows) -> Table:
    """Wall time of ``numc compile``."""
    return pivot(
        rows,
        ("model",),
        "cache",
        lambda r: _seconds(r),
        lambda name: {"cold": "empty cache (s)", "again": "second time (s)"}[name],
    )


def _seconds(row: Row) -> str:
    return against(row["seconds"], row.get("must"))


def startup(rows: Rows) -> Table:
    """Wall time of small commands."""
    body = []
    for r in rows:
        missed = r["must"] is not None and r["seconds"] > r["must"]
        best = duration(r["seconds"]) + (" ✗" if missed else "")
        body.append((r["command"], best, duration(r["median_seconds"]), duration(r["must"])))
    return Table(("command", "best", "median", "at most"), tuple(body))


def memory(rows: Rows) -> Table:
    """Peak memory."""
    body = [
        (
            r["model"],
            str(r["batch"]),
            number(r["mib"]),
            number(r["onnxruntime_mib"]),
            number(r["numpy_mib"]),
            against(r["ratio"], r["must"]),
        )
        for r in rows
        if "batch" in r
    ]
    return Table(("model", "batch", "numc (MiB)", "onnxruntime (MiB)", "Python with numpy (MiB)", "ratio"), tuple(body))


def training(rows: Rows) -> Table:
    """Time of a training step over that of the faster peer by network and arithmetic, with geometric means."""
    rows = [r for r in rows if "operator" in r]
    table = pivot(rows, ("model",), "operator", lambda r: against(r["ratio"], r["must"]), short)
    peers = ("eager", "inductor")
    alone = {r["model"]: r["alone"] for r in rows}
    theirs = {r["model"]: [duration(r[f"{peer}_seconds"]) for peer in peers] for r in rows}
    by_operator = {r["operator"]: [s["ratio"] for s in rows if s["operator"] == r["operator"]] for r in rows}
    aims = {r["operator"]: r["aim"] for r in rows}
    means = {name: geometric_mean(ratios) for name, ratios in by_operator.items()}
    body = [(*row, number(alone[row[0]]), *theirs[row[0]]) for row in table.rows]
    mean = number(geometric_mean(list(alone.values())))
    body += [("geometric mean", *(against(means[name], aims[name]) for name in by_operator), mean, "", "")]
    body += [("at most, mean", *map(number, aims.values()), "", "", "")]
    each = (number(next(r["must"] for r in rows if r["operator"] == n)) for n in by_operator)
    body += [("at most, each", *each, "", "", "")]
    return Table((*table.columns, "multiply-adds alone", "eager torch", "inductor"), tuple(body))


def generation(rows: Rows) -> Table:
    """Tokens per second of a language model beside eager torch's."""
    body = [
        (
            r["model"],
            short(r["operator"]),
            number(r["numc_tokens"]),
            number(r["eager_tokens"]),
            against(r["ratio"], r["must"]),
            number(r["must"]),
        )
        for r in rows
    ]
    return Table(
        ("model", "arithmetic", "numc (tokens/s)", "eager torch (tokens/s)", "ratio of times", "at most"),
        tuple(body),
        2,
    )


def streams(rows: Rows) -> Table:
    """Operations side by side, measured and in a simulation, beside what TrainBF reports."""
    body = []
    for r in rows:
        cells = [r["model"], str(r["operations"]), duration(r["seconds_2"]), number(r["measured"])]
        for count in STREAM_THREADS:
            cells += [f"{r[f'idle_{count}']:.0%}", number(r[f"speedup_{count}"])]
        last = STREAM_THREADS[-1]
        body.append((*cells, f"{r[f'memory_{last}']:+.0%}", number(r[f"limited_{last}"])))
    head = ["network", "operations", "2 threads", "side by side, measured"]
    for count in STREAM_THREADS:
        head += [f"idle, {count}", f"side by side, {count}"]
    published = TRAINBF_STREAMS
    speedups = ", ".join(map(number, published["speedup"]))
    memory = ", ".join(f"{value:+.0%}" for value in published["memory"])
    blank = [""] * (2 * len(STREAM_THREADS) - 2)
    body.append(("TrainBF, two GPUs", "", "", speedups, f"{published['idle']:.0%}", "", *blank, memory, ""))
    return Table((*head, "memory without a limit", "side by side in the memory of the sequence"), tuple(body))


def scaling(rows: Rows) -> Table:
    """The speed-up of networks on two threads, and in a simulation on more."""
    body = []
    for r in rows:
        simulated = [number(r[f"simulated_{count}"]) for count in STREAM_THREADS]
        body.append((r["model"], str(r["batch"]), duration(r["seconds"]), number(r["measured"]), *simulated))
    head = ("model", "batch", "1 thread", "2 threads, measured")
    return Table((*head, *(f"{count} threads, simulated" for count in STREAM_THREADS)), tuple(body), 2)


def switch(rows: Rows) -> Table:
    """The cost of a switch of arithmetic between two calls."""
    (row,) = [r for r in rows if "other_seconds" in r]
    missed = " ✗" if row["other_seconds"] - row["same_seconds"] > row["switch_must"] else ""
    body = (
        ("without a block", duration(row["plain_seconds"])),
        ("in a block with the arithmetic of the previous call", duration(row["same_seconds"])),
        ("in a block with another arithmetic", duration(row["other_seconds"]) + missed),
    )
    return Table(("call of a compiled layer with 4x4 weights", "time"), body)


def statistics(rows: Rows) -> Table:
    """The cost of statistics over a training."""
    body = [
        (
            short(r["operator"]),
            duration(r["plain"]),
            duration(r["observed"]),
            f"{r['share']:.2%}" + (" ✗" if r["share"] > r["aim"] else ""),
            f"{r['aim']:.0%}",
            number(r["kib"]),
        )
        for r in rows
    ]
    return Table(("arithmetic", "step", "observed step", "share of the time", "aim", "KiB in the file"), tuple(body))


def steps(rows: Rows) -> Table:
    """Peak memory of a process that trains, beyond what its imports take, and its first step."""
    body = [
        (
            r["model"],
            short(r["operator"]),
            number(r["mib"]),
            number(r["eager_mib"]),
            against(r["ratio"], r["must"]),
            number(r["cold_mib"] / r["eager_mib"]),
            number(r["time"]),
            against(r["cold_seconds"], r["seconds_must"]),
            number(r["warm_seconds"]),
        )
        for r in rows
        if "operator" in r
    ]
    head = ("model", "arithmetic", "numc (MiB)", "eager torch (MiB)", "ratio", "ratio when compiling")
    first = ("first step, empty cache (s)", "first step, full cache (s)")
    return Table((*head, "time of the third step / eager", *first), tuple(body), 2)


def activations(rows: Rows) -> Table:
    """Peak memory of a process that trains, beyond what its imports take, with what eager torch takes in front."""
    eager = [r | {"operator": "eager torch", "ratio": None} | {"mib": r["eager_mib"]} for r in rows]

    def cell(row: Row) -> str:
        ratio = "" if row["ratio"] is None else f" ({against(row['ratio'], row['must'])})"
        return f"{number(row['mib'])}{ratio}"

    return pivot([*eager, *rows], ("model",), "operator", cell, short)


def instructions(rows: Rows) -> Table:
    """Vector operations, machine instructions and stack accesses per multiply-add."""
    body = [
        (
            short(r["operator"]),
            number(r["fmas"]),
            number(r["others"]),
            number(r.get("vector_instructions")),
            number(r.get("instructions")),
            number(r.get("stack_accesses")),
            number(r.get("executed_per_fma")),
        )
        for r in rows
        if "fmas" in r
    ]
    head = ("operator", "FMAs", "other operations", "vector instructions", "all instructions", "stack accesses")
    return Table((*head, "executed per FMA (AVX2)"), tuple(body))


def executed(rows: Rows) -> Table:
    """Instructions of a whole run."""
    millions = [(r["case"], short(r["operator"]), number(r["executed"] / 1e6)) for r in rows if r.get("executed")]
    return Table(("model", "operator", "instructions (millions, AVX2)"), tuple(millions), 2)


#: For each section: the measure that is compared with the bar "must", and the keys that name a row.
MEASURES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "gemm": ("slowdown", ("operator", "shape")),
    "threads": ("speedup", ("operator",)),
    "skinny": ("slowdown", ("operator", "shape")),
    "models": ("ratio", ("operator", "model", "threads")),
    "batches": ("ratio", ("operator", "model", "threads")),
    "narrow": ("ratio", ("operator", "model", "threads")),
    "convs": ("ratio", ("operator", "conv")),
    "pieces": ("ratio", ("piece", "shape", "threads")),
    "compile": ("seconds", ("model", "cache")),
    "startup": ("seconds", ("command",)),
    "memory": ("ratio", ("model",)),
    "activations": ("ratio", ("operator", "model")),
    "training": ("ratio", ("operator", "model")),
    "first_step": ("ratio", ("operator", "model")),
    "generation": ("ratio", ("operator", "model")),
}


def bars(sections: Mapping[str, Row]) -> Table:
    """For each section, how many rows meet their bar, and which row misses it by most or is closest to it."""
    body = []
    for name, (measure, keys) in MEASURES.items():
        rows = [r for r in sections.get(name, {}).get("rows", ()) if r.get("must")]
        if not rows:
            continue
        share = {n: r[measure] / r["must"] for n, r in enumerate(rows)}
        if measure == "speedup":  # the only bar that results have to exceed
            share = {n: 1 / value for n, value in share.items()}
        met = sum(value <= 1 for value in share.values())
        worst = max(share, key=lambda n: share[n])
        what = [short(rows[worst][key]) if key == "operator" else _named(key, rows[worst][key]) for key in keys]
        body.append((name, str(len(rows)), str(met), ", ".join(what), number(share[worst])))
    return Table(("section", "bars", "met", "furthest from its bar", "value / bar"), tuple(body))


# Table 4.2 of Osorio Rios 2023: the time of a program under FASE over its native time. Beside it what numc has measured
# that is like it: the section, what selects a row, its ratio, and what the ratio is to.
FASE: Mapping[str, tuple[tuple[int, ...], tuple[str, Row, str, str] | None]] = {
    "SGEMM": ((15, 1809, 880, 82, 39), ("gemm", {"shape": "1024x1024x1024"}, "slowdown", "torch sgemm")),
    "ResNet50": ((11, 1131, 553, 76, 30), ("models", {"model": "ResNet-50"}, "ratio", "the faster peer")),
    "3DGAN": ((7, 714, 340, 66, 28), None),
    "LSTM": ((18, 1096, 551, 70, 29), ("models", {"model": "LSTM, 32 steps"}, "ratio", "the faster peer")),
    "Transformer": ((8, 818, 423, 36, 17), ("models", {"model": "BERT-base, 128 tokens"}, "ratio", "the faster peer")),
}


def slowdowns(sections: Mapping[str, Row]) -> Table:
    """The published slow-downs of FASE beside those of `bf16_1_1` that are measured: one thread."""
    body = []
    for program, (published, ours) in FASE.items():
        what, ratio = "not measured", ""
        if ours is not None:
            section, key, measure, peer = ours
            key = {"operator": "bf16_1_1", "threads": 1} | dict(key)
            for row in sections.get(section, {}).get("rows", ()):
                if all(row.get(name, value) == value for name, value in key.items()):
                    what, ratio = f"{row.get('model', row.get('shape'))} over {peer}", number(row[measure])
        body.append((program, *map(str, published), what, ratio))
    steps = ("instr.", "unopt.", "opt. 1", "opt. 2", "full")
    return Table(("program", *(f"FASE: {step}" for step in steps), "numc", "measured"), tuple(body))


def _named(key: str, value: object) -> str:
    return f"{key} {value}" if isinstance(value, int) else str(value)


#: The blocks that are made of several sections.
SUMMARIES: Mapping[str, Callable[[Mapping[str, Row]], Table]] = {"bars": bars, "slowdowns": slowdowns}

#: For each other block of a page: the section of the results, the function that makes the table, and its title.
TABLES: Mapping[str, tuple[str, Callable[[Rows], Table], str]] = {
    "gemm": ("gemm", gemm, "Slowdown against torch sgemm, one thread"),
    "units": ("units", units, "Matrix units: slowdown against torch sgemm, one thread"),
    "own": (
        "own",
        own,
        "Operators written as functions: time / the same operator of numc, one thread",
    ),
    "sizes": ("sizes", sizes, "GFLOP/s of square products, one thread"),
    "threads": ("threads", threads, "Two threads, 1024x1024x1024"),
    "skinny": ("skinny", skinny, "Small products: slowdown against torch, one thread"),
    "overhead": ("skinny", overhead, "A call from Python"),
    "widths": ("widths", widths, "Open widths: time / the fixed operator, one thread"),
    "search": ("search", search, "An evaluation of a search, two threads"),
    "models": ("models", models, "Whole models: time / the faster of onnxruntime and inductor in fp32"),
    "batches": ("batches", models, "Whole models, batch 8: time / the faster of onnxruntime and inductor in fp32"),
    "narrow": ("narrow", models, "Whole models without AVX-512: time / the faster of onnxruntime and inductor in fp32"),
    "convs": ("convs", convs, "Convolution layers: time / onnxruntime fp32, one thread"),
    "pieces": (
        "pieces",
        pieces,
        "Pieces of networks in fp32: time / the faster of onnxruntime and inductor, one thread",
    ),
    "quantised": ("quantised", quantised, "Quantised layers: time / onnxruntime, one thread"),
    "packed": ("packed", packed, "One row times packed weights, one thread"),
    "matrix": ("matrix", matrix, "Matrix registers: time / a peer that uses them, one thread"),
    "emulators": ("emulators", emulators, "Other emulators, one thread"),
    "compile": ("compile", compile, "numc compile"),
    "startup": ("startup", startup, "Start-up"),
    "memory": ("memory", memory, "Peak memory"),
    "training": ("training", training, "A training step: time / the faster of eager torch and inductor, two threads"),
    "streams": ("streams", streams, "Operations side by side, measured and simulated from a profile on two threads"),
    "scaling": ("scaling", scaling, "Speed-up of networks by threads, simulated from a profile on two threads"),
    "generation": ("generation", generation, "Greedy generation, two threads"),
    "switch": ("training", switch, "A switch of arithmetic"),
    "statistics": ("statistics", statistics, "Statistics of one step of 100 of ResNet-18: CPU time"),
    "steps": ("memory", steps, "Training steps in a process of their own: peak memory beyond the imports"),
    "activations": (
        "activations",
        activations,
        "Training steps of large activations: peak memory in MiB beyond the imports",
    ),
    "instructions": ("instructions", instructions, "Per multiply-add of one vector, inner loop, AVX-512"),
    "executed": ("instructions", executed, "Instructions of one run"),
}
