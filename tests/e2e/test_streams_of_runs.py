"""Epilogues with a number for every channel of an image, where the pixels of several images are lanes of one tile."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

import numc
from arithmetic_vectorised import first_mismatch
from tiers import by_default, one_in

# Sizes of the factor and of the term, by dimensions of the result: of every channel of an image, of an image, of a line
# of an image, of a channel, of everything (d: the height).
KINDS = [("nc11", "nchw"), ("n111", "nc11"), ("n1h1", "ncdw"), ("nch1", "1c11"), ("ncdw", "nc1w")]


class Modulated(nn.Module):
    """A convolution, whose results are scaled and shifted, as by squeeze-and-excitation and by embeddings of time."""

    def __init__(self, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(20, 24, kernel, stride, kernel // 2)

    def forward(self, images: list[Tensor], factors: list[Tensor], terms: list[Tensor]) -> tuple[Tensor, ...]:
        edges = zip(images, factors, terms, strict=True)
        return tuple(torch.relu(self.conv(x) * factor + term) for x, factor, term in edges)


def sizes(kind: str, shape: tuple[int, ...]) -> list[int]:
    return [size if letter in "nchwd" else 1 for letter, size in zip(kind, shape, strict=True)]


@pytest.mark.parametrize("fma", by_default(one_in(3, ["fp32", "bf16_2_2", "fma(a=fp16, b=fp16, acc=e6m9)"]), ["fp32"]))
@pytest.mark.parametrize(("kernel", "stride", "free"), [(1, 1, False), (3, 2, True)])
def test_numbers_of_images_in_an_epilogue(fma: str, kernel: int, stride: int, free: bool) -> None:
    """The results are those of the convolution alone, scaled and shifted by numpy, to the bit."""
    torch.manual_seed(0)
    rng, module = np.random.default_rng(0), Modulated(kernel, stride)
    x = rng.standard_normal((5, 20, 14, 19)).astype(np.float32)
    plain = numc.compile(module.conv, (torch.from_numpy(x),), fma=fma)
    product = np.asarray(plain(x))
    factors, terms = (
        [rng.standard_normal(sizes(kind, product.shape)).astype(np.float32) for kind in each]
        for each in zip(*KINDS, strict=True)
    )
    # An image for each: equal products would be one.
    images = [x + np.float32(n) for n in range(len(KINDS))]
    inputs = tuple([torch.from_numpy(value) for value in each] for each in (images, factors, terms))
    batch = {0: torch.export.Dim("batch", min=2)}
    dims = tuple([batch if value.shape[0] > 1 else None for value in each] for each in inputs) if free else None
    program = numc.compile(module, inputs, fma=fma, dynamic_shapes=dims)
    wants = [
        np.maximum(np.asarray(plain(image)) * f + t, np.float32(0))
        for image, f, t in zip(images, factors, terms, strict=True)
    ]
    for threads in (1, 2):
        found = program(*images, *factors, *terms, threads=threads).values()
        for kinds, got, want in zip(KINDS, found, wants, strict=True):
            mismatch = first_mismatch(np.asarray(got), want)
            assert mismatch is None, (kinds, threads, mismatch)


def test_a_line_of_one_pixel() -> None:
    """Where the last dimension of a run of lanes has one element in some runs of the program."""
    helper = onnx.helper
    weight = np.random.default_rng(0).standard_normal((24, 20, 1, 1)).astype(np.float32)
    x, number, y = (
        helper.make_tensor_value_info(name, 1, ["n", channels, "h", width])
        for name, channels, width in (("x", 20, "w"), ("number", 24, 1), ("y", 24, "w"))
    )
    nodes = [
        helper.make_node("Conv", ["x", "weight"], ["z"]),
        helper.make_node("Mul", ["z", "number"], ["scaled"]),
        helper.make_node("Relu", ["scaled"], ["y"]),
    ]
    stored = [onnx.numpy_helper.from_array(weight, "weight")]

    def program(inputs: list[onnx.ValueInfoProto], count: int, output: onnx.ValueInfoProto) -> numc.Program:
        graph = helper.make_graph(nodes[:count], "g", inputs, [output], stored)
        return numc.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))

    conv = program([x], 1, helper.make_tensor_value_info("z", 1, ["n", 24, "h", "w"]))
    scaled = program([x, number], 3, y)
    for height, width in ((6, 5), (9, 1), (1, 17), (1, 1)):
        image = np.random.default_rng(1).standard_normal((4, 20, height, width)).astype(np.float32)
        factor = np.random.default_rng(2).standard_normal((4, 24, height, 1)).astype(np.float32)
        want = np.maximum(np.asarray(conv(image)) * factor, np.float32(0))
        mismatch = first_mismatch(np.asarray(scaled(image, factor)), want)
        assert mismatch is None, (height, width, mismatch)
