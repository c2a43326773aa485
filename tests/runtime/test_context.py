"""Blocks that are open around runs: the innermost counts, and each end closes its own."""

from __future__ import annotations

from numc.runtime.context import CONTEXT, Blocks


def test_blocks_end_in_any_order() -> None:
    blocks: Blocks[list[int]] = Blocks()
    first, second = blocks.around([1]), blocks.around([1])
    one, other = first.__enter__(), second.__enter__()
    assert blocks[-1] is other
    first.__exit__(None, None, None)
    assert len(blocks) == 1
    assert blocks[0] is other is not one
    second.__exit__(None, None, None)
    assert not blocks


def test_one_value_may_be_open_twice() -> None:
    blocks: Blocks[str] = Blocks()
    with blocks.around("mp"):
        with blocks.around("mp"):
            assert blocks == ["mp", "mp"]
        assert blocks == ["mp"]


def test_no_block_stays_open() -> None:
    assert not any(vars(CONTEXT).values())
