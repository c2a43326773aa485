"""The object loader: what compilers write, and what nobody should."""

from __future__ import annotations

import ctypes
import os
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import runtime_programs as programs
from loaded_objects import LoadedObject, build, needs_cc
from numc.runtime.archive import archive
from numc.runtime.library import library


def load_text(data: bytes) -> str:
    loaded = LoadedObject(data)
    if loaded.handle:
        library().numc_object_free(loaded.handle)
    return loaded.text


SOURCE = """
void *memcpy(void *, const void *, unsigned long);
float floorf(float);
float (*const indirect)(float) = floorf;      /* an absolute address in read-only data */
static const int table[4] = {10, 20, 30, 40};
static int counter = 5;
static int zeros[1000];
int common;
static const int *pointers[2] = {&table[1], &table[3]};
__attribute__((constructor)) static void first(void) { counter += 100; }
__attribute__((weak)) void nowhere(void);
void run(void **args) {
  int *out = args[0];
  float *x = args[1];
  out[0] = table[out[0]];
  out[1] = ++counter;
  out[2] = *pointers[0] + *pointers[1] + zeros[999]++;
  out[3] = ++common;
  out[4] = nowhere != 0;
  x[0] = floorf(x[0]) + indirect(x[1]);
  memcpy(x + 1, x, 4 * (unsigned long)out[5]);
}
"""

MODELS = {
    "pic": ["-fPIC"],
    "pie": ["-fPIE"],
    "static": ["-fno-pic", "-fno-pie"],
    "large": ["-fPIC", "-mcmodel=large"],
    "large-static": ["-fno-pic", "-fno-pie", "-mcmodel=large"],
    "no-plt": ["-fPIC", "-fno-plt"],
    "common": ["-fPIC", "-fcommon"],
    "sections": ["-fPIC", "-ffunction-sections", "-fdata-sections", "-g"],
}


@needs_cc
@pytest.mark.parametrize("model", MODELS)
def test_code_models(tmp_path, model):
    with LoadedObject(build(tmp_path, SOURCE, *MODELS[model])) as loaded:
        for round_ in (1, 2):
            out = np.array([2, 0, 0, 0, 9, 1], np.int32)
            x = np.array([1.75, -0.5], np.float32)
            assert loaded.call("run", out.ctypes.data, x.ctypes.data) == (0, "")
            assert out.tolist() == [30, 105 + round_, 60 + round_ - 1, round_, 0, 1]
            assert x.tolist() == [0.0, 0.0]


@needs_cc
def test_protection(tmp_path):
    source = "const int rodata = 1; int data = 2; int bss; void run(void **args) {}"
    with LoadedObject(build(tmp_path, source, "-fPIC")) as loaded:
        rights = {name: _rights(loaded.address(name)) for name in ("run", "rodata", "data", "bss")}
        assert rights == {"run": "r-x", "rodata": "r--", "data": "rw-", "bss": "rw-"}
        assert loaded.address("nothing") is None


def _rights(address):
    with open("/proc/self/maps") as maps:
        for line in maps:
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) (...)", line)
            if int(match[1], 16) <= address < int(match[2], 16):
                return match[3]
    return None


@needs_cc
def test_unknown_symbols_are_all_named(tmp_path):
    source = (
        "float expf(float); float sinf(float); void run(void **a) { *(float *)a[0] = expf(1) + sinf(*(float *)a[0]); }"
    )
    text = load_text(build(tmp_path, source, "-fPIC"))
    assert text == "object code: needs symbols that the runtime does not have: expf, sinf"


@needs_cc
def test_thread_local_is_refused(tmp_path):
    assert "thread-local" in load_text(build(tmp_path, "__thread int x; void run(void **a) { ++x; }", "-fPIC"))


@needs_cc
def test_failure_codes(tmp_path):
    source = """
    void numc_fail(int); void *malloc(unsigned long); void free(void *); void abort(void);
    void stop(void **a) { numc_fail(*(int *)a[0]); }
    void give_up(void **a) { abort(); }
    void hungry(void **a) { *(void **)a[0] = malloc(1ul << 60); }
    void twice(void **a) { void *p = malloc(100); free(p); free(p); }
    void aligned(void **a) { *(void **)a[0] = malloc(100001); }
    """
    word = np.array([42], np.int64)
    with LoadedObject(build(tmp_path, source, "-fPIC", "-fno-builtin")) as loaded:
        assert loaded.call("stop", word.ctypes.data) == (42, "the program stopped with code 42")
        assert loaded.call("give_up") == (-1, "the program stopped with code -1")
        assert loaded.call("hungry", word.ctypes.data)[0] == -2
        assert loaded.call("twice") == (-3, "the program freed a buffer twice")
        assert loaded.call("aligned", word.ctypes.data) == (0, "")
        assert word[0] % 64 == 0
        library().numc_free(int(word[0]))


