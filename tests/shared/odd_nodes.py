"""Models of one node: those of ONNX's own suite, and these with other dtypes, attributes, ranks and opsets."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

OLDEST = 7
_NUMBERS = (-1, 0, 1, 2, 3)
_FLOATS = (0.0, -1.0, 0.5, 1e30)
_KINDS = onnx.AttributeProto


def models() -> Iterator[tuple[str, onnx.ModelProto]]:
    """All of them by name: a case, and what is changed of it."""
    seen: set[bytes] = set()
    for name, model in cases().items():
        for change, changed in _changes(model):
            key = changed.SerializeToString(deterministic=True)
            if key not in seen:
                seen.add(key)
                yield f"{name}/{change}", changed


def some(count: int, seed: int) -> Iterator[tuple[str, onnx.ModelProto]]:
    """As `models`, one change each of some cases of different operators."""
    numbers = np.random.default_rng(seed)
    by_operator: dict[str, list[str]] = {}
    for name, model in cases().items():
        by_operator.setdefault(model.graph.node[0].op_type, []).append(name)
    for operator in numbers.choice(sorted(by_operator), count, replace=False):
        name = str(numbers.choice(by_operator[operator]))
        changes = list(_changes(cases()[name]))
        change, changed = changes[numbers.integers(len(changes))]
        yield f"{name}/{change}", changed


def named(name: str) -> onnx.ModelProto:
    """One of `models` by its name."""
    case, _, change = name.partition("/")
    return next(model for each, model in _changes(cases()[case]) if each == change)


@cache
def cases() -> dict[str, onnx.ModelProto]:
    """The cases of ONNX's suite that have one node, by name; inputs that say a shape, axes or numbers are constants."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, in what the cases compute as they are made
        collected = collect_testcases(None)
    for case in collected:
        if case.model is None or len(case.model.graph.node) != 1 or not case.data_sets:
            continue
        model = onnx.ModelProto.FromString(case.model.SerializeToString())
        graph, values = model.graph, case.data_sets[0][0]
        for value, given in list(zip(graph.input, values, strict=False)):
            kind = value.type.tensor_type
            if kind.elem_type == TensorProto.INT64 and len(kind.shape.dim) <= 1 and isinstance(given, np.ndarray):
                graph.initializer.append(numpy_helper.from_array(given, value.name))
                graph.input.remove(value)
        if graph.input:
            found[case.name] = model
    return found


def _changes(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.ModelProto]]:
    node = model.graph.node[0]
    version = {o.domain: o.version for o in model.opset_import}[node.domain]
    schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    yield "as it is", _copy(model)
    yield from _of_types(model, schema)
    yield from _of_attributes(model, schema)
    yield from _of_sizes(model)
    if not node.domain:
        for older in _versions(node.op_type):
            copy = _copy(model)
            copy.opset_import[0].version = older
            yield f"opset {older}", copy


def _of_types(model: onnx.ModelProto, schema: onnx.defs.OpSchema) -> Iterator[tuple[str, onnx.ModelProto]]:
    """For every type parameter, all inputs of it in each type that is allowed."""
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    names = {}
    for n, name in enumerate(model.graph.node[0].input):
        formal = schema.inputs[min(n, len(schema.inputs) - 1)]
        names.setdefault(formal.type_str, set()).add(name)
    for parameter, texts in allowed.items():
        for text in texts:
            number = _number(text)
            copy = _copy(model)
            inputs = [
                v for v in copy.graph.input if v.name in names.get(parameter, ()) and v.type.HasField("tensor_type")
            ]
            if number and any(value.type.tensor_type.elem_type != number for value in inputs):
                for value in inputs:
                    value.type.tensor_type.elem_type = number
                yield f"{parameter}={text}", copy


def _number(text: str) -> int:
    kind = text.removeprefix("tensor(").rstrip(")") if text.startswith("tensor(") else ""
    return dict(TensorProto.DataType.items()).get(kind.upper(), 0)


def _of_attributes(model: onnx.ModelProto, schema: onnx.defs.OpSchema) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Every attribute alone with another value, and without it."""
    given = {each.name: helper.get_attribute_value(each) for each in model.graph.node[0].attribute}
    for name, attribute in schema.attributes.items():
        others: list[Any] = [None] if name in given and not attribute.required else []
        if attribute.type.name == "INT":
            others += [n for n in _NUMBERS if n != given.get(name)]
        elif attribute.type.name == "FLOAT":
            others += [n for n in _FLOATS if n != given.get(name)]
        elif attribute.type.name == "INTS" and name in given:
            old = list(given[name])
            others += [[n + 1 for n in old], [0] * len(old), [-1] * len(old), old[::-1], old[:-1], [*old, 1]]
        elif attribute.type.name == "STRING":
            others += [b"", *(word.encode() for word in _words(schema.name, name) if word.encode() != given.get(name))]
        for other in others:
            copy = _copy(model)
            node = copy.graph.node[0]
            kept = [each for each in node.attribute if each.name != name]
            del node.attribute[:]
            node.attribute.extend(kept)
            if other is not None:
                if attribute.type.name == "INTS" and not other:
                    continue
                node.attribute.append(helper.make_attribute(name, other))
            yield f"{name}={other}", copy


@cache
def _words(operator: str, attribute: str) -> list[str]:
    """What the cases of an operator have for an attribute that is a word."""
    found = {}
    for model in cases().values():
        node = model.graph.node[0]
        if node.op_type == operator:
            found.update((each.s.decode(), None) for each in node.attribute if each.name == attribute and each.s)
    return list(found)


def _of_sizes(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.ModelProto]]:
    """One dimension more in front or behind, one less, and sizes of 1, in all inputs together; all sizes free."""
    for name in ("one more in front", "one more behind", "one less", "ones", "free"):
        copy = _copy(model)
        for value in copy.graph.input:
            if not value.type.HasField("tensor_type"):
                break
            shape = value.type.tensor_type.shape
            sizes = [dim.dim_value for dim in shape.dim]
            sizes = {"one more in front": [1, *sizes], "one more behind": [*sizes, 1], "one less": sizes[:-1],
                     "ones": [1] * len(sizes), "free": sizes}[name]  # fmt: skip
            del shape.dim[:]
            for n, size in enumerate(sizes):
                shape.dim.add(**({"dim_param": f"{value.name}{n}"} if name == "free" else {"dim_value": size}))
        else:
            yield name, copy


def _versions(operator: str) -> list[int]:
    """The opsets from OLDEST in which an operator changed, and that itself."""
    found = {s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == operator and not s.domain}
    return sorted({max(version, OLDEST) for version in found})


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy, of which outputs have types that follow from the inputs."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for value in copy.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.Clear()
    return copy
