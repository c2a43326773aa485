"""The numbers of chapter 7 of Osorio Ríos, "Adapting Floating-Point Precision to Accelerate DNN Training" (2023).

Differences to fp32 in the network's measure, as the study prints its own; and what they say, as claims to be tested.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from settings import OPERATORS

_CNN = ("fp32", "mp", *OPERATORS)
TABLES: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "ResNet18, CIFAR10": (92.62, 92.99, 92.22, 92.31, 92.01, 92.86, 92.55, 92.16, 92.58),
        "ResNet34, CIFAR10": (94.30, 94.28, 92.39, 93.86, 94.00, 92.92, 93.24, 94.60, 94.29),
        "ResNet50, CIFAR10": (94.03, 94.00, 90.28, 93.77, 94.10, 93.66, 94.05, 93.07, 93.51),
        "ResNet101, CIFAR10": (94.71, 94.73, 91.19, 94.31, 94.30, 93.68, 94.07, 93.49, 93.31),
        "MobileNetV2, CIFAR10": (93.58, 93.91, 93.11, 93.93, 94.09, 93.70, 94.06, 93.95, 93.94),
        "ResNet18, CIFAR100": (71.91, 71.89, 71.46, 72.31, 71.30, 71.95, 72.06, 71.67, 71.36),
        "ResNet34, CIFAR100": (73.21, 73.86, 72.83, 73.94, 74.59, 72.66, 73.87, 73.68, 73.94),
        "ResNet50, CIFAR100": (74.78, 74.25, 69.24, 73.93, 74.24, 72.57, 72.91, 71.32, 72.35),
        "ResNet101, CIFAR100": (75.93, 75.65, 67.10, 73.76, 74.65, 76.00, 74.75, 75.19, 74.98),
        "MobileNetV2, CIFAR100": (75.04, 75.16, 73.92, 74.85, 75.08, 74.82, 75.04, 75.31, 74.99),
    }
)
"""Tables 7.3 and 7.4: top-1 accuracy (%) in fp32, MP and the seven operators."""
TEXT: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "lstm": {"mp": "+0.23", "bf16_2_2{3}": "+0.04", "bf16_1_1": "NaN after epoch 13"},
        "transformer": {
            "mp": "+0.13 (IWSLT16)",
            "bf16_1_1": "+0.38 (Multi30k)",
            "bf16_2_2{3}": "+0.12 (IWSLT16)",
            "bf16_2_2{4}": "+0.66 (Multi30k)",
            "bf16_3_3{6}": "+0.41 (Multi30k)",
        },
        "ngcf": {
            "mp": "0.00",
            "bf16_1_1": "fails",
            "bf16_2_2{4}": "+0.19",
            **{name: "within 0.2" for name in OPERATORS if name not in ("bf16_1_1", "bf16_2_2{4}")},
        },
    }
)
"""Perplexity of the LSTM on PTB (table 4.3), BLEU (table 4.3 and section 7.7.2), NDCG (section 7.7.2)."""


def difference(task: str, arm: str) -> str:
    """Return the published differences of an arm to fp32: of all networks of a kind, the lowest and the highest."""
    if task in TEXT:
        return TEXT[task].get(arm, "")
    if arm not in _CNN:
        return ""
    kind = {"resnet": "ResNet", "mobilenet": "MobileNet"}[task]
    place = _CNN.index(arm)
    found = [row[place] - row[0] for name, row in TABLES.items() if name.startswith(kind)]
    return f"{min(found):+.2f} to {max(found):+.2f}"


@dataclass(frozen=True)
class Claim:
    """What the thesis says of an operator in a kind of network.

    loses: the smallest published loss, in the measure of the network; None if it says that nothing is lost. margin:
    what counts as nothing.
    """

    text: str
    task: str
    arms: tuple[str, ...]
    loses: float | None = None
    margin: float = 0.0


_WIDER = OPERATORS[1:]
CLAIMS: tuple[Claim, ...] = (
    Claim("1_1 loses in ResNets, 0.38 points or more", "resnet", ("bf16_1_1",), loses=0.38),
    Claim("MP loses nothing in ResNets", "resnet", ("mp",), margin=0.5),
    Claim("the wider operators lose nothing like 1_1 in ResNets", "resnet", _WIDER, margin=0.5),
    Claim("1_1 loses in MobileNetV2, 0.47 points or more", "mobilenet", ("bf16_1_1",), loses=0.47),
    Claim("MP loses nothing in MobileNetV2", "mobilenet", ("mp",), margin=0.5),
    Claim("the wider operators lose nothing in MobileNetV2", "mobilenet", _WIDER, margin=0.5),
    Claim("1_1 fails in the LSTM, whose perplexity had been 51 above", "lstm", ("bf16_1_1",), loses=50.83),
    Claim("MP and the wider operators lose nothing in the LSTM", "lstm", ("mp", *_WIDER), margin=0.5),
    Claim("no operator loses in the transformer, not even 1_1", "transformer", ("mp", *OPERATORS), margin=1.0),
    Claim("1_1 fails in NGCF", "ngcf", ("bf16_1_1",), loses=10.0),
    Claim("MP and the wider operators are within 0.2 in NGCF", "ngcf", ("mp", *_WIDER), margin=0.2),
)
"""Margins, and 10 points for a failure, were written before more than the runs of one seed had been looked at."""
