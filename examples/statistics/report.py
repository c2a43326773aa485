"""Tables and pictures of the statistics of `numc run --stats`, layer by layer: STATS.json --output FOLDER.

Writes report.md and, beside it, swamping.png, exponents.png and subnormals.png, and prints the table. The statistics
have to include swamping and exponents; with rounding, the table has the error of each layer's sums as well.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numc

BITS = (7, 10, 23)  # explicit significand bits of bf16, fp16 and tf32, fp32
EXPONENT_BITS = (4, 5, 6)  # of IEEE-like formats: e4m3, fp16 and e5m2, e6m9
TENSORS = {"a": "activations", "b": "weights", "result": "accumulators"}
MOST_BITS = 23

Layer = Any  # of numc.Statistics


def emin(exponent_bits: int) -> int:
    """The exponent of the smallest normal number."""
    return int(2 - 2 ** (exponent_bits - 1))


def below(layer: Layer, tensor: str, exponent_bits: int) -> float:
    """The share of a tensor's elements that would be subnormal with this many exponent bits, without zeros."""
    found, least = layer.tensors[tensor], emin(exponent_bits)
    return float(sum(count for exponent, count in found.exponents.items() if exponent < least) / found.elements)


def mean_without_swamping(layers: Sequence[Layer], bits: int) -> float:
    """The share of additions without swamping over all multiply-adds."""
    return float(sum(layer.fmas * layer.without_swamping(bits) for layer in layers) / sum(x.fmas for x in layers))


def table(layers: Sequence[Layer]) -> list[list[str]]:
    """Return the columns, and a line for each layer."""
    columns = ["layer", "FMAs", *(f"no swamping at {k} bits" for k in BITS)]
    columns += [f"exponents of {name}" for name in TENSORS.values()]
    columns += [f"{TENSORS[tensor]} subnormal in e{bits}" for bits in (5, 4) for tensor in ("a", "b")]
    lines = [[*columns, "relative error"]]
    for layer in layers:
        ranges = [layer.tensors[tensor].exponents.trimmed() for tensor in TENSORS]
        lines.append(
            [
                layer.layer,
                str(layer.fmas),
                *(f"{layer.without_swamping(k):.2%}" for k in BITS),
                *(f"{each.low}..{each.low + len(each.counts) - 1}" if each.counts else "-" for each in ranges),
                *(f"{below(layer, tensor, bits):.2%}" for bits in (5, 4) for tensor in ("a", "b")),
                "-" if layer.relative_error is None else f"{layer.relative_error:.1e}",
            ]
        )
    return lines


def draw_swamping(pyplot: Any, layers: Sequence[Layer]) -> Any:
    """Draw the multiply-adds without swamping over the significand bits: a line for each layer, a black one for all."""
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    colours = pyplot.get_cmap("viridis")
    bits = range(MOST_BITS + 1)
    for number, layer in enumerate(layers):
        shares = [100 * layer.without_swamping(k) for k in bits]
        axes.plot(bits, shares, color=colours(number / max(1, len(layers) - 1)), linewidth=0.8)
    axes.plot(bits, [100 * mean_without_swamping(layers, k) for k in bits], color="black", label="all layers")
    axes.set(xlabel="explicit significand bits of the accumulator", ylabel="FMAs without swamping (%)")
    scale = pyplot.matplotlib.colors.Normalize(0, len(layers) - 1)
    figure.colorbar(pyplot.cm.ScalarMappable(scale, colours), ax=axes, label="layer, by position")
    axes.grid(color="#e4e4e4")
    axes.legend()
    return figure


