"""Statistics of arithmetic at work: what `numc run --stats` and `numc.collect_stats` find out (docs/statistics.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

from numc.compiler.arithmetic.formats import Conversion
from numc.compiler.support.errors import NumcError, did_you_mean

WHAT = ("swamping", "exponents", "denormals", "rounding", "fmas")
"""What there is to ask for."""
LAST_BIN = 31
"""In a histogram of swamping, the exponent differences from here on."""


@dataclass(frozen=True)
class Histogram:
    """``counts[n]`` is how often ``low + n`` occurred."""

    low: int
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """All occurrences."""
        return sum(self.counts)

    def items(self) -> list[tuple[int, int]]:
        """Return the values that occurred and how often."""
        return [(self.low + n, count) for n, count in enumerate(self.counts) if count]

    def trimmed(self) -> Histogram:
        """The same without zeros at the ends."""
        found = self.items()
        if not found:
            return Histogram(0, ())
        first, last = found[0][0], found[-1][0]
        return Histogram(first, self.counts[first - self.low : last + 1 - self.low])

    def __add__(self, other: Histogram) -> Histogram:
        """The histogram of both."""
        if not self.counts or not other.counts:
            return self if self.counts else other
        low = min(self.low, other.low)
        counts = [0] * (max(self.low + len(self.counts), other.low + len(other.counts)) - low)
        for each in (self, other):
            for n, count in enumerate(each.counts):
                counts[each.low - low + n] += count
        return Histogram(low, tuple(counts))


@dataclass(frozen=True)
class TensorStatistics:
    """What a tensor holds, over all executions.

    subnormals: 0 < abs(x) < 2^Emin of `format`. overflows: finite, beyond the largest number of `format`. exponents:
    floor(log2(abs(x))) of all finite numbers but zeros. most: the largest fraction that an execution had, by name
    (zeros, subnormals, infinities, nans, overflows).
    """

    elements: int
    zeros: int
    subnormals: int
    infinities: int
    nans: int
    exponents: Histogram
    format: str
    overflows: int = 0
    most: Mapping[str, float] = field(default_factory=dict)

    @property
    def subnormal_fraction(self) -> float:
        """Subnormals of all elements."""
        return self.fraction("subnormals")

    def fraction(self, name: str) -> float:
        """The fraction of all elements that are zeros, subnormals, infinities, nans or overflows."""
        return int(getattr(self, name)) / self.elements if self.elements else 0.0

    @property
    def ranges_used(self) -> int:
        """How many different exponents occur."""
        return len(self.exponents.items())

    @property
    def bits_used(self) -> int:
        """How many bits tell that many exponents apart."""
        return max(0, self.ranges_used - 1).bit_length()

    def __add__(self, other: TensorStatistics) -> TensorStatistics:
        """The statistics of both: of one tensor in several executions."""
        sums = {n: getattr(self, n) + getattr(other, n) for n in ("elements", "exponents", *FRACTIONS)}
        most = {n: max(self.most.get(n, 0.0), other.most.get(n, 0.0)) for n in {*self.most, *other.most}}
        return TensorStatistics(**sums, format=self.format, most=most)


FRACTIONS = ("zeros", "subnormals", "infinities", "nans", "overflows")


@dataclass(frozen=True)
class LayerStatistics:
    """What one contraction did, over all executions.

    layer, role, position, fma: as in the table of a policy. fmas: multiply-adds, of which the fraction `sampled` was
    looked at for `swamping`, the histogram of abs(exponent(p) - exponent(c)) over the additions p + c of two numbers
    that are finite and not zero, its last bin `LAST_BIN` and more; None if not asked for, or if `note` says why not.
    adds: all additions that were looked at. tensors: ``a`` and ``b`` as the operator names them, and ``result``, the
    accumulators. rounding: the sums of (x - r)^2 and of r^2, r being the same sum in fp32.
    """

    layer: str
    role: str
    position: int
    fma: str
    fmas: int
    executions: int
    swamping: Histogram | None = None
    sampled: Fraction = Fraction(1)
    tensors: Mapping[str, TensorStatistics] = field(default_factory=dict)
    rounding: tuple[float, float] | None = None
    note: str = ""
    adds: int = 0

    def without_swamping(self, k: int) -> float:
        """The fraction of FMAs whose exponents differ by at most `k`, the explicit bits of a significand.

        An addition with a zero is without swamping. Raises NumcError where swamping was not counted, or not up to `k`.
        """
        if self.swamping is None:
            raise NumcError(f"layer '{self.layer}': swamping was not counted{f': {self.note}' if self.note else ''}")
        if not 0 <= k < LAST_BIN:
            raise NumcError(f"without_swamping({k}): want a number of bits from 0 to {LAST_BIN - 1}")
        if not self.adds:
            return 1.0
        return 1.0 - sum(count for d, count in self.swamping.items() if d > k) / self.adds

    @property
    def relative_error(self) -> float | None:
        """Squared rounding error over squares; None where it was not asked for."""
        if self.rounding is None:
            return None
        error, size = self.rounding
        return error / size if size else 0.0 if error == 0 else float("inf")

    @property
    def instructions(self) -> Mapping[str, int]:
        """Multiplications, additions and roundings, by the definition of the operator."""
        from numc.compiler.arithmetic.grammar import parse_fma  # not needed to run a program

        fma = parse_fma(self.fma)
        found: dict[str, int] = {}
        products = self.fmas * fma.products
        found[f"{_part(fma.a)} x {_part(fma.b)} multiplications"] = products
        if fma.group is None:
            found[f"{'exact' if fma.datapath == 'exact' else 'fp32'} additions"] = products
            if str(fma.acc) != "fp32":
                found[f"roundings to {fma.acc}"] = self.fmas
        else:
            found["exact additions"] = products
        return found


def _part(conversion: Any) -> str:
    """The format of one multiplier's operand."""
    if isinstance(conversion, Conversion) and conversion.format.parts > 1:
        return "bf16"
    return str(conversion).partition(":")[0]