@needs_cc
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_parallel_covers_everything_once_and_nests(tmp_path, threads):
    source = """
    typedef long long i64;
    void numc_parallel(void (*)(void *, i64, i64), void *, i64, i64);
    static void inner(void *c, i64 b, i64 e) { int *out = c; for (; b < e; ++b) out[b]++; }
    static void outer(void *c, i64 b, i64 e) { for (; b < e; ++b) numc_parallel(inner, (int *)c + 7 * b, 7, 1); }
    void run(void **a) { numc_parallel(outer, a[0], *(i64 *)a[1], -1); }
    """
    with LoadedObject(build(tmp_path, source, "-fPIC")) as loaded:
        for n in (0, 1, 2, 63, 1000):
            out, count = np.zeros(7 * 1000, np.int32), np.array([n], np.int64)
            assert loaded.call("run", out.ctypes.data, count.ctypes.data, threads=threads) == (0, "")
            assert (out[: 7 * n] == 1).all()
            assert (out[7 * n :] == 0).all()


@needs_cc
@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="there is one processor for all threads")
def test_workers_keep_off_the_processor_of_their_caller(tmp_path):
    source = """
    typedef long long i64;
    void numc_parallel(void (*)(void *, i64, i64), void *, i64, i64);
    static void task(void *c, i64 b, i64 e) {}
    void run(void **a) { numc_parallel(task, a[0], 64, -1); }
    """
    mine = os.sched_getaffinity(0)
    with LoadedObject(build(tmp_path, source, "-fPIC")) as loaded:
        assert loaded.call("run", np.zeros(1).ctypes.data, threads=2) == (0, "")
    assert os.sched_getaffinity(0) == mine
    others = [os.sched_getaffinity(int(thread)) for thread in os.listdir("/proc/self/task")]
    assert any(allowed < mine and len(allowed) == len(mine) - 1 for allowed in others)


@needs_cc
@pytest.mark.parametrize("threads", [1, 4])
def test_floating_point_environment(tmp_path, threads):
    source = """
    #include <xmmintrin.h>
    typedef long long i64;
    void numc_parallel(void (*)(void *, i64, i64), void *, i64, i64);
    unsigned numc_ftz_begin(void); void numc_ftz_end(unsigned);
    static void task(void *c, i64 b, i64 e) { unsigned *out = c; for (; b < e; ++b) out[b] = _mm_getcsr() & ~0x3fu; }
    void run(void **a) {
      unsigned *out = a[0];
      out[64] = _mm_getcsr();
      unsigned saved = numc_ftz_begin();
      numc_parallel(task, out, 64, 3);
      numc_ftz_end(saved);
      out[65] = _mm_getcsr();
    }
    """
    out = np.zeros(66, np.uint32)
    with LoadedObject(build(tmp_path, source, "-fPIC")) as loaded:
        assert loaded.call("run", out.ctypes.data, threads=threads) == (0, "")
    assert set(out[:64]) == {0x9FC0}  # workers flush when their caller does
    assert out[64] == 0x1F80
    assert out[65] & ~np.uint32(0x3F) == 0x1F80


@pytest.fixture(scope="module")
def code() -> bytes:
    return programs.Quiet(programs.add().code)


@settings(max_examples=500)
@given(data=st.data())
def test_damaged_objects_never_crash(code, data):
    """The loader itself is safe on any bytes (whether code that loads is worth running, only its checksum can say)."""
    changed = bytearray(code)
    # Headers, tables and relocations matter most; they are at both ends.
    area = st.one_of(st.integers(0, 63), st.integers(len(code) - 2000, len(code) - 1), st.integers(0, len(code) - 1))
    for _ in range(data.draw(st.integers(1, 6))):
        changed[data.draw(area)] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del changed[data.draw(st.integers(0, len(changed))) :]
    text = load_text(bytes(changed))
    assert "\n" not in text
    assert text == "" or text.startswith("object code: ")


