"""Plots of the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

from benchmarks.report.tables import Row, short

Rows = Sequence[Row]
COLOURS = ("#3b6ea5", "#e08e3c", "#5a9a5a", "#b5533c", "#7d6ba8", "#8a8a8a", "#c9a94d")
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "font.size": 9,
    "axes.prop_cycle": mpl.cycler(color=COLOURS),
}


def _plain(operator: str) -> str:
    return short(operator).replace("`", "")


def operators(rows: Rows, ax: Any) -> None:
    """Draw the slowdown of each operator and shape, with the bars that must and should be met."""
    names = list(dict.fromkeys(r["operator"] for r in rows))
    shapes = list(dict.fromkeys(r["shape"] for r in rows))
    height = 0.8 / len(shapes)
    for s, shape in enumerate(shapes):
        mine = {r["operator"]: r["slowdown"] for r in rows if r["shape"] == shape}
        places = [n + (s - (len(shapes) - 1) / 2) * height for n in range(len(names))]
        ax.barh(places, [mine.get(name, 0) for name in names], height, label=shape)
    bars = {r["operator"]: r for r in rows}
    for key, colour in (("must", "#b22222"), ("aim", "#2e7d32")):
        marks = [(n, bars[name][key]) for n, name in enumerate(names) if bars[name].get(key)]
        ax.scatter([m for _, m in marks], [n for n, _ in marks], marker="|", s=220, color=colour, label=key, zorder=3)
    ax.set_yticks(range(len(names)), [_plain(n) for n in names])
    ax.invert_yaxis()
    ax.set_xscale("log")
    ticks = (0.25, 0.5, 1, 2, 3, 5, 10, 20, 50)
    ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
    ax.minorticks_off()
    ax.set_xlabel("time / torch sgemm of the same run, one thread (log)")
    ax.legend(fontsize=8)


def sizes(rows: Rows, ax: Any) -> None:
    """Draw GFLOP/s over the size of the product."""
    for name in dict.fromkeys(r["operator"] for r in rows):
        mine = [r for r in rows if r["operator"] == name]
        ax.plot(
            [r["size"] for r in mine], [2e-9 * r["size"] ** 3 / r["seconds"] for r in mine], "o-", label=_plain(name)
        )
        if name == "fp32":
            peers = [2e-9 * r["size"] ** 3 / r["sgemm_seconds"] for r in mine]
            ax.plot([r["size"] for r in mine], peers, "s--", color="#8a8a8a", label="torch sgemm")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(sorted({r["size"] for r in rows}), [str(s) for s in sorted({r["size"] for r in rows})])
    ax.set_xlabel("n of an n x n x n product, one thread")
    ax.set_ylabel("GFLOP/s (log)")
    ax.legend(fontsize=8)


def threads(rows: Rows, ax: Any) -> None:
    """Draw the speed-up of two threads."""
    names = [_plain(r["operator"]) for r in rows]
    ax.bar(names, [r["speedup"] for r in rows], color=COLOURS[0], width=0.6)
    ax.axhline(rows[0]["must"], color="#b22222", label=f"must: {rows[0]['must']:g}")
    ax.set_ylim(0, 2.1)
    ax.set_ylabel("speed-up of two threads")
    ax.tick_params(axis="x", rotation=20)
    ax.legend(fontsize=8, loc="lower right")


def models(rows: Rows, ax: Any) -> None:
    """Draw the time of each network relative to the faster peer, on one thread."""
    rows = [r for r in rows if r["threads"] == 1]
    cases = list(dict.fromkeys(r["model"] for r in rows))
    names = list(dict.fromkeys(r["operator"] for r in rows))
    for o, name in enumerate(names):
        mine = {r["model"]: r["ratio"] for r in rows if r["operator"] == name}
        places = [n + (o - (len(names) - 1) / 2) * 0.2 for n in range(len(cases))]
        ax.bar(places, [mine[c] for c in cases], 0.18, label=_plain(name))
    ax.axhline(1, color="black", linewidth=1)
    ax.set_xticks(range(len(cases)), [case.replace(", ", "\n") for case in cases], rotation=30, fontsize=8)
    ax.set_ylabel("time / the faster of onnxruntime\nand inductor in fp32, one thread")
    ax.legend(fontsize=8, ncols=4)


def emulators(rows: Rows, ax: Any) -> None:
    """Draw the time of a product of size 1024^3 under each emulator."""
    bars = [(f"{r['emulator']}: {_plain(r['operator'])}", r["seconds_1024"], r["exact"]) for r in rows]
    ours = {r["operator"]: r["numc_seconds_1024"] for r in rows if "numc_seconds_1024" in r}
    bars += [(f"numc: {name}", seconds, None) for name, seconds in ours.items()]
    bars.sort(key=lambda bar: -bar[1])
    colours = {None: COLOURS[0], True: COLOURS[1], False: COLOURS[5]}
    ax.barh([b[0] for b in bars], [b[1] for b in bars], color=[colours[b[2]] for b in bars])
    ax.set_xscale("log")
    ax.set_xlabel("seconds of a 1024x1024x1024 product, one thread (log)\ngrey: rounds operands only")
    ax.tick_params(axis="y", labelsize=7)


PLOTS: Mapping[str, tuple[Callable[[Rows, Any], None], tuple[float, float]]] = {
    "gemm": (operators, (8, 7)),
    "sizes": (sizes, (7, 4)),
    "threads": (threads, (7, 3.2)),
    "models": (models, (9, 4)),
    "emulators": (emulators, (8, 3.6)),
}


def draw(sections: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write a PNG file into `folder` for each section that has a plot; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, (plot, size) in PLOTS.items():
        if name in sections:
            with mpl.rc_context(STYLE):
                figure, ax = plt.subplots(figsize=size, layout="constrained")
                plot(sections[name]["rows"], ax)
                written.append(folder / f"{name}.png")
                figure.savefig(written[-1], dpi=110, metadata={"Software": None})
                plt.close(figure)
    return written
