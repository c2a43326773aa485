"""numc.round, numc.fma, numc.matmul: the arithmetic on arrays at native speed, through the same compiler as models."""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.compiler.arrays.gpu_round import gpu_operand
from numc.compiler.arrays.gpu_round import round_groups as round_groups_on_gpu
from numc.compiler.arrays.gpu_round import round_values as round_values_on_gpu
from numc.compiler.arrays.statistics import counting
from numc.compiler.arrays.text_programs import compiled_text, elementwise
from numc.numerics.datapaths import Own
from numc.numerics.grammar import parse_any_conversion, parse_fma, remembered
from numc.numerics.groups import GroupConversion
from numc.numerics.numpy_groups import round_groups
from numc.numerics.reference.random import draws, stream
from numc.runtime.gpu.gpu_program import GpuProgram
from numc.runtime.program import Program, seed_number
from numc.runtime.tensors import as_array, dense, dtype_of, is_in_memory, is_on_gpu
from numc.support.arguments import checked
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted, shortened

F32Array = npt.NDArray[np.float32]

_F32 = np.dtype(np.float32)
_calls = count()  # conversions to formats of groups that were given no seed


@in_default_environment
def round(
    x: npt.ArrayLike, to: str, *, axis: int | None = None, seed: int | None = None, target: str = "host"
) -> F32Array:
    """Return `x` (float32, or float64 for formats of single values; any shape) rounded to `to` once, as float32.

    axis: along which the groups of a format with groups run; None is the last one. seed: what a stochastic rounding
    draws from; None draws anew at every call. Tensors on a GPU give one there, and tensors of the CPU for target
    ``cuda`` one that is emulated. Raises NumcError.
    """
    conversion = parse_any_conversion(to)
    if target not in ("host", "cuda"):
        raise NumcError(f"round: target {quoted(target)}, want host or cuda")
    on_gpu = target == "cuda" or (target == "host" and is_on_gpu(x))
    if isinstance(conversion, GroupConversion):
        chosen, noise = 0 if seed is None else seed_number(seed), None
        key = 0 if conversion.noise is None else stream(chosen, 0, next(_calls) if seed is None else 0)
        if on_gpu:
            return round_groups_on_gpu(gpu_operand(x, "x"), conversion.of_tensors(), axis, key)  # type: ignore[no-any-return]
        array = f32_array(x, "x")
        if conversion.noise is not None:
            noise = draws(key, array.size, conversion.noise).reshape(array.shape)
        return round_groups(array, conversion.of_tensors(), axis, noise)
    if axis is not None:
        raise NumcError(f"axis={shortened(axis)}: '{conversion}' rounds every value by itself, leave axis out")
    if on_gpu:
        values = x if dtype_of(x) == "float64" else gpu_operand(x, "x")
        return round_values_on_gpu(values, str(conversion), seed)  # type: ignore[no-any-return]
    array = as_array("x", x)
    element_type = "f64" if array.dtype.newbyteorder("=") == np.float64 else "f32"
    array = dense("x", array) if element_type == "f64" else f32_array(x, "x")
    text = f'numc.round"(%a0) {{to = "{conversion}"}} : ({element_type}) -> f32'
    return _run(elementwise(text, 1, element_type), array, seed=seed)


@in_default_environment
def fma(a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike, fma: str, *, seed: int | None = None) -> F32Array:
    """Return one step of the operator on float32 arrays (broadcast); a, b and c are converted to its formats first.

    seed: what stochastic roundings draw from; None draws anew at every call. Raises NumcError.
    """
    operator = parse_fma(fma).step
    if operator.open_operands:
        raise NumcError(f"fma: '{operator}' has open widths, which a run of a program chooses: want fixed ones")
    operands = f32_array(a, "a"), f32_array(b, "b"), f32_array(c, "c")
    try:
        shape = np.broadcast_shapes(*(array.shape for array in operands))
    except ValueError:
        shapes = ", ".join(str(list(array.shape)) for array in operands)
        raise NumcError(f"fma: a, b and c have the shapes {shapes}, which do not broadcast to one") from None
    arrays = [np.broadcast_to(array, shape) for array in operands]
    if isinstance(operator.order, Own):
        x, y, z = (dense("an operand", array).reshape(-1) for array in arrays)
        # A hardware operator is a dot product instruction: one step is a contraction with k = 1 at every element.
        (result,) = _batch_dot(str(operator), counting()).run((x[:, None], y[:, None], np.array(z)))
        return np.asarray(result).reshape(shape)
    text = "".join(
        f'numc.round"(%a{n}) {{to = "{to}"}} : (f32) -> f32\n    %v{n + 1} = "'
        for n, to in enumerate((operator.a, operator.b, operator.acc))
    )
    text += f'numc.fma"(%v0, %v1, %v2) {{fma = "{operator}"}} : (f32, f32, f32) -> f32'
    return _run(elementwise(text, 3), *arrays, seed=seed)


