"""Reading of an ONNX file, with all checks that need no conversion. Runs in the worker."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, Message
from onnx import external_data_helper, inliner

from numc.frontends.onnx.reading.large import Array, MappedFile, embedded, map_external, without_data
from numc.frontends.onnx.reading.order import put_in_order
from numc.frontends.onnx.reading.sparse import write_dense
from numc.frontends.onnx.reading.tensors import check_dtype, check_tensor, elements
from numc.support.errors import NumcError


@dataclass(frozen=True)
class Read:
    """A checked model. sources: the files that it was read from.

    large: the values of initialisers that stay in the mapped `files`, by name; the graph has only their types.
    """

    model: onnx.ModelProto
    sources: tuple[str, ...]
    large: dict[str, Array]
    files: tuple[MappedFile, ...]

    def place_of(self, value: Array) -> tuple[str, int] | None:
        """Return the file that the bytes of an array lie in, and the offset there; None if they are in none."""
        locations = ((file.path, file.offset_of(value)) for file in self.files)
        return next(((path, offset) for path, offset in locations if offset is not None), None)


def read(path: Path) -> Read:
    """Read and check a model.

    Raises NumcError if the file is not ONNX, is damaged, lacks weights, or has something that numc does not compile.
    """
    model, file, large = _parse(path)
    files = (file, *map_external(model.graph, path.parent, large))
    sources = dict.fromkeys([*(file.path for file in files), *_load_external(model, path.parent)])
    _check_opsets(model)
    try:
        model = inliner.inline_local_functions(model) if model.functions else model
    except Exception as error:
        raise NumcError(f"damaged model: its local functions cannot be inlined: {error}") from None
    write_dense(model.graph)
    put_in_order(model.graph)
    _check_graph(model, large)
    return Read(model, tuple(sources), large, files)


def _parse(path: Path) -> tuple[onnx.ModelProto, MappedFile, dict[str, Array]]:
    try:
        file = MappedFile(path)
    except OSError as error:
        raise NumcError(f"cannot read: {error.strerror}: want an ONNX model") from None
    except ValueError:
        raise NumcError("empty file: want an ONNX model") from None
    data, spans = without_data(file.data)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
        _check_strings(model)
    except (DecodeError, ValueError):
        raise NumcError("not an ONNX model, or truncated or damaged: it does not parse; export it again") from None
    if not model.HasField("graph") or not model.opset_import or model.ir_version <= 0:
        raise NumcError("not an ONNX model: it has no graph, opset or IR version; export it again")
    if not model.graph.node:
        raise NumcError("empty graph: the model has no nodes; nothing to compile")
    return model, file, embedded(model.graph, file, spans)


def _check_strings(message: Message) -> None:
    """Raise ValueError for a string that is not UTF-8, which protobuf parses all the same and returns as bytes."""
    if isinstance(message, onnx.TensorProto):
        # The other fields may have gigabytes.
        if not isinstance(message.name, str):
            raise ValueError(message.name)
        return
    for field, field_value in message.ListFields():
        items = [field_value] if isinstance(field_value, (Message, str, bytes, int, float)) else field_value
        if field.type == field.TYPE_MESSAGE:
            for item in items:
                _check_strings(item)
        elif field.type == field.TYPE_STRING and not all(isinstance(item, str) for item in items):
            raise ValueError(field.name)


def _load_external(model: onnx.ModelProto, folder: Path) -> list[str]:
    """Load external data that is not mapped; return the files that it was in."""
    files: list[str] = []
    for tensor in external_data_helper._get_all_tensors(model):
        if not external_data_helper.uses_external_data(tensor):
            continue
        location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
        if not (folder / location).is_file():
            raise NumcError(
                f"weights of '{tensor.name}' are in the file '{location}', which is not in {folder}; "
                "put it next to the model"
            )
        if str(folder / location) not in files:
            files.append(str(folder / location))
        try:
            external_data_helper.load_external_data_for_tensor(tensor, str(folder))
        except Exception as error:
            raise NumcError(f"weights of '{tensor.name}' cannot be read from '{location}': {error}") from None
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]
    return files


def _check_opsets(model: onnx.ModelProto) -> None:
    newest = onnx.defs.onnx_opset_version()
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and not 1 <= opset.version <= newest:
            raise NumcError(f"opset {opset.version} is not between 1 and {newest}, the newest of the installed onnx; "
                            "export with an older opset or update onnx")  # fmt: skip
    if not any(opset.domain in ("", "ai.onnx") for opset in model.opset_import):
        if any(node.domain in ("", "ai.onnx") for node in model.graph.node):
            raise NumcError("not an ONNX model: no opset of the default domain; export it again")
        model.opset_import.append(onnx.helper.make_opsetid("", newest))


def _check_graph(model: onnx.ModelProto, large: Collection[str]) -> None:
    graph = model.graph
    if not graph.output:
        raise NumcError("the model has no outputs; nothing to compile")
    for tensor in graph.initializer:
        what = f"initialiser '{tensor.name}'"
        if tensor.name in large:  # its type and its size fit the data
            elements(list(tensor.dims), what)
        else:
            check_tensor(tensor, what)
    for value in graph.input:
        _check_value(value)
    for value in graph.output:
        # What is in a sequence may be known later (prepare.py).
        if value.type.WhichOneof("value") not in (None, "sequence_type", "optional_type"):
            _check_value(value)
    _check_names(graph)


def _check_names(graph: onnx.GraphProto) -> None:
    """Raise NumcError unless every name is defined once, and before it is used."""
    defined = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        for name in filter(None, node.input):
            if name not in defined:
                raise NumcError(f"damaged model: node '{label(node)}' ({node.op_type}) reads '{name}', "
                                "which nothing before it defines")  # fmt: skip
        for name in filter(None, node.output):
            if name in defined:
                raise NumcError(f"damaged model: '{name}' is defined twice, the second time by node '{label(node)}'")
            defined.add(name)
    for value in graph.output:
        if value.name not in defined:
            raise NumcError(f"damaged model: nothing defines the output '{value.name}'")


def _check_value(value: onnx.ValueInfoProto) -> None:
    what = f"'{value.name}'"
    type_field = value.type.WhichOneof("value")
    if type_field != "tensor_type":
        type_name = (type_field or "nothing").removesuffix("_type")
        raise NumcError(f"{what} is of type {type_name}: want tensors as inputs")
    check_dtype(value.type.tensor_type.elem_type, what)
    # Some exporters write a free size as -1.
    sizes = [dim.dim_value for dim in value.type.tensor_type.shape.dim if dim.HasField("dim_value")]
    elements([size for size in sizes if size != -1], what)


def label(node: onnx.NodeProto) -> str:
    """Return the name by which users know a node: its own, or that of its first output."""
    return node.name or next((name for name in node.output if name), "")


def origin(node: onnx.NodeProto) -> str:
    """Return the name by which users know the node that this one was made of, in the course of the preparation."""
    return str(node.doc_string) or label(node)


def unsupported(entries: Sequence[tuple[str, str, int | None, str]]) -> NumcError:
    """Return the error that lists (node, operator, opset, reason), with nodes of one operator and reason together."""
    groups: dict[tuple[str, int | None, str], list[str]] = {}
    for name, op, version, reason in entries:
        names = groups.setdefault((op, version, reason), [])
        if f"'{name}'" not in names:
            names.append(f"'{name}'")
    parts = [
        f"{'node' if len(names) == 1 else 'nodes'} {', '.join(names)} ({op}, opset {version}): {reason}"
        for (op, version, reason), names in groups.items()
    ]
    number = sum(map(len, groups.values()))
    count = f"{number} node{'s' * (number > 1)}"
    return NumcError(f"{count} cannot be compiled: {'; '.join(parts)}")
