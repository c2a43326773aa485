"""Buffers that were freed serve requests of other sizes, and do not pile up."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from numc.runtime.library import library

MIB = 1 << 20


@pytest.fixture
def alloc() -> Iterator[ctypes.CDLL]:
    runtime = library()
    runtime.numc_alloc.restype, runtime.numc_alloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    runtime.numc_free.restype, runtime.numc_free.argtypes = None, [ctypes.c_void_p]
    runtime.numc_trim()
    yield runtime
    runtime.numc_trim()


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def touched(runtime: ctypes.CDLL, size: int) -> int:
    place = int(runtime.numc_alloc(size))
    assert place % 64 == 0
    ctypes.memset(place, 1, size)
    return place


def test_a_freed_block_serves_a_smaller_request(alloc: ctypes.CDLL) -> None:
    large = touched(alloc, 24 * MIB)
    alloc.numc_free(large)
    small = touched(alloc, 14 * MIB)
    assert small == large
    tiny = touched(alloc, 2 * MIB)  # much smaller ones get a block of their own
    assert not large <= tiny < large + 24 * MIB
    alloc.numc_free(small)
    alloc.numc_free(tiny)


def test_what_is_kept_does_not_pile_up(alloc: ctypes.CDLL) -> None:
    """One block at a time, of many sizes: the most that was in use, an eighth of it, and 64 MiB at most."""
    start, most = resident(), 160
    for size in (most, *range(8, 100, 4), 150, 40):
        alloc.numc_free(touched(alloc, size * MIB))
        assert resident() - start <= (most + 64 + most // 8 + 4) * MIB
