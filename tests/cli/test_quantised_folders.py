"""Folders with quantised weights where commands take a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

import torch

import quantised_folders as folders
from numc.frontends.pytorch.folder import LanguageModel

GPTQ, AWQ, FP8 = folders.GPTQ, folders.AWQ, folders.FP8


def test_explain(numc_run, tmp_path: Path) -> None:
    folders.written(tmp_path / "model", GPTQ, folders.gptq(), layers=1)
    explained = numc_run("explain", "model", "--shape", "input_ids=1x8")
    assert "the weights are those of gptq (gptq, 4 bits, groups of 32 inputs)" in explained.err


@pytest.mark.slow
def test_generate(numc_run, tmp_path: Path) -> None:
    """The tokens of eager torch with the weights made dense."""
    expected = folders.written(tmp_path / "model", GPTQ, folders.gptq(), layers=1)
    (tmp_path / "model" / "generation_config.json").write_text(json.dumps({"eos_token_id": [3]}))
    model = LanguageModel(tmp_path / "model").model
    model.load_state_dict(expected)
    assert model.generation_config.eos_token_id == [3]
    made = numc_run("generate", "model", "--prompt", "Once", "--max-new-tokens", "3", "--json")
    tokens = json.loads(made.out)
    given = torch.tensor([tokens["prompt_tokens"]])
    eager = model.generate(given, max_new_tokens=3, do_sample=False, attention_mask=torch.ones_like(given))
    assert tokens["tokens"] == eager[0, given.shape[1] :].tolist()
    explained = numc_run("explain", "model", "--shape", "input_ids=1x8", "--json")
    assert json.loads(explained.out)["quantised"] == "gptq (gptq, 4 bits, groups of 32 inputs)"


def _changed(tensors: dict[str, Any], change: str) -> None:
    name = "model.layers.0.mlp.up_proj"
    if change == "missing":
        del tensors[f"{name}.scales"]
    elif change == "nan":
        tensors[f"{name}.scales"][1, 2] = torch.nan
    elif change == "shape":
        tensors[f"{name}.scales"] = tensors[f"{name}.scales"][:1].clone()
    elif change == "integers":
        tensors[f"{name}.scales"] = tensors[f"{name}.scales"].to(torch.int64)
    elif change == "order":
        tensors[f"{name}.g_idx"][0] = 99
    elif change == "bare":
        del tensors[f"{name}.scales"], tensors[f"{name}.qzeros"], tensors[f"{name}.g_idx"]
        tensors[f"{name}.weight"] = tensors.pop(f"{name}.qweight")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("missing", ".scales is missing, there is .g_idx, .qweight, .qzeros: the files are not whole"),
        ("nan", "1 of 256 numbers in .scales are not finite: want finite scales: take another copy of the files"),
        ("shape", ".scales float16[1, 128] do not fit together by the quantization_config: want a checkpoint as its"),
        ("integers", ".scales int64[2, 128] do not fit together by the quantization_config"),
        ("order", ".scales float16[2, 128] do not fit together by the quantization_config"),
        ("bare", "model.layers.0.mlp.up_proj.weight' is stored as int32 without scales: the files are not whole"),
    ],
)
def test_weights_that_are_refused(change, message, numc_run, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folders.written(tmp_path / "model", GPTQ, folders.gptq(), layers=1)
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    _changed(tensors, change)
    save_file(tensors, tmp_path / "model" / "model.safetensors")
    error = numc_run("generate", "model", "--prompt", "a").error
    assert error.startswith("model: weight 'model.layers.0.mlp.up_proj.weight'"), error
    assert message in error


GROUP = {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}}
PACKED = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"g": GROUP}}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"quant_method": "hqq"},
            "quantization_config names the scheme 'hqq': want awq, bitsandbytes, compressed-tens",
        ),
        ({"bits": 4}, "quantization_config has no quant_method: want awq, bitsandbytes"),
        ([4], "quantization_config is no object: want one with quant_method: awq"),
        ({**GPTQ, "bits": 5}, "quantization_config: bits is 5: want 2 or 3 or 4 or 8"),
        ({**GPTQ, "checkpoint_format": "marlin"}, "checkpoint_format is marlin: want gptq or gptq_v2"),
        ({**GPTQ, "group_size": 0}, "group_size is 0: want a number of inputs, or -1"),
        ({**GPTQ, "dynamic": ["x"]}, "dynamic is ['x']: want settings by pattern of the names of layers, as GPTQModel"),
        ({**GPTQ, "dynamic": {"-:(": {}}}, "dynamic is (: want a regular expression for the names of layers"),
        ({**GPTQ, "dynamic": {"x": {"bits": 5}}}, "bits is 5: want 2 or 3 or 4 or 8"),
        ({**AWQ, "version": "gemv"}, "version is gemv: want gemm, whose order of packing is known"),
        ({**AWQ, "group_size": -2}, "group_size is -2: want a number of inputs, or -1"),
        ({**FP8, "weight_block_size": [128]}, "weight_block_size is [128]: want two sizes, such as [128, 128]"),
        ({**folders.NF4_SETTINGS, "bnb_4bit_quant_type": "int4"}, "bnb_4bit_quant_type is int4: want nf4 or fp4"),
        ({**PACKED, "format": "marlin-24"}, "format is marlin-24: want pack-quantized or int-quantized or"),
        ({**PACKED, "sparsity_config": {"format": "sparse-24"}}, "want weights that are quantised and nothing else"),
        ({**PACKED, "config_groups": {}}, "config_groups is {}: want groups with weights"),
        (
            {**PACKED, "config_groups": {"g": {"targets": ["Linear"]}}},
            "want groups with weights, as compressed-tensors",
        ),
        ({**PACKED, "config_groups": {"g": {"weights": 4}}}, "weights is 4: want num_bits, type and strategy"),
        (
            {**PACKED, "config_groups": {"g": {"weights": {"strategy": "group"}}}},
            "group_size is None: want a number of",
        ),
    ],
)
def test_settings_that_are_refused(settings, message, numc_run, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps({"quantization_config": settings}))
    (tmp_path / "model" / "model.safetensors").write_bytes(b"")
    error = numc_run("generate", "model", "--prompt", "a").error
    assert error.startswith("model: quantization_config"), error
    assert message in error


def test_a_scheme_that_is_not_named(numc_run, tmp_path: Path) -> None:
    """Without one, transformers would take the codes for the numbers."""
    folders.written(tmp_path / "model", FP8, folders.fp8(None, ".weight_scale"), layers=1)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    del config["quantization_config"]
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    error = numc_run("generate", "model", "--prompt", "a").error
    assert error.startswith(
        "model: weight 'model.layers.0.mlp.down_proj.weight' is stored as F8_E4M3, but config.json "
    )
    assert error.endswith("has no quantization_config: want one that says how they are quantised")


def test_files_that_are_refused(numc_run, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"{}")
    config = {"quantization_config": GPTQ}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    error = numc_run("generate", "model", "--prompt", "a").error
    assert error.startswith("model: 'model.safetensors' cannot be read:"), error
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, "dtype": "float8"}))
    assert numc_run("generate", "model", "--prompt", "a").error.endswith(
        "dtype is 'float8': want float32, float16, bfloat16"
    )
