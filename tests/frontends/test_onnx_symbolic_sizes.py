"""Sizes that follow from products of free ones, as exporters of transformers compute shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import numc
from numc.frontends.onnx.prepare import prepare

HEADER = '<ir_version: 8, opset_import: ["" : 18]>'
Array = np.ndarray[Any, Any]


def sizes_of(text: str) -> dict[str, list[int | str]]:
    """The sizes of the results of a model that is prepared."""
    graph = prepare(parser.parse_model(f"{HEADER} g {text}"), {}).model.graph
    return {
        value.name: [dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim]
        for value in [*graph.value_info, *graph.output]
    }


MASK = """(float[b,4,s,5] x, float[b,5] m) => (float[] y)
<int64 zero = {0}, int64[1] first = {0}, int64[1] one = {1}, int64 heads = {4}, int64[1] four = {4},
 int64[1] rest = {-1}, int64[1] five = {5}, int64[4] wide = {1, 4, 1, 1}> {
  sm = Shape(m)  b = Gather(sm, zero)  b1 = Unsqueeze(b, first)
  s1 = Concat <axis = 0> (b1, one, one, five)  m1 = Reshape(m, s1)  m2 = Expand(m1, wide)
  h = Mul(b, heads)  h1 = Unsqueeze(h, first)  s2 = Concat <axis = 0> (h1, one, five)  m3 = Reshape(m2, s2)
  s3 = Concat <axis = 0> (b1, four, rest, five)  m4 = Reshape(m3, s3)
  y = Add(x, m4) }"""


def test_a_mask_of_all_heads_is_stretched() -> None:
    """As TorchScript exports TransformerEncoder with src_key_padding_mask: [4 b, 1, 5] as [b, 4, -1, 5]."""
    assert sizes_of(MASK)["m4"] == ["b", 4, 1, 5]
    rng = np.random.default_rng(0)
    x, m = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 4, 2, 5), (3, 5)))
    got = numc.compile(parser.parse_model(f"{HEADER} g {MASK}"))(x, m)
    np.testing.assert_array_equal(got, x + m[:, None, None])
    half = parser.parse_model(f"{HEADER} g {MASK.replace('float[', 'float16[')}")
    got = numc.compile(half)(x := x.astype(np.float16), m := m.astype(np.float16))
    np.testing.assert_array_equal(got, x + m[:, None, None])


POSITIONS = """(int64[b,s] i, float[1,6] table) => (float[] y)
<int64 zero = {0}, int64 second = {1}, int64[1] first = {0}, int64[1] one = {1}, int64[2] ones = {1, 1},
 int64[2] minus = {-1, -1}> {
  si = Shape(i)  b = Gather(si, zero)  s = Gather(si, second)  b1 = Unsqueeze(b, first)  s1 = Unsqueeze(s, first)
  row = Slice(table, first, s1, one, one)  p = Slice(table, first, s1, one)
  list = Concat <axis = 0> (b1, s1)  is = Equal(list, minus)  shape = Where(is, ones, list)
  all = Expand(row, shape)  f = Cast <to = 1> (i)  t = Add(f, all)  y = Add(t, p) }"""


def test_a_row_of_positions_is_stretched() -> None:
    """As TorchScript exports BERT without token types: what a slice does not cut keeps its size of 1."""
    found = sizes_of(POSITIONS)
    assert (found["row"][0], found["p"][0]) == (1, 1)
    assert found["all"][0] == "b"
    i, table = np.arange(8).reshape(2, 4), np.arange(6, dtype=np.float32)[None]
    got = numc.compile(parser.parse_model(f"{HEADER} g {POSITIONS}"))(i, table)
    np.testing.assert_array_equal(got, i + 2 * table[:, :4])


@pytest.mark.parametrize(
    ("shape", "want"),
    [
        ("c = Concat <axis = 0> (b1, s1, rest, eight)  y = Reshape(x, c)", ["b", "s", 4, 8]),
        ("c = Concat <axis = 0> (rest, s1, eight)  y = Reshape(x, c)", ["?", "s", 8]),  # 4 * b has no name
        ("c = Concat <axis = 0> (none, rest, none)  y = Reshape(x, c)", ["b", "s", 32]),
        ("c = Concat <axis = 0> (b1, rest)  y = Reshape <allowzero = 1> (x, c)", ["b", "?"]),
        ("bs = Mul(b, s)  q = Div(bs, s)  q1 = Unsqueeze(q, none)  c = Concat <axis = 0> (q1, rest, four)"
         "  y = Reshape(x, c)", ["b", "?", 4]),
        ("q = Div(b, three)  q1 = Unsqueeze(q, none)  c = Concat <axis = 0> (q1, rest)  y = Reshape(x, c)", ["?", "?"]),
        ("l = Slice(sx, one, three1)  c = Concat <axis = 0> (rest, l)  y = Reshape(x, c)", ["b", "s", 32]),
        ("l = Slice(sx, one, three1, none, rest)  y = Reshape(x, rest)", ["?"]),
        ("r = Reshape(b, rest)  q = Squeeze(s1)  c = Concat <axis = 0> (r, rest)  y = Reshape(x, c)", ["b", "?"]),
        ("bs = Mul(b, s)  q = Div(bs, s)  o = Cast <to = 9> (q)  l = Cast <to = 7> (o)  l1 = Unsqueeze(l, none)"
         "  c = Concat <axis = 0> (l1, rest)  y = Reshape(x, c)", ["?", "?"]),
        ("l = Cast <to = 7> (sx)  k = Identity(l)  y = Expand(x, k)", ["b", "s", 32]),
        ("y = Slice(x, one, s1, rest)", ["b", "s", "?"]),
        ("y = Slice(x, one, s1)", ["?", "s", 32]),
    ],
)  # fmt: skip
def test_sizes(shape: str, want: list[int | str]) -> None:
    text = (
        "(float[b,s,32] x) => (float[] y) <int64 zero = {0}, int64 second = {1}, int64 three = {3},"
        " int64[1] three1 = {3}, int64[1] none = {0}, int64[1] one = {1}, int64[1] four = {4}, int64[1] eight = {8},"
        " int64[1] rest = {-1}>"
        " { sx = Shape(x)  b = Gather(sx, zero)  s = Gather(sx, second)  b1 = Unsqueeze(b, none)"
        f" s1 = Unsqueeze(s, none) {shape} }}"
    )
    found = sizes_of(text)["y"]
    assert ["?" if str(size).startswith("unk") else size for size in found] == want


def test_a_shape_that_is_an_attribute() -> None:
    """As files of opset 1 have it."""
    text = "(float[b,4] x) => (float[] y) { y = Reshape <shape = [-1, 2]> (x) }"
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    got = numc.compile(parser.parse_model(f'<ir_version: 3, opset_import: ["" : 1]> g {text}'))(x)
    np.testing.assert_array_equal(got, x.reshape(4, 2))


def test_two_names_that_are_the_same_product() -> None:
    """A size that has no name of its own is divided as what it is."""
    text = """(float[b,4,s] x) => (float[] y)
    <int64[1] rest = {-1}, int64 zero = {0}, int64 last = {2}, int64[1] first = {0}> {
      sx = Shape(x)  s = Gather(sx, last)  s1 = Unsqueeze(s, first)  b = Gather(sx, zero)  b1 = Unsqueeze(b, first)
      c = Concat <axis = 0> (rest, s1)  r = Reshape(x, c)  t = Transpose(r)
      d = Concat <axis = 0> (s1, b1, rest)  y = Reshape(t, d) }"""
    assert sizes_of(text)["y"] == ["s", "b", 4]
    x = np.random.default_rng(0).standard_normal((2, 4, 3)).astype(np.float32)
    got = numc.compile(onnx.parser.parse_model(f"{HEADER} g {text}"))(x)
    np.testing.assert_array_equal(got, x.reshape(8, 3).T.reshape(3, 2, 4))
