"""Unsigned numbers of 64 bits, which are carried as the signed numbers with the same bits.

Sums, products and logic are the same for both. For the rest, numbers with the highest bit set are told apart, or all
are moved by 2 ** 63, which keeps their order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from numc.frontends.onnx.carriers.carried import Emitter

_TOP = np.iinfo(np.int64).min
_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE)

SAME = frozenset(
    (
        *("Add", "Sub", "Mul", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "Equal", "ReduceSum", "Sum"),
        *("ReduceProd", "CumSum", "MatMul", "Gemm", "Concat", "ConstantOfShape", "Compress", "DepthToSpace", "Expand"),
        *("EyeLike", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "NonZero", "OneHot", "Pad"),
        *("Reshape", "ReverseSequence", "Shape", "Size", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile"),
        *("Transpose", "Trilu", "Unsqueeze", "Where", "BitCast"),
    )
)
"""Operators that do to the signed numbers what they do to the unsigned ones."""


def _moved(emit: Emitter, value: str, to: str = "") -> str:
    return emit.op("Add", value, emit.number(_TOP, np.int64), to=to)


def _ordered(emit: Emitter, node: onnx.NodeProto, wide: Collection[str]) -> None:
    """Move the operands and results of a node whose outcome depends on the order of numbers."""
    node.input[:] = [_moved(emit, name) if name in wide else name for name in node.input]
    results = {name: emit.fresh() for name in node.output if name in wide}
    node.output[:] = [results.get(name, name) for name in node.output]
    emit.nodes.append(node)
    for name, moved in results.items():
        _moved(emit, moved, to=name)


def _halved(emit: Emitter, value: str) -> str:
    """Emit numbers over two, rounded down."""
    half = emit.op("Div", emit.op("Sub", value, emit.low_bits(value, 1, np.int64)), emit.number(2, np.int64))
    return emit.op("Where", emit.op("Less", half, emit.number(0, np.int64)), _moved(emit, half), half)


def _divided(emit: Emitter, one: str, other: str) -> tuple[str, str]:
    """Emit quotients and remainders."""
    zero, unit = emit.number(0, np.int64), emit.number(1, np.int64)
    is_large = emit.op("Less", other, zero)
    divisor = emit.op("Where", is_large, unit, other)
    # Twice the quotient of the half is the quotient, or one less.
    quotient = emit.op("Mul", emit.op("Div", _halved(emit, one), divisor), emit.number(2, np.int64))
    quotient = emit.op("Where", is_large, zero, quotient)
    rest = emit.op("Sub", one, emit.op("Mul", quotient, other))
    fits = emit.op("GreaterOrEqual", _moved(emit, rest), _moved(emit, other))
    quotient = emit.op("Add", quotient, emit.cast(fits, TensorProto.INT64))
    return quotient, emit.op("Sub", one, emit.op("Mul", quotient, other))


def _div(emit: Emitter, node: onnx.NodeProto, _: Collection[str]) -> None:
    emit.op("Identity", _divided(emit, *node.input)[0], to=node.output[0])


def _mod(emit: Emitter, node: onnx.NodeProto, _: Collection[str]) -> None:
    emit.op("Identity", _divided(emit, *node.input)[1], to=node.output[0])


def _shift(emit: Emitter, node: onnx.NodeProto, _: Collection[str]) -> None:
    value, count = node.input
    zero, most = emit.number(0, np.int64), emit.number(64, np.int64)
    is_far = emit.op("Or", emit.op("Less", count, zero), emit.op("GreaterOrEqual", count, most))
    if is_left(node):
        shifted = emit.op("BitShift", value, emit.op("Where", is_far, zero, count), direction="LEFT")
        emit.op("Where", is_far, zero, shifted, to=node.output[0])
        return
    # What is shifted once has no sign.
    none = emit.op("Equal", count, zero)
    fewer = emit.op("Where", emit.op("Or", none, is_far), zero, emit.op("Sub", count, emit.number(1, np.int64)))
    shifted = emit.op("BitShift", _halved(emit, value), fewer, direction="RIGHT")
    emit.op("Where", none, value, emit.op("Where", is_far, zero, shifted), to=node.output[0])


def is_left(shift: onnx.NodeProto) -> bool:
    """Whether a BitShift is one to the left."""
    return any(a.name == "direction" and a.s == b"LEFT" for a in shift.attribute)


def _cast(emit: Emitter, node: onnx.NodeProto, wide: Collection[str]) -> None:
    source, result = node.input[0], node.output[0]
    to = next((a.i for a in node.attribute if a.name == "to"), 0)
    if source not in wide:
        if emit.types.get(source) in _FLOATS:
            _from_float(emit, source, result)
        else:
            emit.cast(source, TensorProto.INT64, result)
    elif to in _FLOATS:
        _to_float(emit, source, to, result)
    else:
        emit.cast(source, to, result)


def _pow(emit: Emitter, node: onnx.NodeProto, wide: Collection[str]) -> None:
    if node.input[1] in wide and node.input[0] not in wide:
        node.input[1] = _to_float(emit, node.input[1], TensorProto.FLOAT)
    emit.nodes.append(node)


def _to_float(emit: Emitter, source: str, to: int, result: str = "") -> str:
    return _by_halves(
        emit, source, lambda value: emit.cast(value, to), onnx.helper.tensor_dtype_to_np_dtype(to), result
    )


def _by_halves(
    emit: Emitter, source: str, rounded: Callable[[str], str], dtype: npt.DTypeLike, result: str = ""
) -> str:
    # Half of a large number, whose last bit tells whether anything was lost, is rounded alike.
    half = _halved(emit, source)
    is_even = emit.op("Equal", emit.low_bits(half, 1, np.int64), emit.number(0, np.int64))
    lost = emit.op("Mul", emit.low_bits(source, 1, np.int64), emit.cast(is_even, TensorProto.INT64))
    large = emit.op("Mul", rounded(emit.op("Add", half, lost)), emit.number(2, dtype))
    is_large = emit.op("Less", source, emit.number(0, np.int64))
    return emit.op("Where", is_large, large, rounded(source), to=result)


def to_odd(emit: Emitter, source: str, *, unsigned: bool = False) -> str:
    """Emit integers of 64 bits as float64, rounded to odd: what these are rounded to then is rounded once."""
    if unsigned:
        return _by_halves(emit, source, lambda value: to_odd(emit, value), np.float64)
    below = emit.low_bits(source, 11, np.int64)
    is_exact = emit.op("Equal", below, emit.number(0, np.int64))
    middle = emit.op("Add", emit.op("Sub", source, below), emit.number(2**10, np.int64))
    fits = emit.op("Or", is_exact, emit.op("Less", emit.op("Abs", source), emit.number(2**53, np.int64)))
    return emit.cast(emit.op("Where", fits, source, middle), TensorProto.DOUBLE)


def _from_float(emit: Emitter, source: str, result: str) -> None:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(emit.types[source])
    limit = emit.number(2.0**63, dtype)
    is_large = emit.op("GreaterOrEqual", source, limit)
    small = emit.op("Where", is_large, emit.op("Sub", source, limit), source)
    whole = emit.cast(small, TensorProto.INT64)
    emit.op("Where", is_large, _moved(emit, whole), whole, to=result)


RULES: Mapping[str, Callable[[Emitter, onnx.NodeProto, Collection[str]], None]] = {
    **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Max", "Min", "Clip"), _ordered),
    **dict.fromkeys(("ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "TopK"), _ordered),
    "BitShift": _shift,
    "Cast": _cast,
    "Div": _div,
    "Mod": _mod,
    "Pow": _pow,
}
