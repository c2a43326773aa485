"""The tables of the study: every arithmetic beside fp32 in five networks, and the published differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from arms import ARMS, BASE
from cells import difference, markdown, spread, visible
from networks import Network
from training import Outcome

Runs = Mapping[Network, Mapping[str, Sequence[Outcome]]]
"""Task -> arm -> the outcomes, a seed each."""
PUBLISHED: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "resnet": ("ResNet-18, top-1 (%)", (68.60, -3.07, -5.50, -0.50, -0.03, -0.08)),
    "mobilenet": ("MobileNet-v2, top-1 (%)", (68.27, -2.30, -3.85, -1.34, -0.07, -0.10)),
    "vgg": ("VGG-16, top-1 (%)", (69.74, -5.24, -5.64, -0.66, 0.05, 0.04)),
    "transformer": ("Transformer, BLEU", (35.41, -6.23, -1.19, -0.01, 0.02, -0.01)),
    "detector": ("YOLOv2, mAP (%)", (73.36, -12.24, -7.99, -2.32, -0.06, -0.08)),
}
"""Task -> a network of table II of the paper, its quality in FP32, and the differences to it, in the order of ARMS."""
MEASURES: tuple[Callable[[Outcome], float], ...] = (lambda run: run.quality, lambda run: run.held_out_loss)


def tables(runs: Runs) -> Iterator[str]:
    """Yield the qualities beside the published ones, then the losses of held-out data."""
    heads = [BASE, *(f"{arm}, minus {BASE}" for arm in ARMS[1:])]
    rows = [["", *heads]]
    for task, by_arm in runs.items():
        title, (first, *others) = PUBLISHED[task.name]
        rows.append([f"published: {title}", f"{first:.2f}", *(f"{each:+.2f}" for each in others)])
        rows.append([f"here: {task.title}, {task.quality}", *_row(by_arm, MEASURES[0], task.form)])
        rows.append(["could have been seen", "", *_visible(by_arm, MEASURES[0], task.form)])
    yield markdown(rows)
    rows = [["loss on held-out data", *heads]]
    for task, by_arm in runs.items():
        rows.append([task.title, *_row(by_arm, MEASURES[1], ".4f")])
    yield markdown(rows)


def _row(runs: Mapping[str, Sequence[Outcome]], value: Callable[[Outcome], float], form: str) -> list[str]:
    first, *others = ([value(run) for run in runs[arm]] for arm in ARMS)
    return [spread(first, form), *(difference(each, first, form) for each in others)]


def _visible(runs: Mapping[str, Sequence[Outcome]], value: Callable[[Outcome], float], form: str) -> list[str]:
    first, *others = ([value(run) for run in runs[arm]] for arm in ARMS)
    return [visible(each, first, form) for each in others]
