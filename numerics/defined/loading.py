"""Files with definitions: Python files that call `operator`, `reduction` and `format_of`, and TOML files of formats."""

from __future__ import annotations

import importlib.util
import os
import traceback
from hashlib import sha256
from types import ModuleType

from numc.numerics.defined.value_lists import format_of
from numc.support.errors import NumcError, quoted, shortened


def define_from(path: str) -> ModuleType | None:
    """Run a Python file for its definitions, and return it as a module, or make a format of a TOML file (`format_of`).

    Raises NumcError for another suffix of file, one that is not readable, and for what the file raises, with its line.
    """
    suffix = os.path.splitext(path)[1]
    if suffix == ".toml":
        format_of(path)
        return None
    if suffix != ".py":
        raise NumcError(f"definitions {quoted(path)}: want a Python file (.py), or a format's TOML file (.toml)")
    name = f"numc_definitions_{sha256(os.path.abspath(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except NumcError:
        raise
    except OSError as error:
        raise NumcError(f"definitions {quoted(path)}: {error.strerror or error}") from None
    except Exception as error:
        frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename == path]
        line = error.lineno if isinstance(error, SyntaxError) else frames[-1].lineno if frames else None
        where = f"{quoted(path)}, line {line}" if line is not None else quoted(path)
        raise NumcError(f"definitions {where}: {type(error).__name__}: {shortened(error, 300)}") from None
    return module
