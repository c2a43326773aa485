"""The distance of exponents from the shared exponent of their group, in a trained net (figure 7 of FAST, HPCA 2022).

The net is the digits CNN (examples/digits/cnn.onnx), the activations are those of held-out images. Groups of g = 8, 16
and 32 values lie along the reduction axis of each contraction, in numc's order: channel, kernel row, kernel column;
the last one may be shorter. The shared exponent is that of the group's largest magnitude. A value whose exponent is d
below it loses d leading bits of its magnitude. Zeros have no exponent and are counted separately.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import figure
import numpy as np
import onnx

import numc

DIGITS = Path(__file__).resolve().parents[1] / "digits"
GROUPS = (8, 16, 32)
FAR = 8  # one bar counts all distances from here on


def operands(images: np.ndarray) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield the layer, the kind and the values, (rows, reduction axis), of both operands of every contraction."""
    model = onnx.shape_inference.infer_shapes(onnx.load(DIGITS / "cnn.onnx"))
    layers = [node for node in model.graph.node if node.op_type in ("Conv", "Gemm")]
    known = {value.name: value for value in model.graph.value_info}
    model.graph.output.extend(known[node.input[0]] for node in layers)
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, Path(folder) / "cnn.onnx")
        results = numc.compile(Path(folder) / "cnn.onnx", cache=False)(images)
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in layers:
        layer, weight, values = node.input[1].removesuffix(".weight"), weights[node.input[1]], results[node.input[0]]
        yield layer, "weights", weight.reshape(len(weight), -1)
        if node.op_type == "Conv":  # 3 x 3, padded with one zero on each side
            padded = np.pad(values, ((0, 0), (0, 0), (1, 1), (1, 1)))
            windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
            values = windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, values.shape[1] * 9)
        yield layer, "activations", values


def differences(values: np.ndarray, group: int) -> np.ndarray:
    """The distance of the exponent of each value other than zero from the shared exponent of its group."""
    short = -values.shape[1] % group
    groups = np.pad(values, ((0, 0), (0, short))).reshape(-1, group)
    exponent = np.where(groups == 0, -(1 << 20), np.frexp(groups)[1])
    return (exponent.max(axis=1, keepdims=True) - exponent)[groups != 0]


def measure(quick: bool) -> figure.Rows:
    """Measure the share of values at each distance over all layers: rows by kind and group size."""
    images = np.load(DIGITS / "heldout.npz")["images"][: 4 if quick else 100]
    found: dict[tuple[str, int], list[np.ndarray]] = {}
    zeros: dict[str, list[np.ndarray]] = {}
    for _, kind, values in operands(images):
        zeros.setdefault(kind, []).append((values == 0).reshape(-1))
        for group in GROUPS:
            found.setdefault((kind, group), []).append(differences(values, group))
    rows: list[dict[str, Any]] = []
    for (kind, group), parts in sorted(found.items(), reverse=True):
        below = np.concatenate(parts)
        counts = np.bincount(np.minimum(below, FAR), minlength=FAR + 1) / below.size
        row = {"values": kind, "g": group, "zeros": float(np.mean(np.concatenate(zeros[kind])))}
        row["mean"] = float(below.mean())
        row |= {str(d) if d < FAR else f"{FAR}+": round(float(share), 4) for d, share in enumerate(counts)}
        rows.append(row)
    return sorted(rows, key=lambda row: (row["values"] != "weights", row["g"]))


def draw(axes: Any, rows: figure.Rows) -> None:
    """Draw the shares by distance: weights as full bars, activations as hatched ones."""
    names = [name for name in rows[0] if name.rstrip("+").isdigit()]
    width = 0.8 / len(rows)
    for n, row in enumerate(rows):
        places = [d + (n - (len(rows) - 1) / 2) * width for d in range(len(names))]
        kind, group = row["values"], row["g"]
        axes.bar(
            places,
            [100 * row[name] for name in names],
            width,
            label=f"{kind}, g = {group}",
            color=f"C{GROUPS.index(group)}",
            hatch="" if kind == "weights" else "////",
            edgecolor="white",
            linewidth=0,
        )
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("shared exponent minus own exponent")
    axes.set_ylabel("share of the values other than zero (%)")
    axes.legend(ncols=2, fontsize=8)


if __name__ == "__main__":
    sys.exit(figure.main(__doc__ or "", "exponents", measure, draw))
