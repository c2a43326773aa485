"""GGUF files of tiny language models, laid out as by llama.cpp, with the weights that the package gguf makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Type

import tiny_language

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    **{f"self_attn.{x}_proj": f"attn_{x}" for x in "qkv"},
    "self_attn.o_proj": "attn_output",
    **{f"mlp.{x}_proj": f"ffn_{x}" for x in ("gate", "up", "down")},
    "transformer.wte": "token_embd",
    "transformer.wpe": "position_embd",
    "transformer.ln_f": "output_norm",
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}


def llama() -> Any:
    return tiny_language.llama(hidden_size=256, intermediate_size=256)


def qwen2() -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4}
    special = {"max_position_embeddings": tiny_language.CONTEXT, "pad_token_id": 0, "tie_word_embeddings": True}
    config = transformers.Qwen2Config(vocab_size=tiny_language.VOCABULARY, num_key_value_heads=2, **sizes, **special)
    return transformers.Qwen2ForCausalLM(config).eval()


def gpt2() -> Any:
    return tiny_language.gpt2(n_embd=256)


def _named(name: str) -> str:
    module, _, ending = name.rpartition(".")
    parts = module.split(".")
    if len(parts) > 2 and parts[2].isdigit():
        return f"blk.{parts[2]}.{_NAMES['.'.join(parts[3:])]}.{ending}"
    return f"{_NAMES[module]}.{ending}"


def _permuted(weight: Any, heads: int) -> Any:
    """The rows of a head as llama.cpp has them: pairs that are rotated together lie side by side."""
    return weight.reshape(heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def _back(weight: Any, heads: int) -> Any:
    return weight.reshape(heads, -1, 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def quantised(weight: Any, kind: Type, random: Any) -> Any:
    """The bytes of a weight; of kinds that gguf cannot make, random ones that stand for finite numbers."""
    try:
        return gguf.quantize(weight, kind)
    except NotImplementedError:
        block, size = gguf.GGML_QUANT_SIZES[kind]
        data = random.integers(0, 256, (weight.size // block, size), dtype=np.uint8)
        with np.errstate(all="ignore"):
            while (wrong := ~np.isfinite(gguf.dequantize(data, kind)).reshape(len(data), -1).all(1)).any():
                data[wrong] = random.integers(0, 256, (wrong.sum(), size), dtype=np.uint8)
        return data.reshape(*weight.shape[:-1], -1)


def written(path: Path, model: Any, kind: Type, *, without: str = "", factors: Any = None) -> dict[str, Any]:
    """Write a model whose matrices are of a kind, without one tensor; return the expected weights by name."""
    config = model.config
    architecture = config.model_type
    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    if architecture == "gpt2":
        writer.add_feed_forward_length(4 * config.hidden_size)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
        writer.add_vocab_size(config.vocab_size)
    _add_tokenizer(writer)
    if factors is not None:
        writer.add_tensor("rope_freqs.weight", factors)
    expected = {}
    for name, tensor in model.state_dict().items():
        weight = tensor.numpy()
        if _named(name) == without or (name == "lm_head.weight" and config.tie_word_embeddings):
            continue
        transposed = architecture == "gpt2" and weight.ndim == 2 and ".c_" in name
        stored = weight.T if transposed else weight
        heads = {"q_proj": config.num_attention_heads, "k_proj": getattr(config, "num_key_value_heads", 0)}
        turned = next((heads[x] for x in heads if x in name), 0) if architecture == "llama" else 0
        stored = np.ascontiguousarray(_permuted(stored, turned) if turned else stored)
        if weight.ndim < 2:
            writer.add_tensor(_named(name), stored)
            expected[name] = tensor
            continue
        data = quantised(stored, kind, random)
        writer.add_tensor(_named(name), data, raw_dtype=kind)
        made = gguf.dequantize(data, kind).reshape(stored.shape)
        made = _back(made, turned) if turned else made
        expected[name] = torch.from_numpy(np.ascontiguousarray(made.T if transposed else made))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if config.tie_word_embeddings:
        expected["lm_head.weight"] = expected.get("model.embed_tokens.weight", expected.get("transformer.wte.weight"))
    return expected


def _add_tokenizer(writer: Any) -> None:
    from tokenizers import pre_tokenizers

    special = ["<pad>", "<s>", "</s>", *(f"<{n}>" for n in range(4))]
    tokens = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet()), "ab"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(special) + [1] * (len(tokens) - len(special)))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
