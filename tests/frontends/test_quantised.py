"""Folders whose weights are quantised: the same bits as the libraries that wrote them make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import numc

pytest.importorskip("transformers")

import torch

import quantised_folders as folders
from numc.frontends.pytorch.folder import LanguageModel
from numc.frontends.pytorch.quantised.checkpoint import _made
from numc.frontends.pytorch.quantised.scheme import Layer
from numc.frontends.pytorch.quantised.schemes import SCHEMES

GPTQ, AWQ, FP8, NF4 = folders.GPTQ, folders.AWQ, folders.FP8, folders.NF4_SETTINGS

WHOLE = [
    ("gptq (gptq, 4 bits, groups of 32 inputs)", GPTQ, folders.gptq()),
    ("fp8 (a scale for each block of 48x40)", {**FP8, "weight_block_size": [48, 40]}, folders.fp8((48, 40))),
    ("fp8 (a scale for each tensor or channel)", FP8, folders.fp8(None, ".weight_scale")),
    ("gptq (gptq_v2, 3 bits", {**GPTQ, "bits": 3, "checkpoint_format": "gptq_v2"}, folders.gptq(3, 2, order=True)),
    ("gptq (gptq, 8 bits", {**GPTQ, "bits": 8}, folders.gptq(8, order=True)),
    ("gptq (gptq, 2 bits", {**GPTQ, "bits": 2}, folders.gptq(2)),
    ("awq (gemm, 4 bits, groups of 32 inputs)", AWQ, folders.awq),
    ("bitsandbytes (4 bits, nf4)", NF4, folders.nf4),
    ("compressed-tensors (pack-quantized, 4", folders.packed_settings(4, False), folders.packed(4, False)),
    ("compressed-tensors (pack-quantized, 3", folders.packed_settings(3, True), folders.packed(3, True)),
]


def _equal(expected: Any, got: Any, what: str) -> None:
    a, b = folders.bits_of(expected), folders.bits_of(got)
    assert a.shape == b.shape, what
    if (wrong := np.argwhere(a != b)).size:
        place = tuple(wrong[0])
        pytest.fail(f"{what}{place}: {b[place]:#010x}, expected {a[place]:#010x}; {len(wrong)} differ")


@pytest.mark.parametrize(
    ("said", "settings", "store"),
    [pytest.param(*case, marks=pytest.mark.all if n > 1 else (), id=case[0]) for n, case in enumerate(WHOLE)],
)
def test_folder(said, settings, store, tmp_path: Path) -> None:
    expected = folders.written(tmp_path / "model", settings, store, dtype="bfloat16")
    language = LanguageModel(tmp_path / "model")
    assert language.quantised.startswith(said)
    found = language.model.state_dict()
    assert found.keys() == expected.keys()
    for name in expected:
        _equal(expected[name], found[name], name)


@pytest.mark.all
def test_experts_of_gpt_oss_stay_mxfp4(tmp_path: Path) -> None:
    """And rounding them to mxfp4 once more changes no bit: so the operator with b=mxfp4 takes the weights as stored."""
    expected = folders.gpt_oss(tmp_path / "oss")
    language = LanguageModel(tmp_path / "oss")
    found = language.model.state_dict()
    assert language.quantised == "mxfp4 (blocks of 32 with a power of two)"
    for name in expected:
        _equal(expected[name], found[name], name)
        if name.endswith("_proj"):
            weight = expected[name].numpy()
            _equal(expected[name], torch.from_numpy(numc.round(weight, "mxfp4", axis=1)), f"{name} rounded")
            a = np.random.default_rng(0).standard_normal((3, weight.shape[1])).astype(np.float32)
            dense = numc.matmul(a, weight[0], fma="fma(a=bf16, b=bf16, acc=fp32)")
            same = numc.matmul(a, weight[0], fma="fma(a=bf16, b=mxfp4, acc=fp32)")
            _equal(torch.from_numpy(dense), torch.from_numpy(same), f"product with {name}")


def _layer(parts: dict[str, Any], settings: Any = None, about: str = "") -> Layer:
    return Layer("layer.weight", parts, settings or {}, about, torch.bfloat16)


def _weight() -> Any:
    return torch.from_numpy(np.random.default_rng(0).standard_normal((64, 128)).astype(np.float32))


INTEGERS = [
    ("pack-quantized", {"num_bits": bits, "type": "int", "strategy": "group", "group_size": 32, "symmetric": symmetric})
    for bits in range(1, 9)
    for symmetric in (True, False)
]
OTHERS = [
    ("pack-quantized", {"num_bits": 4, "type": "int", "strategy": "channel", "symmetric": False}),
    ("int-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}),
    ("int-quantized", {"num_bits": 8, "type": "int", "strategy": "tensor", "symmetric": False}),
    ("float-quantized", {"num_bits": 8, "type": "float", "strategy": "tensor"}),
    ("float-quantized", {"num_bits": 8, "type": "float", "strategy": "channel"}),
    ("naive-quantized", {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32}),
    ("float-quantized", {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [32, 64]}),
    ("mxfp4-pack-quantized", {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}),
    ("mxfp8-quantized", {"num_bits": 8, "type": "float", "group_size": 32, "scale_dtype": "torch.uint8"}),
    ("nvfp4-pack-quantized", {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}),
]  # fmt: skip


@pytest.mark.all
def test_against_compressed_tensors() -> None:
    pytest.importorskip("compressed_tensors")
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams

    def extremes(weight: Any, args: Any) -> tuple[Any, Any]:
        shape = {"tensor": (1, 64, 1, 128), "channel": (64, 1, 1, 128), "block": (2, 32, 2, 64)}
        groups = weight.reshape(shape.get(args.strategy, (64, 1, -1, args.group_size or 1)))
        low, high = groups.amin((1, 3)), groups.amax((1, 3))
        return (low.reshape(1), high.reshape(1)) if args.strategy == "tensor" else (low, high)

    count = 0
    for form, about in INTEGERS + OTHERS:
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            args = QuantizationArgs(**about)
            stored = {"weight": _weight().to(dtype)}
            levels = {}
            if args.strategy == "tensor_group":
                stored["weight_global_scale"] = levels["global_scale"] = torch.tensor([448 * 6 / 4.5])
            scale, zero = calculate_qparams(*extremes(stored["weight"], args), args, **levels)
            stored["weight_scale"] = scale if levels else scale.to(dtype)
            if not args.symmetric:
                stored["weight_zero_point"] = zero
            scheme = QuantizationScheme(targets=["Linear"], weights=args)
            library = BaseCompressor.get_value_from_registry(form)
            stored = library.compress(stored, scheme)
            expected = library.decompress(stored, scheme)["weight"]
            group = {"weights": json.loads(args.model_dump_json())}
            parts = {f".{name}": part for name, part in stored.items()}
            layer = _layer(parts, {"format": form, "config_groups": {"g": group}})
            _equal(expected, SCHEMES["compressed-tensors"].weight(layer), f"{form} {about} {dtype}")
            count += 1
    assert count == 78


@pytest.mark.all
def test_against_bitsandbytes() -> None:
    pytest.importorskip("bitsandbytes")
    from bitsandbytes import functional

    count = 0
    for kind in ("nf4", "fp4"):
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            for nested, size in ((False, 64), (True, 64), (False, 128), (True, 128)):
                weight = _weight().to(dtype)
                stored = functional.quantize_4bit(weight, blocksize=size, compress_statistics=nested, quant_type=kind)
                parts = {f".weight.{name}": part for name, part in stored[1].as_dict(packed=True).items()}
                found = SCHEMES["bitsandbytes"].weight(_layer({".weight": stored[0], **parts}))
                expected = functional.dequantize_4bit(*stored)
                if kind == "fp4":  # its code of -0 is a +0 where bitsandbytes takes AVX-512
                    expected, found = expected + 0, found + 0
                _equal(expected, found, f"{kind} {dtype} {nested} {size}")
                count += 1
    codes, scales, _ = functional.int8_vectorwise_quant(_weight().half())
    parts = {".weight": codes, ".SCB": scales, ".weight_format": torch.tensor(0, dtype=torch.uint8)}
    expected = functional.int8_vectorwise_dequant(codes, scales)
    _equal(expected, SCHEMES["bitsandbytes"].weight(_layer(parts)), "int8")
    assert count == 24


@pytest.mark.all
def test_against_transformers(tmp_path: Path) -> None:
    """Blocks of fp8, and MXFP4 with every scale that is a number."""
    from transformers import AutoModelForCausalLM, FineGrainedFP8Config
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    random = np.random.default_rng(0)
    blocks = torch.from_numpy(random.integers(0, 256, (5, 51, 1, 16)).astype(np.uint8))
    scales = torch.arange(255, dtype=torch.uint8).reshape(5, 51, 1)
    found = SCHEMES["mxfp4"].weight(_layer({"_blocks": blocks, "_scales": scales}))
    _equal(convert_moe_packed_tensors(blocks, scales), found, "mxfp4")

    settings = {**FP8, "weight_block_size": [32, 64]}
    folders.written(tmp_path / "model", settings, folders.fp8((32, 64)), dtype="bfloat16")
    config = FineGrainedFP8Config(dequantize=True, weight_block_size=(32, 64))
    library = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype="auto", quantization_config=config)
    mine = LanguageModel(tmp_path / "model").model.state_dict()
    for name, weight in library.state_dict().items():
        if "_proj" in name:
            _equal(weight, mine[name], name)


@pytest.mark.all
def test_against_torchao() -> None:
    pytest.importorskip("torchao")
    from torchao.prototype.mx_formats.mx_tensor import MXTensor
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig, IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerAxis, PerGroup

    def converted(config: Any, dtype: torch.dtype) -> Any:
        layer = torch.nn.Linear(128, 64).to(dtype)
        quantize_(layer, config)
        return layer.weight

    for dtype in (torch.bfloat16, torch.float32):
        weight = _weight().to(dtype)
        for tensor in (
            converted(Int8WeightOnlyConfig(), dtype),
            converted(Float8WeightOnlyConfig(), dtype),
            converted(IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)), dtype),
            converted(IntxWeightOnlyConfig(weight_dtype=torch.int3, granularity=PerAxis(0)), dtype),
            MXTensor.to_mx(weight, torch.float8_e4m3fn),
            MXTensor.to_mx(weight, torch.float4_e2m1fn_x2),
            NVFP4Tensor.to_nvfp4(weight),
            NVFP4Tensor.to_nvfp4(weight, per_tensor_scale=torch.tensor(0.002)),
        ):
            stored, about = flatten_tensor_state_dict({"m.weight": tensor})
            parts = {name.removeprefix("m"): part for name, part in stored.items()}
            found = SCHEMES["torchao"].weight(_layer(parts, about=about["m.weight"]))
            _equal(tensor.dequantize(), found, f"{type(tensor).__name__} {dtype}")


def _torchao(kind: str, data: dict[str, Any], **parts: Any) -> Any:
    layer = _layer(
        {f"._weight_{name}": part for name, part in parts.items()}, about=json.dumps({"_type": kind, "_data": data})
    )
    return SCHEMES["torchao"].weight(layer)


def test_torchao() -> None:
    """Its files, by their description: the header of a file names the kind of each weight."""
    codes, scale = torch.tensor([[-3, 7], [100, -128]], dtype=torch.int8), torch.tensor([[0.3], [1.7]])
    dtype = {"_type": "torch.dtype", "_data": "bfloat16"}
    found = _torchao("Int8Tensor", {"block_size": [1, 2], "dtype": dtype}, qdata=codes, scale=scale)
    _equal((codes * scale).to(torch.bfloat16), found, "Int8Tensor")
    packed = torch.tensor([[0x21] * 8 + [0xF7] * 8], dtype=torch.uint8)
    two = {"block_size": 32, "orig_dtype": dtype, "elem_dtype": {"_type": "torch.dtype", "_data": "float4_e2m1fn_x2"}}
    found = _torchao("MXTensor", two, qdata=packed, scale=torch.tensor([[128]], dtype=torch.uint8))
    _equal(torch.tensor([[1.0, 2.0] * 8 + [12.0, -12.0] * 8]), found, "MXTensor")
    for kind, data, message in (
        (
            "Int4Tensor",
            {},
            "is a 'Int4Tensor' of torchao: it has the order of a kernel's memory: want Float8Tensor, In",
        ),
        ("Odd", {}, "is a 'Odd' of torchao: want Float8Tensor"),
        ("MXTensor", {"is_swizzled_scales": True}, "its scales have the order of a kernel's memory: want is_swizzled"),
        ("Int8Tensor", {"block_size": [1, 2], "dtype": "int8"}, "do not fit together by the quantization_config"),
    ):
        with pytest.raises(numc.NumcError) as refused:
            _torchao(kind, data, qdata=codes, scale=scale)
        assert message in str(refused.value)
    with pytest.raises(
        numc.NumcError, match="its inputs are scaled before the product, which is no property of weight"
    ):
        _torchao("Int8Tensor", {}, qdata=codes, scale=scale, act_pre_scale=scale)
    with pytest.raises(numc.NumcError, match="the header of its file does not describe it: want a checkpoint as torch"):
        SCHEMES["torchao"].weight(_layer({"._weight_qdata": codes}))


def test_inputs_in_another_order() -> None:
    """compressed-tensors of older versions: the inputs of a group are those that weight_g_idx gives it."""
    random = np.random.default_rng(0)
    codes = torch.from_numpy(random.integers(-128, 128, (6, 64)).astype(np.int8))
    scale = torch.from_numpy(random.uniform(0.01, 0.1, (6, 2)).astype(np.float32)).to(torch.bfloat16)
    order = torch.from_numpy(random.permutation(np.arange(64) // 32).astype(np.int32))
    about = {"type": "int", "num_bits": 8, "strategy": "group", "group_size": 32}
    settings = {"format": "int-quantized", "config_groups": {"g": {"weights": about}}}
    parts = {".weight": codes, ".weight_scale": scale, ".weight_g_idx": order}
    exact = codes.numpy() * scale.to(torch.float64).numpy()[:, order.numpy()]
    found = SCHEMES["compressed-tensors"].weight(_layer(parts, settings))
    _equal(torch.from_numpy(exact).to(torch.float32).to(torch.bfloat16), found, "weight")
    parts[".weight_g_idx"] = torch.full_like(order, -1)  # in their own order
    exact = codes.numpy() * scale.to(torch.float64).numpy().repeat(32, axis=1)
    found = SCHEMES["compressed-tensors"].weight(_layer(parts, settings))
    _equal(torch.from_numpy(exact).to(torch.float32).to(torch.bfloat16), found, "weight")


def test_parts_that_are_refused() -> None:
    """A scale for the whole of a weight that has blocks, a zero point that is missing, a NaN in a weight."""
    codes = torch.ones(64, 64).to(torch.float8_e4m3fn)
    blocks = {**FP8, "weight_block_size": [32, 32]}
    with pytest.raises(numc.NumcError, match=r"weight_scale_inv float32\[1\] do not fit together"):
        SCHEMES["fp8"].weight(_layer({".weight": codes, ".weight_scale_inv": torch.ones(1)}, blocks))
    parts, _ = folders.packed(4, False)(_weight().numpy())
    del parts[".weight_zero_point"]
    stored = {name: torch.as_tensor(part) for name, part in parts.items()}
    with pytest.raises(
        numc.NumcError, match=r"weight 'layer.weight': .weight_zero_point is missing, there is .weight_p"
    ):
        SCHEMES["compressed-tensors"].weight(_layer(stored, folders.packed_settings(4, False)))
    codes[3, 4] = torch.nan
    with pytest.raises(numc.NumcError, match="has numbers that are not finite: take another copy of the files"):
        _made(_layer({".weight": codes, ".weight_scale": torch.ones(())}, FP8), SCHEMES["fp8"])


@pytest.mark.all
def test_experts_in_shards(tmp_path: Path) -> None:
    """Of each expert a weight and scales, in different files; the model has all experts in one tensor."""
    import transformers
    from safetensors.torch import load_file, save_file

    import tiny_language

    sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2}
    experts = {"num_experts": 4, "moe_intermediate_size": 32, "head_dim": 16, "vocab_size": tiny_language.VOCABULARY}
    model = transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**sizes, **experts)).eval()
    tiny_language.save(model, tmp_path / "model")
    single, stored, expected = tmp_path / "model" / "model.safetensors", {}, {}
    for name, weight in load_file(single).items():
        stored[name] = expected[name] = weight
        if name.endswith("_proj.weight"):
            parts, made = folders.fp8((32, 32))(weight.numpy())
            stored |= {name.removesuffix(".weight") + ending: torch.as_tensor(part) for ending, part in parts.items()}
            expected[name] = torch.from_numpy(made)
    single.unlink()
    places = {name: f"model-0000{n % 2 + 1}-of-00002.safetensors" for n, name in enumerate(sorted(stored))}
    for file in set(places.values()):
        save_file({name: stored[name] for name in stored if places[name] == file}, tmp_path / "model" / file)
    (tmp_path / "model" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    settings = {**FP8, "weight_block_size": [32, 32]}
    folders.configure(tmp_path / "model", quantization_config=settings, dtype="bfloat16")
    LanguageModel(tmp_path / "model").model.save_pretrained(tmp_path / "dense")
    found = load_file(tmp_path / "dense" / "model.safetensors")
    assert found.keys() == expected.keys()
    for name in expected:
        _equal(expected[name], found[name], name)


def test_groups_of_layers_by_name() -> None:
    """compressed-tensors: a name goes before a pattern, a pattern before a kind of module."""
    about = {"type": "int", "strategy": "tensor", "num_bits": 8}
    targets = {"a": ["Linear"], "b": ["re:.*proj"], "c": ["m.k_proj"]}
    groups = {key: {"targets": names, "weights": about, "format": "int-quantized"} for key, names in targets.items()}
    groups["b"]["weights"] = {**about, "num_bits": 4}
    groups["c"]["format"] = "float-quantized"

    def parts(name: str, groups: Any) -> Any:
        codes = torch.tensor([[1, 2]], dtype=torch.int8)
        stored = {".weight": codes, ".weight_scale": torch.ones(1)}
        layer = Layer(f"{name}.weight", stored, {"config_groups": groups}, "", torch.bfloat16)
        return SCHEMES["compressed-tensors"].weight(layer)

    assert parts("m.down", groups).tolist() == [[1, 2]]
    assert parts("m.q_proj", groups).tolist() == [[1, 2]]
    groups["c"]["weights"] = {**about, "type": "float"}
    with pytest.raises(numc.NumcError, match="do not fit together"):
        parts("m.k_proj", groups)  # of the third group, which has floats
    with pytest.raises(numc.NumcError, match="'m.x.weight': no group of config_groups has it among its targets: want"):
        parts("m.x", {"b": groups["b"], "c": groups["c"]})
    groups["b"]["targets"] = ["re:["]
    with pytest.raises(numc.NumcError, match=r"targets is \[: want a regular expression for the names of layers"):
        parts("m.x", groups)


def test_bits_by_layer() -> None:
    """GPTQModel: the first pattern that a name begins with says how a layer differs."""
    weight = _weight().numpy()
    dynamic = {"-:.*lm_head": {}, r"+:m\.q_proj": {"bits": 8, "group_size": 64}, "m.q": {"bits": 2}, "m.k": {"bits": 3}}
    settings = {**GPTQ, "dynamic": dynamic}
    said = "gptq, 4 bits, groups of 32 inputs, gptq, 8 bits, groups of 64 inputs, gptq, 2 bits, groups of 32 inputs, "
    assert SCHEMES["gptq"].described(settings) == said + "gptq, 3 bits, groups of 32 inputs"
    for name, bits, size in (("q_proj", 8, 64), ("q_other", 2, 32), ("k_proj", 3, 32), ("up_proj", 4, 32)):
        parts, made = folders.gptq(bits, size=size)(weight)
        stored = {ending: torch.as_tensor(part) for ending, part in parts.items()}
        del stored[".g_idx"]
        layer = Layer(f"m.{name}.weight", stored, settings, "", torch.float16)
        _equal(torch.from_numpy(made), SCHEMES["gptq"].weight(layer), name)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_inputs_that_end_within_a_word(bits) -> None:
    """GPTQ: the last word of a column, and that of the zero points of a group, are not full."""
    weight = _weight().numpy()[:61, :100]
    parts, made = folders.gptq(bits, order=True, size=20)(weight)
    stored = {ending: torch.as_tensor(part) for ending, part in parts.items()}
    layer = Layer("m.weight", stored, {**GPTQ, "bits": bits, "group_size": 20}, "", torch.float16)
    _equal(torch.from_numpy(made), SCHEMES["gptq"].weight(layer), "weight")


@pytest.mark.all
def test_mixed_schemes_of_compressed_tensors(tmp_path: Path) -> None:
    """Three formats in one folder and layers that are left out: the library decompresses the same weights."""
    pytest.importorskip("compressed_tensors")
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import QuantizationConfig, QuantizationStatus, apply_quantization_config

    import tiny_language

    integer = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": False}
    channel = {"num_bits": 8, "type": "int", "strategy": "channel"}
    blocks = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [32, 64]}
    groups = {
        "a": {"targets": ["re:.*self_attn.*_proj$"], "weights": integer, "format": "pack-quantized"},
        "b": {"targets": ["Linear"], "weights": channel, "format": "int-quantized"},
        "c": {"targets": ["model.layers.1.mlp.down_proj"], "weights": blocks, "format": "float-quantized"},
    }
    left_out = ["lm_head", "re:.*layers.0.mlp.up_proj"]
    config = QuantizationConfig(
        config_groups=groups, format="mixed-precision", ignore=left_out, quant_method="compressed-tensors"
    )
    model = tiny_language.llama(2, hidden_size=64, intermediate_size=128).to(torch.bfloat16)
    apply_quantization_config(model, config)
    for module in model.modules():
        if scheme := getattr(module, "quantization_scheme", None):
            random = torch.rand(module.weight_scale.shape, generator=torch.Generator().manual_seed(0))
            module.weight_scale.data = (random / 64 + 2**-8).to(module.weight_scale.dtype)
            if not scheme.weights.symmetric:
                module.weight_zero_point.data += torch.arange(module.weight_zero_point.shape[1]) % 5
    config.quantization_status = QuantizationStatus.COMPRESSED
    library = ModelCompressor.from_pretrained_model(model)
    library.compress_model(model)
    model.save_pretrained(tmp_path / "model", max_shard_size="60KB")
    library.update_config(tmp_path / "model")
    assert len(list((tmp_path / "model").glob("*.safetensors"))) > 1
    library.decompress_model(model)
    mine = LanguageModel(tmp_path / "model")
    assert mine.quantised.count("a scale for each") == 3
    weights = mine.model.state_dict()
    for name, weight in model.state_dict().items():
        if name.endswith(".weight"):
            _equal(weight, weights[name], name)
