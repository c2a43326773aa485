"""Gluon's language, as far as kernels use it, on whole tiles of numpy: one program instance after the other.

Gluon has no interpreter. Layouts say which thread has which element, and change no number; shared memory is an array,
and every barrier is passed, because there is one thread.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from triton._C.libtriton import interpreter

constexpr = object
static_range = range
int1, int8, int16, int32, int64 = (np.dtype(name) for name in ("bool", "int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = (np.dtype(name) for name in ("uint8", "uint16", "uint32", "uint64"))
float16, float32, float64 = (np.dtype(name) for name in ("float16", "float32", "float64"))

_INSTANCE = [(0, 0, 0)]


def _dtype(dtype: Any) -> np.dtype[Any]:
    """A dtype of numpy, or Triton's of that name."""
    name = dtype.name
    return np.dtype("bool" if name == "int1" else name)


class Tile:
    """A tile of numbers, which has the operators of Triton's tensors."""

    __array_priority__ = 1000

    def __init__(self, data: Any) -> None:
        self.data = np.asarray(data)

    def to(self, dtype: Any, *, bitcast: bool = False) -> Tile:
        """The numbers, or their bits, as another type."""
        dtype = _dtype(dtype)
        return Tile(
            np.ascontiguousarray(self.data).view(dtype).reshape(self.data.shape) if bitcast else self.data.astype(dtype)
        )

    def __getitem__(self, index: Any) -> Tile:
        return Tile(self.data[index])

    def __bool__(self) -> bool:
        return bool(self.data)

    def __index__(self) -> int:
        return int(self.data)

    def __invert__(self) -> Tile:
        return Tile(~self.data)


def _operator(name: str, function: Callable[[Any, Any], Any], *, turned: bool = True) -> None:
    def left(self: Tile, other: Any) -> Any:
        if isinstance(other, Pointer):
            return other + self
        return Tile(function(*_together(self, other)))

    def right(self: Tile, other: Any) -> Any:
        return Tile(function(*_together(other, self)))

    setattr(Tile, f"__{name}__", left)
    if turned:
        setattr(Tile, f"__r{name}__", right)


