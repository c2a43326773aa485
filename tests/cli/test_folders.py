"""Folders of language models where commands take a model."""

from __future__ import annotations

import json
import re
import shlex
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


@pytest.mark.slow
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


@pytest.fixture(scope="module")
def tuned(tmp_path_factory) -> Path:
    """The same model with other weights in its second product."""
    import torch

    model = tiny_language.gpt2()
    with torch.no_grad():
        model.transformer.h[0].mlp.c_proj.weight.mul_(1.5)
    return tiny_language.save(model, tmp_path_factory.mktemp("models") / "tuned")


@pytest.mark.slow
def test_diff_of_one_folder_under_two_units(numc_run, tiny, tokens):
    """Four windows of 16 tokens: the sums of four runs of two programs are those of the rows."""
    windows = ["--tokens", tokens, "--length", "16"]
    done = numc_run("diff", tiny, "--fma", "hopper_bf16,cdna3_bf16", *windows, "--json")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert {(row["fma_a"], row["fma_b"]) for row in found["layers"]} == {("hopper_bf16", "cdna3_bf16")}
    assert {row["executions"] for row in found["layers"]} == {4}
    hopper, cdna3 = (numc.compile(tiny, fma=fma) for fma in ("hopper_bf16", "cdna3_bf16"))
    text = np.load(tokens).reshape(4, 1, 16)
    differ = sum((hopper(window) != cdna3(window)).sum() for window in text)
    assert 0 < differ == found["outputs"][0]["difference"]["differ"]
    again = numc_run("diff", tiny, tiny, "--fma", "hopper_bf16,cdna3_bf16", *windows, "--json")
    assert json.loads(again.out) == found


@pytest.mark.slow
def test_diff_of_two_folders(numc_run, tiny, tuned, tokens, tmp_path):
    windows = ["--tokens", tokens, "--length", "16"]
    found = json.loads(numc_run("diff", tiny, tuned, "--fma", "mp", *windows, "--json").out)
    assert found["first"] == "model.transformer.h.0.mlp.c_proj"
    assert numc_run("compile", tiny, "--fma", "mp", "-o", tmp_path / "tiny.numc").status == 0
    same = numc_run("diff", tmp_path / "tiny.numc", tiny, "--fma", "mp", *windows)
    assert same.out.splitlines()[-1] == "no difference: every bit that was compared is the same"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["FOLDER"], "--fma: got 0 operators for one model: want two with a comma between them"),
        (["FOLDER", "FOLDER", "--fma", "mp,fp32,mp"], "--fma: got 3 operators for 2 models: want one for all, or one"),
        (["FOLDER", "x.numc", "--fma", "mp,fp32"], "--fma: got 2 operators for 1 model: want one for all, or one for"),
        (["x.numc"], "x.numc: is one program: want two, or a model and --fma A,B"),
        (["FOLDER", "FOLDER", "--fma", "mp,mpp"], "unknown FMA operator 'mpp'"),
    ],
)
def test_what_diff_refuses(numc_run, tiny, tokens, arguments, message):
    refused = numc_run("diff", *(tiny if a == "FOLDER" else a for a in arguments), "--tokens", tokens, "--length", "8")
    assert refused.status == 2
    assert message in refused.error


@pytest.fixture(scope="module")
def tokens(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "text.npy"
    np.save(path, np.random.default_rng(0).integers(0, tiny_language.VOCABULARY, 64))
    return path


@pytest.mark.slow
def test_a_search_judges_by_the_windows_of_compare(numc_run, tiny, tokens):
    windows = ["--tokens", tokens, "--length", "16"]
    reported = numc_run("search", tiny, *windows, "--tolerance", "1%", "--metric", "perplexity",
                        "--report-tokens", tokens, "--by", "model", "--operators", "mp",
                        "--objective", "area", "--json")  # fmt: skip
    assert reported.status == 0, reported.err
    fp32 = next(row for row in json.loads(reported.out)["rows"] if row["name"] == "fp32")
    assert fp32["search"] == fp32["report"]
    compared = json.loads(numc_run("compare", tiny, *windows, "--metric", "perplexity", "--fma", "mp",
                                   "--no-stats", "--json").out)  # fmt: skip
    assert compared["results"][0]["metrics"]["perplexity"] == pytest.approx(fp32["search"], rel=1e-6)


@pytest.mark.slow
def test_halves_of_windows_and_bisect(numc_run, tiny, tokens):
    windows = ["--tokens", tokens, "--length", "16"]
    found = numc_run("search", tiny, *windows, "--tolerance", "1%", "--metric", "perplexity",
                     "--by", "model", "--operators", "bf16_1_1,mp", "--objective", "area", "--json")  # fmt: skip
    assert found.status == 0, found.err
    assert json.loads(found.out)["samples"] == {"search": 2, "report": 2}
    bisected = numc_run("bisect", tiny, *windows, "--fma", "fmac(e5m2)", "--tolerance", "1e-4", "--json")
    assert bisected.status == 0, bisected.err
    assert json.loads(bisected.out)["layers"]


@pytest.mark.slow
def test_the_command_of_the_readme_under_six_units(numc_run, tiny, tmp_path):
    """As it stands there, but for the folder, the text and the length of windows."""
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^numc (compare gpt2/ [^\\]*\\\n.*)$", readme, flags=re.MULTILINE)
    np.random.default_rng(0).integers(0, tiny_language.VOCABULARY, 64).astype(np.uint16).tofile(tmp_path / "val.bin")
    own = {"gpt2/": str(tiny), "val.bin": str(tmp_path / "val.bin"), "512": "16"}
    done = numc_run(*(own.get(word, word) for word in shlex.split(command.replace("\\\n", " "))), "--json")
    assert done.status == 0, done.err
    fp32, *units = json.loads(done.out)["results"]
    assert fp32["name"] == "fp32"
    assert len(units) == 6
    assert {unit["name"] for unit in units} <= set(numc.units)
    assert len({unit["metrics"]["perplexity"] for unit in units}) >= 5
    near = pytest.approx(fp32["metrics"]["perplexity"], rel=0.05)
    assert all(unit["metrics"]["perplexity"] == near for unit in units)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["search", "--tolerance", "1%", "--report-tokens", "x.npy", "--data", "x.npy"],
            "--report-tokens needs --tokens",
        ),
        (["search", "--tolerance", "1%", "--length", "8"], "--length is about --tokens: give --tokens FILE"),
        (
            ["bisect", "--fma", "mp", "--tolerance", "1"],
            "nothing to run the model on: give --data FILE, or --token",
        ),
        (["bisect", "--fma", "mp", "--tolerance", "1", "--tokens", "TOKENS"], "--tokens needs --length N"),
    ],
)
def test_what_studies_refuse(numc_run, tiny, tokens, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((2, 8), np.float32))
    command, *rest = (str(tokens) if a == "TOKENS" else a for a in arguments)
    refused = numc_run(command, tiny, *rest)
    assert refused.status == 2
    assert message in refused.err
