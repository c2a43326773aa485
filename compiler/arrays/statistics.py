"""The records of `numc run --stats` and `numc.collect_stats` (docs/statistics.md)."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

from numc.numerics.datapaths import Blocks
from numc.numerics.formats import Conversion
from numc.runtime.context import CONTEXT
from numc.support.arguments import checked
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, did_you_mean, quoted, shortened
from numc.support.files import checked_path
from numc.support.json_values import parsed

WHAT = ("swamping", "exponents", "denormals", "rounding", "fmas")
"""The statistics that can be asked for."""
LAST_BIN = 31
"""The last bin of a histogram of swamping, which also counts all larger differences of exponents."""
BITS = (7, 8, 15, 16, 23, 24)
"""The bits of a significand at which swamping is reported: without and with the leading one, of 1 to 3 bytes."""


@in_default_environment
@dataclass(frozen=True)
class Histogram:
    """Counts of integers: ``counts[n]`` is how often ``low + n`` occurred."""

    low: int
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """The number of all occurrences."""
        return sum(self.counts)

    def items(self) -> list[tuple[int, int]]:
        """Return pairs of a value that occurred and its count, in ascending order."""
        return [(self.low + n, count) for n, count in enumerate(self.counts) if count]

    def trimmed(self) -> Histogram:
        """Return the same histogram without empty bins at both ends."""
        bins = self.items()
        if not bins:
            return Histogram(0, ())
        first, last = bins[0][0], bins[-1][0]
        return Histogram(first, self.counts[first - self.low : last + 1 - self.low])

    def __add__(self, other: Histogram) -> Histogram:
        """Return the histogram of both together."""
        if not self.counts or not other.counts:
            return self if self.counts else other
        low = min(self.low, other.low)
        counts = [0] * (max(self.low + len(self.counts), other.low + len(other.counts)) - low)
        for each in (self, other):
            for n, count in enumerate(each.counts):
                counts[each.low - low + n] += count
        return Histogram(low, tuple(counts))


@in_default_environment
@dataclass(frozen=True, kw_only=True)
class TensorStatistics:
    """Counts over the elements of one tensor, summed over all executions.

    elements: their number. zeros, infinities, nans: how many elements are such. subnormals: 0 < abs(x) < 2^emin of
    `format`. overflows: finite, but larger in magnitude than the largest number of `format`. exponents: the histogram
    of floor(log2(abs(x))) over finite numbers other than zero. format: the name of the conversion. most: by name of a
    count, its largest fraction in any one execution.
    All of these are about the elements before the conversion. rounded_subnormals: 0 < abs(y) < 2^emin of y, the element
    after the conversion. flushed: those other than zero that the conversion makes zero. A stochastic conversion counts
    as the one to nearest in both.
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
    rounded_subnormals: int = 0
    flushed: int = 0

    @property
    def subnormal_fraction(self) -> float:
        """The fraction of all elements that are subnormal."""
        return self.fraction("subnormals")

    def fraction(self, name: str) -> float:
        """Return the fraction of all elements that `name`, one of FRACTIONS, counts."""
        return int(getattr(self, name)) / self.elements if self.elements else 0.0

    @property
    def ranges_used(self) -> int:
        """The number of different exponents."""
        return len(self.exponents.items())

    @property
    def bits_used(self) -> int:
        """The number of bits of a code that distinguishes that many exponents."""
        return max(0, self.ranges_used - 1).bit_length()

    def __add__(self, other: TensorStatistics) -> TensorStatistics:
        """Return the statistics of both together, of one tensor in several executions."""
        sums = {n: getattr(self, n) + getattr(other, n) for n in ("elements", "exponents", *FRACTIONS)}
        most = {n: max(self.most.get(n, 0.0), other.most.get(n, 0.0)) for n in {*self.most, *other.most}}
        return TensorStatistics(**sums, format=self.format, most=most)


FRACTIONS = ("zeros", "subnormals", "infinities", "nans", "overflows", "rounded_subnormals", "flushed")
"""The counts of TensorStatistics that are fractions of its elements."""


