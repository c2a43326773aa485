"""Published networks with random weights, as torch modules: the same module goes to numc, onnxruntime and inductor."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples" / "models"))
import zoo

Inputs = tuple[Tensor, ...]

#: MobileNetV3-Large (Howard et al. 2019, table 1): kernel, expanded channels, filters, squeeze-and-excitation,
#: hardswish, stride.
V3_LARGE = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)


def _convolution(channels: int, filters: int, size: int, stride: int = 1, group: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(channels, filters, size, stride, size // 2, groups=group, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(filters))


class _Squeeze(nn.Module):
    """Squeeze and excitation by a hard sigmoid."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        reduced = max(8, (channels // 4 + 4) // 8 * 8)
        self.down, self.up = nn.Conv2d(channels, reduced, 1), nn.Conv2d(reduced, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * functional.hardsigmoid(self.up(self.down(x.mean((2, 3), keepdim=True)).relu()))


class _Inverted(nn.Module):
    """An inverted residual of MobileNetV3."""

    def __init__(self, channels: int, size: int, wide: int, filters: int, squeeze: bool, swish: bool, stride: int):
        super().__init__()
        act = nn.Hardswish() if swish else nn.ReLU()
        layers = [_convolution(channels, wide, 1), act] if wide != channels else []
        layers += [_convolution(wide, wide, size, stride, wide), act]
        layers += [_Squeeze(wide)] if squeeze else []
        self.layers = nn.Sequential(*layers, _convolution(wide, filters, 1))
        self.residual = stride == 1 and channels == filters

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


class _Basic(nn.Module):
    """A basic residual block of ResNet."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        stride = filters // channels
        self.layers = nn.Sequential(
            _convolution(channels, filters, 3, stride), nn.ReLU(), _convolution(filters, filters, 3)
        )
        self.shortcut = _convolution(channels, filters, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.shortcut(x) + self.layers(x))


def _resnet20() -> nn.Module:
    """ResNet-20 of CIFAR-10 (He et al. 2016, section 4.2), with projections as shortcuts."""
    blocks = [_Basic(*sizes) for sizes in ((16, 16), (16, 16), (16, 16), (16, 32), (32, 32), (32, 32))]
    blocks += [_Basic(*sizes) for sizes in ((32, 64), (64, 64), (64, 64))]
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)
    return nn.Sequential(_convolution(3, 16, 3), nn.ReLU(), *blocks, *head)


def mobilenet_v3(classes: int = 1000) -> nn.Module:
    """MobileNetV3-Large."""
    layers: list[nn.Module] = [_convolution(3, 16, 3, 2), nn.Hardswish()]
    channels = 16
    for size, wide, filters, squeeze, swish, stride in V3_LARGE:
        layers.append(_Inverted(channels, size, wide, filters, squeeze, swish, stride))
        channels = filters
    layers += [_convolution(channels, 960, 1), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, classes))


class Result(nn.Module):
    """A model of the transformers library that returns one tensor."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the logits, or the last hidden state."""
        return self.model(*inputs, return_dict=False)[0]  # type: ignore[no-any-return]


class Decode(nn.Module):
    """One step of generation: a token for each sequence, and the keys and values of those before it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, *past: Tensor) -> Tensor:
        """Return the logits of the next token."""
        cache = transformers.DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        return self.model(tokens, past_key_values=cache, use_cache=True, return_dict=False)[0]  # type: ignore[no-any-return]


class Lstm(nn.Module):
    """Two layers of 512 cells."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(256, 512, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return the hidden states of the last layer."""
        return self.lstm(x)[0]  # type: ignore[no-any-return]


def _library(kind: str, config: str, **values: Any) -> nn.Module:
    return Result(getattr(transformers, kind)(getattr(transformers, config)(**values)))


def _image(batch: int) -> Inputs:
    return (torch.randn(batch, 3, 224, 224),)


def _words(length: int, vocabulary: int) -> Callable[[int], Inputs]:
    return lambda batch: (torch.randint(vocabulary, (batch, length)),)


def _prompt(batch: int) -> Inputs:
    past = (torch.randn(batch, 12, 64, 64) for _ in range(24))
    return (torch.randint(50257, (batch, 1)), *past)


def _gpt2() -> nn.Module:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config())  # type: ignore[no-any-return]


def _resnet50() -> nn.Module:
    return _library("ResNetForImageClassification", "ResNetConfig", num_labels=1000)


