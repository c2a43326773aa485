"""Large tensors of an ONNX file, which stay in the file: no process holds or sends a second copy of them.

A parser of protobuf copies every byte. So the file is mapped, and the parser gets it without the data of its large
initialisers. Where those are follows from the wire format alone (protobuf.dev, "Encoding").
"""

from __future__ import annotations

import contextlib
import math
import mmap
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import external_data_helper

#: The least size in bytes of data that stays in its file.
LARGE = 1 << 16

_MAPPED_FILES = 64  # each keeps a descriptor, of which a worker has few

_GRAPH, _INITIALISER, _RAW_DATA = 7, 5, 9  # ModelProto.graph, GraphProto.initializer, TensorProto.raw_data
_BYTES = 2  # the wire type of what has a length
_FIXED = {1: 8, 5: 4}

Array = npt.NDArray[Any]
Spans = dict[int, tuple[int, int]]
"""By the number of an initialiser in the graph: where its data begins and ends in the file."""


class MappedFile:
    """A file that is mapped, read-only. Raises OSError and ValueError (an empty file)."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        with open(path, "rb") as file:
            self.data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def array(self, tensor: onnx.TensorProto, start: int, end: int) -> Array | None:
        """Return the values of a tensor that are bytes of this file; None if they are not such as numpy has them."""
        if tensor.data_type not in _DTYPES or not 0 <= start <= end <= len(self.data):
            return None
        dtype, shape = _DTYPES[tensor.data_type], tuple(tensor.dims)
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != end - start:
            return None
        return np.frombuffer(self.data[start:end], dtype).reshape(shape)

    def offset_of(self, array: Array) -> int | None:
        """Return where the bytes of an array are in the file; None if they are elsewhere, or not side by side."""
        first = np.frombuffer(self.data, np.uint8).ctypes.data
        at = array.ctypes.data - first
        return at if array.flags.c_contiguous and 0 <= at <= len(self.data) - array.nbytes else None


_DTYPES: Mapping[int, np.dtype[Any]] = {
    onnx.helper.np_dtype_to_tensor_dtype(np.dtype(name)): np.dtype(name).newbyteorder("<")
    for name in ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8")
}


def without_data(data: memoryview) -> tuple[bytes, Spans]:
    """Return the bytes of a model without the data of its large initialisers, and where that is.

    Bytes that are no model are returned as they are, for the parser to refuse.
    """
    if len(data) < LARGE:
        return bytes(data), {}
    try:
        return _without_data(data)
    except (ValueError, IndexError):
        return bytes(data), {}


def _without_data(data: memoryview) -> tuple[bytes, Spans]:
    fields = list(_fields(data, 0, len(data)))
    graphs = [field for field in fields if field[:2] == (_GRAPH, _BYTES)]
    if len(graphs) != 1:  # the parser merges several
        raise ValueError("graphs")
    (_, _, tag, start, end) = graphs[0]
    spans: Spans = {}
    pieces: list[bytes | memoryview] = []
    count, done = 0, start
    for number, wire_type, at, first, last in _fields(data, start, end):
        if (number, wire_type) != (_INITIALISER, _BYTES):
            continue
        if last - first >= LARGE:
            raw_fields = [f for f in _fields(data, first, last) if f[0] == _RAW_DATA]
            if len(raw_fields) == 1 and raw_fields[0][1] == _BYTES and raw_fields[0][4] - raw_fields[0][3] >= LARGE:
                (_, _, raw, begins, ends) = raw_fields[0]
                rest = bytes(data[first:raw]) + bytes(data[ends:last])
                pieces += [data[done:at], _header(_INITIALISER, len(rest)), rest]
                spans[count], done = (begins, ends), last
        count += 1
    graph = b"".join([*pieces, data[done:end]])
    return b"".join([data[:tag], _header(_GRAPH, len(graph)), graph, data[end:]]), spans


def _fields(data: memoryview, at: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield the fields of a message: number, wire type, where the tag begins, where the value begins and ends."""
    while at < end:
        tag = at
        key, at = _varint(data, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == 0:
            last = _varint(data, at)[1]
        elif wire_type == _BYTES:
            length, at = _varint(data, at)
            last = at + length
        else:
            last = at + _FIXED.get(wire_type, end)  # groups are not in ONNX
        if last > end:
            raise ValueError("a field goes beyond its message")
        yield number, wire_type, tag, at, last
        at = last


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return the number that begins at a byte, and where it ends."""
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _header(number: int, length: int) -> bytes:
    """Return the tag and the length of a field with `length` bytes."""
    text = bytearray([number << 3 | _BYTES])
    while length >= 0x80:
        text.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*text, length])


def embedded(graph: onnx.GraphProto, file: MappedFile, spans: Spans) -> dict[str, Array]:
    """Return the values of initialisers whose data was left out, by name; of other types than numpy's, put it back."""
    names = Counter(tensor.name for tensor in graph.initializer)
    large = {}
    for number, (start, end) in spans.items():
        tensor = graph.initializer[number]
        is_plain = names[tensor.name] == 1 and not external_data_helper.uses_external_data(tensor)
        value = file.array(tensor, start, end) if is_plain else None
        if value is None:
            tensor.raw_data = bytes(file.data[start:end])
        else:
            large[tensor.name] = value
    return large


def map_external(graph: onnx.GraphProto, folder: Path, large: dict[str, Array]) -> list[MappedFile]:
    """Add the large initialisers whose data is external to `large`; return the files that have it.

    What cannot be mapped is left as it is: read._load_external reports what is wrong with it.
    """
    files: dict[str, MappedFile] = {}
    names = Counter(tensor.name for tensor in graph.initializer)
    for tensor in graph.initializer:
        if not external_data_helper.uses_external_data(tensor) or names[tensor.name] > 1:
            continue
        with contextlib.suppress(Exception):
            info = external_data_helper.ExternalDataInfo(tensor)
            # onnx checks where the file is, and reads nothing.
            probe = onnx.TensorProto(name=tensor.name, data_location=onnx.TensorProto.EXTERNAL)
            for key, value in (("location", info.location), ("length", "0")):
                probe.external_data.add(key=key, value=value)
            external_data_helper.load_external_data_for_tensor(probe, str(folder))
            if info.location not in files:
                if len(files) == _MAPPED_FILES:
                    continue
                files[info.location] = MappedFile(folder / info.location)
            file, start = files[info.location], info.offset or 0
            end = len(file.data) if info.length is None else start + info.length
            array = file.array(tensor, start, end) if end - start >= LARGE else None
            if array is not None:
                large[tensor.name] = array
                tensor.data_location = onnx.TensorProto.DEFAULT
                del tensor.external_data[:]
    return list(files.values())
