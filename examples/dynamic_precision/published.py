"""The numbers of chapter 6 of the thesis that the study prints beside its own: tables 6.3, 6.4 and 6.5."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One network and measure of tables 6.3 and 6.4: its value in fp32, mp, with dynamic precision, and in BF16.

    dynamic_share, static_share: per cent of all multiply-adds that were in BF16.
    """

    title: str
    measure: str
    fp32: float
    mp: float
    dynamic: float
    dynamic_share: float
    static: float
    static_share: float


TABLES = (
    Row("AlexNet", "top-1 (%)", 60.79, 60.18, 60.32, 94.60, 57.80, 99.93),
    Row("Inception v2", "top-1 (%)", 74.01, 73.73, 72.80, 95.55, 72.03, 99.90),
    Row("ResNet-50", "top-1 (%)", 75.96, 75.70, 74.20, 96.40, 72.97, 99.91),
    Row("seq2seq", "training loss", 2.019, 2.008, 2.122, 66.0, 2.392, 99.5),
    Row("seq2seq", "validation loss", 3.290, 3.235, 3.285, 66.0, 3.410, 99.5),
)


@dataclass(frozen=True, kw_only=True)
class Seconds:
    """One network of table 6.5: seconds for a batch in three arithmetics, and the printed speed-ups over fp32.

    share: of multiply-adds in BF16, from tables 6.3 and 6.4. over_fp32, over_mp: speed-ups of a training that switches
    between BF16 and fp32, or mp.
    """

    title: str
    share: float
    fp32: float
    mp: float
    bf16: float
    over_fp32: float
    over_mp: float


TIMES = (
    Seconds(title="ResNet-50", share=0.964, fp32=23.80, mp=22.15, bf16=17.11, over_fp32=1.38, over_mp=1.39),
    Seconds(title="seq2seq", share=0.66, fp32=45.73, mp=41.17, bf16=34.40, over_fp32=1.22, over_mp=1.26),
)
