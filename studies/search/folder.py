"""The files that a search leaves in its folder when it is finished, beside the evaluations in journal.NAME."""

from __future__ import annotations

import json
from pathlib import Path

from numc.studies.search.found import Search
from numc.studies.search.page import render
from numc.support.files import write_whole

POLICY, RESULT, PAGE = "best.policy", "search.json", "report.html"


def live(found: Search, stopped: bool) -> str:
    """Return the page of a search that is not finished, or was stopped before it was."""
    count = len(found.trials)
    return render(found, f"{count} candidate{'s' if count != 1 else ''} so far.", stopped=stopped)


def write(found: Search, folder: Path) -> None:
    """Write the outcome as JSON, the page, and the policy, if there is one. Raises NumcError if it cannot."""
    texts = {RESULT: json.dumps(found.as_json(), indent=1, ensure_ascii=False) + "\n", PAGE: render(found)}
    if found.policy:
        texts[POLICY] = found.policy
    for name, text in texts.items():
        write_whole(folder / name, lambda file, text=text: file.write(text.encode()))  # type: ignore[misc]