def draw_exponents(pyplot: Any, layers: Sequence[Layer]) -> Any:
    """Draw how often each exponent occurs: a row for each layer, a panel for each tensor, without zeros."""
    figure, panels = pyplot.subplots(1, len(TENSORS), figsize=(9, 4.5), layout="constrained", sharey=True)
    trimmed = [layer.tensors[tensor].exponents.trimmed() for layer in layers for tensor in TENSORS]
    low = min(each.low for each in trimmed)
    high = max(each.low + len(each.counts) for each in trimmed)
    extent = (low - 0.5, high - 0.5, len(layers) - 0.5, -0.5)
    style = {"cmap": "magma_r", "vmin": 0, "vmax": 40, "aspect": "auto", "interpolation": "nearest"}
    for axes, (tensor, name) in zip(panels, TENSORS.items(), strict=True):
        shares = [[0.0] * (high - low) for _ in layers]
        for line, layer in zip(shares, layers, strict=True):
            histogram = layer.tensors[tensor].exponents
            for exponent, count in histogram.items():
                line[exponent - low] = 100 * count / histogram.total
        picture = axes.imshow(shares, extent=extent, **style)
        axes.set(title=name, xlabel="exponent")
    panels[0].set_ylabel("layer, by position")
    figure.colorbar(picture, ax=panels, label="share of the numbers other than zero (%)", extend="max")
    return figure


def draw_subnormals(pyplot: Any, layers: Sequence[Layer]) -> Any:
    """Draw the share that would be subnormal with fewer exponent bits, layer by layer."""
    figure, panels = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained", sharey=True)
    for axes, tensor in zip(panels, ("a", "b"), strict=True):
        for bits in EXPONENT_BITS:
            shares = [100 * below(layer, tensor, bits) or float("nan") for layer in layers]
            axes.plot(shares, ".-", label=f"{bits} exponent bits: below $2^{{{emin(bits)}}}$")
        axes.set(title=TENSORS[tensor], xlabel="layer, by position", yscale="log")
        axes.grid(color="#e4e4e4")
    panels[0].set_ylabel("share of all elements (%); none: no point")
    panels[1].legend(fontsize=8)
    return figure


PICTURES: dict[str, tuple[str, Callable[[Any, Sequence[Layer]], Any]]] = {
    "swamping": ("Multiply-adds without swamping over significand bits", draw_swamping),
    "exponents": ("Exponents", draw_exponents),
    "subnormals": ("Numbers that fewer exponent bits make subnormal", draw_subnormals),
}


def write(layers: Sequence[Layer], folder: Path) -> None:
    """Write the report. Raises OSError."""
    import matplotlib as mpl  # type: ignore[import-not-found, unused-ignore]

    mpl.use("Agg")
    from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]

    folder.mkdir(parents=True, exist_ok=True)
    columns, *lines = table(layers)
    text = ["# Statistics by layer", "", f"Operators: {', '.join(dict.fromkeys(f'`{x.fma}`' for x in layers))}.", ""]
    for name, (title, draw) in PICTURES.items():
        figure = draw(pyplot, layers)
        figure.savefig(folder / f"{name}.png", dpi=100)
        pyplot.close(figure)
        text += [f"## {title}", "", f"![{title}]({name}.png)", ""]
    text += ["## Table", "", *(f"| {' | '.join(line)} |" for line in (columns, ["---"] * len(columns), *lines)), ""]
    (folder / "report.md").write_text("\n".join(text))


def main() -> int:
    """Read the statistics, print the table, write the report. Returns the exit status: 2 for bad input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("statistics", type=Path, metavar="STATS.json")
    parser.add_argument("--output", type=Path, default=Path("report"), metavar="FOLDER")
    args = parser.parse_args()
    try:
        if importlib.util.find_spec("matplotlib") is None:
            raise numc.NumcError("matplotlib is not installed: pip install matplotlib")
        found = numc.Statistics.from_json(args.statistics.read_text())
        layers = [layer for layer in found.rows if layer.swamping is not None and layer.tensors]
        if not layers:
            raise numc.NumcError(
                f"{args.statistics}: no layer has swamping and exponents: collect them with numc run --stats all"
            )
        write(layers, args.output)
    except (numc.NumcError, OSError) as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 2
    for line in table(layers):
        print("\t".join(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
