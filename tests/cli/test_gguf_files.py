"""GGUF files where commands take a model."""

from __future__ import annotations

import json
from importlib import util
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")
pytest.importorskip("gguf")

import gguf
import torch
from gguf import GGMLQuantizationType as Type

import gguf_files
from numc.frontends.pytorch.folder import LanguageModel


@pytest.mark.slow
def test_commands(numc_run, tmp_path: Path) -> None:
    gguf_files.written(tmp_path / "tiny.gguf", gguf_files.llama(), Type.Q4_0)
    made = json.loads(numc_run("generate", "tiny.gguf", "--prompt", "Once", "--max-new-tokens", "4", "--json").out)
    model, given = LanguageModel(tmp_path / "tiny.gguf").model, torch.tensor([made["prompt_tokens"]])
    eager = model.generate(given, max_new_tokens=4, do_sample=False, attention_mask=torch.ones_like(given))
    assert made["tokens"] == eager[0, given.shape[1] :].tolist()
    explained = json.loads(numc_run("explain", "tiny.gguf", "--shape", "input_ids=1x8", "--json").out)
    assert explained["quantised"] == "gguf (9 tensors in Q4_0, 3 tensors in F32)"
    np.save(tmp_path / "tokens.npy", np.arange(64) % 200)
    options = ("--tokens", "tokens.npy", "--length", "16", "--metric", "perplexity", "--fma", "mp", "--no-stats")
    assert numc_run("compare", "tiny.gguf", *options).status == 0
    compiled = numc_run("compile", "tiny.gguf", "--shape", "input_ids=1x8", "-o", "tiny.numc")
    assert compiled.status == 0
    assert numc_run("verify", "tiny.numc", "--samples", "5").status == 0


def _bare(path: Path, **fields: object) -> None:
    writer = gguf.GGUFWriter(path, str(fields.pop("general__architecture", "llama")))
    for name, value in fields.items():
        key = name.replace("__", ".")
        writer.add_string(key, value) if isinstance(value, str) else writer.add_uint16(key, value)
    writer.add_tensor("output_norm.weight", np.zeros(4, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_files_that_are_refused(numc_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def error() -> str:
        return str(numc_run("generate", "x.gguf", "--prompt", "a").error)

    assert error().startswith("x.gguf: no such file: want a GGUF file, or a folder with config.json and *.safetensors")
    (tmp_path / "x.gguf").write_bytes(b"GGML" + bytes(64))
    assert error().startswith("x.gguf: cannot be read: ")
    assert error().endswith(": want a GGUF file of version 2 or 3")
    _bare(tmp_path / "x.gguf", split__count=3)
    assert error() == "x.gguf: is one part of several: merge them with llama.cpp's gguf-split --merge"
    assert numc_run("explain", "x.gguf").error == error()
    _bare(tmp_path / "x.gguf", llama__rope__scaling__type="yarn")
    assert error().startswith("x.gguf: scales positions ('yarn'), which transformers does not read from GGUF: use the ")
    _bare(tmp_path / "x.gguf", general__architecture="odd")
    assert error().startswith("x.gguf: not a causal language model that transformers can read: ")
    gguf_files.written(tmp_path / "x.gguf", gguf_files.gpt2(), Type.F16, without="blk.0.ffn_up.weight")
    assert error() == "x.gguf: has 608000 numbers, the model that it describes has 870144: the file is not whole"
    model = gguf_files.llama()
    torch.nn.init.constant_(model.model.norm.weight, torch.nan)
    gguf_files.written(tmp_path / "x.gguf", model, Type.F16)
    assert (
        error() == "x.gguf: weight 'model.norm.weight' has numbers that are not finite: take another copy of the file"
    )
    found = util.find_spec
    there = "numc.frontends.pytorch.folder.find_spec"
    monkeypatch.setattr(there, lambda name: None if name == "gguf" else found(name))
    assert error() == "x.gguf: needs gguf, which is not installed: pip install 'numc[torch,gguf]' transformers"
