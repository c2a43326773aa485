"""Folders of tiny language models whose weights are quantised: written by the layouts that libraries publish.

Each function takes a weight, float32 [outputs, inputs], and returns its stored tensors by the ending of their names,
and the weight that the library makes of them, computed here by numpy in exact numbers rounded once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import torch
from safetensors.torch import save_file

import tiny_language

Stored = tuple[dict[str, Any], Any]
GROUP = 32
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False, "sym": False}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3"}
NF4_SETTINGS = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}


def bits_of(tensor: Any) -> Any:
    return np.asarray(tensor.detach().to(torch.float32)).view(np.uint32)


def written(
    folder: Path, settings: dict[str, Any], store: Callable[[Any], Stored], layers: int = 2, **more: Any
) -> dict[str, Any]:
    """Write the folder of a tiny Llama whose linear layers are quantised; return the expected weights by name."""
    model = tiny_language.llama(layers, hidden_size=64, intermediate_size=128)
    tiny_language.save(model, folder)
    tensors, expected = {}, {}
    linear = {name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    for name, weight in model.state_dict().items():
        module = name.removesuffix(".weight")
        if module not in linear or name == "lm_head.weight":
            tensors[name] = expected[name] = weight.clone()
            continue
        parts, made = store(weight.numpy())
        tensors |= {module + ending: torch.as_tensor(part).clone().contiguous() for ending, part in parts.items()}
        expected[name] = torch.from_numpy(np.ascontiguousarray(made, np.float32))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    configure(folder, quantization_config=settings, **more)
    return expected


def configure(folder: Path, **settings: Any) -> None:
    """Change settings in config.json."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | settings))


def half(value: Any) -> Any:
    return np.asarray(value).astype(np.float16)


def _levels(weight: Any, bits: int, size: int) -> tuple[Any, Any, Any]:
    """Return codes from 0 on, zero points and float16 scales of groups of inputs."""
    groups = weight.reshape(len(weight), -1, size)
    low, high = np.minimum(groups.min(-1), 0), np.maximum(groups.max(-1), 0)
    scale = half((high - low) / (2**bits - 1))
    zero = np.clip(np.rint(-low / scale.astype(np.float32)), 1, 2**bits - 1)
    codes = np.rint(groups / scale.astype(np.float32)[..., None]) + zero[..., None]
    return np.clip(codes, 0, 2**bits - 1).reshape(weight.shape).astype(np.int64), zero.astype(np.int64), scale


def dense(codes: Any, bits: int) -> Any:
    """Pack numbers along the last axis, bit by bit from the lowest on, into int32."""
    string = (codes[..., None] >> np.arange(bits) & 1).reshape(*codes.shape[:-1], -1)
    string = np.pad(string, [(0, 0)] * (string.ndim - 1) + [(0, -string.shape[-1] % 32)])
    words = (string.reshape(*string.shape[:-1], -1, 32) << np.arange(32, dtype=np.int64)).sum(-1)
    return words.astype(np.uint32).view(np.int32)


def gptq(bits: int = 4, version: int = 1, order: bool = False, size: int = GROUP) -> Callable[[Any], Stored]:
    """AutoGPTQ and GPTQModel: [inputs, outputs], zero points less one in version 1, inputs of groups in any order."""

    def store(weight: Any) -> Stored:
        group = np.arange(weight.shape[1]) // size
        place = np.random.default_rng(1).permutation(weight.shape[1]) if order else np.arange(weight.shape[1])
        codes, zero, scale = _levels(weight[:, place], bits, size)
        back = np.argsort(place)
        codes, group = codes[:, back], group[back]
        exact = (codes - zero[:, group]) * scale[:, group].astype(np.float64)
        stored = (zero - (version == 1)) % 2**bits
        parts = {
            ".qweight": np.ascontiguousarray(dense(codes, bits).T),
            ".qzeros": dense(stored.T, bits),
            ".scales": np.ascontiguousarray(scale.T),
            ".g_idx": group.astype(np.int32),
        }
        return parts, half(exact)

    return store


def awq(weight: Any) -> Stored:
    """AutoAWQ, gemm: of 8 outputs in a word, first those with even numbers."""
    codes, zero, scale = _levels(weight, 4, GROUP)
    order = np.array([0, 2, 4, 6, 1, 3, 5, 7])

    def pack(values: Any) -> Any:
        return dense(values.T.reshape(values.shape[1], -1, 8)[..., order].reshape(values.shape[1], -1), 4)

    group = np.arange(weight.shape[1]) // GROUP
    exact = (codes - zero[:, group]) * scale[:, group].astype(np.float64)
    return {".qweight": pack(codes), ".qzeros": pack(zero), ".scales": np.ascontiguousarray(scale.T)}, half(exact)


def fp8(block: tuple[int, int] | None, ending: str = ".weight_scale_inv") -> Callable[[Any], Stored]:
    """DeepSeek and vLLM: e4m3 with a float32 scale for each block, or for the tensor; the product in bfloat16."""

    def store(weight: Any) -> Stored:
        rows, columns = block or weight.shape
        places = np.arange(weight.shape[0]) // rows, np.arange(weight.shape[1]) // columns
        scale = np.zeros((places[0][-1] + 1, places[1][-1] + 1), np.float32)
        np.maximum.at(scale, np.ix_(*places), np.abs(weight))
        scale /= np.float32(448)
        codes = (weight / scale[np.ix_(*places)]).astype(ml_dtypes.float8_e4m3fn)
        exact = codes.astype(np.float64) * scale[np.ix_(*places)]
        stored = torch.from_numpy(codes.view(np.uint8)).view(torch.float8_e4m3fn)
        made = exact.astype(np.float32).astype(ml_dtypes.bfloat16)
        return {".weight": stored, ending: scale if block else scale.reshape(())}, made.astype(np.float32)

    return store


