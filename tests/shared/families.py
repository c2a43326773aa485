"""Small networks of transformers and timm at their real structure, with random weights, and inputs with free sizes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
import transformers
from torch import nn
from torch.export import Dim

BATCH, SEQUENCE, TARGET = Dim("batch", min=1, max=8), Dim("sequence", min=1, max=64), Dim("target", min=1, max=64)
TOKENS = {0: BATCH, 1: SEQUENCE}
Model = tuple[nn.Module, dict[str, torch.Tensor], dict[str, Any]]
"""A module, example inputs, and their free sizes."""
SMALL: Mapping[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED: Mapping[str, Any] = {**SMALL, "num_key_value_heads": 2}
GPT2: Mapping[str, Any] = {"vocab_size": 128, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
OPT: Mapping[str, Any] = {"vocab_size": 128, "hidden_size": 32, "ffn_dim": 64, "num_hidden_layers": 2}
T5: Mapping[str, Any] = {"vocab_size": 128, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
WHISPER: Mapping[str, Any] = {
    "vocab_size": 128,
    "num_mel_bins": 16,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_source_positions": 20,
    "pad_token_id": 0,
}
PICTURES: Mapping[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}


class First(nn.Module):
    """The first result of a model, without a cache."""

    def __init__(self, model: nn.Module, **given: Any) -> None:
        super().__init__()
        self.model = model

        @functools.wraps(model.forward)  # torch.export names free sizes by the arguments of the model
        def forward(*inputs: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
            return model(*inputs, **named, **given)[0]

        self.forward = forward


def built(make: Callable[[Any], nn.Module], config: Any) -> nn.Module:
    torch.manual_seed(0)
    return make(config).eval()


def tokens(batch: int = 2, length: int = 7) -> torch.Tensor:
    return torch.randint(3, 128, (batch, length), generator=torch.Generator().manual_seed(0))


def text(model: nn.Module, **given: Any) -> Model:
    ids = tokens()
    mask = torch.ones_like(ids)
    mask[0, :2] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    return First(model, **given).eval(), inputs, dict.fromkeys(inputs, TOKENS)


def decoder(config: str, **sizes: Any) -> Model:
    made = getattr(transformers, config)(**sizes)
    return text(built(transformers.AutoModelForCausalLM.from_config, made), use_cache=False)


def encoder(name: str, config: str, **sizes: Any) -> Model:
    return text(built(getattr(transformers, name), getattr(transformers, config)(**sizes)))


def translator(name: str, config: str, sizes: Mapping[str, Any], first: str, value: torch.Tensor, free: Any) -> Model:
    made = getattr(transformers, config)(**sizes, decoder_start_token_id=0)
    inputs = {first: value, "decoder_input_ids": tokens(2, 5)}
    shapes = {first: free, "decoder_input_ids": {0: BATCH, 1: TARGET}}
    model = built(getattr(transformers, name), made)
    return First(model, use_cache=False).eval(), inputs, shapes


def pictures(model: nn.Module, size: int = 32) -> Model:
    torch.manual_seed(0)
    inputs = {"pixel_values": torch.randn(2, 3, size, size)}
    return First(model).eval(), inputs, {"pixel_values": {0: BATCH}}


def clip() -> Model:
    config = transformers.CLIPConfig(text_config=dict(SMALL), vision_config=dict(PICTURES), projection_dim=16)
    torch.manual_seed(0)
    inputs = {
        "input_ids": tokens(),
        "attention_mask": torch.ones(2, 7).long(),
        "pixel_values": torch.randn(2, 3, 32, 32),
    }
    shapes = {"input_ids": TOKENS, "attention_mask": TOKENS, "pixel_values": {0: Dim("images", min=1, max=8)}}
    return First(built(transformers.CLIPModel, config)).eval(), inputs, shapes


def edgenext() -> Model:
    import timm

    torch.manual_seed(0)
    model = timm.create_model("edgenext_xx_small", pretrained=False, num_classes=16).eval()
    return model, {"x": torch.randn(2, 3, 64, 64)}, {"x": {0: BATCH}}


EXPERTS: Mapping[str, Any] = {**GROUPED, "num_experts_per_tok": 2}
FAMILIES: Mapping[str, Callable[[], Model]] = {
    "gpt2": lambda: decoder("GPT2Config", **GPT2),
    "llama": lambda: decoder("LlamaConfig", **GROUPED),
    "mistral": lambda: decoder("MistralConfig", **GROUPED, sliding_window=4),
    "qwen2": lambda: decoder("Qwen2Config", **GROUPED),
    "qwen3": lambda: decoder("Qwen3Config", **GROUPED, head_dim=8),
    "gemma": lambda: decoder("GemmaConfig", **GROUPED, head_dim=8),
    "gemma2": lambda: decoder("Gemma2Config", **GROUPED, head_dim=8, sliding_window=4),
    "opt": lambda: decoder("OPTConfig", **OPT, num_attention_heads=4, word_embed_proj_dim=32),
    "phi": lambda: decoder("PhiConfig", **GROUPED),
    "bloom": lambda: decoder("BloomConfig", vocab_size=128, hidden_size=32, n_layer=2, n_head=4),
    "mixtral": lambda: decoder("MixtralConfig", **EXPERTS, num_local_experts=4),
    "qwen3_moe": lambda: decoder("Qwen3MoeConfig", **EXPERTS, head_dim=8, num_experts=4, moe_intermediate_size=32),
    "roberta": lambda: encoder("RobertaForMaskedLM", "RobertaConfig", **SMALL),
    "bert": lambda: encoder("BertForMaskedLM", "BertConfig", **SMALL),
    "t5_encoder": lambda: encoder("T5EncoderModel", "T5Config", **T5),
    "t5": lambda: translator("T5ForConditionalGeneration", "T5Config", T5, "input_ids", tokens(), TOKENS),
    "whisper": lambda: translator(
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        WHISPER,
        "input_features",
        torch.randn(2, 16, 40, generator=torch.Generator().manual_seed(0)),
        {0: BATCH},
    ),
    "vit": lambda: pictures(built(transformers.ViTForImageClassification, transformers.ViTConfig(**PICTURES))),
    "clip": clip,
    "edgenext": edgenext,
}
