"""The matching of producers with consumers: the pairs of operations that share a stream.

An edge weighs what the path up to its producer takes, so that all edges of a producer weigh the same. Then the sets of
producers that can be matched at once are the independent sets of a matroid, and taking the heaviest producer first
gives a matching of the largest weight (Edmonds and Fulkerson 1965), the weight that the method of Kuhn and Munkres
finds for any weights. Of the matchings of that weight the one is taken whose consumers have the longest rests: the
same from the other side, and one matching has the best producers and the best consumers (Mendelsohn and Dulmage 1958).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from numc.studies.schedule.graph import Before


def matching(after: Before, weights: Sequence[float], rests: Sequence[float]) -> dict[int, int]:
    """Return the consumer of every producer that is matched, each of them at most once.

    after: the edges. weights: of the edges of every producer, above 0. rests: of every consumer, which decide between
    matchings of the same weight.
    """
    consumers: dict[int, list[int]] = {}
    for consumer, producers in enumerate(after):
        for producer in producers:
            consumers.setdefault(producer, []).append(consumer)
    heaviest = sorted(consumers, key=lambda producer: -weights[producer])
    matched = set(_greedy(heaviest, consumers).values())
    of_consumer = {
        consumer: [candidate for candidate in producers if candidate in matched]
        for consumer, producers in enumerate(after)
    }
    return _greedy(sorted(of_consumer, key=lambda consumer: -rests[consumer]), of_consumer)


def _greedy(order: Iterable[int], neighbours: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Match one vertex after the other, where those that are matched can stay so; returns who has each neighbour."""
    partner: dict[int, int] = {}
    mate: dict[int, int] = {}  # the same from the other side
    for start in order:
        reached: dict[int, int] = {}
        waiting = [start]
        free = None
        for vertex in waiting:
            for neighbour in neighbours[vertex]:
                if neighbour in reached:
                    continue
                reached[neighbour] = vertex
                if neighbour not in partner:
                    free = neighbour
                    break
                waiting.append(partner[neighbour])
            if free is not None:
                break
        while free is not None:  # along the path back to the start, everyone takes the next neighbour
            vertex = reached[free]
            partner[free] = vertex
            mate[vertex], free = free, mate.get(vertex)
    return partner