@dataclass(frozen=True)
class Statistics:
    """The statistics of the contractions of a program, or of all that ran in a block of `numc.collect_stats`."""

    rows: tuple[LayerStatistics, ...]
    what: tuple[str, ...] = WHAT
    sample: Fraction = Fraction(1)

    def fma_mix(self) -> dict[str, float]:
        """Return the fraction of all multiply-adds that each operator computed."""
        total = sum(row.fmas for row in self.rows)
        found: dict[str, int] = {}
        for row in self.rows:
            found[row.fma] = found.get(row.fma, 0) + row.fmas
        return {fma: count / total for fma, count in found.items()} if total else {}

    def instruction_mix(self) -> dict[str, int]:
        """Return how many multiplications, additions and roundings there were, by format."""
        found: dict[str, int] = {}
        for row in self.rows:
            for name, count in row.instructions.items():
                found[name] = found.get(name, 0) + count
        return found

    def to_json(self) -> dict[str, Any]:
        """Return it in types that JSON has."""
        rows = []
        for row in self.rows:
            one = {f.name: getattr(row, f.name) for f in fields(row)}
            one["swamping"] = None if row.swamping is None else asdict(row.swamping)
            one["sampled"] = str(row.sampled)
            one["tensors"] = {
                name: {**{f.name: getattr(t, f.name) for f in fields(t)}, "exponents": asdict(t.exponents)}
                for name, t in row.tensors.items()
            }
            rows.append(one)
        return {"what": list(self.what), "sample": str(self.sample), "rows": rows}

    @classmethod
    def from_json(cls, data: str | Mapping[str, Any]) -> Statistics:
        """Return what `to_json` was made from; `data` may be the text of it. Raises NumcError for anything else."""
        try:
            given = json.loads(data) if isinstance(data, str) else data
            rows = []
            for one in given["rows"]:
                row = dict(one)
                row["swamping"] = None if row["swamping"] is None else _histogram(row["swamping"])
                row["sampled"] = Fraction(row["sampled"])
                row["rounding"] = None if row["rounding"] is None else tuple(row["rounding"])
                row["tensors"] = {
                    name: TensorStatistics(**{**t, "exponents": _histogram(t["exponents"])})
                    for name, t in row["tensors"].items()
                }
                rows.append(LayerStatistics(**row))
            return cls(tuple(rows), tuple(given["what"]), Fraction(given["sample"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise NumcError(f"not the JSON of statistics ({error}): want what Statistics.to_json returns") from None

    def write_tensorboard(self, folder: str | os.PathLike[str], step: int = 0) -> None:
        """Write scalars and histograms for TensorBoard. step: of the training these statistics are from.

        Raises NumcError where tensorboard is not installed or `folder` cannot be written.
        """
        if find_spec("tensorboard") is None or find_spec("torch") is None:
            raise NumcError("write_tensorboard: tensorboard or torch is not installed: pip install tensorboard torch")
        from torch.utils.tensorboard import SummaryWriter

        try:
            writer = SummaryWriter(os.fspath(folder))
        except OSError as error:
            raise NumcError(f"{folder}: cannot write there: {error.strerror or error}") from None
        with writer:
            for name, share in self.fma_mix().items():
                writer.add_scalar(f"fma/{name}", share, step)
            for row in self.rows:
                for tag, value in _scalars(row):
                    writer.add_scalar(tag, value, step)
                for tag, histogram in _histograms(row):
                    _write_histogram(writer, tag, histogram, step)


def _histogram(data: Mapping[str, Any]) -> Histogram:
    return Histogram(int(data["low"]), tuple(int(n) for n in data["counts"]))


def _scalars(row: LayerStatistics) -> Iterable[tuple[str, float]]:
    stem = row.layer or f"contraction {row.position}"
    if row.swamping is not None:
        for k in (7, 10, 23):
            yield f"without swamping at {k} bits/{stem}", row.without_swamping(k)
    if row.relative_error is not None:
        yield f"relative error/{stem}", row.relative_error
    for name, tensor in row.tensors.items():
        for kind in FRACTIONS:
            yield f"{kind} of {name}/{stem}", tensor.fraction(kind)


def _histograms(row: LayerStatistics) -> Iterable[tuple[str, Histogram]]:
    stem = row.layer or f"contraction {row.position}"
    if row.swamping is not None:
        yield f"exponent difference/{stem}", row.swamping
    for name, tensor in row.tensors.items():
        yield f"exponents of {name}/{stem}", tensor.exponents


def _write_histogram(writer: Any, tag: str, histogram: Histogram, step: int) -> None:
    items = histogram.items()
    total = sum(count for _, count in items)
    if not total:
        return
    writer.add_histogram_raw(
        tag,
        min=items[0][0],
        max=items[-1][0],
        num=total,
        sum=sum(value * count for value, count in items),
        sum_squares=sum(value * value * count for value, count in items),
        bucket_limits=[histogram.low + n + 0.5 for n in range(len(histogram.counts))],
        bucket_counts=list(histogram.counts),
        global_step=step,
    )


def chosen(what: str | Iterable[str]) -> tuple[str, ...]:
    """Return what was asked for, in the order of `WHAT`. Raises NumcError for unknown names, and for none."""
    names = [n.strip() for n in what.split(",")] if isinstance(what, str) else list(what)
    names = [n for n in names if n]
    for name in names:
        if name not in WHAT:
            raise NumcError(f"unknown statistic {name!r}{did_you_mean(name, WHAT)}: want some of {', '.join(WHAT)}")
    if not names:
        raise NumcError(f"no statistic is named: want some of {', '.join(WHAT)}")
    return tuple(name for name in WHAT if name in names)


def sampling(text: str | float | Fraction) -> Fraction:
    """Return a fraction of the form 1/n. Raises NumcError for anything else."""
    try:
        found = Fraction(text)
    except (ValueError, TypeError, ZeroDivisionError):
        found = Fraction(0)
    if found <= 0 or found.numerator != 1 or found.denominator > MAX_SAMPLE:
        raise NumcError(f"sample {str(text)!r}: want 1 or a fraction 1/n with n up to {MAX_SAMPLE}, such as 1/16")
    return found


MAX_SAMPLE = 1 << 20
COUNTING: list[None] = []
"""As long as the blocks of numc.collect_stats that count swamping."""


def counting() -> bool:
    """Whether what is compiled now has to be able to count."""
    return bool(COUNTING)
