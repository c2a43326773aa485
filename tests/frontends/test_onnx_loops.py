"""Loops of ONNX whose length only a run knows, against onnxruntime: the same results for every number of steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import numc

HEAD = '<ir_version: 8, opset_import: ["" : {opset}]>\n'
W = np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32)
LETTERS = "abcdefghij"


def saved(folder: Path, text: str, opset: int = 18, **constants: Any) -> Path:
    """A file with a model in ONNX's text, in which `constants` are initialisers."""
    model = onnx.parser.parse_model(HEAD.format(opset=opset) + text)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items())
    onnx.save(model, folder / "loop.onnx")
    return folder / "loop.onnx"


def compare(path: Path, feeds: list[dict[str, Any]], **options: Any) -> numc.Program:
    options_of_session = onnxruntime.SessionOptions()
    options_of_session.log_severity_level = 3
    session, program = onnxruntime.InferenceSession(path, options_of_session), numc.compile(path, **options)
    for feed in feeds:
        arrays = {name: np.asarray(value) for name, value in feed.items()}
        got = program.by_name(arrays)
        for output, want in zip(session.get_outputs(), session.run(None, arrays), strict=True):
            assert got[output.name].dtype == want.dtype, output.name
            if want.size == got[output.name].size == 0:
                continue  # onnxruntime does not know the sizes of what no step gives
            assert got[output.name].shape == want.shape, (output.name, feed)
            np.testing.assert_allclose(got[output.name], want, rtol=1e-5, atol=1e-6, err_msg=f"{output.name}: {feed}")
    return program


def rows(*counts: int) -> list[np.ndarray]:
    return [np.random.default_rng(n).standard_normal((count, 4)).astype(np.float32) for n, count in enumerate(counts)]


COUNTED = """
m (float[n, 4] given, int64 count) => (float[n, 4] y, float[k, n, 4] z, float[n, 4] x) {
  x = Neg (given)
  y, z = Loop (count, , x) <body = body (int64 i, bool go, float[n, 4] s)
      => (bool go_on, float[n, 4] t, float[n, 4] r) {
    go_on = Identity (go)
    p = MatMul (s, w)
    q = Tanh (p)
    number = Cast <to = 1> (i)
    r = Mul (q, number)
    t = Add (q, x)
  }>
}"""


@pytest.mark.parametrize("opset", [11, 18])
def test_a_number_of_steps_from_a_run(tmp_path: Path, opset: int) -> None:
    """With values of the graph around the loop, the number of the step, and what each step gives."""
    feeds = [{"given": x, "count": np.int64(count)} for x in rows(3, 1, 5) for count in (4, 0, 1, 17)]
    compare(saved(tmp_path, COUNTED, opset, w=W), feeds)


def test_every_multiply_add_of_a_step_is_the_operators(tmp_path: Path) -> None:
    path = saved(tmp_path, COUNTED, w=W)
    program = numc.compile(path, fma="bf16_1_1")
    (x,) = rows(3)
    state, each = x, []
    for number in range(3):
        tanh = np.tanh(numc.matmul(state, W, fma="bf16_1_1").astype(np.float64)).astype(np.float32)
        each.append(tanh * np.float32(number))
        state = tanh + x
    got = program(-x, np.array(3))
    np.testing.assert_array_max_ulp(got["y"], state, 1)  # of tanh, which is not rounded rightly in one of 2^24
    np.testing.assert_array_max_ulp(got["z"], np.stack(each), 1)
    assert [each["fma"] for each in program.manifest["contractions"]] == ["bf16_1_1"]


WHILE = """
m (float[n, 4] x) => (float[n, 4] y, int64 steps, float[k, n, 4] each) {
  y, steps, each = Loop (, start, x, zero) <body = body (int64 i, bool go, float[n, 4] s, int64 c)
      => (bool go_on, float[n, 4] t, int64 d, float[n, 4] t) {
    t = Add (s, x)
    d = Add (c, one)
    sum = ReduceMax <keepdims = 0> (t)
    go_on = Less (sum, limit)
  }>
}"""


