"""Where a run comes from: its group, its seed, its configuration, and the versions that made it, in one file."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numc.support.arguments import checked, checked_integer, checked_text
from numc.support.errors import NumcError, quoted, shortened, shown
from numc.support.files import write_whole
from numc.support.json_values import parsed
from numc.support.processor import processor_name
from numc.support.versions import own_version, version_of

ORIGIN = "run.json"
_LONGEST = 200
_PACKAGES = ("torch", "torch-mlir", "numpy")


@dataclass(frozen=True)
class Origin:
    """A run is one of several.

    group: the runs that differ in their seeds only, such as the name of an arithmetic. seed: None if it was not given.
    configuration: numbers and texts by name. versions: of packages, Python and the processor.
    """

    group: str
    seed: int | None = None
    configuration: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, group: str, seed: int | None, configuration: Mapping[str, Any] | None) -> Origin:
        """Return the origin of a run of this process. Raises NumcError for values that are not allowed."""
        checked_text(group, "group", _LONGEST)
        number = None if seed is None else checked_integer(seed, "seed", 0, 2**63 - 1)
        settings = dict(checked(configuration or {}, "configuration", Mapping, "a mapping from names"))
        for name, value in settings.items():
            if not isinstance(name, str) or not isinstance(value, str | int | float | bool):
                raise NumcError(f"configuration: got {shown(name)}: {shown(value)}, want numbers or texts by name")
        return cls(group, number, settings, _versions())

    def write(self, path: Path) -> None:
        """Write the file. Raises NumcError if there is one of another run, or if it cannot be written."""
        if path.exists():
            before = read_origin(path)
            if (before.group, before.seed, dict(before.configuration)) != (
                self.group,
                self.seed,
                dict(self.configuration),
            ):
                raise NumcError(
                    f"{path}: of another run ({before.what}), not of {self.what}: name a new folder for a new training"
                )
        text = json.dumps({"format": 1, **vars(self)}, indent=1, allow_nan=False) + "\n"
        write_whole(path, lambda file: file.write(text.encode()))

    @property
    def what(self) -> str:
        """The group and the seed as text."""
        return f"group {quoted(self.group)}" + ("" if self.seed is None else f", seed {self.seed}")


def read_origin(path: Path) -> Origin:
    """Return what a file says of a run. Raises NumcError for anything else, also for that of another version."""
    try:
        values = parsed(path.read_text(encoding="utf-8"))
        if values["format"] != 1:
            raise ValueError(f"format {values['format']}")
        seed = values["seed"]
        if type(values["group"]) is not str or type(seed) not in (int, type(None)):
            raise TypeError("a field of another type")
        configuration, versions = dict(values["configuration"]), dict(values["versions"])
        return Origin(values["group"], seed, configuration, {name: str(text) for name, text in versions.items()})
    except OSError as error:
        raise NumcError(f"{path}: cannot read: {error.strerror or error}: leave this run out") from None
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise NumcError(
            f"{path}: not the origin of a run ({shortened(error, 60)}): want what this version of RunFolder writes"
        ) from None


def _versions() -> dict[str, str]:
    versions = {"numc": own_version()} | {name: text for name in _PACKAGES if (text := version_of(name)) is not None}
    return {**versions, "Python": platform.python_version(), "machine": processor_name()}
