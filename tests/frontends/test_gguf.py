"""GGUF files: the numbers that the package gguf makes of each tensor, at their places in the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")
pytest.importorskip("gguf")

import gguf
import torch
from gguf import GGMLQuantizationType as Type

import gguf_files
import tiny_language
from numc.frontends.pytorch.folder import LanguageModel
from numc.support.errors import NumcError

MODELS = (gguf_files.llama, gguf_files.qwen2, gguf_files.gpt2)
KINDS = (
    *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
    *("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0"),
    *("MXFP4", "NVFP4", "F16", "BF16", "F32"),
)
EVERY = [(make, kind) for make in MODELS for kind in KINDS]
FIRST, SAMPLE = (
    (gguf_files.llama, "Q4_K"),
    {("qwen2", "Q6_K"), ("gpt2", "Q8_0"), ("llama", "Q4_0"), ("qwen2", "IQ4_XS")},
)


def _tier(make: Any, kind: str) -> Any:
    if (make, kind) == FIRST:
        return ()
    return pytest.mark.all if (make.__name__, kind) in SAMPLE else pytest.mark.slow


@pytest.mark.parametrize(
    ("make", "kind"),
    [pytest.param(make, kind, marks=_tier(make, kind), id=f"{make.__name__}-{kind}") for make, kind in EVERY],
)
def test_weights(make, kind, tmp_path: Path) -> None:
    expected = gguf_files.written(tmp_path / "tiny.gguf", make(), Type[kind])
    language = LanguageModel(tmp_path / "tiny.gguf")
    found = language.model.state_dict()
    assert found.keys() == expected.keys()
    for name in expected:
        a, b = (tensor.numpy().view(np.uint32) for tensor in (expected[name], found[name]))
        wrong = np.argwhere(a != b)
        assert not len(wrong), f"{name}{wrong[0]}: {b[tuple(wrong[0])]:#x}, expected {a[tuple(wrong[0])]:#x}"
    assert language.context == tiny_language.CONTEXT
    assert f"tensors in {kind}" in language.quantised
    assert language.tokenizer.decode(language.encoded("cab")) == "cab"


def test_factors_of_frequencies(tmp_path: Path) -> None:
    """Llama 3.1 stores its scaling of positions as factors: the logits are those of a folder with `rope_scaling`."""
    scaling = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    scaling["original_max_position_embeddings"] = 16
    plain = tiny_language.llama(hidden_size=256, intermediate_size=256)
    scaled = tiny_language.llama(hidden_size=256, intermediate_size=256, rope_parameters=scaling)
    factors = (plain.model.rotary_emb.inv_freq / scaled.model.rotary_emb.inv_freq).numpy()
    assert factors.max() > 7
    gguf_files.written(tmp_path / "tiny.gguf", plain, Type.F32, factors=factors)
    model = LanguageModel(tmp_path / "tiny.gguf").model
    ids = torch.arange(40)[None] % tiny_language.VOCABULARY
    with torch.no_grad():
        given, expected, without = model(ids).logits, scaled(ids).logits, plain(ids).logits
    torch.testing.assert_close(given, expected, rtol=0, atol=1e-5)
    assert (without - expected).abs().max() > 1e-3


def test_a_type_that_gguf_does_not_read(tmp_path: Path) -> None:
    """Types of intermediate results are no types of weights."""
    kind, path = Type.Q8_K, tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("token_embd.weight", np.zeros((2, gguf.GGML_QUANT_SIZES[kind][1]), np.uint8), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    text = "tensor 'token_embd.weight' is in Q8_K, of which the package gguf makes no numbers: want a type of weights"
    with pytest.raises(NumcError, match=text):
        LanguageModel(path)