def test_a_condition_ends_a_loop(tmp_path: Path) -> None:
    constants = {"start": True, "zero": np.int64(0), "one": np.int64(1), "limit": np.float32(9)}
    feeds = [{"x": np.abs(x)} for x in rows(3, 1, 5)]
    program = compare(saved(tmp_path, WHILE, **constants), feeds)
    steps = {int(program.by_name(feed)["steps"]) for feed in feeds}
    assert len(steps) > 1
    assert min(steps) > 2
    # One that is false from the start.
    compare(saved(tmp_path, WHILE, **{**constants, "start": False}), feeds)


BOTH = """
m (float[n, 4] x, int64 count, bool start) => (float[n, 4] y, float[k, 4] z) {
  y, z = Loop (count, start, x) <body = body (int64 i, bool go, float[n, 4] s)
      => (bool go_on, float[n, 4] t, float[4] r) {
    t = Add (s, x)
    r = ReduceSum <keepdims = 0> (t, axis)
    largest = ReduceMax <keepdims = 0> (t)
    go_on = Less (largest, limit)
  }>
}"""


def test_operators_that_are_functions_read_what_is_around(tmp_path: Path) -> None:
    text = BOTH.replace("go_on = Less (largest, limit)", "go_on = GreaterOrEqual (limit, largest)")
    path = saved(tmp_path, text, axis=np.int64([0]), limit=np.float32(9))
    compare(path, [{"x": np.abs(x), "count": np.int64(50), "start": np.bool_(True)} for x in rows(3, 1)])


def test_a_condition_and_a_number_of_steps(tmp_path: Path) -> None:
    path = saved(tmp_path, BOTH, axis=np.int64([0]), limit=np.float32(9))
    compare(path, [{"x": np.abs(x), "count": np.int64(count), "start": np.bool_(start)}
                   for x in rows(3, 1) for count in (0, 2, 50) for start in (True, False)])  # fmt: skip


GROWING = """
m (float[n, 4] x, int64 count) => (float[k, 4] y) {
  y = Loop (count, , x) <body = body (int64 i, bool go, float[p, 4] s) => (bool go_on, float[q, 4] t) {
    go_on = Identity (go)
    last = Gather <axis = 0> (s, minus)
    next = Unsqueeze (last, axis)
    more = Add (next, next)
    t = Concat <axis = 0> (s, more)
  }>
}"""


def test_what_grows_from_step_to_step(tmp_path: Path) -> None:
    path = saved(tmp_path, GROWING, axis=np.int64([0]), minus=np.int64(-1))
    compare(path, [{"x": x, "count": np.int64(count)} for x in rows(3, 1) for count in (0, 1, 9)])


NESTED = """
m (float[n, 4] x, int64 count) => (float[n, 4] y, int64[k] z) {
  y, z = Loop (count, , x) <body = outer (int64 i, bool go, float[n, 4] s) => (bool go_on, float[n, 4] t, int64 j) {
    go_on = Identity (go)
    t = Loop (i, , s) <body = inner (int64 l, bool g, float[n, 4] u) => (bool g2, float[n, 4] v) {
      g2 = Identity (g)
      a = Relu (u)
      b = Neg (x)
      v = Sub (a, b)
    }>
    flag = Greater (i, one)
    j = If (flag) <then_branch = yes () => (int64 a) { a = Mul (i, i) },
                   else_branch = no () => (int64 b) { b = Neg (i) }>
  }>
}"""


def test_loops_and_branches_in_a_loop(tmp_path: Path) -> None:
    path = saved(tmp_path, NESTED, one=np.int64(1))
    compare(path, [{"x": x, "count": np.int64(count)} for x in rows(3, 1) for count in (0, 1, 5)])


PICKS = """
m (float[n] x, int64 count) => (float[n] y, int64[k] picks) {
  y, picks = Loop (count, , x) <body = body (int64 i, bool go, float[n] s) => (bool go_on, float[n] t, int64 pick) {
    go_on = Identity (go)
    place = ArgMax <axis = 0, keepdims = 1> (s)
    pick = Squeeze (place, axis)
    t = ScatterElements <axis = 0> (s, place, low)
  }>
}"""