#: A network by name: how it is made, and its inputs for a batch size.
NETWORKS: Mapping[str, tuple[Callable[[], nn.Module], Callable[[int], Inputs]]] = {
    "ResNet-50": (_resnet50, _image),
    "ResNet-20, 32x32 pixels": (_resnet20, lambda batch: (torch.randn(batch, 3, 32, 32),)),
    "MobileNetV3-L": (mobilenet_v3, _image),
    "EfficientNet-B0": (
        lambda: _library(
            "EfficientNetForImageClassification",
            "EfficientNetConfig",
            width_coefficient=1.0,
            depth_coefficient=1.0,
            image_size=224,
            hidden_dim=1280,
            num_labels=1000,
        ),
        _image,
    ),
    "ConvNeXt-T": (lambda: _library("ConvNextForImageClassification", "ConvNextConfig", num_labels=1000), _image),
    "Swin-T": (lambda: _library("SwinForImageClassification", "SwinConfig", num_labels=1000), _image),
    "ViT-B/32": (lambda: _library("ViTForImageClassification", "ViTConfig", patch_size=32, num_labels=1000), _image),
    "DeiT-Ti": (
        lambda: _library(
            "DeiTForImageClassification",
            "DeiTConfig",
            hidden_size=192,
            num_attention_heads=3,
            intermediate_size=768,
            num_labels=1000,
        ),
        _image,
    ),
    "BERT-base, 128 tokens": (lambda: _library("BertModel", "BertConfig"), _words(128, 30522)),
    "GPT-2, 64 tokens": (lambda: Result(_gpt2()), _words(64, 50257)),
    "GPT-2, 1 token after 64": (lambda: Decode(_gpt2()), _prompt),
    "LSTM, 32 steps": (Lstm, lambda batch: (torch.randn(batch, 32, 256),)),
}


def network(name: str, batch: int) -> tuple[nn.Module, Inputs]:
    """Return the network in evaluation mode with random weights, and inputs."""
    make, inputs = NETWORKS[name]
    torch.manual_seed(0)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        model = make()
        # Activations of the size of trained ones: the statistics of one batch. Some libraries begin with weights so
        # small that deep activations are subnormal.
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = 1.0
        model.train()(*inputs(4))
        return model.eval(), inputs(batch)


_NO_DROPOUT = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)


def _gpt() -> nn.Module:
    return _library("GPT2LMHeadModel", "GPT2Config", n_layer=6, n_head=8, n_embd=512, vocab_size=8000, **_NO_DROPOUT)


_LABELS = zoo.FULL["resnet18"].loss
#: A training step by name: the network, its inputs, and the loss.
STEPS: Mapping[str, zoo.Case] = {
    "ResNet-18, 32 images of 64x64": zoo.Case(
        lambda: _library(
            "ResNetForImageClassification",
            "ResNetConfig",
            layer_type="basic",
            depths=[2, 2, 2, 2],
            hidden_sizes=[64, 128, 256, 512],
        ),
        lambda: (torch.randn(32, 3, 64, 64),),
        _LABELS,
    ),
    "ResNet-50, 8 images of 128x128": zoo.Case(_resnet50, lambda: (torch.randn(8, 3, 128, 128),), _LABELS),
    "MobileNetV3-L, 8 images of 128x128": zoo.Case(mobilenet_v3, lambda: (torch.randn(8, 3, 128, 128),), _LABELS),
    "ConvNeXt-T, 4 images of 128x128": zoo.Case(
        lambda: _library("ConvNextForImageClassification", "ConvNextConfig"),
        lambda: (torch.randn(4, 3, 128, 128),),
        _LABELS,
    ),
    "ViT-S/16, 4 images of 224x224": zoo.Case(
        lambda: _library(
            "ViTForImageClassification",
            "ViTConfig",
            hidden_size=384,
            num_attention_heads=6,
            intermediate_size=1536,
        ),
        lambda: _image(4),
        _LABELS,
    ),
    "transformer, 6 layers, 8 x 32 tokens": zoo.FULL["transformer"],
    "LSTM, 20 x 35 tokens": zoo.FULL["lstm"],
}
#: Training steps whose activations take more memory than all else.
LARGE_STEPS: Mapping[str, zoo.Case] = {
    "ResNet-18, 32 images of 224x224": zoo.Case(
        STEPS["ResNet-18, 32 images of 64x64"].model, lambda: (torch.randn(32, 3, 224, 224),), _LABELS
    ),
    "GPT, 6 layers of 512 features, 8 x 1024 tokens": zoo.Case(_gpt, lambda: _words(1024, 8000)(8), _LABELS),
}