def _together(a: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
    """Two operands of one dtype: a number of Python takes that of the tile, and the wider of two integers is taken."""
    if not isinstance(a, Tile):
        return np.asarray(a, b.data.dtype), b.data
    if not isinstance(b, Tile):
        return a.data, np.asarray(b, a.data.dtype)
    dtype = np.promote_types(a.data.dtype, b.data.dtype)
    return a.data.astype(dtype, copy=False), b.data.astype(dtype, copy=False)


def _divided(a: np.ndarray, b: np.ndarray) -> Any:
    if a.dtype.kind == "f":
        return a / b
    return (np.sign(a) * np.sign(b)) * (np.abs(a) // np.abs(b)) if a.dtype.kind == "i" else a // b


_ARITHMETIC: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    *(("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("truediv", _divided), ("floordiv", _divided)),
    *(("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)),
    *(("lshift", np.left_shift), ("rshift", np.right_shift), ("mod", lambda a, b: a - _divided(a, b) * b)),
)
_COMPARISONS: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    *(("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal)),
    *(("eq", np.equal), ("ne", np.not_equal)),
)
for _name, _function in _ARITHMETIC:
    _operator(_name, _function)
for _name, _function in _COMPARISONS:
    _operator(_name, _function, turned=False)
Tile.__hash__ = None  # type: ignore[assignment]


class Pointer:
    """Places in the memory of a tensor, in elements."""

    def __init__(self, memory: np.ndarray, places: Any) -> None:
        self.memory, self.places = memory, np.asarray(places, np.int64)

    def __add__(self, other: Any) -> Pointer:
        return Pointer(self.memory, self.places + (other.data if isinstance(other, Tile) else other))

    __radd__ = __add__


class Shared:
    """Shared memory, or a view of it."""

    def __init__(self, data: np.ndarray) -> None:
        self._data = data

    def store(self, tile: Tile) -> None:
        """Write a tile."""
        self._data[...] = tile.data

    def load(self, layout: Any) -> Tile:
        """Read a tile."""
        return Tile(self._data.copy())

    def slice(self, start: int, length: int, dim: int) -> Shared:
        """A part along a dimension."""
        return Shared(self._data[(slice(None),) * dim + (slice(start, start + length),)])

    def permute(self, order: Sequence[int]) -> Shared:
        """This memory with its dimensions in another order."""
        return Shared(self._data.transpose(order))


class _Layout:
    def __init__(self, *arguments: Any) -> None: ...


BlockedLayout = SliceLayout = SwizzledSharedLayout = _Layout


def program_id(axis: int) -> Tile:
    """The number of the program instance."""
    return Tile(np.int32(_INSTANCE[0][axis]))


def arange(start: int, end: int, layout: Any = None) -> Tile:
    """Consecutive numbers."""
    return Tile(np.arange(start, end, dtype=np.int32))


def full(shape: Sequence[int], value: Any, dtype: Any, layout: Any = None) -> Tile:
    """A tile of one number."""
    return Tile(np.full(tuple(shape), value, _dtype(dtype)))


def to_tensor(value: Any) -> Tile:
    """A number as Triton takes it: in 32 bits, or an integer in 64 where it needs these."""
    if isinstance(value, bool):
        return Tile(np.bool_(value))
    if isinstance(value, float):
        return Tile(np.float32(value))
    return Tile(np.int32(value) if -(2**31) <= value < 2**31 else np.int64(value))


def load(pointer: Pointer, mask: Tile | None = None, other: Any = 0) -> Tile:
    """Read memory, and `other` where the mask is false."""
    if mask is None:
        return Tile(pointer.memory[pointer.places])
    places, there = np.broadcast_arrays(pointer.places, mask.data)
    values = np.full(places.shape, other, pointer.memory.dtype)
    values[there] = pointer.memory[places[there]]
    return Tile(values)


def store(pointer: Pointer, value: Tile, mask: Tile | None = None) -> None:
    """Write memory where the mask is true."""
    places, values = np.broadcast_arrays(pointer.places, value.data)
    there = np.broadcast_to(True if mask is None else mask.data, places.shape)
    pointer.memory[places[there]] = values[there]


def allocate_shared_memory(dtype: Any, shape: Sequence[int], layout: Any) -> Shared:
    """Memory of the program instance."""
    return Shared(np.empty(tuple(shape), _dtype(dtype)))


def barrier() -> None:
    """Every thread is here: there is one."""


def where(condition: Any, a: Any, b: Any) -> Tile:
    """`a` where the condition holds, and `b` elsewhere."""
    if not isinstance(a, Tile) and not isinstance(b, Tile):
        a, b = to_tensor(a), to_tensor(b)
    return Tile(np.where(condition.data, *_together(a, b)))


def fma(a: Tile, b: Tile, c: Tile) -> Tile:
    """One correctly rounded multiply-add."""
    x = np.broadcast_arrays(a.data, b.data, c.data)
    function = interpreter.fma_fp32 if x[0].dtype == np.float32 else interpreter.fma_fp64
    return Tile(function(*map(np.ascontiguousarray, x)))


def at_least(x: Tile, least: Tile) -> Tile:
    """Whichever of `x` and `least` has the larger magnitude, with the sign of `x`."""
    return Tile(np.copysign(np.maximum(np.abs(x.data), least.data), x.data))


def maximum(a: Any, b: Any) -> Any:
    """The larger one of integers."""
    return (
        builtins.max(a, b)
        if not isinstance(a, Tile) and not isinstance(b, Tile)
        else Tile(np.maximum(*_together(a, b)))
    )


def minimum(a: Any, b: Any) -> Any:
    """The smaller one of integers."""
    return (
        builtins.min(a, b)
        if not isinstance(a, Tile) and not isinstance(b, Tile)
        else Tile(np.minimum(*_together(a, b)))
    )


def max(tile: Tile, axis: int) -> Tile:
    """The largest number along an axis."""
    return Tile(tile.data.max(axis))


def min(tile: Tile, axis: int) -> Tile:
    """The smallest number along an axis."""
    return Tile(tile.data.min(axis))


def atomic_max(pointer: Pointer, value: Tile) -> None:
    """Write the larger one of memory and a value."""
    pointer.memory[pointer.places] = np.maximum(pointer.memory[pointer.places], value.data)


def atomic_min(pointer: Pointer, value: Tile) -> None:
    """Write the smaller one of memory and a value."""
    pointer.memory[pointer.places] = np.minimum(pointer.memory[pointer.places], value.data)


def floor(x: Tile) -> Tile:
    """The whole number at or below."""
    return Tile(np.floor(x.data))


def ceil(x: Tile) -> Tile:
    """The whole number at or above."""
    return Tile(np.ceil(x.data))


def sqrt(x: Tile) -> Tile:
    """The square root."""
    return Tile(np.sqrt(x.data))


def div_rn(a: Tile, b: Tile) -> Tile:
    """The quotient, rounded to nearest."""
    return Tile(a.data / b.data)


sqrt_rn = sqrt


class Decorators:
    """The package ``gluon``: its decorator."""

    @staticmethod
    def jit(function: Callable[..., Any]) -> _Kernel:
        """A kernel, or a function that kernels call."""
        return _Kernel(function)


class _Kernel:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self.__name__ = function, function.__name__

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __getitem__(self, grid: Sequence[int]) -> Callable[..., None]:
        sizes = (*grid, *(1,) * (3 - len(grid)))

        def launch(*arguments: Any, **constants: Any) -> None:
            told = [_memory(a) if isinstance(a, torch.Tensor) else a for a in arguments]
            names = self._function.__code__.co_varnames[: self._function.__code__.co_argcount]
            kept = {name: value for name, value in constants.items() if name in names}
            with np.errstate(all="ignore"):
                for z, y, x in product(*map(range, reversed(sizes))):
                    _INSTANCE[0] = (x, y, z)
                    self._function(*told, **kept)

        return launch


def _memory(tensor: torch.Tensor) -> Pointer:
    whole = tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)
    return Pointer(whole.numpy(), tensor.storage_offset())
