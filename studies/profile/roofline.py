"""The roofline of a machine: how many operations and bytes in a second a program can reach at most."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import math
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

from numc.compiler.cache.cache import ROOFLINE, folder, limit
from numc.runtime.library import ErrorText, cpu_features, library
from numc.support.errors import NumcError, shown
from numc.support.files import write_whole
from numc.support.json_values import parsed
from numc.support.processor import processor_name


@dataclass(frozen=True)
class Roofline:
    """The most that a machine computes and moves in a second with a number of threads.

    flops: fp32 operations in a second, two for each lane of an FMA instruction. bandwidth: bytes in a second to and
    from memory. source: ``measured`` or ``given``.
    """

    flops: float
    bandwidth: float
    source: str = "measured"

    def least_seconds(self, fmas: int, bytes_: int) -> float:
        """Return the least time of so many multiply-adds and bytes."""
        return max(2 * fmas / self.flops, bytes_ / self.bandwidth)


def roofline(threads: int, peak: float | None = None, bandwidth: float | None = None) -> Roofline:
    """Return the roofline of this machine with a number of threads.

    peak: in GFLOP/s, and bandwidth: in GB/s, for what is not to be measured. What is measured is kept in the cache
    folder, under the name of the processor. Raises NumcError for anything but positive numbers.
    """
    check_given(peak, bandwidth)
    if peak is not None and bandwidth is not None:
        return Roofline(1e9 * peak, 1e9 * bandwidth, "given")
    flops, bytes_ = _measured(threads)
    if peak is None and bandwidth is None:
        return Roofline(flops, bytes_)
    return Roofline(
        flops if peak is None else 1e9 * peak, bytes_ if bandwidth is None else 1e9 * bandwidth, "partly given"
    )


def check_given(peak: float | None, bandwidth: float | None) -> None:
    """Raise NumcError unless both are positive numbers, or None."""
    for name, value in (("peak", peak), ("bandwidth", bandwidth)):
        known = value is None or (isinstance(value, Real) and not isinstance(value, bool))
        if not known or (value is not None and not 0 < float(value) < math.inf):
            unit = "GFLOP/s" if name == "peak" else "GB/s"
            raise NumcError(f"{name}: got {shown(value)}, want a number of {unit} above 0")


@functools.cache
def _measured(threads: int) -> tuple[float, float]:
    """Return operations and bytes in a second, from the cache folder or measured now."""
    cache_folder, key = folder(), f"{_processor()}, {threads} threads"
    file = None if cache_folder is None or limit() == 0 else cache_folder / ROOFLINE
    known = {} if file is None else _read(file)
    if key not in known:
        known[key] = _measure(threads)
        if file is not None:
            text = json.dumps(known, indent=1, sort_keys=True)
            with contextlib.suppress(OSError, NumcError):  # a cache that cannot be written costs time only
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_whole(file, lambda stream: stream.write(text.encode()))
    return known[key]


def _measure(threads: int) -> tuple[float, float]:
    flops, bytes_, error = ctypes.c_double(), ctypes.c_double(), ErrorText()
    if library().numc_peaks(threads, ctypes.byref(flops), ctypes.byref(bytes_), error.reference()) != 0:
        raise NumcError(f"the roofline of this machine: {error.take()}: give --peak and --bandwidth")
    return flops.value, bytes_.value


def _read(file: Path) -> dict[str, tuple[float, float]]:
    """Return what was measured before; nothing if the file is damaged."""
    try:
        content = parsed(file.read_text(encoding="utf-8"))
        known = {str(key): (float(flops), float(bytes_)) for key, (flops, bytes_) in content.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
    return {key: both for key, both in known.items() if all(0 < value < math.inf for value in both)}


def _processor() -> str:
    """The name of the processor, and its features in one number, which a virtual machine may change."""
    return f"{processor_name()} with {', '.join(sorted(cpu_features() & {'avx2', 'fma', 'avx512f'})) or 'sse'}"
