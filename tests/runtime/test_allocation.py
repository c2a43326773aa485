"""Buffers that were freed serve requests of other sizes, and do not pile up; what a run may take has a limit."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import numc
from numc.runtime.library import library

MIB = 1 << 20


@pytest.fixture
def alloc() -> Iterator[ctypes.CDLL]:
    runtime = library()
    runtime.numc_alloc.restype, runtime.numc_alloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    runtime.numc_free.restype, runtime.numc_free.argtypes = None, [ctypes.c_void_p]
    gc.collect()  # results that tests before have left in cycles of references
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


def test_a_freed_block_serves_smaller_requests_and_becomes_whole_again(alloc: ctypes.CDLL) -> None:
    large = touched(alloc, 24 * MIB)
    alloc.numc_free(large)
    parts = [touched(alloc, size) for size in (14 * MIB, 2 * MIB, 100_000, 7 * MIB)]
    assert all(large <= place < large + 24 * MIB for place in parts)
    for n in (1, 3, 0, 2):
        alloc.numc_free(parts[n])
    assert touched(alloc, 24 * MIB) == large
    alloc.numc_free(large)


def test_pieces_of_many_sizes_are_apart(alloc: ctypes.CDLL) -> None:
    """What was written into a piece is there until it is freed, whatever is taken and freed beside it."""
    random = np.random.default_rng(0)
    live: list[tuple[int, int, int]] = []
    for step in range(600):
        if live and random.random() < 0.48:
            place, size, fill = live.pop(int(random.integers(len(live))))
            assert set(ctypes.string_at(place, size)) == {fill}
            alloc.numc_free(place)
        else:
            size = int(2 ** random.uniform(16.1, 22))
            place = int(alloc.numc_alloc(size))
            assert place % 64 == 0
            ctypes.memset(place, step % 251, size)
            live.append((place, size, step % 251))
        if step % 100 == 0:
            alloc.numc_trim()
    for place, size, fill in live:
        assert set(ctypes.string_at(place, size)) == {fill}
        alloc.numc_free(place)


def test_what_is_kept_does_not_pile_up(alloc: ctypes.CDLL) -> None:
    """One block at a time, of many sizes: the most that was in use, and a 32nd of it, at most."""
    start, most = resident(), 640  # more than any test before has used in this process
    for size in (most, *range(8, 100, 4), 150, 40):
        alloc.numc_free(touched(alloc, size * MIB))
        assert resident() - start <= (most + most // 32 + 4) * MIB


DOUBLE = """
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %y = linalg.add ins(%x, %x : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}
"""


@pytest.mark.usefixtures("alloc")
def test_a_run_that_needs_too_much_memory_ends_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "double.mlir").write_text(DOUBLE)
    program = numc.compile(tmp_path / "double.mlir")
    small, large = np.ones(MIB, np.float32), np.ones(5 * MIB, np.float32)
    monkeypatch.setenv("NUMC_MEMORY", str(10 / 1024))
    assert np.array_equal(program(small), small + small)
    with pytest.raises(numc.NumcError) as caught:
        program(large)
    assert str(caught.value) == "the program ran out of memory: its buffers may take 0.009766 GiB, which is NUMC_MEMORY"
    for wrong in ("lots", "0", "-1", "nan"):
        monkeypatch.setenv("NUMC_MEMORY", wrong)
        with pytest.raises(numc.NumcError, match=f"^NUMC_MEMORY: got '{wrong}', want a number of GiB above 0$"):
            program(small)
    monkeypatch.delenv("NUMC_MEMORY")
    assert np.array_equal(program(large), large + large)