def matmul(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike | None = None,
    *,
    fma: str = "fp32",
    threads: int | None = None,
    target: str = "host",
    fast: bool = True,
    seed: int | None = None,
    widths: Any = None,
) -> F32Array:
    """Return ``a @ b + c`` under an FMA operator: a (m, k), b (k, n), c (m, n) or None for +0; float32.

    seed: what stochastic roundings draw from; None draws anew at every call. widths: of an operator with open ones, as
    for a Program. Tensors on a GPU give one there, and tensors of the CPU for target ``cuda`` one that is emulated.
    Raises NumcError for unknown operators and shapes that do not fit.
    """
    checked(target, "target", str, "a text"), checked(fast, "fast", bool, "True or False")
    target = "cuda" if target == "host" and is_on_gpu(a) else target
    read = gpu_operand if target == "cuda" else _operand
    x, y = read(a, "a"), read(b, "b")
    of_x, of_y = x.shape, y.shape
    if len(of_x) != 2 or len(of_y) != 2 or of_x[1] != of_y[0]:
        raise NumcError(f"matmul: a has shape {tuple(of_x)}, b has shape {tuple(of_y)}: want (m, k) and (k, n)")
    shape = (of_x[0], of_y[1])
    start = () if c is None else (read(c, "c"),)
    if start and start[0].shape != shape:
        raise NumcError(f"matmul: c has shape {tuple(start[0].shape)}: want {shape}")
    # Few rows have a micro-kernel of their own.
    rows = shape[0] if 0 < shape[0] < 8 else None
    operator = _text_of(fma) if isinstance(fma, str) else str(parse_fma(fma))
    if parse_fma(operator).written_out:  # for sizes that are known
        program = _sized_matmul(operator, (*of_x, of_y[1]), c is not None, target=target, fast=fast)
    else:
        program = _matmul(operator, rows, c is not None, target=target, fast=fast, statistics=counting())
    if isinstance(program, GpuProgram):
        return program.run_where((x, y, *start), seed=seed, widths=widths)[0]
    result = program.run((x, y, *start), threads=threads, seed=seed, widths=widths)[0]
    return result if type(result) is np.ndarray else np.asarray(result)


def _operand(value: Any, name: str) -> Any:
    """Return what a program takes: a float32 array or tensor of torch as it is, and anything else as such an array."""
    if type(value) is np.ndarray and value.dtype is _F32:
        return value  # every check more takes a hundredth of the time of a small product
    return value if is_in_memory(value) and dtype_of(value) == "float32" else f32_array(value, name)


@remembered
def _text_of(fma: str) -> str:
    """The text that all spellings of an operator share."""
    return str(parse_fma(fma))


@in_default_environment
def f32_array(value: npt.ArrayLike, name: str) -> F32Array:
    """Return a float32 array; Python numbers become one. Raises NumcError, which calls it `name`, for other types."""
    if type(value) is np.ndarray and value.dtype is _F32 and value.flags.carray:
        return value  # all other checks take longer than a small product
    array = as_array(name, value)
    if array.dtype == np.float64 and not isinstance(value, np.ndarray | np.generic):
        array = array.astype(np.float32)  # Python numbers
    if array.dtype.newbyteorder("=") != np.float32:
        raise NumcError(f"{name} is {array.dtype}: want float32; convert it with .astype('float32')")
    return dense(name, array)


def _run(program: Program, *arrays: npt.NDArray[Any], seed: int | None = None) -> F32Array:
    (result,) = program.run(tuple(dense("an operand", a).reshape(-1) for a in arrays), seed=seed)
    return np.asarray(result).reshape(arrays[0].shape)


@cache
def _matmul(fma: str, rows: int | None, start: bool, target: str, fast: bool, statistics: bool) -> Program:
    tensor_type = "tensor<?x?xf32>"
    left = f"tensor<{rows or '?'}x?xf32>"
    zeros = f"""
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %a, %c0 : {left}
  %n = tensor.dim %b, %c1 : {tensor_type}
  %e = tensor.empty({"" if rows else "%m, "}%n) : {left}
  %zero = arith.constant 0.0 : f32
  %c = linalg.fill ins(%zero : f32) outs(%e : {left}) -> {left}"""
    return compiled_text(
        f"""
func.func @main(%a: {left}, %b: {tensor_type}{f", %c: {left}" if start else ""}) -> {left} {{{"" if start else zeros}
  %r = linalg.matmul ins(%a, %b : {left}, {tensor_type}) outs(%c : {left}) -> {left}
  return %r : {left}
}}""",
        fma=fma,
        target=target,
        fast=fast,
        statistics=statistics,
    )


@cache
def _sized_matmul(fma: str, sizes: tuple[int, int, int], start: bool, *, target: str, fast: bool) -> Program:
    """The program of one product of matrices (m, k) and (k, n), for operators that are written out."""
    m, k, n = sizes
    left, right, to = f"tensor<{m}x{k}xf32>", f"tensor<{k}x{n}xf32>", f"tensor<{m}x{n}xf32>"
    zeros = f"""
  %e = tensor.empty() : {to}
  %zero = arith.constant 0.0 : f32
  %c = linalg.fill ins(%zero : f32) outs(%e : {to}) -> {to}"""
    return compiled_text(
        f"""
func.func @main(%a: {left}, %b: {right}{f", %c: {to}" if start else ""}) -> {to} {{{"" if start else zeros}
  %r = linalg.matmul ins(%a, %b : {left}, {right}) outs(%c : {to}) -> {to}
  return %r : {to}
}}""",
        fma=fma,
        target=target,
        fast=fast,
    )


@cache
def _batch_dot(fma: str, statistics: bool, fast: bool = True) -> Program:
    tensor_type = "tensor<?x?xf32>"
    return compiled_text(
        f"""
func.func @main(%a: {tensor_type}, %b: {tensor_type}, %c: tensor<?xf32>) -> tensor<?xf32> {{
  %r = linalg.generic {{indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i, k)>,
    affine_map<(i, k) -> (i)>], iterator_types = ["parallel", "reduction"]}}
    ins(%a, %b : {tensor_type}, {tensor_type}) outs(%c : tensor<?xf32>) {{
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %p, %z : f32
    linalg.yield %s : f32
  }} -> tensor<?xf32>
  return %r : tensor<?xf32>
}}""",
        fma=fma,
        fast=fast,
        statistics=statistics,
    )