def test_a_step_checks_its_nodes(tmp_path: Path) -> None:
    """Whose conditions name them: the largest of nothing, and an index out of range."""
    constants = {"axis": np.int64([0]), "low": np.float32([-100])}
    path = saved(tmp_path, PICKS, **constants)
    x = np.float32([3, 1, 4, 1.5, 9])
    program = compare(path, [{"x": x, "count": np.int64(count)} for count in (1, 3)])
    with pytest.raises(numc.NumcError, match=r"^an extreme of nothing has no place \(in 'y/place'\)$"):
        program(x[:0], np.array(1))
    wide = PICKS.replace("ScatterElements <axis = 0> (s, place, low)", "Add (s, u)").replace(
        "t = Add", "u = Gather <axis = 0> (row, i)\n    t = Add"
    )
    program = numc.compile(saved(tmp_path, wide, row=np.float32([1, 2, 3]), axis=np.int64([0])))
    with pytest.raises(numc.NumcError, match=r"^an index is out of range \(in 'y/u'\)$"):
        program(x, np.array(4))


CHOSEN = """
m (float[n, 4] x, int64 count, bool flag) => (float[n, 4] y) {
  y = If (flag) <then_branch = yes () => (float[n, 4] a) {
      a = Loop (count, , x) <body = body (int64 i, bool go, float[n, 4] s) => (bool go_on, float[n, 4] u) {
        go_on = Identity (go)
        u = Add (s, x)
      }>
    }, else_branch = no () => (float[n, 4] b) { b = Neg (x) }>
}"""


@pytest.mark.parametrize("opset", [11, 18])
def test_a_loop_in_a_branch(tmp_path: Path, opset: int) -> None:
    feeds = [{"x": x, "count": np.int64(3), "flag": np.bool_(flag)} for x in rows(3, 1) for flag in (True, False)]
    compare(saved(tmp_path, CHOSEN, opset), feeds)


SCAN = """
m (float[4] start, float[t, 4] x, float[4, t2] back) => (float[4] y, float[4, k] z, float[k, 4] u) {
  y, z, u = Scan <num_scan_inputs = 2, scan_input_axes = [0, 1], scan_input_directions = [0, 1],
                  scan_output_axes = [1, 0], scan_output_directions = [0, 1],
      body = step (float[4] s, float[4] a, float[4] b) => (float[4] t, float[4] d, float[4] e) {
    r = Mul (s, half)
    t = Add (r, a)
    d = Sub (t, b)
    e = Add (a, b)
  }> (start, x, back)
}"""


@pytest.mark.parametrize("opset", [9, 18])
def test_sequences_of_free_length(tmp_path: Path, opset: int) -> None:
    path = saved(tmp_path, SCAN, opset, half=np.float32(0.5))
    start = np.float32([1, -2, 3, 0.5])
    feeds = [{"start": start, "x": x, "back": x[::-1].T.copy() * 2} for x in rows(5, 1, 12)]
    program = compare(path, feeds)
    with pytest.raises(numc.NumcError, match=r"^sizes do not fit: 'back' has another number of elements \(in .*\)$"):
        program(start, *(feeds[0]["x"], feeds[1]["back"]))
    assert program(start, np.zeros((0, 4), np.float32), np.zeros((4, 0), np.float32))["u"].shape == (0, 4)


FRAMES = """
m (float[b, 6] start, float[b2, t, 4] x) => (float[b, 6] last, float[b, k, 10] frames) {
  last, frames = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
      body = step (float[b, 6] s, float[b2, 4] a) => (float[b, 6] t, float[b, 10] frame) {
    frame = Concat <axis = -1> (s, a)
    t = Slice (frame, four, end, axis)
  }> (start, x)
}"""


def test_what_steps_give_may_have_sizes_that_only_a_step_tells(tmp_path: Path) -> None:
    """Overlapping frames of several sounds, whose number has another name in either input."""
    path = saved(tmp_path, FRAMES, four=np.int64([4]), end=np.int64([99]), axis=np.int64([1]))
    start = np.arange(12, dtype=np.float32).reshape(2, 6)
    compare(path, [{"start": start, "x": np.stack([x, -x])} for x in rows(5, 1, 8)])