@in_default_environment
@dataclass(frozen=True)
class LayerStatistics:
    """The statistics of one contraction, over all executions.

    layer, role, position, fma: as in the table of a policy. fmas: the number of multiply-adds. sampled: the fraction of
    them that was observed for `swamping`. swamping: the histogram of abs(exponent(p) - exponent(c)) over the additions
    p + c in which both are finite and not zero; its last bin is LAST_BIN and counts all larger differences too. It is
    None if it was not asked for, or if `note` gives a reason. adds: the number of additions observed.
    tensors: of ``a`` and ``b``, as the operator names its operands, and of ``result``, the accumulators. rounding: the
    sums of (x - r)^2 and of r^2, where x are the results and r those of the same contraction in fp32.
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

    def without_swamping(self, k: int, *, nonzero: bool = False) -> float:
        """Return the fraction of additions whose exponents differ by at most `k`, the explicit bits of a significand.

        nonzero: of the additions of two finite numbers that are not zero; else of all additions, and one with a zero
        counts as one without swamping. Raises NumcError if swamping was not counted, or if `k` is not below LAST_BIN.
        """
        if self.swamping is None:
            raise NumcError(f"layer '{self.layer}': swamping was not counted{f': {self.note}' if self.note else ''}")
        if not 0 <= k < LAST_BIN:
            raise NumcError(f"without_swamping({k}): want a number of bits from 0 to {LAST_BIN - 1}")
        additions = self.swamping.total if nonzero else self.adds
        if not additions:
            return 1.0
        return 1.0 - sum(count for d, count in self.swamping.items() if d > k) / additions

    def __add__(self, other: LayerStatistics) -> LayerStatistics:
        """Return the statistics of both together, of one contraction in different executions."""
        fmas, tensors = self.fmas + other.fmas, dict(self.tensors)
        for name, tensor in other.tensors.items():
            tensors[name] = tensors[name] + tensor if name in tensors else tensor
        swamping = other.swamping if self.swamping is None else self.swamping
        if self.swamping is not None and other.swamping is not None:
            swamping = self.swamping + other.swamping
        rounding = other.rounding if self.rounding is None else self.rounding
        if self.rounding is not None and other.rounding is not None:
            rounding = self.rounding[0] + other.rounding[0], self.rounding[1] + other.rounding[1]
        return replace(
            self,
            fmas=fmas,
            executions=self.executions + other.executions,
            swamping=swamping,
            sampled=(self.sampled * self.fmas + other.sampled * other.fmas) / fmas if fmas else self.sampled,
            tensors=tensors,
            rounding=rounding,
            adds=self.adds + other.adds,
        )

    @property
    def relative_error(self) -> float | None:
        """The sum of squared rounding errors divided by the sum of squares; None if it was not asked for."""
        if self.rounding is None:
            return None
        error, size = self.rounding
        return error / size if size else 0.0 if error == 0 else float("inf")

    @property
    def instructions(self) -> Mapping[str, int]:
        """The numbers of multiplications, additions and roundings in the definition of the operator, by format."""
        return _instructions(self.fma, self.fmas)


def _instructions(operator: str, fmas: int) -> dict[str, int]:
    """Return the numbers of multiplications, additions and roundings in multiply-adds of an operator, by format."""
    from numc.numerics.grammar import stated_fma  # not needed to run a program

    fma = stated_fma(operator)
    mix: dict[str, int] = {}
    products = fmas * fma.products
    mix[f"{_part(fma.a)} x {_part(fma.b)} multiplications"] = products
    if fma.group is None or isinstance(fma.datapath.within, Blocks):
        mix[f"{fma.datapath.admits.sums} additions"] = products
        if str(fma.acc) != "fp32" and not isinstance(fma.datapath.within, Blocks):  # which are rounded as a whole
            mix[f"roundings to {fma.acc}"] = fmas
    else:
        mix["exact additions"] = products
    return mix


def _part(conversion: Any) -> str:
    """Return the name of the format of one operand of a multiplier."""
    if isinstance(conversion, Conversion) and conversion.format.parts > 1:
        return "bf16"
    return str(conversion).partition(":")[0]


@in_default_environment
@dataclass(frozen=True)
class Statistics:
    """The statistics of a program, or of all programs in a block of `numc.collect_stats`.

    rows: one for each contraction. outside: by role and operator, the multiply-adds outside of contractions, of
    programs whose sizes are all fixed.
    """

    rows: tuple[LayerStatistics, ...]
    what: tuple[str, ...] = WHAT
    sample: Fraction = Fraction(1)
    outside: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def __add__(self, other: Statistics) -> Statistics:
        """Return the statistics of both together: contractions of one layer, role, position and operator are one."""
        rows: dict[tuple[str, str, int, str], LayerStatistics] = {}
        for row in (*self.rows, *other.rows):
            key = row.layer, row.role, row.position, row.fma
            rows[key] = rows[key] + row if key in rows else row
        what = tuple(name for name in WHAT if name in {*self.what, *other.what})
        return Statistics(tuple(rows.values()), what, self.sample, Counter(self.outside) + Counter(other.outside))

    def without_swamping(
        self, k: int, *, nonzero: bool = False, layer: str | None = None, role: str | None = None
    ) -> float | None:
        """Return the fraction of additions without swamping over many contractions, as LayerStatistics of one.

        layer, role: only rows of that layer and role. Rows of which more steps were sampled do not weigh more. None
        if no row has counted anything.
        """
        kept, total = 0.0, 0.0
        for row in self.rows:
            if layer not in (None, row.layer) or role not in (None, row.role) or row.swamping is None:
                continue
            additions = float((row.swamping.total if nonzero else row.adds) / row.sampled) if row.sampled else 0.0
            kept += additions * row.without_swamping(k, nonzero=nonzero)
            total += additions
        return kept / total if total else None

    def fmas(self) -> Counter[tuple[str, str]]:
        """Return the numbers of multiply-adds, in contractions and outside of them, by role and operator."""
        counts: Counter[tuple[str, str]] = Counter()
        for row in self.rows:
            counts[row.role, row.fma] += row.fmas
        counts.update(self.outside)
        return counts

    def fma_mix(self) -> dict[str, float]:
        """Return, for each operator, the fraction of all multiply-adds that it computed."""
        return shares(self.fmas())

    def instruction_mix(self) -> dict[str, int]:
        """Return the numbers of multiplications, additions and roundings, by format."""
        mix: dict[str, int] = {}
        for (_, fma), fmas in self.fmas().items():
            for name, count in _instructions(fma, fmas).items():
                mix[name] = mix.get(name, 0) + count
        return mix

    def to_json(self) -> dict[str, Any]:
        """Return the statistics in types that JSON has."""
        rows = []
        for row in self.rows:
            entry = {f.name: getattr(row, f.name) for f in fields(row)}
            entry["swamping"] = None if row.swamping is None else asdict(row.swamping)
            entry["sampled"] = str(row.sampled)
            entry["tensors"] = {
                name: {**{f.name: getattr(t, f.name) for f in fields(t)}, "exponents": asdict(t.exponents)}
                for name, t in row.tensors.items()
            }
            rows.append(entry)
        outside = [{"role": role, "fma": fma, "count": count} for (role, fma), count in self.outside.items()]
        return {"what": list(self.what), "sample": str(self.sample), "rows": rows, "outside": outside}

    @classmethod
    def from_json(cls, data: str | Mapping[str, Any]) -> Statistics:
        """Return the statistics that `to_json` gave; `data` may be its text. Raises NumcError for anything else."""
        try:
            document = parsed(data) if isinstance(data, str) else checked(data, "statistics", Mapping, "JSON")
            rows = []
            for entry in document["rows"]:
                row = dict(entry)
                row["swamping"] = None if row["swamping"] is None else _histogram(row["swamping"])
                row["sampled"] = Fraction(row["sampled"])
                row["rounding"] = None if row["rounding"] is None else tuple(row["rounding"])
                row["tensors"] = {
                    name: TensorStatistics(**{**t, "exponents": _histogram(t["exponents"])})
                    for name, t in row["tensors"].items()
                }
                rows.append(LayerStatistics(**row))
            outside = {
                (str(entry["role"]), str(entry["fma"])): int(entry["count"]) for entry in document.get("outside", ())
            }
            return cls(tuple(rows), tuple(document["what"]), Fraction(document["sample"]), outside)
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
            raise NumcError(
                f"not the JSON of statistics ({shortened(error, 60)}): want what Statistics.to_json returns"
            ) from None

    def write_tensorboard(self, folder: str | os.PathLike[str], step: int = 0) -> None:
        """Write scalars and histograms for TensorBoard into `folder`; `step` is the number of the training step.

        Raises NumcError if tensorboard is not installed or `folder` cannot be written.
        """
        with tensorboard_writer(folder) as writer:
            self.add_to(writer, step)

    def add_to(self, writer: Any, step: int) -> None:
        """Add the scalars and histograms of a training step to what `tensorboard_writer` returned."""
        for name, share in self.fma_mix().items():
            writer.add_scalar(f"fma/{name}", share, step)
        for row in self.rows:
            for tag, value in _scalars(row):
                writer.add_scalar(tag, value, step)
            for tag, histogram in _histograms(row):
                _write_histogram(writer, tag, histogram, step)


def shares(fmas: Mapping[tuple[str, str], int]) -> dict[str, float]:
    """Return, for each operator, its fraction of multiply-adds that are counted by role and operator."""
    counts: Counter[str] = Counter()
    for (_, fma), count in fmas.items():
        counts[fma] += count
    total = counts.total()
    return {fma: count / total for fma, count in counts.items()} if total else {}


def tensorboard_writer(folder: str | os.PathLike[str], first_step: int | None = None) -> Any:
    """Return a writer for TensorBoard, which hides what the folder has of steps from `first_step` on.

    Raises NumcError if tensorboard is not installed or `folder` cannot be written.
    """
    if find_spec("tensorboard") is None or find_spec("torch") is None:
        raise NumcError("write_tensorboard: tensorboard or torch is not installed: pip install tensorboard torch")
    from torch.utils.tensorboard import SummaryWriter

    try:
        return SummaryWriter(str(checked_path(folder)), purge_step=first_step)
    except OSError as error:
        raise NumcError(f"{folder}: cannot write there: {error.strerror or error}") from None


def _histogram(data: Mapping[str, Any]) -> Histogram:
    return Histogram(int(data["low"]), tuple(int(n) for n in data["counts"]))


def _scalars(row: LayerStatistics) -> Iterable[tuple[str, float]]:
    stem = row.layer or f"contraction {row.position}"
    if row.swamping is not None:
        for k in BITS:
            yield f"without swamping at {k} bits/{stem}", row.without_swamping(k)
            yield f"without swamping of nonzero pairs at {k} bits/{stem}", row.without_swamping(k, nonzero=True)
    if row.relative_error is not None:
        yield f"relative error/{stem}", row.relative_error
    for name, tensor in row.tensors.items():
        for fraction in FRACTIONS:
            yield f"{fraction.replace('_', ' ')} of {name}/{stem}", tensor.fraction(fraction)


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
    """Return the names of the statistics asked for, in the order of WHAT. Raises NumcError for other names or none."""
    names = what.split(",") if isinstance(what, str) else list(checked(what, "statistics", Iterable, "names"))
    names = [checked(n, "statistics", str, "names").strip() for n in names]
    names = [n for n in names if n]
    for name in names:
        if name not in WHAT:
            raise NumcError(
                f"unknown statistic {quoted(name)}{did_you_mean(name, WHAT)}: want some of {', '.join(WHAT)}"
            )
    if not names:
        raise NumcError(f"no statistic is named: want some of {', '.join(WHAT)}")
    return tuple(name for name in WHAT if name in names)


def sampling(text: str | float | Fraction) -> Fraction:
    """Return a fraction of the form 1/n, given as a text or a number. Raises NumcError for anything else."""
    try:
        # A text such as 1e-999999999 would take hours.
        short = not isinstance(text, str) or _SAMPLE.fullmatch(text)
        fraction = Fraction(text if short else 0)
    except (ValueError, TypeError, ArithmeticError):
        fraction = Fraction(0)
    if fraction <= 0 or fraction.numerator != 1 or fraction.denominator > MAX_SAMPLE:
        raise NumcError(f"sample {quoted(text)}: want 1 or a fraction 1/n with n up to {MAX_SAMPLE}, such as 1/16")
    return fraction


MAX_SAMPLE = 1 << 20
_SAMPLE = re.compile(r"\s*[0-9]{1,9}(/[0-9]{1,9}|\.[0-9]{0,18})?\s*")


def counting() -> bool:
    """Whether programs that are compiled now have to be able to count swamping."""
    return bool(CONTEXT.counting)
