"""Folders of language models where commands take a model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import numc

pytest.importorskip("transformers")

import tiny_language


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return tiny_language.save(tiny_language.gpt2(), tmp_path_factory.mktemp("models") / "tiny")


def _logits(tokens):
    import torch

    with torch.no_grad():
        return tiny_language.gpt2()(torch.from_numpy(tokens)).logits.numpy()


@pytest.mark.all
def test_compile_and_run(numc_run, tiny, tmp_path):
    """Batch and length are free; the second time, the program comes from the cache."""
    assert numc_run("compile", tiny, "-o", tmp_path / "tiny.numc").status == 0
    program = numc.load(tmp_path / "tiny.numc")
    assert [(i.name, i.dtype) for i in program.inputs] == [("input_ids", "int64")]
    for shape in ((1, 5), (3, 11)):
        tokens = np.random.default_rng(0).integers(0, tiny_language.VOCABULARY, shape)
        np.testing.assert_allclose(program(tokens), _logits(tokens), atol=1e-4)
    assert numc_run("verify", tmp_path / "tiny.numc", "--samples", "20").status == 0
    with pytest.raises(numc.NumcError, match="length"):
        program(np.zeros((1, tiny_language.CONTEXT + 1), np.int64))


@pytest.mark.all
def test_sizes_are_fixed(numc_run, tiny, tmp_path):
    rows = json.loads(numc_run("explain", tiny, "--fma", "mp", "--shape", "input_ids=1x8", "--json").out)
    assert {row["fma"] for row in rows["layers"] if row["fma"]} == {"mp"}
    assert "total" in numc_run("cost", tiny, "--shape", "input_ids=1x8").out
    assert numc_run("verify", tiny, "--shape", "input_ids=2x8", "--samples", "5").status == 0
    program = numc.compile(tiny, fma="mp", shapes={"input_ids": (2, 8)})
    assert program.inputs[0].shape == (2, 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["FOLDER", "--shape", "x=1x8"], "'x': want --shape input_ids=BATCHxLENGTH, or none"),
        (["FOLDER", "--shape", "input_ids=8"], "'input_ids': want --shape input_ids=BATCHxLENGTH, or none"),
        (["EMPTY"], "has no config.json: want a folder with config.json and *.safetensors"),
    ],
)
def test_what_is_refused(numc_run, tiny, tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    names = {"FOLDER": str(tiny), "EMPTY": str(tmp_path / "empty")}
    refused = numc_run("compile", *(names.get(a, a) for a in arguments))
    assert refused.status == 2
    assert message in refused.err


def test_a_folder_is_no_program(numc_run, tiny):
    refused = numc_run("diff", tiny, tiny, "--data", "x.npz")
    assert refused.status == 2
    assert "is a model: compile it" in refused.err
