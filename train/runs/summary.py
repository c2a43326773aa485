"""The main results of one training, which the page and the table of `numc report` begin with."""

from __future__ import annotations

import math
from dataclasses import dataclass

from numc.train.runs.charts import fma_shares, loss_of, metric_names, metric_of, step_shares
from numc.train.runs.number_charts import peaks
from numc.train.runs.read import Run
from numc.train.runs.thin import stretches


@dataclass(frozen=True)
class Fact:
    """One result: its subject, its value, and a sentence. bad: whether it says that something went wrong."""

    about: str
    answer: str
    text: str
    bad: bool = False


def last_values(run: Run) -> dict[str, float]:
    """Return the last value of each metric that is finite; of the loss, the mean of the last hundredth of the steps."""
    values = {}
    if losses := [y for _, y in loss_of(run)]:
        count = max(1, len(losses) // 100)
        values["loss"] = math.fsum(losses[-count:]) / count
    for name in metric_names([run]):
        values["loss, recorded" if name == "loss" else name] = metric_of(run, name)[-1][1]
    return {name: value for name, value in values.items() if math.isfinite(value)}


def summary(run: Run) -> list[Fact]:
    """Return the results of a training that are known."""
    facts = [*_loss(run)]
    for name in metric_names([run]):
        (step, last), *_ = reversed(metric_of(run, name))
        facts.append(Fact(name, f"{last:.4g}", f"Recorded last, after step {step:,.0f}.", not math.isfinite(last)))
    if run.decisions:
        shares = step_shares(run)
        changes = len(stretches(run.decisions)) - 1
        text = f"{_shares(shares)} of {len(run.decisions):,} steps."
        facts.append(Fact("changes of arithmetic", f"{changes:,}", text))
    shares, of = fma_shares(run)
    if shares:
        fma = max(shares, key=lambda name: shares[name])
        rest = _shares({name: share for name, share in shares.items() if name != fma})
        text = f"Of the multiply-adds {of}{f'; {rest}' if rest else ''}."
        facts.append(Fact("multiply-adds", f"{_percent(shares[fma])} {fma}", text))
    if (most := peaks(run, "rounded_subnormals")) and most[0][2] > 0:
        layer, tensor, fraction, epoch, step = most[0]
        text = f"Of the elements of {tensor} of {layer or 'a contraction'}, in step {step:,} of epoch {epoch}."
        facts.append(Fact("most denormals", _percent(fraction), text))
    elif most:
        facts.append(Fact("most denormals", "none", f"In {len(run.denormals):,} observed steps."))
    return facts


def _loss(run: Run) -> list[Fact]:
    losses = [y for _, y in loss_of(run)]
    if not losses:
        return []
    count = max(1, len(losses) // 100)
    last = math.fsum(losses[-count:]) / count if all(map(math.isfinite, losses[-count:])) else losses[-1]
    finite = [y for y in losses if math.isfinite(y)]
    which = "Of the last step" if count == 1 else f"The mean of the last {count:,} steps"
    text = f"{which}; the first is {losses[0]:.4g}"
    text += f", the lowest {min(finite):.4g}." if finite else "."
    gone = len(losses) - len(finite)
    text += f" In {gone:,} steps it is not finite." if gone else ""
    return [Fact("loss", f"{last:.4g}", text, bool(gone))]


def _shares(shares: dict[str, float]) -> str:
    return ", ".join(f"{_percent(share)} {name}" for name, share in sorted(shares.items(), key=lambda one: -one[1]))


def _percent(share: float) -> str:
    """Return a fraction in percent; one that is not all or nothing never looks so."""
    text = f"{100 * share:.2f}%"
    if share not in (0.0, 1.0) and text in ("0.00%", "100.00%"):
        return "<0.01%" if share < 0.5 else ">99.99%"
    return text
