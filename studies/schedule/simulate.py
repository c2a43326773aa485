"""A simulation of a program whose operations run side by side on shares of the threads, within a limit of memory.

Whenever an operation ends, those that wait for nothing else begin, the one with the longest rest first, as long as
there is a thread for each. Every running operation has one thread, and the other threads are shared out in proportion
to the work that is left in each, as threads of a pool take tasks of any operation that has some.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from numc.studies.schedule.graph import Before, Graph

Times = tuple[list[float], list[float]]
"""When every operation begins, and when it ends, in seconds."""
_SAME = 1e-9
"""Operations that end within this part of a step of the simulation end together."""


def in_sequence(graph: Graph, threads: int) -> Times:
    """Run one operation after the other, each on all threads."""
    times = [operation.seconds(threads) for operation in graph.operations]
    ends = np.cumsum(times).tolist()
    return [0.0, *ends[:-1]][: len(ends)], ends


def side_by_side(graph: Graph, after: Before, priority: Sequence[float], threads: int, memory: int | None) -> Times:
    """Run what waits for nothing else side by side, of the highest priority first.

    memory: the bytes that all buffers may take at once, None for no limit. Where the sequence itself takes more,
    nothing begins early that would take more still.
    """
    count = len(graph.operations)
    waits = [len(set(before)) for before in after]
    followers: list[list[int]] = [[] for _ in range(count)]
    for number, before in enumerate(after):
        for predecessor in set(before):
            followers[predecessor].append(number)
    room = None if memory is None else _Room(graph, memory)
    ready = sorted((n for n in range(count) if not waits[n]), key=lambda n: (-priority[n], n))
    left: dict[int, float] = {}  # of every operation that runs, the part that is still to do
    begins, ends, done = [0.0] * count, [0.0] * count, [False] * count
    now, head = 0.0, 0
    while ready or left:
        for number in list(ready):
            if len(left) == threads:
                break
            if room is None or room.admits(number, head):
                ready.remove(number)
                left[number], begins[number] = 1.0, now
        takes = _seconds(graph, left, threads)
        step = min(left[number] * takes[number] for number in left)
        now += step
        for number in list(left):
            rest = left[number] * takes[number] - step
            if rest > _SAME * step:
                left[number] = rest / takes[number]
                continue
            del left[number]
            ends[number], done[number] = now, True
            for follower in followers[number]:
                waits[follower] -= 1
                if not waits[follower]:
                    ready.append(follower)
        while head < count and done[head]:
            head += 1
        ready.sort(key=lambda n: (-priority[n], n))
    return begins, ends


def _seconds(graph: Graph, left: dict[int, float], threads: int) -> dict[int, float]:
    """The time that each running operation would take as a whole on its share of the threads."""
    work = {number: part * graph.operations[number].parallel for number, part in left.items()}
    total = sum(work.values())
    more = (threads - len(left)) / total if total else 0.0
    return {number: graph.operations[number].seconds(1 + more * work[number]) for number in left}


class _Room:
    """Which operations may begin before it is their turn, so that all that are left still fit into the memory.

    Kept for every operation: the bytes in use if it runs when its turn comes, in the order of the program, including
    the buffers of those that have begun early. The first operation that has not ended may always run.
    """

    def __init__(self, graph: Graph, memory: int) -> None:
        self._memory = memory
        count = len(graph.operations)
        self._used = np.zeros(count + 1, np.int64)
        self._of: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        for number, buffer in enumerate(graph.buffers):
            first, last = buffer.users[0], count if buffer.result else buffer.users[-1] + 1
            self._used[first:last] += buffer.bytes or 0
            for user in buffer.users:
                self._of[user].append((number, first))
        self._bytes = [buffer.bytes or 0 for buffer in graph.buffers]
        self._made: set[int] = set()

    def admits(self, number: int, head: int) -> bool:
        """Whether an operation may begin now, while `head` is the first that has not ended; notes that it does."""
        new = [(buffer, first) for buffer, first in self._of[number] if buffer not in self._made]
        if number != head and new:
            extra = np.zeros(max(number - head, 0), np.int64)
            for buffer, first in new:
                extra[: max(first - head, 0)] += self._bytes[buffer]
            used = self._used[head:number] + extra
            if used.size and used.max() > self._memory:
                return False
            self._used[head:number] = used
        self._made.update(buffer for buffer, _ in new)
        return True
