"""The evaluations of a search in a file, to which each is appended when it is finished: no early end loses it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numc.studies.search.evaluation import Answer
from numc.support.errors import NumcError, shortened
from numc.support.json_values import json_values, parsed

NAME = "results.jsonl"
_KIND = "numc search 1"


def check_new(folder: Path) -> None:
    """Raise NumcError for a folder with a search."""
    if _is_begun(folder / NAME):
        raise NumcError(f"{folder / NAME}: a search is here already: go on with --resume, or name another folder")


def _is_begun(path: Path) -> bool:
    """Whether a file has lines: a kill may have come before the first one."""
    return path.exists() and path.stat().st_size > 0


class Journal:
    """Answers by key, a hash of the bits that are computed and of the samples.

    folder: has the file; None keeps the answers in memory only. digest, about: what was evaluated, and words for it.
    resume: whether the folder has a search to go on with. Failed evaluations of an earlier run are tried again.
    Raises NumcError if the folder has a search and `resume` is False, or has none of this model and data otherwise.
    """

    def __init__(self, folder: Path | None, digest: str, about: Mapping[str, Any], *, resume: bool = False) -> None:
        self.path = None if folder is None else folder / NAME
        self._answers: dict[str, Answer] = {}
        if self.path is None:
            return
        header = {"kind": _KIND, "digest": digest, **about}
        if not resume:
            check_new(self.path.parent)
        if _is_begun(self.path):
            self._read(digest)
        else:
            self._append(header)

    def __contains__(self, key: str) -> bool:
        return key in self._answers

    def __getitem__(self, key: str) -> Answer:
        return self._answers[key]

    def put(self, key: str, answer: Answer, about: Mapping[str, Any]) -> None:
        """Keep an answer, and write it with `about` for readers. Raises NumcError if the file cannot be written."""
        self._answers[key] = answer
        if self.path is not None:
            self._append({"key": key, "value": answer.value, "seconds": round(answer.seconds, 3), **about})

    def _read(self, digest: str) -> None:
        assert self.path is not None
        whole, _, rest = self.path.read_bytes().rpartition(b"\n")
        try:
            header, *lines = [parsed(line) for line in whole.splitlines()] or [{}]
            if header["kind"] != _KIND:
                raise ValueError
            known = {line["key"]: Answer(float(line["value"]), line["seconds"]) for line in lines if not line["error"]}
        except (ValueError, KeyError, TypeError):
            raise NumcError(f"{self.path}: not the results of numc search: name another folder") from None
        if header["digest"] != digest:
            other = shortened(f"{header.get('model')}, {header.get('metric')}, numc {header.get('numc')}")
            raise NumcError(f"{self.path}: has another model, data, metric or numc ({other}): name another folder")
        self._answers = known
        if rest:  # a line that was not complete when its writer was killed
            os.truncate(self.path, len(whole) + 1)

    def _append(self, line: Mapping[str, Any]) -> None:
        assert self.path is not None
        text = json.dumps(json_values(line), ensure_ascii=False, allow_nan=False) + "\n"
        try:
            with open(self.path, "ab") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise NumcError(f"{self.path}: cannot write: {error.strerror or error}") from None