def packed(bits: int, symmetric: bool) -> Callable[[Any], Stored]:
    """compressed-tensors, pack-quantized, with scales in bfloat16 and zero points that are packed along the outputs."""

    def store(weight: Any) -> Stored:
        codes, zero, scale = _levels(weight, bits, GROUP)
        scale = scale.astype(ml_dtypes.bfloat16).astype(np.float32)
        zero = np.full_like(zero, 2 ** (bits - 1)) if symmetric else zero
        group = np.arange(weight.shape[1]) // GROUP
        made = ((codes - zero[:, group]) * scale[:, group].astype(np.float64)).astype(np.float32)
        parts = {
            ".weight_packed": dense(codes, bits),
            ".weight_scale": torch.from_numpy(scale).to(torch.bfloat16),
            ".weight_shape": np.array(weight.shape),
        }
        if not symmetric:
            parts[".weight_zero_point"] = np.ascontiguousarray(dense(zero.T, bits).T)
        return parts, made.astype(ml_dtypes.bfloat16).astype(np.float32)

    return store


def packed_settings(bits: int, symmetric: bool) -> dict[str, Any]:
    about = {"num_bits": bits, "type": "int", "strategy": "group", "group_size": GROUP, "symmetric": symmetric}
    groups = {"group_0": {"targets": ["Linear"], "weights": about}}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups}


# Of 16 levels, as the article of QLoRA has them, and as bitsandbytes orders them for its codes.
_NF4 = (
    "-1 -.6961928009986877 -.5250730514526367 -.39491748809814453 -.28444138169288635 -.18477343022823334 "
    "-.09105003625154495 0 .07958029955625534 .16093020141124725 .24611230194568634 .33791524171829224 "
    ".44070982933044434 .5626170039176941 .7229568362236023 1"
)
NF4 = np.array(_NF4.split(), np.float32)


def nf4(weight: Any) -> Stored:
    """bitsandbytes, NF4 in blocks of 64 along the weight, whose largest values are quantised in blocks of 256."""
    blocks = weight.reshape(-1, 64)
    largest = np.abs(blocks).max(1)
    levels = np.linspace(-1, 1, 256, dtype=np.float32)
    offset = float(largest.mean(dtype=np.float32))
    padded = np.pad(largest - np.float32(offset), (0, -len(largest) % 256)).reshape(-1, 256)
    outer = np.abs(padded).max(1)
    inner = np.abs(padded[..., None] / outer[:, None, None] - levels).argmin(-1).reshape(-1)[: len(largest)]
    largest = levels[inner] * outer.repeat(256)[: len(largest)] + np.float32(offset)
    codes = np.abs(blocks[..., None] / largest[:, None, None] - NF4).argmin(-1).reshape(-1, 2)
    state = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": list(weight.shape)}
    state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": offset}
    parts = {
        ".weight": (codes[:, :1] << 4 | codes[:, 1:]).astype(np.uint8),
        ".weight.absmax": inner.astype(np.uint8),
        ".weight.quant_map": NF4,
        ".weight.nested_absmax": outer,
        ".weight.nested_quant_map": levels,
        ".weight.quant_state.bitsandbytes__nf4": np.frombuffer(json.dumps(state).encode(), np.uint8).copy(),
    }
    made = (NF4[codes].reshape(-1, 64) * largest[:, None]).reshape(weight.shape)
    return parts, made.astype(ml_dtypes.bfloat16).astype(np.float32)


def gpt_oss(folder: Path) -> dict[str, Any]:
    """Write a tiny gpt-oss whose experts are in MXFP4; return the expected weights by name."""
    import transformers

    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 64, "head_dim": 16, "num_attention_heads": 4}
    sizes |= {"num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2}
    special = {"vocab_size": tiny_language.VOCABULARY, "max_position_embeddings": tiny_language.CONTEXT}
    special |= {
        "eos_token_id": None,
        "pad_token_id": 0,
        "sliding_window": 16,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
    }
    model = transformers.GptOssForCausalLM(transformers.GptOssConfig(**sizes, **special)).eval()
    tiny_language.save(model, folder)
    random, levels = np.random.default_rng(0), np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    tensors, expected = {}, {}
    for name, weight in model.state_dict().items():
        if not name.endswith(("gate_up_proj", "down_proj")):
            tensors[name] = expected[name] = weight.clone()
            continue
        experts, inputs, outputs = weight.shape
        codes = random.integers(0, 16, (experts, outputs, inputs // 32, 32))
        scales = random.integers(118, 124, (experts, outputs, inputs // 32))
        tensors[f"{name}_blocks"] = torch.from_numpy((codes[..., ::2] | codes[..., 1::2] << 4).astype(np.uint8))
        tensors[f"{name}_scales"] = torch.from_numpy(scales.astype(np.uint8))
        values = np.where(codes > 7, -1.0, 1.0) * levels[codes % 8] * 2.0 ** (scales[..., None] - 127)
        made = values.reshape(experts, outputs, inputs).swapaxes(1, 2).astype(np.float32)
        expected[name] = torch.from_numpy(np.ascontiguousarray(made))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    configure(folder, quantization_config={"quant_method": "mxfp4"})
    return expected
