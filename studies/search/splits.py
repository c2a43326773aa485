"""The two splits of the data: the search decides by the one, and the other is reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from numc.runtime.abi import Input, TensorSpec
from numc.studies.data import BATCH, Data, check_data
from numc.studies.search.evaluation import SPLITS
from numc.support.errors import NumcError


def splits(
    given: tuple[Any, Any],
    report: tuple[Any, Any] | None,
    inputs: Sequence[Input],
    output: TensorSpec,
    symbols: dict[str, tuple[str, ...]],
    batch: int = BATCH,
) -> dict[str, Data]:
    """Return the data of the search and of the report, each given as inputs and labels as for numc.compare.

    report: None takes every other sample of `given` for the report; where the model fixes the number of samples, every
    other batch. Raises NumcError for data that does not fit the model, or has one sample only.
    """
    whole = check_data(*given, inputs, output, symbols, batch)
    if report is not None:
        return dict(zip(SPLITS, (whole, check_data(*report, inputs, output, symbols, batch)), strict=True))
    if whole.samples < 2 * whole.fixed or all(axis is None for axis in whole.axis.values()):
        raise NumcError(
            f"data: {whole.samples} samples, of which the model takes {whole.fixed} at once: want enough for a search "
            "and a report, or data for the report (--report-data)"
        )
    batches = np.arange(whole.samples) // whole.fixed
    halves = (_part(whole, np.flatnonzero(batches % 2 == which)) for which in (0, 1))
    return {
        split: check_data(arrays, labels, inputs, output=output, symbols=symbols, batch=batch)
        for split, (arrays, labels) in zip(SPLITS, halves, strict=True)
    }


def _part(data: Data, samples: Any) -> tuple[dict[str, Any], Any]:
    arrays = {
        name: array if (axis := data.axis[name]) is None else np.take(array, samples, axis)
        for name, array in data.inputs.items()
    }
    if data.labels is None:
        return arrays, None
    first = next(axis for axis in data.axis.values() if axis is not None)
    return arrays, np.take(data.labels, samples, min(first, data.labels.ndim - 1))
