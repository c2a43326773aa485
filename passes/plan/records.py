"""Dataclasses of numbers, texts and each other as facts (facts.py): attributes that a person can read and edit.

A dataclass is a dictionary with one entry a field; None is an entry that is left out. Reading checks names and types,
and says in one line what is wrong.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Hashable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from torch_mlir import ir

from numc.passes import facts
from numc.support.errors import NumcError, did_you_mean

Record = TypeVar("Record")

_NAMES = {bool: "true or false", int: "an integer", str: "a text"}


def data_of(value: Any) -> Any:
    """Return a dataclass, or a tuple of such, as dictionaries and lists."""
    if isinstance(value, tuple):
        return [data_of(v) for v in value]
    if not is_dataclass(value):
        return value
    entries = {f.name: getattr(value, f.name) for f in fields(value)}
    return {name: data_of(v) for name, v in entries.items() if v is not None}


def of_data(kind: type[Record], data: Any, where: str) -> Record:
    """Return the dataclass `kind` that `data` stands for.

    Raises NumcError, whose text begins with `where`, for an unknown or a missing entry and for another type.
    """
    if not isinstance(data, dict):
        raise NumcError(f"{where} = {_text(data)}: want a dictionary {{...}}")
    hints = _hints(typing.cast("Hashable", kind))
    for name in data:
        if name not in hints:
            raise NumcError(f"{where}: unknown entry {name!r}{did_you_mean(name, hints)}: {_listed(hints)}")
    for name, hint in hints.items():
        if name not in data and not _is_optional(hint):
            raise NumcError(f"{where}: there is no {name!r}: {_listed(hints)}")
    values = {n: _value(hint, data[n], f"{where}.{n}") if n in data else None for n, hint in hints.items()}
    return kind(**values)


def put(op: ir.Operation, name: str, record: Any) -> None:
    """Write a dataclass as the attribute `name` of an operation."""
    facts.put(op, name, data_of(record))


def get(kind: type[Record], op: ir.Operation, name: str, where: str) -> Record:
    """Return the dataclass that is the attribute `name` of an operation.

    Raises NumcError, whose text begins with `where`, if it is missing or wrong.
    """
    if name not in op.attributes:
        raise NumcError(f"{where}{name}: it is missing")
    try:
        data = facts.get(op, name)
    except TypeError as error:
        raise NumcError(f"{where}{name}: {error}: want numbers, texts, true or false, lists and dictionaries") from None
    return of_data(kind, data, f"{where}{name}")


def _value(kind: Any, data: Any, where: str) -> Any:
    if _is_optional(kind):
        kind = next(k for k in typing.get_args(kind) if k is not types.NoneType)
    if is_dataclass(kind):
        return of_data(typing.cast("type[Any]", kind), data, where)
    if typing.get_origin(kind) is typing.Literal:
        if data not in (allowed := typing.get_args(kind)):
            raise NumcError(f"{where} = {_text(data)}: want {', '.join(map(repr, allowed))}")
        return data
    if typing.get_origin(kind) is not tuple:
        if type(data) is not kind:
            raise NumcError(f"{where} = {_text(data)}: want {_NAMES[kind]}")
        return data
    kinds = typing.get_args(kind)
    if not isinstance(data, list) or (kinds[-1] is not ... and len(data) != len(kinds)):
        wanted = "a list" if kinds[-1] is ... else f"a list of {len(kinds)}"
        raise NumcError(f"{where} = {_text(data)}: want {wanted}")
    return tuple(_value(kinds[0], each, f"{where}[{n}]") for n, each in enumerate(data))


@functools.cache
def _hints(kind: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _is_optional(kind: Any) -> bool:
    return isinstance(kind, types.UnionType) and types.NoneType in typing.get_args(kind)


def _listed(names: Iterable[str]) -> str:
    return f"the entries are {', '.join(names)}"


def _text(data: Any) -> str:
    return {True: "true", False: "false"}[data] if isinstance(data, bool) else repr(data)
