"""The machines of the cost model: one TOML file each (docs/cost.md), some of which come with numc."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numc.numerics.operators import Fma
from numc.studies.hardware.units import UNITS, Array, Units
from numc.support.arguments import checked_text
from numc.support.errors import NumcError, did_you_mean, quoted, shortened, shown
from numc.support.files import checked_path
from numc.support.toml import parsed

_SHIPPED = Path(__file__).parent / "machines"
_KEYS: Mapping[str, Any] = {
    "about": str,
    "clock_ghz": float,
    "bandwidth_gb_per_s": float,
    "cache_bytes": list,
    "units": dict,
    "components": dict,
    "assumed": list,
}
_OPTIONAL = ("about", "bandwidth_gb_per_s", "components", "assumed")
# Key -> whether it has to be there, and the numbers that it takes.
_UNITS_KEYS: Mapping[str, Any] = {"count": (True, (int,)), "latency": (True, (int,)), "values": (False, (int,))}
_ARRAY_KEYS: Mapping[str, Any] = {
    "rows": (True, (int,)),
    "columns": (True, (int,)),
    "values": (False, (int,)),
    "milliwatts": (False, (int, float)),
    "area": (False, (int, float)),
}
_COMPONENT_KEYS: Mapping[str, Any] = {"watts": (True, (int, float)), "area": (False, (int, float))}
_MOST = 1e18
MAX_LENGTH = 1 << 16
"""The most characters of a file."""


@dataclass(frozen=True)
class Component:
    """A part of a chip. watts: its power. area: its share of the chip's area in percent, None if unknown."""

    watts: float
    area: float | None = None


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine of the cost model.

    clock: in Hz. bandwidth: of memory, in bytes per second; None if memory is not modelled. caches: sizes in bytes, the
    nearest first. units: by name; where several compute an operator, the first of UNITS is taken. components: of the
    chip, by name; the one with the name of an array is that array. assumed: the keys of the file whose values have no
    published source.
    """

    name: str
    about: str
    clock: float
    bandwidth: float | None
    caches: tuple[int, ...]
    units: Mapping[str, Units | Array]
    components: Mapping[str, Component] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()

    def unit_for(self, fma: Fma) -> tuple[str, int]:
        """Return the name of the units that compute an operator, and how many of their steps a pair of values takes.

        Raises NumcError if the machine has none.
        """
        for name, steps_of in UNITS.items():
            if name in self.units and (steps := steps_of(fma)) is not None:
                return name, steps
        raise NumcError(
            f"machine '{self.name}' has no unit for the operator '{fma}': it has {', '.join(self.units)} "
            "(docs/cost.md says what each computes)"
        )

    def watts(self, unit: str) -> float | None:
        """Return the power of the machine with the array `unit` in the place of its own; None if it is not known.

        All other components stay. The power of the array is in the proportion of `milliwatts` and of their sizes.
        """
        own = next((name for name in self.components if name in self.units), None)
        if own is None:
            return None
        sizes = []
        for array in (self.units[unit], self.units[own]):
            if not isinstance(array, Array) or array.milliwatts is None:
                return None
            sizes.append(array.milliwatts * array.count * array.values)
        rest = sum(component.watts for name, component in self.components.items() if name != own)
        return self.components[own].watts * sizes[0] / sizes[1] + rest


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
        values = parsed(checked_text(text, "machine", MAX_LENGTH))
    except OSError as error:
        near = did_you_mean(name, shipped())
        reason = error.strerror or error
        raise NumcError(f"machine {quoted(name)}: {reason}{near}: want a .toml file, {', '.join(shipped())}") from None
    except ValueError as error:  # what is no UTF-8, no TOML, too long a number, or nested too deeply
        raise NumcError(f"{name}: not TOML: {shortened(error, 200)}") from None
    return _machine(name, values)


def _machine(name: str, values: Mapping[str, Any]) -> Machine:
    for key in values:
        if key not in _KEYS:
            raise NumcError(f"{name}: unknown key {quoted(key)}{did_you_mean(key, _KEYS)}: want {', '.join(_KEYS)}")
    for key, value_type in _KEYS.items():
        if key not in values:
            if key not in _OPTIONAL:
                raise NumcError(f"{name}: the key '{key}' is missing: want {', '.join(_KEYS)}")
        elif value_type is float:
            _positive(name, key, values[key], (int, float))
        elif not isinstance(values[key], value_type):
            raise NumcError(f"{name}: {key} = {shortened(values[key])}: want a {_WORDS[value_type]}")
    for size in values["cache_bytes"]:
        _positive(name, "cache_bytes", size, (int,))
    if not values["units"]:
        raise NumcError(f"{name}: it has no units: want a table such as [units.fp32], [units.bf16] or [units.fmac]")
    units = {unit: _unit(name, unit, table) for unit, table in values["units"].items()}
    bandwidth = values.get("bandwidth_gb_per_s")
    return Machine(
        name=Path(name).stem,
        about=str(values.get("about", "")),
        clock=values["clock_ghz"] * 1e9,
        bandwidth=None if bandwidth is None else bandwidth * 1e9,
        caches=tuple(sorted(values["cache_bytes"])),
        units=units,
        components=_components(name, values.get("components", {}), units),
        assumed=tuple(map(str, values.get("assumed", ()))),
    )


_WORDS: Mapping[Any, str] = {str: "text", list: "list", dict: "table"}


def _unit(name: str, unit: str, given: Any) -> Units | Array:
    if unit not in UNITS:
        raise NumcError(f"{name}: unknown unit {quoted(unit)}{did_you_mean(unit, UNITS)}: want {', '.join(UNITS)}")
    is_array = isinstance(given, dict) and ("rows" in given or "columns" in given)
    keys = _ARRAY_KEYS if is_array else _UNITS_KEYS
    values = _table(name, f"units.{unit}", given, keys)
    return Array(**values) if is_array else Units(**values)


def _components(name: str, given: Mapping[str, Any], units: Mapping[str, Units | Array]) -> dict[str, Component]:
    components = {
        key: Component(**_table(name, f"components.{key}", entry, _COMPONENT_KEYS)) for key, entry in given.items()
    }
    arrays = [unit for unit, entry in units.items() if isinstance(entry, Array) and entry.milliwatts is not None]
    if components and sum(key in arrays for key in components) != 1:
        want = " or ".join(map(quoted, arrays)) or "a unit with rows, columns and milliwatts, which it has not"
        raise NumcError(f"{name}: components: got {_listed(components)}, want the array {want} among them")
    return components


def _table(name: str, where: str, given: Any, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table of positive numbers. Raises NumcError for anything else."""
    if not isinstance(given, dict):
        raise NumcError(f"{name}: {where} = {shortened(given)}: want a table with {', '.join(keys)}")
    for key in given:
        if key not in keys:
            near = did_you_mean(key, keys)
            raise NumcError(f"{name}: unknown key {quoted(f'{where}.{key}')}{near}: want {', '.join(keys)}")
        _positive(name, f"{where}.{key}", given[key], keys[key][1])
    for key, (is_needed, _) in keys.items():
        if is_needed and key not in given:
            raise NumcError(f"{name}: the key '{where}.{key}' is missing: want {', '.join(keys)}")
    return given


def _listed(names: Iterable[str]) -> str:
    return shortened(", ".join(names))


def _positive(name: str, key: str, value: Any, kinds: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value <= _MOST:
        number = "number" if float in kinds else "whole number"
        raise NumcError(f"{name}: {key} = {shown(value)}: want a {number} above 0 and up to {_MOST:g}")
