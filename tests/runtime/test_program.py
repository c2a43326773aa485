"""Running programs: results, thread counts, ownership, input errors, failures, observers."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import threading

import numpy as np
import pytest

import runtime_programs as programs
from numc.runtime import Program, TensorSpec, load, trim
from numc.runtime.library import library
from numc.support.errors import NumcError

BIAS = np.arange(4, dtype=np.float32)


@pytest.fixture(scope="module")
def add() -> Program:
    return Program(programs.add())


@pytest.fixture(scope="module")
def parallel() -> Program:
    return Program(programs.parallel())


@pytest.fixture(scope="module")
def odd() -> Program:
    return Program(programs.odd_results())


@pytest.mark.parametrize("rows", [0, 1, 3, 5000])
def test_positions_names_and_mappings_give_the_same(add, rows):
    x = np.linspace(-3, 3, rows * 4, dtype=np.float32).reshape(rows, 4)
    for got in (add(x), add(x=x), add({"x": x})):
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, x + BIAS)


def test_descriptions(add):
    assert [str(s) for s in add.inputs] == ["float32[?,4]"]
    assert add.outputs == (TensorSpec("sum", "float32", (None, 4)),)
    assert repr(add) == "<Program (x: float32[?,4]) -> (sum: float32[?,4])>"
    assert all(text in add._repr_html_() for text in ("x: float32[?,4]", "sum: float32[?,4]", "compiled program"))
    assert add.manifest["fma"] == "add"


def test_copies_run_on_their_own(add, tmp_path):
    x = np.ones((2, 4), np.float32)
    add.save(tmp_path / "add.numc")
    for given in (add, load(tmp_path / "add.numc")):
        for copied in (copy.deepcopy(given), pickle.loads(pickle.dumps(given))):
            assert copied is not given
            np.testing.assert_array_equal(copied(x), x + BIAS)


def test_inputs_that_are_not_dense_are_copied(add):
    x = np.arange(40, dtype=np.float32).reshape(4, 10).T[::2][:, ::1]
    assert not x.flags.c_contiguous
    np.testing.assert_array_equal(add(x[:, :4]), x[:, :4] + BIAS)
    np.testing.assert_array_equal(add(x.astype(">f4")), x + BIAS)
    shifted = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)  # off by one byte
    np.testing.assert_array_equal(add(shifted), x + BIAS)
    np.testing.assert_array_equal(add([[1, 2.5, 3, 4]]), np.array([[1, 3.5, 5, 7]], np.float32))


@pytest.mark.parametrize("threads", [1, 2, 3, 8, None])
def test_any_number_of_threads_gives_the_same(parallel, threads):
    for n in (0, 1, 2, 1000, 100_001):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(parallel(x, threads=threads), 4 * x)


def test_runs_in_several_threads_at_once(parallel):
    wrong = []

    def work(seed):
        for i in range(60):
            x = np.arange(20_000 + seed, dtype=np.float32) + i
            if not np.array_equal(parallel(x, threads=1 + seed), 4 * x):
                wrong.append((seed, i))

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_results_outlive_the_program_and_never_alias(odd):
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = odd(a, np.array(True))
    a_before = a.copy()
    for array in got.values():
        array[...] = 0  # writable, and nobody else's
        assert not any(np.shares_memory(array, other) for other in (a, *got.values()) if other is not array)
    np.testing.assert_array_equal(a, a_before)
    again = odd(a, np.array(False))
    np.testing.assert_array_equal(again["same"], a)
    np.testing.assert_array_equal(again["table"], [7, 8, 9])
    np.testing.assert_array_equal(again["b1"], [1.5] * 4)
    np.testing.assert_array_equal(again["b2"], [1.5] * 4)
    np.testing.assert_array_equal(again["t"], a.T)
    assert again["flag_out"].dtype == bool
    assert again["flag_out"].shape == ()
    assert not again["flag_out"]


def test_result_outlives_its_program():
    program = Program(programs.add())
    result = program(np.zeros((50_000, 4), np.float32))
    view = result[1:]
    del program, result
    gc.collect()
    trim()
    np.testing.assert_array_equal(view[-1], BIAS)


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_memory_does_not_grow(parallel):
    x = np.zeros(1_000_000, np.float32)
    parallel(x)
    bad = x + 2e6
    before = _resident()
    for _ in range(40):
        parallel(x)
        with pytest.raises(NumcError):
            parallel(bad)  # stops in the middle: its buffers come back, too
    gc.collect()
    assert _resident() - before < 40_000_000


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda p: p(), "program: missing 'x': want 'x'"),
        (lambda p: p(1, 2), "program: got 2 inputs, want 1 ('x')"),
        (lambda p: p(1, x=2), "input 'x': given twice, by position and by name"),
        (lambda p: p({"x": 1}, 2), "input 'x': given twice, by position and by name"),
        (lambda p: p(xx=1), "input 'xx': no such input (did you mean 'x'?): want 'x'"),
        (
            lambda p: p(np.zeros((3, 4))),
            "input 'x': got float64[3,4], want float32[?,4]: convert it with .astype('float32')",
        ),
        (lambda p: p(np.zeros((3, 5), np.float32)), "input 'x': got float32[3,5], want float32[?,4]"),
        (lambda p: p(np.zeros(4, np.float32)), "input 'x': got float32[4], want float32[?,4]"),
        (
            lambda p: p([["a", "b", "c", "d"]]),
            "input 'x': got str32[1,4], want float32[?,4]: convert it with .astype('float32')",
        ),
        (lambda p: p(np.zeros((3, 4), np.float32), threads=0), "threads: got 0, want a whole number from 1 to 1024"),
        (
            lambda p: p(np.zeros((3, 4), np.float32), threads=2000),
            "threads: got 2000, want a whole number from 1 to 1024",
        ),
        (
            lambda p: p(np.zeros((3, 4), np.float32), threads="2"),
            "threads: got '2', want a whole number from 1 to 1024",
        ),
        (
            lambda p: p([[1, 2, 3, 4], [1]]),
            "input 'x': no array (setting an array element with a sequence. The requested "
            "array has an inhomogeneous shape after 1 dimensions. The detected shape was (2,) + inhomogeneous part.): "
            "want float32[?,4]",
        ),
    ],
)
def test_input_errors(add, call, text):
    with pytest.raises(NumcError) as caught:
        call(add)
    assert str(caught.value) == text


def test_thread_variable(add, monkeypatch):
    monkeypatch.setenv("NUMC_NUM_THREADS", "two")
    with pytest.raises(NumcError) as caught:
        add(np.zeros((1, 4), np.float32))
    assert str(caught.value) == "NUMC_NUM_THREADS: got 'two', want a whole number from 1 to 1024"
    monkeypatch.setenv("NUMC_NUM_THREADS", "3")
    assert library().numc_default_threads() == 3


@pytest.mark.parametrize("threads", [1, 4])
def test_a_failing_task_stops_the_run_and_nothing_else(parallel, threads):
    x = np.zeros(10_000, np.float32)
    x[7777] = 2e6
    for _ in range(5):
        with pytest.raises(NumcError, match="^x: a value above 1e6$"):
            parallel(x, threads=threads)
        np.testing.assert_array_equal(parallel(x[:100], threads=threads), x[:100])


@pytest.mark.parametrize("threads", [1, 3])
def test_observers_see_kernels_with_an_id(parallel, threads):
    x = np.arange(1000, dtype=np.float32)
    seen = []

    def watch(kernel, operands, phase):
        first = ctypes.c_void_p.from_address(operands).value
        second = ctypes.c_void_p.from_address(operands + 8).value
        source = np.ctypeslib.as_array((ctypes.c_float * 1000).from_address(first))
        target = np.ctypeslib.as_array((ctypes.c_float * 1000).from_address(second))
        done = bool(np.array_equal(target, 2 * source))
        seen.append((kernel, phase, threading.get_ident() == caller, bool(np.array_equal(source, x)), done))

    caller = threading.get_ident()
    parallel(x, threads=threads)
    with parallel.observe(watch):
        parallel(x, threads=threads)
    parallel(x, threads=threads)
    assert [row[:4] for row in seen] == [(5, 0, True, True), (5, 1, True, True)]
    assert seen[1][4]


def test_an_observer_may_run_programs_and_its_exception_arrives(parallel, add):
    x = np.arange(1000, dtype=np.float32)
    inner = []

    def watch(kernel, operands, phase):
        inner.append(add(np.ones((1, 4), np.float32)))
        if phase == 1:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), parallel.observe(watch):
        result = parallel(x)
    np.testing.assert_array_equal(result, 4 * x)
    np.testing.assert_array_equal(inner[0], [BIAS + 1])
    assert len(inner) == 2


def test_a_caller_that_flushes_subnormals_changes_no_bit(add):
    tiny = np.full((1, 4), 1e-40, np.float32)
    saved = library()["numc_ftz_begin"]()
    try:
        got = add(tiny).view(np.uint32)
    finally:
        library()["numc_ftz_end"](saved)
    assert got[0, 0] == tiny.view(np.uint32)[0, 0]


def test_fork_leaves_a_working_child(parallel, tmp_path):
    import multiprocessing

    x = np.arange(50_000, dtype=np.float32)
    parallel(x, threads=4)
    context = multiprocessing.get_context("fork")
    child = context.Process(target=lambda: np.save(tmp_path / "y.npy", parallel(x, threads=4)))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), 4 * x)


def test_saved_and_loaded(add, tmp_path):
    add.save(tmp_path / "add.numc")
    loaded = load(tmp_path / "add.numc")
    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(loaded(x), add(x))
    assert loaded.manifest == add.manifest
    loaded.save(tmp_path / "again.numc")
    assert (tmp_path / "again.numc").read_bytes() == (tmp_path / "add.numc").read_bytes()
