"""The schedule of a program: streams of operations, when each runs, and the memory that is in use."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import Any

from numc.studies.schedule.graph import Graph, accumulated, reduced, rests
from numc.studies.schedule.matching import matching
from numc.studies.schedule.simulate import Times, in_sequence, side_by_side
from numc.studies.schedule.timeline import draw
from numc.support.arguments import checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError
from numc.support.files import checked_path

MOST_THREADS = 4096


@in_default_environment
@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Operations side by side on shares of the threads, as a simulation has them.

    threads: of the machine. memory: the limit in bytes that buffers had, None for none. begins, ends: of every
    operation, in seconds. streams: numbers of operations, each in one stream; those of a stream run one after the
    other. waits: how many times an operation waits for one of another stream. weight: of the matching. sequence: the
    seconds of all operations one after the other, each on all threads. peak, sequence_peak: the most bytes that buffers
    take at once, side by side and in sequence; None if the size of one is known at run time only.
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
    peak: int | None
    sequence_peak: int | None

    @property
    def seconds(self) -> float:
        """The time until the last operation has ended."""
        return max(self.ends, default=0.0)

    @property
    def speedup(self) -> float:
        """The time of the sequence divided by that of the schedule."""
        return self.sequence / self.seconds if self.seconds else 1.0

    @property
    def idle(self) -> float:
        """The share of the time in which threads have nothing to do in the sequence."""
        work = sum(operation.seconds(1) for operation in self.graph.operations)
        return max(0.0, 1 - work / (self.sequence * self.threads)) if self.sequence else 0.0

    def live(self) -> list[tuple[float, int]]:
        """Return the seconds at which the bytes in use change, and how many bytes are in use from then on.

        Empty if the size of a buffer is known at run time only.
        """
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

    def __str__(self) -> str:
        limit = "" if self.memory is None else f", at most {self.memory / 2**20:.1f} MiB"
        return (
            f"{self.threads} threads{limit}: {1e3 * self.sequence:.3f} ms one after the other"
            f" ({self.idle:.0%} idle{_buffers(self.sequence_peak)}), {1e3 * self.seconds:.3f} ms side by side"
            f" ({self.speedup:.3f}x{_buffers(self.peak)}, streams: {len(self.streams)})"
        )

    def write(self, path: str | os.PathLike[str]) -> None:
        """Draw the streams over time, and the bytes in use, as a file that ends in .svg or .png.

        Raises NumcError for another name, if the file cannot be written, or if what makes a .png is not installed
        (`numc[report]`).
        """
        of = {number: stream for stream, members in enumerate(self.streams) for number in members}
        operations = self.graph.operations
        of_roles = len({operation.role for operation in operations if operation.role}) > 1  # else the kinds say more
        names = [(operation.role if of_roles else "") or operation.kind or "operation" for operation in operations]
        bars = [(of[n], self.begins[n], self.ends[n], name) for n, name in enumerate(names)]
        memory = {"side by side": self.live(), "one after the other": self.sequence_live()}
        if not self.graph.has_sizes:
            memory = {}
        draw(
            checked_path(path),
            f"{self.threads} threads, {self.speedup:.2f}x",
            bars,
            memory,
            max(self.seconds, self.sequence),
        )

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
    beside it that would take more still. Raises NumcError for numbers that are not positive, and for a limit of buffers
    whose sizes are free.
    """
    checked_integer(threads, "threads", 1, MOST_THREADS)
    if memory is not None:
        checked_integer(memory, "memory", 1, 1 << 60)
        if not graph.has_sizes:
            raise NumcError("memory: sizes of buffers are free: compile with fixed shapes, or leave the limit out")
    times = [operation.seconds(threads) for operation in graph.operations]
    after = reduced([operation.after for operation in graph.operations])
    weights, priority = accumulated(times, after), rests(times, after)
    pairs = matching(after, weights, priority)
    sequence = in_sequence(graph, threads)
    chosen_times = side_by_side(graph, after, priority, threads, memory)
    if max(chosen_times[1], default=0.0) > max(sequence[1], default=0.0):
        chosen_times = sequence
    streams = _streams(pairs, chosen_times)
    of = {number: stream for stream, members in enumerate(streams) for number in members}
    return Schedule(
        graph=graph,
        threads=threads,
        memory=memory,
        begins=tuple(chosen_times[0]),
        ends=tuple(chosen_times[1]),
        streams=streams,
        waits=sum(of[predecessor] != of[number] for number, before in enumerate(after) for predecessor in before),
        weight=sum(weights[producer] for producer in pairs),
        sequence=max(sequence[1], default=0.0),
        peak=_peak(graph, chosen_times),
        sequence_peak=_peak(graph, sequence),
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
            if all(ends[previous] <= begins[next_] for previous, next_ in itertools.pairwise(joined)):
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
    if not graph.has_sizes:
        return []
    begins, ends = times
    changes: dict[float, int] = {}
    for buffer in graph.buffers:
        size, users = buffer.bytes or 0, buffer.users
        begin, end = min(begins[user] for user in users), max(ends[user] for user in users)
        changes[begin] = changes.get(begin, 0) + size
        if not buffer.result:
            changes[end] = changes.get(end, 0) - size
    usage: list[tuple[float, int]] = []
    for time in sorted(changes):
        usage.append((time, changes[time] + (usage[-1][1] if usage else 0)))
    return usage


def _peak(graph: Graph, times: Times) -> int | None:
    return max((used for _, used in _live(graph, times)), default=0) if graph.has_sizes else None


def _buffers(peak: int | None) -> str:
    return "" if peak is None else f", {peak / 2**20:.1f} MiB of buffers"
