"""Nodes of odd but legal attributes, types and sizes: compiled, or refused in words of users without a crash."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import numc
from numc.frontends.onnx.load import load_proto
from numc.frontends.words import FOREIGN
from tests.shared import odd_nodes

CRASH = re.compile(r"crashed|import took longer|out of memory|importer failed")
SAMPLED = 12


def faults(models: Iterable[tuple[str, onnx.ModelProto]]) -> tuple[int, list[str]]:
    """How many models were tried, and what is wrong with what is said of them."""
    count, found = 0, []
    for name, model in models:
        count += 1
        try:
            load_proto(model)
        except numc.NumcError as error:
            if FOREIGN.search(str(error)) or CRASH.search(str(error)):
                found.append(f"{name}: {error}")
        except Exception as error:  # a fault of numc
            found.append(f"{name}: {type(error).__name__}: {error}")
    return count, found


@pytest.mark.all
def test_a_sample_is_compiled_or_refused_in_words() -> None:
    assert faults(odd_nodes.some(SAMPLED, seed=52)) == (SAMPLED, [])


@pytest.mark.slow
def test_all_are_compiled_or_refused_in_words() -> None:
    count, found = faults(odd_nodes.models())
    assert count > 40_000
    assert found == []


WORKS = (
    "test_batchnorm_epsilon/T=tensor(double)",
    "test_einsum_batch_matmul/T=tensor(int8)",
    "test_gridsample_bilinear/T1=tensor(int8)",
    "test_gridsample_bilinear/T2=tensor(double)",
    "test_maxpool_2d_pads/auto_pad=b'SAME_UPPER'",
    "test_maxpool_3d_dilations_use_ref_impl/T=tensor(uint8)",
    "test_pow_types_int64_float32/T1=tensor(int64)",
    "test_reduce_mean_do_not_keepdims_random/T=tensor(int32)",
)


def reference(name: str) -> onnx.ModelProto:
    """What onnx's evaluator takes for a model: it makes integers of factors, and adds padding to padding."""
    model = odd_nodes.named(name.replace("T1=tensor(int8)", "as it is"))
    node = model.graph.node[0]
    if any(attribute.name == "auto_pad" for attribute in node.attribute):
        kept = [attribute for attribute in node.attribute if attribute.name != "pads"]
        del node.attribute[:]
        node.attribute.extend(kept)
    return model


def values(model: onnx.ModelProto) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    numbers, found = np.random.default_rng(8), {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        found[value.name] = (numbers.integers(0, 50, shape) if dtype.kind in "iu" else numbers.random(shape)).astype(
            dtype
        )
    return found


@pytest.mark.all
@pytest.mark.parametrize("name", WORKS)
def test_what_the_importer_does_not_do_has_the_values_of_the_reference(name: str) -> None:
    model, other = odd_nodes.named(name), reference(name)
    given = values(model)
    result = numc.compile(model)(*given.values())
    types = {value.name: value.type.tensor_type.elem_type for value in other.graph.input}
    feeds = {each: value.astype(onnx.helper.tensor_dtype_to_np_dtype(types[each])) for each, value in given.items()}
    wanted = ReferenceEvaluator(other).run(None, feeds)[0].astype(result.dtype)
    assert result.dtype == next(iter(given.values())).dtype or "pow" in name
    assert result.shape == wanted.shape
    np.testing.assert_allclose(result, wanted, rtol=1e-5 if wanted.dtype.kind == "f" else 0)