def test_foreign_objects(code):
    assert load_text(b"") == "object code: not an ELF file"
    arm = bytearray(code)
    arm[18] = 183
    assert load_text(bytes(arm)) == "object code: not for x86-64 (machine 183)"
    shared = bytearray(code)
    shared[16] = 3
    assert load_text(bytes(shared)) == "object code: not a relocatable object (type 3)"
    assert load_text(code[:-100]) == "object code: truncated section table"


@needs_cc
def test_strided_copies(tmp_path):
    """memrefCopy is what MLIR calls for a copy between layouts."""
    source = """
    typedef struct { long rank; void *descriptor; } Unranked;
    void memrefCopy(long, Unranked *, Unranked *);
    void run(void **a) { Unranked from = {2, a[0]}, to = {2, a[1]}; memrefCopy(4, &from, &to); }
    """
    x, y = np.arange(12, dtype=np.int32).reshape(3, 4), np.zeros((4, 3), np.int32)
    from_ = np.array([0, x.ctypes.data, 1, 3, 2, 4, 1], np.int64)  # x[:, 1:3]
    to = np.array([0, y.ctypes.data, 0, 3, 2, 1, 3], np.int64)  # y.T[:, :2]
    with LoadedObject(build(tmp_path, source, "-fPIC")) as loaded:
        assert loaded.call("run", from_.ctypes.data, to.ctypes.data) == (0, "")
        np.testing.assert_array_equal(y[:2].T, x[:, 1:3])
        assert (y[2:] == 0).all()
        from_[3], before = 0, y.copy()
        assert loaded.call("run", from_.ctypes.data, to.ctypes.data) == (0, "")
        np.testing.assert_array_equal(y, before)


@needs_cc
def test_many_call_targets_far_away(tmp_path):
    """Every exact function of the table can be called, through stubs: the C library is further than 2 GiB away."""
    one = ["floor", "ceil", "trunc", "rint", "nearbyint", "round", "roundeven", "sqrt"]
    two = ["fmod", "fmin", "fmax"]
    lines, calls = [], []
    for suffix, kind in (("f", "float"), ("", "double")):
        lines += [f"{kind} {name}{suffix}({kind});" for name in one]
        lines += [f"{kind} {name}{suffix}({kind}, {kind});" for name in two]
        lines.append(f"{kind} fma{suffix}({kind}, {kind}, {kind});")
        calls += [f"*out++ = {name}{suffix}(x[0]);" for name in one]
        calls += [f"*out++ = {name}{suffix}(x[0], x[1]);" for name in two]
        calls.append(f"*out++ = fma{suffix}(x[0], x[1], x[0]);")
    source = "\n".join([*lines, "void run(void **a) { double *out = a[0]; float *x = a[1];", *calls, "}"])
    x, out = np.array([6.5, 4.0], np.float32), np.zeros(24)
    with LoadedObject(build(tmp_path, source, "-fPIC", "-fno-builtin")) as loaded:
        assert loaded.call("run", out.ctypes.data, x.ctypes.data) == (0, "")
    root = [float(np.sqrt(np.float32(6.5))), float(np.sqrt(6.5))]
    for half in (0, 1):
        want = [6, 7, 6, 6, 6, 7, 6, root[half], 2.5, 4, 6.5, 32.5]
        assert out[12 * half : 12 * half + 12].tolist() == want


@needs_cc
def test_objects_of_an_archive_refer_to_each_other(tmp_path):
    first = build(
        tmp_path, "extern long shared; long second(long); void first(void **a) { *(long *)a[0] = second(shared); }"
    )
    second = build(
        tmp_path, "long shared = 20; static long two(void) { return 2; } long second(long x) { return x + two(); }"
    )
    for objects in ([first, second], [second, first]):
        with LoadedObject(archive(objects)) as loaded:
            value = ctypes.c_long(0)
            assert loaded.call("first", ctypes.addressof(value)) == (0, "")
            assert value.value == 22
    weak = build(tmp_path, "long shared = 20; __attribute__((weak)) long second(long x) { return x; }", "-fno-common")
    assert "symbol shared is defined twice" in load_text(archive([first, second, weak]))
    assert "runtime does not have: second, shared" in load_text(archive([first]))


def test_damaged_archives_are_refused():
    whole = bytes(archive([programs.add().code]))
    assert load_text(whole) == ""
    assert load_text(whole[:8]) == "object code: empty archive"
    assert load_text(whole[:40]) == "object code: truncated archive"
    assert load_text(whole[:-10]) == "object code: truncated archive"
    assert load_text(whole.replace(b"`\n", b"xx", 1)) == "object code: malformed archive"
    assert load_text(archive([b"no object"])) == "object code: not an ELF file"
