"""Large backward passes in several programs: with the same gradients to the bit, and with less in memory."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import fx, nn  # noqa: E402

import numc  # noqa: E402
from numc.compiler.torch_compile.graphs import cuts  # noqa: E402
from numc.compiler.torch_compile.regions import Region  # noqa: E402
from tests.training.test_recompute import Normalised  # noqa: E402
from tests.training.test_saved import SWITCH, Attention, Recurrent, bits, convolutions  # noqa: E402


class Tied(nn.Module):
    """A weight that several layers have, whose gradients are summed up, and a part that torch runs."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [n, 8]."""
        for _ in range(3):
            x = x + self.dense(x).relu()
        x = x.scatter_add(1, torch.arange(8).expand(len(x), 8), x * x)
        return self.dense(x).sigmoid()


FAMILIES = {
    "convolutions": (convolutions, lambda: torch.randn(2, 2, 12, 12)),
    "normalised": (Normalised, lambda: torch.randn(4, 3, 7, 7)),
    "attention": (Attention, lambda: torch.arange(10).reshape(2, 5)),
    "recurrent": (Recurrent, lambda: torch.randn(3, 4, 6)),
    "tied": (Tied, lambda: torch.randn(5, 8)),
}


@pytest.fixture
def anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut small graphs, too."""
    monkeypatch.setattr(cuts, "LEAST_BYTES", 1)


@pytest.mark.usefixtures("anything")
@pytest.mark.parametrize(
    ("family", "arithmetic"),
    [
        ("convolutions", "mp"),
        ("tied", "mp"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                *(("normalised", name) for name in ("hfp8", "highbfp", "bf16_2_2")),
                *(("attention", name) for name in ("mxfp8", "midbfp")),
                ("recurrent", "fp32"),
            )
        ),
    ],
)
def test_no_bit_changes(family: str, arithmetic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    make, inputs = FAMILIES[family]
    model, x = make(), inputs()
    several, backend = bits(model, x, arithmetic)
    monkeypatch.setenv(SWITCH, "cut-backward")
    one, whole = bits(model, x, arithmetic)
    assert all(torch.equal(*each) for each in zip(several, one, strict=True))
    repeats = backend.arithmetic.policy().repeats_products
    assert (len(backend.regions) > len(whole.regions)) == repeats  # random bits depend on what is in a program


@pytest.mark.usefixtures("anything")
@pytest.mark.parametrize("again", [False, True])
def test_each_part_frees_what_it_has_read(again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a part of the backward pass begins, kept tensors that only earlier parts have read are gone."""
    torch._dynamo.reset()
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(6)))
    backend, stays = numc.backend(), {p.data_ptr() for p in model.parameters()}
    seen: list[list[weakref.ref[torch.Tensor]]] = []
    alive: list[int] = []
    theirs = Region.__call__

    def call(self: Region, *given: Any) -> Any:
        alive.append(sum(each() is not None and each() not in set(given) for part in seen for each in part))
        seen.append([weakref.ref(each) for each in given if each.data_ptr() not in stays])
        return theirs(self, *given)

    result = torch.compile(model, backend=backend)(torch.randn(4, 8))
    assert len(backend.regions) == 1 + cuts.PARTS
    monkeypatch.setattr(Region, "__call__", call)
    result.sum().backward(retain_graph=again)
    assert len(seen) == cuts.PARTS
    assert all(map(len, seen))
    assert any(alive) == again


def graph_of(*places: tuple[int, tuple[int, ...]]) -> fx.Graph:
    """A chain of sixteen operations, whose results have 4 bytes, and kept tensors: their elements and readers."""
    graph = fx.Graph()
    before = graph.placeholder("tangents_1")
    before.meta["val"] = torch.empty(1)
    kept = []
    for number, (elements, _) in enumerate(places):
        kept.append(graph.placeholder(f"kept_{number}"))
        kept[-1].meta["val"] = torch.empty(elements)
    for number in range(16):
        given = [node for node, (_, readers) in zip(kept, places, strict=True) if number in readers]
        before = graph.call_function(torch.add, (before, *given), name=f"n{number}")
        before.meta["val"] = torch.empty(1)
    graph.output(before)
    return graph


@pytest.mark.usefixtures("anything")
def test_cuts_are_where_few_bytes_cross() -> None:
    def begins(elements: int, *places: tuple[int, tuple[int, ...]]) -> set[str]:
        equal = [(elements, (number,)) for number in range(16)]
        return {node.name for node in cuts.cuts(graph_of(*equal, *places))}

    assert begins(8) == {"n4", "n8", "n12"}
    assert begins(8, (1, (3, 4))) == {"n3", "n8", "n12"}  # what two parts read stays for both
    assert begins(8, (1, (0, 15))) == {"n4", "n8", "n12"}  # it stays wherever the cuts are


@pytest.mark.usefixtures("anything")
def test_a_graph_that_keeps_nothing() -> None:
    assert not cuts.cuts(graph_of())


def test_small_graphs_are_not_cut() -> None:
    assert not cuts.cuts(graph_of(*[(8, (number,)) for number in range(16)]))
    for elements, parts in ((300_000, set()), (400_000, {"n8"}), (2**20, {"n4", "n8", "n12"})):
        large = graph_of(*[(elements, (number,)) for number in range(16)])
        assert {node.name for node in cuts.cuts(large)} == parts
