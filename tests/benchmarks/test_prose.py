"""Numbers in sentences that say what a table of the same pages says: they are those of the table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GEMM, TRAINING = ("docs/performance.md", "gemm"), ("docs/performance.md", "training")


def cell(table: tuple[str, str], row: str, column: str) -> float:
    """A number of a rendered table."""
    page, name = table
    block = re.search(rf"<!-- benchmarks: {name} -->\n(.*?)<!-- end -->", (ROOT / page).read_text(), re.DOTALL)
    assert block is not None
    head, _, *rows = ([part.strip() for part in line.strip("|\n").split("|")] for line in block[1].splitlines())
    numbers = next(each for each in rows if each[0].strip("`") == row)
    return float(numbers[head.index(column)].split()[0])


def over_fp32(operator: str) -> str:
    return f"{cell(GEMM, operator, 'time / numc fp32'):.2f}"


def of_sgemm(operator: str) -> str:
    sizes = [cell(GEMM, operator, size) for size in ("512x512x512", "1024x1024x1024", "3136x64x576")]
    return f"{min(sizes):.2f} to {max(sizes):.2f}"


def of_a_step(column: str) -> str:
    return f"{cell(TRAINING, 'geometric mean', f'`{column}`'):.2f}"


SENTENCES = [
    ("README.md", r"a step of seven networks takes ([\d.]+) of the time", lambda: of_a_step("fp32")),
    ("README.md", r"and ([\d.]+) with every multiply-add of all three", lambda: of_a_step("bf16_1_1")),
    ("README.md", r"products in `avx512_bf16` take\n([\d.]+) of the time", lambda: over_fp32("avx512_bf16")),
    ("README.md", r"and products in `int8` ([\d.]+):", lambda: over_fp32("int8")),
    ("docs/other-emulators.md", r"measured: ([\d.]+ to [\d.]+) times the time of torch", lambda: of_sgemm("bf16_1_1")),
]


@pytest.mark.parametrize(("page", "sentence", "want"), SENTENCES)
def test_a_number_in_a_sentence_is_that_of_the_table(page: str, sentence: str, want) -> None:
    match = re.search(sentence, (ROOT / page).read_text())
    assert match is not None, sentence
    assert match[1] == want()
