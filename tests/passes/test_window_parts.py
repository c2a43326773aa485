"""Windows over what is inside of a border: every result depends on the elements of its window that are inside."""

from __future__ import annotations

from itertools import product

import pytest

from numc.passes.tensors.windows.window_parts import Window, segments


@pytest.mark.parametrize(("stride", "dilation", "taps"), product((1, 2, 3), (1, 2), (1, 2, 3, 5)))
def testsegments_have_the_elements_that_are_inside(stride: int, dilation: int, taps: int) -> None:
    for size, before, after in product(range(1, 9), range(4), range(4)):
        span = (taps - 1) * dilation + 1
        count = (before + size + after - span) // stride + 1
        found: dict[int, list[int]] = {}
        for s in segments(Window(0, stride, dilation, taps), count, size, before):
            for n in range(s.size):
                assert s.first + n not in found
                found[s.first + n] = [s.start + n * s.stride + tap * s.dilation for tap in range(s.taps)]
        for n in range(count):
            places = (n * stride + tap * dilation - before for tap in range(taps))
            assert found.pop(n, []) == [place for place in places if 0 <= place < size]
        assert not found
