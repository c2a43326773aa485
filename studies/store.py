"""The file of finished results of a comparison, which lets an interrupted comparison continue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from numc.studies.results import Result
from numc.support.errors import NumcError, shortened
from numc.support.files import write_whole
from numc.support.json_values import parsed

_KIND = "numc compare 1"


class Store:
    """Results by key, a hash of everything that determines them.

    path: the file that keeps them, which is complete at any time; None keeps them in memory only. model, sha256: the
    name and the hash of the model. Raises NumcError for a file that is not such a file, or has the results of another
    model.
    """

    def __init__(self, path: Path | None, model: str, sha256: str) -> None:
        self.path = path
        self._content: dict[str, Any] = {"kind": _KIND, "model": model, "sha256": sha256, "results": {}}
        if path is None or not path.exists():
            return
        try:
            content = parsed(path.read_text(encoding="utf-8"))
            if content["kind"] != _KIND or not isinstance(content["results"], dict):
                raise ValueError
            other = content["sha256"]
        except OSError as error:
            raise NumcError(f"{path}: cannot read: {error.strerror or error}: name another file") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise NumcError(f"{path}: not results of numc compare: name another file, or remove this one") from None
        if other != sha256:
            model = shortened(content.get("model"))
            raise NumcError(f"{path}: results of another model ({model}): name another file, or remove this one")
        self._content = content

    def get(self, key: str) -> Result | None:
        """Return the result with this key, or None."""
        stored = self._content["results"].get(key)
        try:
            return None if stored is None else Result.of_json(stored)
        except (KeyError, TypeError, ValueError, NumcError):
            return None  # written by another version of numc: compute it again

    def put(self, key: str, result: Result) -> None:
        """Store a result. Raises NumcError if the file cannot be written."""
        self._content["results"][key] = result.as_json()
        if self.path is not None:
            text = json.dumps(self._content, ensure_ascii=False, allow_nan=False)
            write_whole(self.path, lambda file: file.write(text.encode()))
