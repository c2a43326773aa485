"""The manifest of a program file: JSON in which the compiler describes a program for people and for the tools."""

from __future__ import annotations

import json
from typing import Any

from numc.support.json_values import parsed

_INDEX = range(1 << 63)
_FEW = range(1, 65)  # bounds a layout, as runtime/src/program/storage.cpp does
_NUMBER = (_INDEX, None)
_SIDES = {"rows", "lanes"}
_LAYOUT = {
    "side": _SIDES,
    "width": _FEW,
    "count": _FEW,
    "parts": _FEW,
    "k_block": range(1, 1 << 31),
    "dot": range(0, 5, 2),
    "group": range(4097),
    "channel": bool,
    "scales": bool,
    "part": str,
    "code": str,
    "scaled": bool,
    "dense": bool,
    "alone": {"", "bf16", "integers", "unsigned"},
    "matrix": range(0, 17, 16),
}
_PLANE = {"sizes": [_INDEX], "inner": [_INDEX], "low": [_INDEX], "strides": [int], "lanes": [[int]], "taps": [int]}
_CONTRACTION = {
    "id": _INDEX,
    "fma": str,
    "passes": _INDEX,
    "name": str,
    "swap": bool,
    "packed": {"", *_SIDES},
    "layout": (_LAYOUT, None),
    "plane": (_PLANE, None),
    "counts": _INDEX,
    "phases": bool,
    "narrow": [_SIDES],
}
_LAYER = {
    "layer": str,
    "position": _NUMBER,
    "kind": str,
    "role": str,
    "swapped": bool,
    "b": _NUMBER,
    "m": _NUMBER,
    "n": _NUMBER,
    "k": _NUMBER,
    "shape": str,
    "fma": (str, None),
    "ops": str,
    "rule": str,
    "fma_line": _NUMBER,
    "ops_line": _NUMBER,
}
_FMAS = {"role": str, "fma": str, "contraction": bool, "count": _INDEX, "free": str}
_PART = {"layer": str, "kind": str, "contraction": _NUMBER, "bytes": _NUMBER, "role": str, "after": [_INDEX]}
_BUFFER = {"bytes": _NUMBER, "parts": [_INDEX], "result": bool}
# A type; a range of whole numbers; a set of texts to choose from; a list of equal things; an object with exactly these
# keys, or with any key where the key is `str`; (something, None) is that or null.
SCHEMA = {
    "code": str,  # SHA-256 of the section `code`, so that no manifest of another program is believed
    "fma": str,
    "ops": str,
    "policy": str,
    "layers": [_LAYER],
    "target": str,
    "statistics": bool,
    "calibrated": bool,
    "respect_dtypes": bool,
    "sources": [str],
    "versions": {str: str},
    "contractions": [_CONTRACTION],
    "parts": [_PART],
    "buffers": [_BUFFER],
    "fmas": ([_FMAS], None),
    "sizes": [str],
    "converted_weights": {str: str},
    "weights": [{"name": str, "values": _INDEX, "bytes": _INDEX, "held": str}],
    "activations": [{"layer": str, "bytes": _NUMBER, "held": str}],
    "failures": {str: str},
}
_NAMES = {
    int: "a whole number",
    str: "a text",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    type(None): "null",
}
_DIGITS = 18  # of the largest whole number: it has to fit into 64 bits


def encode_manifest(manifest: dict[str, Any]) -> bytes:
    """Return the section of a manifest."""
    return json.dumps(manifest, ensure_ascii=False, sort_keys=True).encode()


def decode_manifest(data: bytes) -> dict[str, Any]:
    """Return the manifest of a section. Raises ValueError, in one line, for one that does not fit SCHEMA."""
    try:
        manifest = parsed(data.decode(), digits=_DIGITS, finite=True)
    except ValueError as error:
        raise ValueError(f"manifest: not JSON: {error}") from None
    _check(manifest, SCHEMA, "manifest")
    checked_manifest: dict[str, Any] = manifest
    return checked_manifest


def _check(value: Any, schema: Any, where: str) -> None:
    """Raise ValueError if `value` is not what `schema` says."""
    if isinstance(schema, tuple):
        if value is None:
            return
        schema = schema[0]
    value_type: Any = {set: str, range: int, type: schema}.get(type(schema), type(schema))
    if type(value) is not value_type:
        raise ValueError(f"{where}: got {_NAMES.get(type(value), 'a fraction')}, want {_NAMES[value_type]}")
    if isinstance(schema, set) and value not in schema:
        raise ValueError(f"{where}: got {value!r:.40}, want {', '.join(map(repr, sorted(schema)))}")
    if isinstance(schema, range) and value not in schema:
        raise ValueError(f"{where}: got {value}, want {schema.start} to {schema.stop - 1}")
    if value_type is str:
        _check_text(value, where)
    elif value_type is list:
        for number, each in enumerate(value):
            _check(each, schema[0], f"{where}[{number}]")
    elif value_type is dict:
        _check_object(value, schema, where)


def _check_object(value: dict[str, Any], schema: dict[Any, Any], where: str) -> None:
    if str in schema:
        for key, each in value.items():
            _check_text(key, where)
            _check(each, schema[str], f"{where}[{key!r:.40}]")
        return
    for key in sorted(schema.keys() - value.keys()):
        raise ValueError(f"{where}: there is no {key!r}")
    for key in sorted(value.keys() - schema.keys()):
        raise ValueError(f"{where}: unknown key {key!r:.40}")
    for key, each in schema.items():
        _check(value[key], each, f"{where}.{key}")


def _check_text(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{where}: a text that is not Unicode") from None
