"""Every kind of contraction is recognised, runs in a kernel, and verifies; other float operations follow `ops`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import arithmetic_vectorised as reference
import numc
from numc.frontends.imported import Argument, Imported
from targets_here import WITHOUT_GROUPS
from tiers import one_in, pairs

OPERATIONS = {
    "batch_matmul": ("linalg.batch_matmul", "3x5x7", "3x7x6", "3x5x6", ""),
    "matvec": ("linalg.matvec", "9x70", "70", "9", ""),
    "vecmat": ("linalg.vecmat", "70", "70x9", "9", ""),
    "dot": ("linalg.dot", "70", "70", "", ""),
    "conv_1d": ("linalg.conv_1d_ncw_fcw", "2x3x20", "4x3x5", "2x4x16", ""),
    "conv_2d_nhwc": ("linalg.conv_2d_nhwc_hwcf", "2x9x9x3", "3x3x3x4", "2x7x7x4", ""),
    "conv_2d_strided": (
        "linalg.conv_2d_nchw_fchw",
        "2x3x11x11",
        "4x3x3x3",
        "2x4x5x5",
        "strides = dense<2> : vector<2xi64>",
    ),
    "conv_2d_dilated": (
        "linalg.conv_2d_nchw_fchw",
        "2x3x11x11",
        "4x3x3x3",
        "2x4x7x7",
        "dilations = dense<2> : vector<2xi64>",
    ),
    "conv_2d_grouped": ("linalg.conv_2d_ngchw_gfchw", "2x2x3x9x9", "2x4x3x3x3", "2x2x4x7x7", ""),
    "conv_3d": ("linalg.conv_3d_ncdhw_fcdhw", "1x2x6x6x6", "3x2x3x3x3", "1x3x4x4x4", ""),
    "depthwise_nchw": ("linalg.depthwise_conv_2d_nchw_chw", "2x5x9x9", "5x3x3", "2x5x7x7", ""),
    "depthwise_nhwc": ("linalg.depthwise_conv_2d_nhwc_hwc", "2x9x9x5", "3x3x5", "2x7x7x5", ""),
}


def tensor(shape: str) -> str:
    return f"tensor<{shape + 'x' if shape else ''}f32>"


OPERATORS = ["fp32", "bf16_1_1", "bf16_2_2{3}", "fmac(bf16,chunk=5)", "bfp(5,2,4)", "mxfp8", "int8"]


@pytest.mark.parametrize(
    ("name", "fma"), one_in(2, pairs(list(OPERATIONS), OPERATORS, lambda name, fma: fma == "bf16_2_2{3}"))
)
def test_contraction(name: str, fma: str) -> None:
    op, *shapes, attributes = OPERATIONS[name]
    a, b, c = map(tensor, shapes)
    text = f"""
    func.func @main(%a: {a}, %b: {b}, %c: {c}) -> {c} {{
      %r = {op} {{{attributes}}} ins(%a, %b : {a}, {b}) outs(%c : {c}) -> {c}
      return %r : {c}
    }}"""
    program = numc.compile(Imported(mlir=text), fma=fma)
    assert len(program.manifest["contractions"]) == 1
    rng = np.random.default_rng(0)
    feeds = {i.name: rng.standard_normal([d or 0 for d in i.shape]).astype(np.float32) for i in program.inputs}
    report = numc.verify(program, feeds, samples=200)
    assert report.mismatches == 0, report.first
    assert report.checked > 0


@pytest.mark.parametrize(("group", "stride"), [(1, 1), (1, 2)])
def test_transposed_convolution(group: int, stride: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], "up", group=group, strides=[stride, stride])
    size = (7 - 1) * stride + 3
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 7, 7))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3, size, size))],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, tmp_path / "up.onnx")
    program = numc.compile(tmp_path / "up.onnx", fma="bf16_1_2")
    x = rng.standard_normal((1, 4, 7, 7)).astype(np.float32)
    report = numc.verify(program, {"x": x}, samples=200)
    assert report.mismatches == 0, report.first
    exact = np.zeros((1, 3, size, size))
    for i in range(7):
        for j in range(7):
            patch = np.einsum("c,cfhw->fhw", x[0, :, i, j].astype(float), weight.astype(float))
            exact[0, :, i * stride : i * stride + 3, j * stride : j * stride + 3] += patch
    # bf16 operands: the result is near the exact one, which shows that the right elements meet.
    np.testing.assert_allclose(np.asarray(program(x)), exact, atol=0.3)


ELEMENTWISE = """
#id = affine_map<(i) -> (i)>
func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>, %c: tensor<?xf32>) -> tensor<?xf32> {{
  %r = linalg.generic {{indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel"]}}
      ins(%a, %b, %c : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) outs(%a : tensor<?xf32>) {{
  ^bb0(%x: f32, %y: f32, %z: f32, %o: f32):
    {body}
    linalg.yield %r : f32
  }} -> tensor<?xf32>
  return %r : tensor<?xf32>
}}"""


@pytest.mark.parametrize("ops", ["fp32", "bf16", "e6m9n", "e5m2:rtz"])
def test_other_operations_are_rounded_around(ops: str) -> None:
    body = "%s = arith.addf %x, %y : f32\n %r = arith.divf %s, %z : f32"
    program = numc.compile(Imported(mlir=ELEMENTWISE.format(body=body)), ops=ops)
    a, b, c = reference.operands(1 << 16, 1)
    with np.errstate(all="ignore"):
        total = reference.round(reference.round(a, ops) + reference.round(b, ops), ops)
        want = reference.round(total / reference.round(c, ops), ops)
    assert (found := reference.first_mismatch(np.asarray(program(a, b, c)), want, a, b, c)) is None, found


@pytest.mark.parametrize("fma", ["fp32", "bf16_1_2", "bf16_2_2{3}", "fmac(e6m9)"])
def test_a_multiply_that_feeds_an_add_is_an_fma(fma: str) -> None:
    body = "%p = arith.mulf %x, %y : f32\n %r = arith.addf %z, %p : f32"
    program = numc.compile(Imported(mlir=ELEMENTWISE.format(body=body)), fma=fma)
    a, b, c = reference.operands(1 << 16, 2)
    want = reference.fma(a, b, c, fma)
    assert (found := reference.first_mismatch(np.asarray(program(a, b, c)), want, a, b, c)) is None, found


@pytest.mark.parametrize(
    ("size", "target"),
    pairs([9, 15, 17, 29, 113, 225], WITHOUT_GROUPS, lambda size, target: size in (9, 17) and target == "x86-64-v2"),
)
def test_every_number_of_runs_in_a_vector(size: int, target: str) -> None:
    """Rows of 4 to 112 outputs two elements apart: vectors of one run, of several, of more than are read at once."""
    out = (size - 3) // 2 + 1
    rng = np.random.default_rng(size)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((2, 2, size, size), (5, 2, 3, 3), (2, 5, out, out)))
    image, kernel, result = (tensor("x".join(map(str, x.shape))) for x in (a, b, c))
    text = f"""
    func.func @main(%a: {image}, %b: {kernel}, %c: {result}) -> {result} {{
      %r = linalg.conv_2d_nchw_fchw {{strides = dense<2> : vector<2xi64>}} ins(%a, %b : {image}, {kernel}) outs(%c : {result}) -> {result}
      return %r : {result}
    }}"""  # noqa: E501
    got = numc.compile(Imported(mlir=text), fma="bf16_2_2{3}", target=target)(a, b, c)
    windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    matrix = windows.transpose(0, 2, 3, 1, 4, 5).reshape(2 * out * out, 18)
    start = np.ascontiguousarray(c.transpose(0, 2, 3, 1).reshape(-1, 5))
    want = reference.matmul(matrix, np.ascontiguousarray(b.reshape(5, -1).T), start, "bf16_2_2{3}")
    want = np.ascontiguousarray(want.reshape(2, out, out, 5).transpose(0, 3, 1, 2))
    assert (found := reference.first_mismatch(got, want)) is None, found


def test_arithmetic_on_whole_tensors_is_elementwise() -> None:
    text = """
    func.func @main(%a: tensor<5x7xf32>, %b: tensor<5x7xf32>, %c: tensor<5x7xf32>) -> tensor<5x7xf32> {
      %p = arith.mulf %a, %b : tensor<5x7xf32>
      %r = arith.addf %p, %c : tensor<5x7xf32>
      return %r : tensor<5x7xf32>
    }"""
    a, b, c = np.random.default_rng(0).standard_normal((3, 5, 7)).astype(np.float32)
    got = numc.compile(Imported(mlir=text), ops="bf16")(a, b, c)
    product = numc.round(numc.round(a, "bf16") * numc.round(b, "bf16"), "bf16")
    want = numc.round(product + numc.round(c, "bf16"), "bf16")
    assert (found := reference.first_mismatch(got, want)) is None, found


@pytest.mark.parametrize(
    ("fma", "side"),
    pairs(["mp", "bf16_2_2{3}", "bf16_3_3{6}", "fmac(e6m9)"], [0, 1], lambda fma, _: fma == "bf16_2_2{3}"),
)
def test_a_weight_packed_at_compile_time_is_split_like_an_input(fma: str, side: int) -> None:
    """Weights whose first part is a tie: a different split would drop other products."""
    rng = np.random.default_rng(0)
    shapes = (19, 70), (70, 37)
    operands = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    ties = rng.integers(0, 2, shapes[side]).astype(np.uint32) << np.uint32(16) | np.uint32(0x8000)
    operands[side] = (operands[side].view(np.uint32) & np.uint32(0xFFFE0000) | ties).view(np.float32)
    a, b = (f"tensor<{m}x{n}xf32>" for m, n in shapes)
    text = f"""
    func.func @main(%x: {(b, a)[side]}, %w: {(a, b)[side]}) -> tensor<19x37xf32> {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<19x37xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<19x37xf32>) -> tensor<19x37xf32>
      %r = linalg.matmul ins({("%w, %x", "%x, %w")[side]} : {a}, {b}) outs(%f : tensor<19x37xf32>) -> tensor<19x37xf32>
      return %r : tensor<19x37xf32>
    }}"""
    given = Argument("x", "float32", shapes[1 - side])
    source = Imported(text, (given,), (Argument("y", "float32", (19, 37)),), {1: ("w", operands[side])})
    program = numc.compile(source, fma=fma)
    assert any("packed" in weight.name for weight in program.contents.abi.weights)
    want = reference.matmul(*operands, np.zeros((19, 37), np.float32), fma)
    assert (found := reference.first_mismatch(program(operands[1 - side]), want)) is None, found
