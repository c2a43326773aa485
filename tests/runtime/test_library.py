"""The shared library: where it is found, what it says of the machine."""

from __future__ import annotations

import pytest

from numc.runtime import cpu_features, default_threads, feature_names, include_folder, library_folder, request_amx
from numc.runtime.library import find_library, library
from numc.support.errors import NumcError

# Where /proc/cpuinfo has another name.
KERNEL_NAMES = {
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "lzcnt": "abm",
    "bmi": "bmi1",
    "avx512_vbmi": "avx512vbmi",
    "avx512_ifma": "avx512ifma",
}


def test_features_are_what_the_kernel_says():
    with open("/proc/cpuinfo") as file:
        flags = next(line for line in file if line.startswith("flags")).split(":")[1].split()
    assert cpu_features() == {name for name in feature_names() if KERNEL_NAMES.get(name, name) in flags}


def test_feature_bits_never_change():
    """They are in program files: append only."""
    text = (
        "sse4.1 sse4.2 popcnt avx avx2 fma f16c bmi bmi2 lzcnt movbe avx512f avx512bw avx512dq avx512vl avx512cd "
        "avx512_vnni avx512_bf16 avx512_fp16 avx512_vbmi avx512_vbmi2 avx512_ifma avx512_bitalg avx512_vpopcntdq gfni "
        "vaes avx_vnni amx_tile amx_bf16 amx_int8 sse4a"
    )
    assert feature_names()[:31] == tuple(text.split())


def test_amx_is_granted_only_where_it_is():
    assert not request_amx() or "amx_tile" in cpu_features()
    assert request_amx() == request_amx()


def test_default_threads_follow_the_affinity_mask(monkeypatch):
    import os

    monkeypatch.delenv("NUMC_NUM_THREADS", raising=False)
    assert default_threads() == len(os.sched_getaffinity(0))


def test_folders():
    assert (include_folder() / "numc.h").is_file()
    assert (library_folder() / "libnumc_runtime.so").is_file()
    assert library().numc_version() == b"0.1.0"


def test_override(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMC_RUNTIME_LIBRARY", str(tmp_path / "none.so"))
    with pytest.raises(NumcError) as caught:
        find_library()
    assert str(caught.value) == (
        f"NUMC_RUNTIME_LIBRARY: no file '{tmp_path}/none.so': unset it or name a built libnumc_runtime.so"
    )
    (tmp_path / "bad.so").write_text("no library")
    monkeypatch.setenv("NUMC_RUNTIME_LIBRARY", str(tmp_path / "bad.so"))
    with pytest.raises(NumcError, match="bad.so' is not this version's numc runtime .*: build or install it again$"):
        library.__wrapped__()


def test_not_built(monkeypatch):
    monkeypatch.delenv("NUMC_RUNTIME_LIBRARY", raising=False)
    monkeypatch.setattr("numc.runtime.library._candidates", list)
    with pytest.raises(
        NumcError, match="^libnumc_runtime.so is not there: install numc with pip, or in the source tree run"
    ):
        find_library()
