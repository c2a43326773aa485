"""The machines of the cost model: one TOML file each (docs/cost.md), two of which come with numc."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from numc.compiler.support.arguments import checked_text
from numc.compiler.support.errors import NumcError, did_you_mean, quoted, shortened, shown
from numc.compiler.support.files import checked_path

_TOML: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
_SHIPPED = Path(__file__).parent / "machines"
UNITS = ("fp32", "bf16", "fmac")
_KEYS: Mapping[str, Any] = {
    "about": str,
    "clock_ghz": float,
    "bandwidth_gb_per_s": float,
    "cache_bytes": list,
    "units": dict,
    "assumed": list,
}
_OPTIONAL = ("about", "assumed")
_UNIT_KEYS = ("count", "latency", "values")
_MOST = 1e18
MAX_LENGTH = 1 << 16
"""The most characters of a file."""


@dataclass(frozen=True)
class Unit:
    """The functional units of one kind.

    count: how many steps start in one cycle. latency: the cycles until a result can be used. values: the pairs of
    values that one step multiplies; for fmac, the size of a group.
    """

    count: int
    latency: int
    values: int = 1


@dataclass(frozen=True)
class Machine:
    """A machine of the cost model.

    clock: in Hz. bandwidth: of memory, in bytes per second. caches: sizes in bytes, the nearest first. units: by name.
    assumed: the keys of the file whose values have no published source.
    """

    name: str
    about: str
    clock: float
    bandwidth: float
    caches: tuple[int, ...]
    units: Mapping[str, Unit]
    assumed: tuple[str, ...] = ()


def shipped() -> list[str]:
    """Return the names of the machines that come with numc."""
    return sorted(path.stem for path in _SHIPPED.glob("*.toml"))


def load_machine(given: str | os.PathLike[str]) -> Machine:
    """Return a machine that comes with numc, or that a file describes.

    Raises NumcError if there is no such machine or file, or if the file is not valid.
    """
    path = checked_path(given)
    name = str(given)
    if name in shipped():
        path = _SHIPPED / f"{name}.toml"
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(MAX_LENGTH + 1)
        values = _TOML.loads(checked_text(text, "machine", MAX_LENGTH))
    except OSError as error:
        near = did_you_mean(name, shipped())
        reason = error.strerror or error
        raise NumcError(
            f"machine {quoted(name)}: {reason}{near}: want a .toml file or one of {', '.join(shipped())}"
        ) from None
    except (ValueError, RecursionError) as error:  # what is no UTF-8, no TOML, too long a number, or nested too deeply
        raise NumcError(f"{name}: not TOML: {shortened(error, 200)}") from None
    return _machine(name, values)


def _machine(name: str, values: Mapping[str, Any]) -> Machine:
    for key in values:
        if key not in _KEYS:
            raise NumcError(f"{name}: unknown key {quoted(key)}{did_you_mean(key, _KEYS)}: want {', '.join(_KEYS)}")
    for key, kind in _KEYS.items():
        if key not in values:
            if key not in _OPTIONAL:
                raise NumcError(f"{name}: the key '{key}' is missing: want {', '.join(_KEYS)}")
        elif kind is float:
            _positive(name, key, values[key], (int, float))
        elif not isinstance(values[key], kind):
            raise NumcError(f"{name}: {key} = {shortened(values[key])}: want a {_WORDS[kind]}")
    for size in values["cache_bytes"]:
        _positive(name, "cache_bytes", size, (int,))
    if not values["units"]:
        raise NumcError(f"{name}: it has no units: want a table [units.fp32], [units.bf16] or [units.fmac]")
    return Machine(
        Path(name).stem,
        str(values.get("about", "")),
        values["clock_ghz"] * 1e9,
        values["bandwidth_gb_per_s"] * 1e9,
        tuple(sorted(values["cache_bytes"])),
        {unit: _unit(name, unit, given) for unit, given in values["units"].items()},
        tuple(map(str, values.get("assumed", ()))),
    )


_WORDS: Mapping[Any, str] = {str: "text", list: "list", dict: "table"}


def _unit(name: str, unit: str, given: Any) -> Unit:
    if unit not in UNITS:
        raise NumcError(f"{name}: unknown unit {quoted(unit)}{did_you_mean(unit, UNITS)}: want {', '.join(UNITS)}")
    if not isinstance(given, dict):
        raise NumcError(f"{name}: units.{unit} = {shortened(given)}: want a table with {', '.join(_UNIT_KEYS)}")
    for key in given:
        if key not in _UNIT_KEYS:
            near = did_you_mean(key, _UNIT_KEYS)
            raise NumcError(f"{name}: unknown key {quoted(f'units.{unit}.{key}')}{near}: want {', '.join(_UNIT_KEYS)}")
        _positive(name, f"units.{unit}.{key}", given[key], (int,))
    for key in _UNIT_KEYS[:2]:
        if key not in given:
            raise NumcError(f"{name}: the key 'units.{unit}.{key}' is missing: want {', '.join(_UNIT_KEYS)}")
    return Unit(**given)


def _positive(name: str, key: str, value: Any, kinds: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value <= _MOST:
        number = "number" if float in kinds else "whole number"
        raise NumcError(f"{name}: {key} = {shown(value)}: want a {number} above 0 and up to {_MOST:g}")
