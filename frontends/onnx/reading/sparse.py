"""Sparse weights as dense ones: a program computes with dense tensors, as every operator but Constant does in ONNX."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx
from onnx import numpy_helper

from numc.frontends.onnx.reading.tensors import check_tensor, elements
from numc.support.errors import NumcError, quoted


def write_dense(graph: onnx.GraphProto) -> None:
    """Make every sparse initialiser and every Constant of a sparse value in a graph and those inside of it dense.

    Raises NumcError for one that is not what ONNX defines.
    """
    known = {tensor.name for tensor in graph.initializer}
    for sparse in graph.sparse_initializer:
        if sparse.values.name in known:
            raise NumcError(f"damaged model: {quoted(sparse.values.name)} is defined twice, as initialisers")
        graph.initializer.append(_dense(sparse, f"sparse initialiser {quoted(sparse.values.name)}"))
    del graph.sparse_initializer[:]
    for node in graph.node:
        for attribute in node.attribute:
            for inner in _graphs(attribute):
                write_dense(inner)
            if attribute.name == "sparse_value" and node.op_type == "Constant":
                value = _dense(attribute.sparse_tensor, f"constant {quoted(next(iter(node.output), ''))}")
                attribute.CopyFrom(onnx.helper.make_attribute("value", value))


def _graphs(attribute: onnx.AttributeProto) -> Iterable[onnx.GraphProto]:
    return (attribute.g, *attribute.graphs)


def _dense(sparse: onnx.SparseTensorProto, what: str) -> onnx.TensorProto:
    check_tensor(sparse.values, f"{what} (its values)")
    check_tensor(sparse.indices, f"{what} (its indices)")
    dims = list(sparse.dims)
    count = elements(dims, what)
    values, places = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    if places.dtype != np.int64 or places.shape not in ((values.size,), (values.size, len(dims))) or values.ndim != 1:
        raise NumcError(
            f"{what} has {list(values.shape)} values and indices of {places.dtype}{list(places.shape)}: it needs a "
            "list of values, and for each an int64 place, or one index for each dimension"
        )
    if places.ndim == 2:
        if ((places < 0) | (places >= dims)).any():
            raise NumcError(f"{what} has indices outside of its shape {dims}")
        places = np.ravel_multi_index(tuple(places.T), dims) if dims else np.zeros(len(places), np.int64)
    elif places.size and not 0 <= places.min() <= places.max() < count:
        raise NumcError(f"{what} has indices {places.min()} to {places.max()}: its shape {dims} has 0 to {count - 1}")
    if len(np.unique(places)) < len(places):
        raise NumcError(f"{what} has two values for one place")
    dense = np.zeros(count, values.dtype)
    dense[places] = values
    return numpy_helper.from_array(dense.reshape(dims), sparse.values.name)
