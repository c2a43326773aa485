"""numc_side_by_side: chains on threads of their own, loops inside of them, and what happens if one of them fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loaded_objects import LoadedObject, build, needs_cc

DECLARED = """
typedef long long i64;
void numc_parallel(void (*)(void *, i64, i64), void *, i64, i64);
void numc_side_by_side(void (*const *)(void *), void *, i64);
void numc_fail(int);
void *malloc(i64);
"""


@needs_cc
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_chain_runs_once_with_loops_inside(tmp_path: Path, threads: int) -> None:
    source = """
    static void inner(void *c, i64 b, i64 e) { int *out = c; for (; b < e; ++b) out[b]++; }
    #define CHAIN(n) static void c##n(void *c) { \\
      for (int i = 0; i < 50; ++i) numc_parallel(inner, (int *)c + 100 * n, 100, -1); }
    CHAIN(0) CHAIN(1) CHAIN(2) CHAIN(3) CHAIN(4) CHAIN(5) CHAIN(6)
    void run(void **a) {
      void (*const all[])(void *) = {c0, c1, c2, c3, c4, c5, c6};
      numc_side_by_side(all, a[0], *(i64 *)a[1]);
    }
    """
    with LoadedObject(build(tmp_path, DECLARED + source, "-fPIC")) as loaded:
        for n in (0, 1, 2, 3, 7) * 20:
            out, count = np.zeros(700, np.int32), np.array([n], np.int64)
            assert loaded.call("run", out.ctypes.data, count.ctypes.data, threads=threads) == (0, "")
            assert (out[: 100 * n] == 50).all()
            assert (out[100 * n :] == 0).all()


@needs_cc
@pytest.mark.parametrize("helped", [0, 1])
def test_a_thread_without_a_chain_helps_with_the_loops_of_another(tmp_path: Path, helped: int) -> None:
    # The tasks of one loop wait for each other: one thread alone never ends them both.
    source = """
    static void meet(void *c, i64 b, i64 e) {
      int *met = c;
      for (; b < e; ++b) {
        __atomic_add_fetch(met, 1, __ATOMIC_SEQ_CST);
        for (i64 i = 0; i < 1LL << 34 && __atomic_load_n(met, __ATOMIC_SEQ_CST) < 2; ++i) {}
        if (__atomic_load_n(met, __ATOMIC_SEQ_CST) == 2) met[1 + b] = 1;
      }
    }
    static void loops(void *c) { numc_parallel(meet, c, 2, -1); }
    static void nothing(void *c) {}
    void run(void **a) {
      void (*const first[])(void *) = {loops, nothing}, (*const last[])(void *) = {nothing, loops};
      numc_side_by_side(*(i64 *)a[1] ? last : first, a[0], 2);
    }
    """
    with LoadedObject(build(tmp_path, DECLARED + source, "-fPIC")) as loaded:
        which = np.array([helped], np.int64)
        for _ in range(20):
            met = np.zeros(3, np.int32)
            assert loaded.call("run", met.ctypes.data, which.ctypes.data, threads=2) == (0, "")
            assert met.tolist() == [2, 1, 1]


@needs_cc
@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("numc_fail(42)", (42, "the program stopped with code 42")),
        ("malloc(1LL << 60)", (-2, "the program ran out of memory")),
        ("numc_parallel(fails, c, 100, -1)", (7, "the program stopped with code 7")),
    ],
)
def test_a_failure_in_one_chain_stops_the_others(
    tmp_path: Path, threads: int, what: str, error: tuple[int, str]
) -> None:
    source = f"""
    static void task(void *c, i64 b, i64 e) {{}}
    static void fails(void *c, i64 b, i64 e) {{ numc_fail(7); }}
    static void goes_on(void *c) {{
      int *out = c;
      malloc(100), malloc(1000000);
      for (i64 i = 0; i < 1LL << 40; ++i) numc_parallel(task, c, 100, -1);
      out[0] = 1;
    }}
    static void stops(void *c) {{ malloc(100), malloc(1000000); {what}; ((int *)c)[1] = 1; }}
    void run(void **a) {{
      void (*const all[])(void *) = {{goes_on, stops, goes_on}};
      numc_side_by_side(all, a[0], 3);
    }}
    static void good(void *c, i64 b, i64 e) {{ for (; b < e; ++b) ((int *)c)[b]++; }}
    static void left(void *c) {{ numc_parallel(good, c, 500, -1); }}
    static void right(void *c) {{ numc_parallel(good, (int *)c + 500, 500, -1); }}
    void again(void **a) {{
      void (*const all[])(void *) = {{left, right}};
      numc_side_by_side(all, a[0], 2);
    }}
    """
    with LoadedObject(build(tmp_path, DECLARED + source, "-fPIC")) as loaded:
        for _ in range(10):
            out = np.zeros(1000, np.int32)
            code, text = loaded.call("run", out.ctypes.data, threads=threads)
            assert (code, text[: len(error[1])]) == error
            assert not out.any()
            assert loaded.call("again", out.ctypes.data, threads=threads) == (0, "")
            assert (out == 1).all()
