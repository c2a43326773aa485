"""Models whose sizes and indices lie: each is refused in one line, fails its run in one line, or computes what
onnxruntime computes. None may crash, and none may read or write outside of its tensors.

The models of tests/data/hostile are minimal ones: `free_*` leave sizes or indices to the run, `out*` declare a wrong
output, `blow_*` ask for more memory than there should be.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import numc
from numc.passes import linalg
from tiers import by_default, one_in

FILES = Path(__file__).parents[1] / "data" / "hostile"
Feeds = dict[str, np.ndarray]

# Model -> what its compilation says.
REFUSED = {
    "blow_chain": "'t40' would have shape [1099511627776]",
    "blow_cos": "'y' would have shape [2147483647], 8.0 GiB: a tensor of this model may have",
    "blow_dil": "sizes must not be negative",
    "blow_expand": "node 'c' (Expand) makes constants of 3.4 GiB in all: those of this model may have",
    "blow_eye": "'x' would have shape [40000, 40000], 6.0 GiB: a tensor of this model may have",
    "blow_pad": "'y' would have shape [2000000001], 7.5 GiB: a tensor of this model may have",
    "blow_tile": "node 'c' (Tile) makes constants of 3.4 GiB in all: those of this model may have",
    "free_roialign": "cannot be compiled: node 'y' (RoiAlign",
    "same_input_twice": "2 inputs are called '0': every input needs a name of its own",
}

# Model -> what at least one of the runs says, or "" where every one of them computes what onnxruntime computes.
FAILS = {
    "bufferize_bug": "",
    "free_add_w": "two sizes of a dimension differ, and neither is 1 (in 'y')",
    "free_add_xy": "two sizes of a dimension differ, and neither is 1 (in 'y')",
    "free_avgpool": "",
    "free_bn": "sizes do not fit: dimension 0 of 's' has another size (in 'y')",
    "free_cast_f2b": "",
    "free_cast_f2i_out": "",
    "free_concat": "sizes do not fit: parts differ in dimension 1 (in 'y')",
    "free_conv_small": "(in 'y')",
    "free_cos_dyn": "a size would be negative (in 'y')",
    "free_div_int": "an integer is divided by zero (in 'y')",
    "free_expand": "sizes do not fit",
    "free_gather": "an index is out of range (in 'y')",
    "free_gather_ax1": "an index is out of range (in 'y')",
    "free_gather_s": "an index is out of range (in 'y')",
    "free_gatherel_s": "an index is out of range (in 'y')",
    "free_gathernd_s": "an index is out of range (in 'y')",
    "free_gemm_kfree": "the left operand of a matrix product has not as many columns as the right one has rows",
    "free_in": "sizes do not fit: dimension 0 of 's' has another size (in 'y')",
    "free_lstm": "",
    "free_matmul2": "the left operand of a matrix product has not as many columns as the right one has rows (in 'y')",
    "free_mod_int": "an integer is divided by zero (in 'y')",
    "free_onehot": "",
    "free_out_fixed_mm": "",
    "free_pad_dyn": "negative pads take away more than there is (in 'y')",
    "free_pixelshuffle": "the square of its blocksize, 2, does not divide the channels (in 'y')",
    "free_pow_int": "",
    "free_range": "the step of a range is 0 (in 'y')",
    "free_reducemean": "",
    "free_reshape_dyn": "a size of a reshape is below -1, or more than one is -1 (in 'y')",
    "free_reshape_m1": "a reshape to [-1, 128] does not keep the number of elements (in 'y')",
    "free_scatterel": "an index is out of range (in 'y')",
    "free_scatternd": "an index is out of range (in 'y')",
    "free_shift": "",
    "free_slice_dyn": "",
    "free_softmax": "",
    "free_split_sizes": "a part of a split is larger than the whole (in 'y')",
    "free_tile": "",
    "free_topk": "k is larger than the size that is ordered (in 'v')",
    "free_trilu_k": "",
    "free_value_info": "",
    "out1": "",
    "outdim4": "",
}

# Sizes with which the inputs fit a weight of the model.
FITTING = {"free_add_w": {"x": (3, 64)}, "free_gemm_kfree": {"x": (3, 64)}}


def test_every_model_has_its_expectation() -> None:
    names = {path.stem for path in FILES.glob("*.onnx")}
    assert names == REFUSED.keys() | FAILS.keys()


@pytest.mark.parametrize("name", by_default(sorted(REFUSED), ["blow_expand", "blow_pad", "same_input_twice"]))
def test_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(numc.NumcError) as caught:
        numc.compile(FILES / f"{name}.onnx")
    assert REFUSED[name] in str(caught.value)
    assert "\n" not in str(caught.value)
    if "GiB" in REFUSED[name]:
        assert str(caught.value).endswith("if the sizes of the model are right, set NUMC_IMPORT_MEMORY to more GiB")


def feeds_of(program: numc.Program, rng: np.random.Generator, extreme: int) -> Feeds:
    """Inputs with random free sizes, equal for all dimensions or not; integers small, zero or far out of range."""
    shared = int(rng.integers(1, 7)) if rng.integers(2) else 0
    found = {}
    for spec in program.inputs:
        shape = tuple((shared or int(rng.integers(1, 7))) if d is None else d for d in spec.shape)
        if np.dtype(spec.dtype).kind == "f":
            found[spec.name] = rng.standard_normal(shape).astype(spec.dtype)
        else:
            found[spec.name] = np.asarray(rng.integers(-extreme, extreme + 1, size=shape)).astype(spec.dtype)
    return found


def by_onnxruntime(path: Path, feeds: Feeds) -> list[Any] | None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(path, options).run(None, feeds)
    except Exception:
        return None


def powers(mine: np.ndarray, theirs: np.ndarray, base: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """What integers to integers are: onnxruntime's, but from 2^53 on, where binary64 ends, modulo 2^64.

    A negative power of 0 is what it is.
    """
    found = theirs.copy()
    each = (a.reshape(-1).tolist() for a in np.broadcast_arrays(mine, theirs, base, exponent))
    for place, (one, other, x, n) in enumerate(zip(*each, strict=True)):
        if x == 0 and n < 0:
            found.reshape(-1)[place] = one
        elif abs(other) >= 2**53:
            found.reshape(-1)[place] = (x**n + 2**63) % 2**64 - 2**63
    return found


# The default tier takes one of each check.
USUAL = [
    "free_add_w",
    "free_concat",
    "free_div_int",
    "free_gather",
    "free_pad_dyn",
    "free_reshape_dyn",
    "free_scatternd",
]


@pytest.mark.parametrize(
    "name",
    by_default(
        one_in(3, sorted(FAILS), *USUAL, "free_matmul2", "free_conv_small", "outdim4"),
        [*USUAL, "free_matmul2", "free_conv_small", "outdim4"],
    ),
)
def test_runs_as_onnxruntime_or_says_why_not(name: str) -> None:
    path = FILES / f"{name}.onnx"
    program = numc.compile(path)
    rng = np.random.default_rng(0)
    said, computed = set(), 0
    some = [feeds_of(program, rng, extreme) for extreme in (0, 1, 2, 3, 40) * 6]
    some += (
        [{n: rng.standard_normal(s).astype(np.float32) for n, s in FITTING[name].items()}] if name in FITTING else []
    )
    for feeds in some:
        want = by_onnxruntime(path, feeds)
        try:
            got = program(feeds)
        except numc.NumcError as error:
            said.add(str(error))
            continue
        assert want is not None, f"onnxruntime refuses {feeds}"
        results = list(got.values()) if isinstance(got, dict) else [got]
        for mine, theirs in zip(results, want, strict=True):
            assert mine.shape == theirs.shape
            if name == "free_pow_int":
                theirs = powers(mine, theirs, *feeds.values())
            # fp32 libraries sum in other orders.
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)
        computed += 1
    assert computed > 0, said
    assert not any("\n" in text for text in said)
    if FAILS[name]:
        assert any(FAILS[name] in text for text in said), said


def test_a_long_chain_is_loops_of_bounded_length(tmp_path: Path) -> None:
    """Otherwise the time that joining them takes grows with the square of the length."""
    count = 300
    nodes = [helper.make_node("Relu", [f"t{n}"], [f"t{n + 1}"]) for n in range(count)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("t0", f"t{count}")]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 18)])  # fmt: skip
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    module = numc.lower(tmp_path / "m.onnx", to="tensors").operation
    lengths = [len(linalg.body(op).operations) for op in linalg.operations(module, "linalg.generic")]
    assert 100 < max(lengths) <= 128
    assert len(lengths) < 10
