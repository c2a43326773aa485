"""The table of what generated code and the C++ runtime share, and the header that is written from it."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from numc.passes.kernels.abi import CONSTANTS, DESCRIPTOR, STREAM, STRUCTURES, TASK_CONTEXT

TOOL = Path(__file__).parents[2] / "tools" / "write_abi.py"


@pytest.fixture(scope="module")
def tool():
    return runpy.run_path(str(TOOL))


def test_the_header_is_what_the_table_gives(tool):
    assert tool["HEADER"].read_text() == tool["header_text"](), (
        "run `python tools/write_abi.py` and compile the runtime again"
    )


def test_a_stale_header_is_named_with_the_command_to_run(tool, tmp_path, capsys):
    header = tmp_path / "abi.hpp"
    main = tool["main"]
    main.__globals__["HEADER"] = header
    try:
        header.write_text("struct Descriptor;\n")
        assert main(["--check"]) == 1
        assert "run `python tools/write_abi.py`" in capsys.readouterr().err
        assert main([]) == 0
        assert main(["--check"]) == 0
    finally:
        main.__globals__["HEADER"] = tool["HEADER"]


def test_words_are_counted_over_arrays():
    assert [DESCRIPTOR.word(name) for name in ("width", "largest", "random", "dims")] == [0, 9, 21, 22]
    assert DESCRIPTOR.words == 26
    assert TASK_CONTEXT.words == len(TASK_CONTEXT.names) == 41
    assert STREAM.words == 4
    assert TASK_CONTEXT.field("rows").mlir_type == "i64"
    assert TASK_CONTEXT.field("probe").mlir_type == "!llvm.ptr"
    with pytest.raises(KeyError):
        DESCRIPTOR.word("height")


def test_values_are_put_in_order():
    values = {name: n for n, name in enumerate(reversed(DESCRIPTOR.names))}
    lists = {"strides": [18, 19], "largest": [20, 21], "widths": [22, 23, 24], "slots": [25, 26], "measures": [27, 28]}
    values |= {**lists, "dims": [30, 31, 32, 33]}
    assert DESCRIPTOR.in_order(values) == [16, 15, 14, 13, 12, 11, 10, *range(18, 29), 4, 3, 2, 1, 30, 31, 32, 33]
    with pytest.raises(ValueError, match="got values of .* want"):
        DESCRIPTOR.in_order({**values, "height": 1})
    with pytest.raises(ValueError, match="Descriptor.dims: got 1 words, want 4"):
        DESCRIPTOR.in_order({**values, "dims": 1})


def test_everything_in_the_table_is_described():
    for structure in STRUCTURES:
        for field in (structure, *structure.fields):
            assert field.about.endswith("."), field.name
    assert CONSTANTS["CHANNELS"] == -1
    assert all(constant.about.endswith(".") for constant in CONSTANTS.values())
