"""The schedule of a program: streams of operations, when each runs, and the memory that is in use."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numc.compiler.studies.schedule.graph import Graph, accumulated, reduced, rests
from numc.compiler.studies.schedule.matching import matching
from numc.compiler.studies.schedule.simulate import Times, in_sequence, side_by_side
from numc.compiler.support.arguments import checked_integer

MOST_THREADS = 4096


@dataclass(frozen=True)
class Schedule:
    """Operations side by side on shares of the threads, as a simulation has them.

    threads: of the machine. memory: the limit in bytes that buffers had, None for none. begins, ends: of every
    operation, in seconds. streams: numbers of operations, each in one stream; those of a stream run one after the
    other. waits: how many times an operation waits for one of another stream. weight: of the matching. sequence: the
    seconds of all operations one after the other, each on all threads. peak, sequence_peak: the most bytes that buffers
    take at once, side by side and in sequence.
    """

    graph: Graph
    threads: int
    memory: int | None
    begins: tuple[float, ...]
    ends: tuple[float, ...]
    streams: tuple[tuple[int, ...], ...]
    waits: int
    weight: float
    sequence: float
    peak: int
    sequence_peak: int

    @property
    def seconds(self) -> float:
        """The time until the last operation has ended."""
        return max(self.ends, default=0.0)

    @property
    def speedup(self) -> float:
        """How many times longer the sequence takes."""
        return self.sequence / self.seconds if self.seconds else 1.0

    @property
    def idle(self) -> float:
        """The share of the time in which threads have nothing to do in the sequence."""
        work = sum(operation.seconds(1) for operation in self.graph.operations)
        return max(0.0, 1 - work / (self.sequence * self.threads)) if self.sequence else 0.0

    def live(self) -> list[tuple[float, int]]:
        """Return the seconds at which the bytes in use change, and how many bytes are in use from then on."""
        return _live(self.graph, (list(self.begins), list(self.ends)))

    def sequence_live(self) -> list[tuple[float, int]]:
        """Return the same of the sequence."""
        return _live(self.graph, in_sequence(self.graph, self.threads))

    def rows(self) -> list[dict[str, Any]]:
        """Return every operation with its stream and its times, in the order in which they begin."""
        of = {number: stream for stream, members in enumerate(self.streams) for number in members}
        order = sorted(of, key=lambda number: (self.begins[number], number))
        return [
            {
                "operation": number,
                "layer": self.graph.operations[number].name,
                "role": self.graph.operations[number].role,
                "kind": self.graph.operations[number].kind,
                "stream": of[number],
                "begin": self.begins[number],
                "end": self.ends[number],
                "alone": self.graph.operations[number].seconds(self.threads),
                "after": list(self.graph.operations[number].after),
            }
            for number in order
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the schedule in types that JSON has."""
        names = ("threads", "memory", "seconds", "sequence", "speedup", "idle", "peak", "sequence_peak", "waits")
        return {
            **{name: getattr(self, name) for name in names},
            "streams": len(self.streams),
            "operations": self.rows(),
            "live": [list(each) for each in self.live()],
        }


def schedule(graph: Graph, threads: int, memory: int | None = None) -> Schedule:
    """Return the schedule of a graph on so many threads, which never takes longer than the sequence.

    memory: the bytes that buffers may take at once, None for no limit; where the sequence takes more, nothing runs
    beside it that would take more still. Raises NumcError for numbers that are not positive.
    """
    checked_integer(threads, "threads", 1, MOST_THREADS)
    if memory is not None:
        checked_integer(memory, "memory", 1, 1 << 60)
    times = [operation.seconds(threads) for operation in graph.operations]
    after = reduced([operation.after for operation in graph.operations])
    weights, priority = accumulated(times, after), rests(times, after)
    pairs = matching(after, weights, priority)
    sequence = in_sequence(graph, threads)
    found = side_by_side(graph, after, priority, threads, memory)
    if max(found[1], default=0.0) > max(sequence[1], default=0.0):
        found = sequence
    streams = _streams(pairs, found)
    of = {number: stream for stream, members in enumerate(streams) for number in members}
    return Schedule(
        graph,
        threads,
        memory,
        tuple(found[0]),
        tuple(found[1]),
        streams,
        sum(of[one] != of[number] for number, before in enumerate(after) for one in before),
        sum(weights[producer] for producer in pairs),
        max(sequence[1], default=0.0),
        _peak(_live(graph, found)),
        _peak(_live(graph, sequence)),
    )


def _streams(pairs: dict[int, int], times: Times) -> tuple[tuple[int, ...], ...]:
    """Chains of matched operations; a chain goes into the first stream in which nothing runs while it does."""
    begins, ends = times
    followers = set(pairs.values())
    streams: list[list[int]] = []
    chains = [_chain(first, pairs) for first in range(len(begins)) if first not in followers]
    for chain in sorted(chains, key=lambda chain: begins[chain[0]]):
        for stream in streams:
            joined = sorted([*stream, *chain], key=lambda number: (begins[number], ends[number]))
            if all(ends[one] <= begins[next_] for one, next_ in itertools.pairwise(joined)):
                stream[:] = joined
                break
        else:
            streams.append(chain)
    return tuple(map(tuple, streams))


def _chain(first: int, pairs: dict[int, int]) -> list[int]:
    chain = [first]
    while chain[-1] in pairs:
        chain.append(pairs[chain[-1]])
    return chain


def _live(graph: Graph, times: Times) -> list[tuple[float, int]]:
    begins, ends = times
    changes: dict[float, int] = {}
    for buffer in graph.buffers:
        begin = min(begins[user] for user in buffer.users)
        changes[begin] = changes.get(begin, 0) + buffer.bytes
        if not buffer.result:
            end = max(ends[user] for user in buffer.users)
            changes[end] = changes.get(end, 0) - buffer.bytes
    found: list[tuple[float, int]] = []
    for time in sorted(changes):
        found.append((time, changes[time] + (found[-1][1] if found else 0)))
    return found


def _peak(live: Sequence[tuple[float, int]]) -> int:
    return max((used for _, used in live), default=0)
