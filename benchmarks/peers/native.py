"""The C++ loops of native.cpp, compiled for this machine when they are first needed."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from numc.numerics.formats import Format

SOURCE = Path(__file__).with_name("native.cpp")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC")
F32Array = npt.NDArray[np.float32]


@cache
def _library() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "native.so"
        subprocess.run(["g++", *FLAGS, str(SOURCE), "-o", str(built)], check=True)
        library = ctypes.CDLL(str(built))  # the library stays mapped when its file is deleted
    library.fma_peak.restype, library.fma_peak.argtypes = ctypes.c_double, [ctypes.c_long]
    shape = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 3
    library.naive_matmul.restype = library.vectorised_matmul_bf16.restype = None
    library.naive_matmul.argtypes = [*shape, ctypes.c_int, ctypes.c_int, ctypes.c_float]
    library.vectorised_matmul_bf16.argtypes = shape
    return library


def peak(steps: int = 20000) -> float:
    """Run multiply-adds at the peak rate of the vector units; returns the number of floating-point operations."""
    return float(_library().fma_peak(steps))


@cache
def _processors() -> ThreadPoolExecutor:
    allowed = iter(sorted(os.sched_getaffinity(0))[:2])
    return ThreadPoolExecutor(2, initializer=lambda: os.sched_setaffinity(0, {next(allowed)}))


def two_peaks(steps: int = 20000) -> float:
    """Do the same as `peak` on two processors at once; returns the number of operations of both."""
    return sum(_processors().map(peak, (steps, steps)))


def naive_matmul(a: F32Array, b: F32Array, fmt: Format) -> F32Array:
    """Return ``a @ b`` with one rounding per multiply-add; `a` and `b` are contiguous, in format `fmt`."""
    (m, k), n = a.shape, b.shape[1]
    c = np.empty((m, n), np.float32)
    largest = float(fmt.max_finite)
    _library().naive_matmul(*_addresses(a, b, c), m, n, k, fmt.significand_bits, fmt.emin, largest)
    return c


def vectorised_matmul_bf16(a: F32Array, b: F32Array) -> F32Array:
    """Return the same product in bf16, from a loop that the C++ compiler can vectorise."""
    (m, k), n = a.shape, b.shape[1]
    c = np.empty((m, n), np.float32)
    _library().vectorised_matmul_bf16(*_addresses(a, b, c), m, n, k)
    return c


def _addresses(*arrays: F32Array) -> tuple[int, ...]:
    return tuple(array.ctypes.data for array in arrays)
