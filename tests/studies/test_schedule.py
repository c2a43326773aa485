"""Schedules: the algorithm against its worked graph and against exhaustive search (docs/streams.md)."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numc
from numc.studies.profile.count import SPAN, Interval, profile_of
from numc.studies.schedule.graph import Buffer, Graph, Operation, accumulated, reduced, rests
from numc.studies.schedule.matching import matching
from numc.studies.schedule.schedule import schedule
from numc.studies.schedule.timeline import timeline

# The worked graph, from 0 instead of 1: edges 1->2, 1->3, 2->4, 3->4, 4->5, and the redundant 1->4, 1->5.
TIMES = (5, 3, 9, 2, 1)
AFTER = ((), (0,), (0,), (0, 1, 2), (0, 3))
USERS = ((0, 1, 2), (1, 3), (2, 3), (3, 4), (4,))


def worked(serial: float = 1.0) -> Graph:
    operations = (
        Operation(name=str(n + 1), serial=t * serial, parallel=t * (1 - serial), after=AFTER[n])
        for n, t in enumerate(TIMES)
    )
    return Graph(tuple(operations), tuple(Buffer(1, users, users == (4,)) for users in USERS))


def test_the_worked_graph() -> None:
    after = reduced(AFTER)
    assert after == ((), (0,), (0,), (1, 2), (3,))
    weights = accumulated(TIMES, after)
    edges = [(one, n) for n, before in enumerate(after) for one in before]
    assert [weights[one] for one, _ in edges] == [5, 5, 8, 14, 16]
    assert matching(after, weights, rests(TIMES, after)) == {0: 2, 2: 3, 3: 4}
    found = schedule(worked(), threads=2)
    assert found.weight == 35
    assert found.streams == ((0, 2, 3, 4), (1,))
    assert (found.seconds, found.sequence, found.waits) == (17, 20, 2)
    assert (found.begins, found.ends) == ((0, 5, 5, 14, 16), (5, 8, 14, 16, 17))
    assert found.peak == found.sequence_peak == 3
    assert found.live() == [(0, 1), (5, 3), (14, 3), (16, 2), (17, 1)]
    assert schedule(worked(), threads=2, memory=3).seconds == 17
    for memory in (1, 2):  # the sequence has three live buffers
        one = schedule(worked(), threads=2, memory=memory)
        assert (one.seconds, one.streams, one.waits) == (20, ((0, 1, 2, 3, 4),), 0)
    assert schedule(worked(), threads=1).seconds == 20


def test_what_fills_the_threads_gains_nothing_side_by_side() -> None:
    found = schedule(worked(serial=0.0), threads=2)
    assert found.seconds == pytest.approx(10)
    assert found.idle == pytest.approx(0)
    assert schedule(worked(), threads=4).idle == 0.75
    assert schedule(Graph(()), threads=2).speedup == 1


def spans_of(*rows: tuple[int, ...]) -> np.ndarray:
    spans = np.zeros(len(rows), SPAN)
    for n, row in enumerate(rows):
        spans[n] = row
    return spans


def test_the_graph_of_a_profile() -> None:
    parts = [{"layer": name, "kind": "contraction", "role": "dgrad", "contraction": None, "bytes": 1, "after": after}
             for name, after in (("q", []), ("k", []), ("join", [0, 1]))]  # fmt: skip
    buffers = [{"bytes": 64, "parts": [0, 2], "result": False}, {"bytes": 32, "parts": [2], "result": True}]
    program = SimpleNamespace(manifest={"parts": parts, "buffers": buffers})
    # Begin, end, waited, fmas, bytes, part, thread: on two threads; part 1 keeps one thread busy, part 0 both.
    run = [(0, 200, 0, 0, 0, -2, 2), (0, 10, 0, 0, 0, -1, 0), (10, 110, 0, 0, 0, 0, 0), (10, 110, 0, 0, 0, 0, 1)]
    run += [(110, 170, 0, 0, 0, 1, 0), (170, 200, 10, 0, 0, 2, 0), (170, 190, 0, 0, 0, 2, 1)]
    slower = spans_of(*run)
    slower["end"][2:4] += 50
    twice = [(program, spans_of(*run))] * 2
    steps = [Interval(0, 500, [(program, slower)]), Interval(0, 450, twice)]
    steps.append(Interval(0, 460, [twice[0], (program, slower)]))
    profile = profile_of(steps, 1, 1, inside=False)
    found = profile.schedule(threads=4)
    rows = [(one.kind, round(1e9 * one.serial), round(1e9 * one.parallel), one.after) for one in found.graph.operations]
    assert rows == [
        ("outside", 50, 0, ()),
        ("other", 10, 0, (0,)),
        ("contraction", 0, 200, (1,)),
        ("contraction", 60, 0, (1,)),
        ("contraction", 20, 20, (1, 2, 3)),
        ("other", 10, 0, (4,)),
        ("contraction", 0, 200, (5,)),
        ("contraction", 60, 0, (5,)),
        ("contraction", 20, 20, (5, 6, 7)),
    ]
    assert [buffer.users for buffer in found.graph.buffers] == [(2, 4), (4,), (6, 8), (8,)]
    # q and k take 65 ns: q has three threads of four for 60 ns, and then all of them.
    assert (found.sequence, found.seconds) == (pytest.approx(340e-9), pytest.approx(250e-9))
    assert found.peak == found.sequence_peak == 128
    assert len(found.streams) == 2
    assert profile.schedule().threads == 2
    assert str(found) == (
        "4 threads: 0.000 ms one after the other (51% idle, 0.0 MiB of buffers), 0.000 ms side by side"
        " (1.360x, 0.0 MiB of buffers, streams: 2)"
    )

    buffers[0]["bytes"] = None
    free = profile.schedule()
    assert (free.peak, free.sequence_peak, free.live()) == (None, None, [])
    with pytest.raises(numc.NumcError, match="^memory: sizes of buffers are free: compile with fixed shapes, or leave"):
        profile.schedule(memory=10)
    alone = spans_of((0, 200, 0, 0, 0, -2, 1), (0, 200, 0, 0, 0, 0, 0))
    with pytest.raises(numc.NumcError, match="^schedule: profiled on one thread, .*: give threads=2$"):
        profile_of([Interval(0, 200, [(program, alone)])], 1, 1, inside=False).schedule()
    del program.manifest["buffers"]
    with pytest.raises(
        numc.NumcError, match="^schedule: the program does not know what its parts use: compile it again"
    ):
        profile.schedule()


def test_bad_numbers() -> None:
    with pytest.raises(numc.NumcError, match="^threads: got 0, want a whole number from 1 to 4096$"):
        schedule(worked(), threads=0)
    with pytest.raises(numc.NumcError, match="^memory: got -1, want a whole number from 1 to"):
        schedule(worked(), threads=1, memory=-1)


@st.composite
def graphs(draw: st.DrawFn, most: int = 7) -> Graph:
    count = draw(st.integers(1, most))
    operations = []
    for n in range(count):
        after = draw(st.sets(st.integers(0, n - 1), max_size=3)) if n else ()
        serial, parallel = draw(st.integers(0, 4)), 6 * draw(st.integers(0, 9))  # whole on one to three threads
        operations.append(Operation(name="", serial=serial, parallel=parallel, after=tuple(sorted(after))))
    users = st.sets(st.integers(0, count - 1), min_size=1, max_size=3).map(lambda chosen: tuple(sorted(chosen)))
    buffers = draw(st.lists(st.builds(Buffer, st.integers(1, 5), users, st.booleans()), max_size=5))
    return Graph(tuple(operations), tuple(buffers))


@settings(deadline=None, max_examples=100)
@given(graphs(), st.integers(1, 3), st.integers(1, 20))
def test_any_graph(graph: Graph, threads: int, memory: int) -> None:
    count = len(graph.operations)
    given_after = [one.after for one in graph.operations]
    after = reduced(given_after)

    def reachable(edges, n, left_out=None):
        found, waiting = set(), [n]
        while waiting:
            at = waiting.pop()
            new = {one for one in edges[at] if (one, at) != left_out} - found
            found |= new
            waiting += new
        return found

    for n in range(count):
        assert reachable(after, n) == reachable(given_after, n)
        assert all(one not in reachable(after, n, left_out=(one, n)) for one in after[n])

    times = [one.seconds(threads) for one in graph.operations]
    weights, priority = accumulated(times, after), rests(times, after)
    edges = [(one, n) for n in range(count) for one in after[n]]
    pairs = matching(after, weights, priority)
    assert set(pairs.items()) <= set(edges)
    assert len(set(pairs.values())) == len(pairs)
    # Every choice of at most one producer for each consumer is a matching if no producer is chosen twice.
    choices = itertools.product(*((*tuple(before), None) for before in after))
    best = max(
        (sum(weights[one] for one in chosen), sum(priority[n] for n, one in enumerate(choice) if one is not None))
        for choice in choices
        if len(chosen := [one for one in choice if one is not None]) == len(set(chosen))
    )
    mine = sum(weights[one] for one in pairs), sum(priority[n] for n in pairs.values())
    assert mine == pytest.approx(best)

    for limit in (None, memory):
        found = schedule(graph, threads, limit)
        assert sorted(n for stream in found.streams for n in stream) == list(range(count))
        for n, before in enumerate(given_after):
            assert all(found.ends[one] <= found.begins[n] for one in before)
            assert found.begins[n] <= found.ends[n]
        for stream in found.streams:
            assert all(found.ends[a] <= found.begins[b] for a, b in itertools.pairwise(stream))
        running = [sum(found.begins[n] <= at < found.ends[n] for n in range(count)) for at in found.begins]
        assert max(running) <= threads
        critical = max(accumulated([one.seconds(threads) for one in graph.operations], given_after))
        work = sum(one.seconds(1) for one in graph.operations) / threads
        assert max(critical, work) <= found.seconds * (1 + 1e-9)
        assert found.seconds <= found.sequence * (1 + 1e-9)
    assert found.peak <= max(memory, found.sequence_peak)


def test_the_drawing(tmp_path: Path) -> None:
    """Bars are where operations are, as wide as they take; the file is the same for the same schedule."""
    found = schedule(worked(), threads=2)
    found.write(tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text(encoding="utf-8")
    (path,) = re.findall(r'class="bars f" d="([^"]*)"', text)
    bars = [tuple(map(float, bar)) for bar in re.findall(r"M([\d.]+) ([\d.]+)H([\d.]+)V", path)]
    assert len(bars) == len(TIMES)
    widths = [right - left for left, _, right in bars]
    assert [width / sum(widths) for width in widths] == pytest.approx([time / sum(TIMES) for time in TIMES], abs=2e-3)
    assert len({y for _, y, _ in bars}) == len(found.streams) == 2
    steps = re.findall(r'class="steps k" d="([^"]*)"', text)
    assert [step.count("V") + 1 for step in steps] == [len(found.live()), len(found.sequence_live())]
    found.write(tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == text.encode()
    schedule(Graph(()), threads=2).write(tmp_path / "empty.svg")
    many = [(0, n * 1.0, n + 1.0, f"name <{n}>") for n in range(12)]
    drawn = timeline("many", many, {}, 12.0)
    assert len({*re.findall(r'class="bars f"[^>]*fill="(#\w+)"', drawn)}) == 12
    assert "name <" not in drawn
    pytest.importorskip("resvg_py")
    found.write(tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
