"""The dependences of parts: a program whose parts run in any other order that they allow computes the same bits."""

from __future__ import annotations

import dataclasses
import random

import pytest
import torch
from torch_mlir import ir

import numc
from numc.compiler import pipeline
from numc.frontends.parse import parse_module
from numc.passes import facts, linalg
from numc.passes.buffers.dependences import BUFFERS
from numc.passes.vector.mark_parts import PARTS, buffers_of, mark_parts, parts_of

X = torch.randn(3, 2, 6, generator=torch.Generator().manual_seed(1))


class Branches(torch.nn.Module):
    """Branches that are joined, a recurrent network, attention, a scatter, and a sum of all."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convs = torch.nn.ModuleList(torch.nn.Conv1d(2, 3, n, padding=n // 2) for n in (1, 3, 5))
        self.lstm = torch.nn.LSTM(6, 6, bidirectional=True)
        self.qkv = torch.nn.ModuleList(torch.nn.Linear(12, 12) for _ in range(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        joined = torch.cat([torch.relu(conv(x)) for conv in self.convs], 1)
        states, last = self.lstm(x)
        q, k, v = (each(states) for each in self.qkv)
        seen = torch.softmax(q @ k.transpose(1, 2), -1) @ v
        spread = torch.zeros(4, 12).index_add(0, torch.tensor([0, 2, 2]), seen[:, 0])
        return joined * spread.sum(), seen + states, last[0], spread


def text_of(*parts: tuple[str, str]) -> str:
    """A program that copies between buffers: parts of (from, to)."""
    kinds = {"row": "memref<8xf32, strided<[1], offset: 16>>", "other": "memref<8xf32, strided<[1], offset: 8>>"}
    kinds |= {"any": "memref<8xf32, strided<[1], offset: ?>>", "flat": kinds["row"]}
    body = "".join(
        f'linalg.generic {{indexing_maps = [#map, #map], iterator_types = ["parallel"]}}'
        f" ins(%{a} : {kinds.get(a, 'memref<8xf32>')}) outs(%{b} : {kinds.get(b, 'memref<8xf32>')}) {{\n"
        "^bb0(%x: f32, %y: f32): linalg.yield %x : f32 }\n"
        for a, b in parts
    )
    return f"""#map = affine_map<(i) -> (i)>
func.func @main(%a: memref<8xf32>, %b: memref<8xf32>, %n: index, %s: memref<1xindex>) -> memref<8xf32> {{
  %whole = memref.alloc() : memref<4x8xf32>
  %c = memref.alloc() : memref<8xf32>
  %row = memref.subview %whole[2, 0] [1, 8] [1, 1] : memref<4x8xf32> to {kinds["row"]}
  %other = memref.subview %whole[1, 0] [1, 8] [1, 1] : memref<4x8xf32> to {kinds["other"]}
  %any = memref.subview %whole[%n, 0] [1, 8] [1, 1] : memref<4x8xf32> to {kinds["any"]}
  %line = memref.reshape %whole(%s) : (memref<4x8xf32>, memref<1xindex>) -> memref<32xf32>
  %flat = memref.subview %line[16] [8] [1] : memref<32xf32> to {kinds["flat"]}
  {body} return %c : memref<8xf32>
}}"""


@pytest.mark.parametrize(
    ("parts", "after"),
    [
        ([("a", "b"), ("b", "c")], [[], [0]]),  # what was written is read
        ([("a", "c"), ("b", "a")], [[], [0]]),  # what was read is written over
        ([("a", "c"), ("b", "c")], [[], [0]]),  # what was written is written over
        ([("a", "b"), ("a", "c")], [[], []]),  # two readers
        ([("a", "row"), ("b", "other"), ("row", "c")], [[], [], [0]]),  # rows that are apart
        ([("a", "row"), ("b", "other"), ("any", "c")], [[], [], [0, 1]]),  # a row that the run chooses
        ([("a", "row"), ("b", "flat"), ("row", "c")], [[], [0], [1]]),  # a part of the same memory in another shape
    ],
)
def test_parts_wait_for_those_that_use_the_same_memory(parts: list[tuple[str, str]], after: list[list[int]]) -> None:
    module = parse_module(text_of(*parts), "<text>").operation
    mark_parts(module)
    assert [part.after for part in parts_of(module)] == after
    names = {"whole": 128, "c": 32}
    views = {"row": "whole", "other": "whole", "any": "whole", "flat": "whole", "c": "c"}
    users = {name: [n for n, part in enumerate(parts) if name in map(views.get, part)] for name in names}
    used = {buffer.bytes: buffer for buffer in buffers_of(module)}
    assert {size: buffer.parts for size, buffer in used.items()} == {
        names[name]: numbers for name, numbers in users.items() if numbers
    }
    assert used[32].result
    assert 128 not in used or not used[128].result


def shuffled(module: ir.Operation, seed: int) -> int:
    """Let the parts of @main run in another order that `after` allows; returns how many have another place."""
    block = linalg.main(module).regions[0].blocks[0]
    all_parts, units, of_unit, marked = parts_of(module), [], [], []
    for op in [op.operation for op in block.operations]:
        if op.name == "llvm.call":
            marked = [n for n in (linalg.integer(op.operands[0]),) if n is not None and n >= 0]
            op.erase()
            continue
        if op.regions and not marked:  # a loop with parts in it
            marks = [linalg.integer(one.operands[0]) for one in linalg.operations(op, "llvm.call")]
            marked = [n for n in marks if n is not None and n >= 0]
        if marked:
            units.append(op)
            of_unit.append(set(marked))
            marked = []
    end = [op.operation for op in block.operations][-1]
    for op in [op.operation for op in block.operations]:
        if op.name == "memref.dealloc":
            op.move_before(end)  # buffers stay until nothing can use them any more
    for op in [op.operation for op in block.operations]:
        if op not in units and op.name not in ("memref.dealloc", "func.return"):
            op.move_before(units[0])  # views and allocations, which need no part
    first_free = next(op.operation for op in block.operations if op.operation.name == "memref.dealloc")
    after = [{one for n in numbers for one in all_parts[n].after} - numbers for numbers in of_unit]
    waiting, order, drawn = dict(enumerate(units)), [], random.Random(seed)
    while waiting:
        left = set().union(*(of_unit[n] for n in waiting))
        number = drawn.choice([n for n in waiting if not after[n] & left])
        order.append(number)
        waiting.pop(number).move_before(first_free)
    for name in (PARTS, BUFFERS):
        facts.put(module, name, [])
    return sum(n != number for n, number in enumerate(order))


@pytest.mark.all
def test_any_order_that_parts_allow_computes_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    exported = torch.export.export(Branches(), (X,))
    program = numc.compile(exported)
    plain = program(X.numpy())
    assert all(one < n for n, part in enumerate(program.manifest["parts"]) for one in part["after"])
    for seed in (1, 2):
        moved: list[int] = []

        def run(module: ir.Module, _: object, seed: int = seed, moved: list[int] = moved) -> None:
            mark_parts(module.operation)
            moved.append(shuffled(module.operation, seed))

        marks = dataclasses.replace(pipeline.STAGES["vector"]["mark-parts"], run=run)
        monkeypatch.setitem(pipeline.STAGES["vector"], "mark-parts", marks)
        other = numc.compile(exported, cache=False)(X.numpy())
        assert max(moved) > 10
        assert {name: value.tobytes() for name, value in other.items()} == {
            name: value.tobytes() for name, value in plain.items()
        }
