"""Every operator, with each of its sizes free: it is computed as with fixed sizes, or refused in words of users."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from onnx.backend.test.runner import Runner

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812
from torch.export import Dim  # noqa: E402

import numc  # noqa: E402
from numc.frontends.words import FOREIGN  # noqa: E402
from numc.support.errors import FAULT  # noqa: E402
from tests.conformance.test_onnx_backend import KNOWN  # noqa: E402
from tests.frontends.test_torch_cases import CASES, Calls, check, made, sizes_of  # noqa: E402
from tests.shared import free_sizes, odd_nodes  # noqa: E402

_CRASH = re.compile(rf"crashed|import took longer|out of memory|importer failed|{re.escape(FAULT)}")
Attempt = tuple[str, Callable[[], None]]
"""A name, and what compiles and runs a model, and asserts that its results are right."""


def tried(attempts: Iterator[Attempt]) -> tuple[Counter[str], list[str]]:
    """How many attempts were right or refused, and what is wrong with the others."""
    counts, faults = Counter[str](), []
    for name, attempt in attempts:
        try:
            attempt()
            kind = "right"
        except numc.NumcError as error:
            kind = "refused"
            if FOREIGN.search(str(error)) or _CRASH.search(str(error)):
                faults.append(f"{name}: {error}")
        except Exception as error:  # of a comparison, or a fault of numc
            kind = "wrong"
            faults.append(f"{name}: {type(error).__name__}: {error}")
        counts[kind] += 1
    return counts, faults


def of_torch(names: list[str]) -> Iterator[Attempt]:
    """Cases of torch that are not refused with fixed sizes."""
    for name in names:
        _, inputs, expression, *_ = CASES[name]
        for length, texts in free_sizes.freed(inputs):
            function = eval(f"lambda {','.join('abcdefg'[: len(texts)])}: {expression}", {"torch": torch, "F": F})

            def attempt(texts: list[str] = texts, function: Callable[..., Any] = function) -> None:
                free = tuple({n: Dim.AUTO for n, size in enumerate(sizes_of(t)) if "?" in size} for t in texts)
                torch.manual_seed(0)
                program = numc.compile(Calls(function), tuple(map(made, texts)), dynamic_shapes=(free,))
                for more in (0, 1):
                    check(program, function, texts, more)

            yield f"{name}[{length}]", attempt


def of_onnx(names: list[str]) -> Iterator[Attempt]:
    """Cases of ONNX's suite that are right with fixed sizes."""
    for name, model, case, values in free_sizes.nodes(names):

        def attempt(model: Any = model, case: Any = case, values: dict[str, Any] = values) -> None:
            found = numc.compile(model).by_name(values)
            results = case.data_sets[0][1]
            wanted = [np.asarray(v) for result in results for v in (result if isinstance(result, list) else [result])]
            Runner.assert_similar_outputs(wanted, list(found.values()), case.rtol, case.atol)

        yield name, attempt


_CRD = "test_spacetodepth_crd_mode_example"  # written as other nodes where its image has free sizes
TORCH = [name for name, (_, _, _, *reason) in CASES.items() if not reason]
ONNX = [name for name in odd_nodes.cases() if name not in KNOWN]


@pytest.mark.all
def test_a_sample_is_right() -> None:
    for attempts, count in ((of_torch(["chunk.free"]), 2), (of_onnx(["test_matmul_2d", _CRD]), 8)):
        counts, faults = tried(attempts)
        assert not faults
        assert counts["right"] == count


@pytest.mark.all
def test_roots_of_quotients_of_a_free_size() -> None:
    dict(of_torch(["sdpa"]))["sdpa[8]"]()  # times the root of 1 / sqrt(8), and traced for one that is not negative


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        (
            "test_tfidfvectorizer_tf_batch_uniandbigrams_skip5",
            ["X[0]", "X[1]"],
            "TfIdfVectorizer.*fixed size only: give shapes",
        ),
        ("test_attention_3d", ["V[2]"], "Attention.*the last dimension of 'V' is available with a fixed size only"),
        ("test_attention_3d_causal_bf16", ["V[2]"], "Attention.*the last dimension of 'V' is available with a fixed"),
        (
            "test_stft_with_window",
            ["window[0]"],
            "STFT.*for frames of fixed size only: give shapes",
        ),
        (
            "test_resize_tf_crop_and_resize_extrapolation_value",
            ["roi[0]"],
            "Resize.*its roi is known only in a run: want a constant, or a value from --value",
        ),
    ],
)
def test_an_operator_that_needs_a_fixed_size_says_so(name: str, inputs: list[str], message: str) -> None:
    attempts = dict(of_onnx([name]))
    for given in inputs:
        with pytest.raises(numc.NumcError, match=message):
            attempts[f"{name}/{given}"]()


@pytest.mark.slow
def test_torch_is_right_or_refused() -> None:
    counts, faults = tried(of_torch(TORCH))
    assert not faults
    assert counts["right"] > 1000


@pytest.mark.slow
def test_onnx_is_right_or_refused() -> None:
    counts, faults = tried(of_onnx(ONNX))
    assert not faults
    assert counts["right"] > 2000
