"""A kind of format is known by its own files, and by nothing else."""

from __future__ import annotations

import re

import pytest

from numc.numerics.kinds import GROUP_FORMATS, KINDS, Bfp, Int
from numc.passes.kernels.values.kinds import CODE
from rooms import ROOMS, ROOT

SOURCES = [path for folder in ROOMS for path in (ROOT / folder).rglob("*.py")]
CLASSES = "|".join(kind.__name__ for kind in CODE)


@pytest.mark.parametrize("pattern", [rf"isinstance\([^)]*\b({CLASSES})\b", rf"(?<!aten\.)\b({CLASSES})\b"])
def test_no_other_file_asks_for_the_kind(pattern: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in SOURCES
        if path.parent.name != "kinds"
        for line in path.read_text().splitlines()
        if re.search(pattern, line)
    ]
    assert not found


def test_every_kind_has_code() -> None:
    assert set(CODE) == {type(fmt) for kind in KINDS for fmt in kind.formats.values()}


@pytest.mark.parametrize("name", GROUP_FORMATS)
def test_storage_of_a_group(name: str) -> None:
    fmt = GROUP_FORMATS[name]
    size = fmt.group or 1
    assert fmt.bits_per_value * size == fmt.group_bits(size)


def test_what_the_kinds_say() -> None:
    assert Bfp(16, 3, 4).parts("fmac2") == 2
    assert Bfp(16, 3, 4).parts("fp32") == 1
    assert Bfp(16, 3, 5).leading(2) == Bfp(16, 3, 4)
    assert Int(8).leading(1) == Int(8)
    assert [GROUP_FORMATS[name].most_units for name in ("highbfp", "mxfp4", "mxint8", "int8")] == [15, 12, 127, 127]
    assert all(fmt.encoding or fmt.single for fmt in GROUP_FORMATS.values())
    assert not GROUP_FORMATS["mxfp4"].shares_tensor
    assert GROUP_FORMATS["nvfp4"].shares_tensor
