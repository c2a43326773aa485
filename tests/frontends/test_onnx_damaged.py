"""Damaged ONNX files: a NumcError or success, never anything else."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numc.frontends.onnx import load as frontend
from numc.frontends.onnx import prepare
from numc.frontends.onnx.reading import read
from numc.support.errors import NumcError

MLP = (Path(__file__).resolve().parents[2] / "examples" / "digits" / "mlp.onnx").read_bytes()
# Most bytes are weights, where any value is good: aim at the structure at both ends, too.
POSITIONS = st.one_of(st.integers(0, len(MLP) - 1), st.integers(0, 2000), st.integers(len(MLP) - 400, len(MLP) - 1))
EDITS = st.lists(st.tuples(POSITIONS, st.integers(1, 255)), min_size=1, max_size=4)


def damage(edits: list[tuple[int, int]], length: int) -> bytes:
    data = bytearray(MLP)
    for position, bits in edits:
        data[position] ^= bits
    return bytes(data[:length])


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=EDITS, length=st.one_of(st.just(len(MLP)), st.integers(0, len(MLP))))
def test_reading_raises_numc_errors_only(tmp_path: Path, edits: list[tuple[int, int]], length: int) -> None:
    file = tmp_path / "m.onnx"
    file.write_bytes(damage(edits, length))
    with contextlib.suppress(NumcError):
        found = read.read(file)
        prepare.prepare(found.model, {}, found.large)


@pytest.mark.parametrize("seed", range(6))
def test_loading_raises_numc_errors_only(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    file = tmp_path / "m.onnx"
    file.write_bytes(damage([(rng.randrange(1500), rng.randrange(1, 256)) for _ in range(2)], len(MLP)))
    message = ""
    try:
        frontend.load(file)
    except NumcError as error:
        message = str(error)
    assert "\n" not in message
    # An exception that nobody foresaw would be a CompilerBug.