DISTANCES = """
m (float[n, 4] x) => (float[n, r] distances) {
  unused, transposed = Scan <num_scan_inputs = 1,
      body = step (float[r, 4] all, float[4] row) => (float[r, 4] same, float[r] each) {
    same = Identity (all)
    difference = Sub (all, row)
    square = Mul (difference, difference)
    each = ReduceSum <keepdims = 0> (square, axis)
  }> (known, x)
  distances = Identity (transposed)
}"""


def test_distances_as_sklearn_onnx_writes_them(tmp_path: Path) -> None:
    """With a free batch, and a state that no step changes."""
    path = saved(tmp_path, DISTANCES, axis=np.int64([1]), known=rows(7)[0])
    compare(path, [{"x": x} for x in rows(3, 1, 40)])


def test_a_loop_longer_than_can_be_unrolled(tmp_path: Path) -> None:
    text = COUNTED.replace(", int64 count", "").replace("Loop (count", "Loop (many")
    program = compare(saved(tmp_path, text, w=W, many=np.int64(12_000)), [{"given": x} for x in rows(1)])
    assert len(program.manifest["contractions"]) == 1


@pytest.mark.parametrize(
    ("text", "constants", "told"),
    [
        (COUNTED.replace("(count, , x)", "(, , x)"), {"w": W}, "it has no number of steps, and no step ends it"),
        (
            COUNTED.replace("t = Add (q, x)", "t = StringNormalizer (q)"),
            {"w": W},
            "in its steps, 1 node cannot be compiled: node 'y/t' (StringNormalizer, opset 18): only what computes "
            "tensors of numbers is available: do this before the model",
        ),
        (
            COUNTED.replace("t = Add (q, x)", "t = Cast <to = 11> (q)").replace("go_on, float", "go_on, double"),
            {"w": W},
            "a step takes 's' in another type than it gives",
        ),
        (
            COUNTED.replace("t = Add (q, x)", "t = ReduceSum <keepdims = 0> (q)"),
            {"w": W},
            "a step takes 's' with 2 dimensions and gives 0",
        ),
        (
            COUNTED.replace("4] given,", "4] given, uint16[4] v,").replace("<to = 1> (i)", "<to = 1> (v)"),
            {"w": W},
            "'v' is uint16, which only a loop takes that is unrolled: want another type, or a number of steps that is "
            "known, by values={...} or --value",
        ),
        (
            COUNTED.replace("float[n, 4] r", "seq(float[n, 4]) r").replace("Mul (q, number)", "SequenceConstruct (q)"),
            {"w": W},
            "its steps hand on sequences, which only a loop does that is unrolled",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path: Path, text: str, constants: dict[str, Any], told: str) -> None:
    with pytest.raises(numc.NumcError) as caught:
        numc.compile(saved(tmp_path, text, **constants))
    assert str(caught.value).endswith(f"1 node cannot be compiled: node 'y' (Loop, opset 18): {told}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (COUNTED.replace(", float[n, 4] s)", ")").replace("(s, w)", "(x, w)"), "its body has 2 inputs: want 3, as"),
        (COUNTED.replace("float[n, 4] t, float[n, 4] r)", "float[n, 4] t)"), "its body has 2 outputs: want 3 or more"),
        (COUNTED.replace("int64 count", "float count"), "its input 0 (M), 'count', is floats: it has to be integers"),
        (SCAN.replace("inputs = 2", "inputs = 7"), "its attribute num_scan_inputs is 7: want 1 to 3"),
        (SCAN.replace("input_axes = [0, 1]", "input_axes = [0, 5]"), "attribute scan_input_axes has 5: want -2 to 1"),
        (SCAN.replace("output_axes = [1, 0]", "output_axes = [7, 0]"), "scan_output_axes has 7: want -2 to 1"),
        (SCAN.replace("put_directions = [0, 1]", "put_directions = [0]"), "_directions has 1 numbers: want 2"),
    ],
)  # fmt: skip
def test_loops_that_are_not_as_onnx_defines_them(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(numc.NumcError) as caught:
        numc.compile(saved(tmp_path, text, w=W, half=np.float32(0.5)))
    assert told in str(caught.value)
