"""What *Representation range needs for 16-bit neural network training* (Popescu and others) prints.

Our networks stand beside the paper's: the ResNet beside ResNet20 and ResNet18, the transformer beside BERT-Tiny and
BERT-Base.
"""

from __future__ import annotations

COLUMNS = ("1/5/10", "1/5/10 + DLS", "1/6/9", "1/6/9 + DLS")

FORMATS: dict[str, tuple[int, int, float | None]] = {
    "1/5/10/d": (-14, 15, 2.0**-24),
    "1/6/9/d": (-30, 31, 2.0**-39),
    "1/8/7/n": (-126, 127, None),
}
"""Table I: format -> Emin, Emax and the least denormal number."""

DENORMALS = {
    "FMAC-8": {
        "resnet": (0.95, 0.05, 0.25, 0),
        "transformer": (0.9, 0.25, 0.1, 0.0005),
        "lstm": (0.9, 0.6, 0.6, 0.001),
        "vae": (0.8, 0.15, 0.3, 0.1),
    },
    "FMACS": {
        "resnet": (0.98, 0.36, 0.5, 0.003),
        "transformer": (0.6, 0.25, 0.009, 0.0003),
        "lstm": (0.3, 0.23, 0.05, 0.004),
        "vae": (0.7, 0.15, 0.2, 0.1),
    },
}
"""Tables II (ResNet20, BERT-Tiny, LSTM, CVAE) and III (ResNet18, BERT-Tiny, LSTM, CVAE): the largest fraction of
denormals, by column."""

WITHOUT_DENORMALS = {
    "resnet": ("✗, ✗", "D, D", "✓, D", "✓, ✓"),
    "transformer": ("✗, ✗", "✗, ✗", "D, ✗", "✓, ✓"),
    "lstm": ("✗", "✓", "✓", "✓"),
    "vae": ("✗", "D", "✓", "✓"),
}
"""Table IV, formats without denormals: trains as fp32 does, degraded, fails. Two signs are of two networks."""
