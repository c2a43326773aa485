"""The command that draws the model of a comparison, which its page offers beside the errors of layers."""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path

from numc.studies.results import ComparisonData, Result


def picture_command(comparison: ComparisonData) -> str:
    """Return the command that draws the model in the arithmetic that breaks first, in Python if no command compared.

    "" for fp32 alone, and for windows of tokens, which `numc explain` does not read.
    """
    others = comparison.results[1:]
    if not others:
        return ""
    result = min((r for r in others if r.breaks is not None), key=_first_broken, default=others[-1])
    if not comparison.commands:
        fma = f", fma={result.operators[0]!r}" if len(result.operators) == 1 else ""
        model = repr(comparison.model) if Path(comparison.model).suffix in (".onnx", ".pt2", ".mlir") else "model"
        return f'numc.graph({model}, inputs{fma}).write("model.html")'
    words = shlex.split(comparison.commands[0])
    pairs = list(itertools.pairwise(words))
    data = [word for option, value in pairs if option == "--data" for word in (option, value)]
    if not data:
        return ""
    policies = [value for option, value in pairs if option == "--policy" and Path(value).stem == result.name]
    if policies:
        arithmetic = ["--policy", policies[0]]
    else:
        arithmetic = ["--fma", result.operators[0]] if len(result.operators) == 1 else []
    return shlex.join(["numc", "explain", words[2], *arithmetic, *data, "--graph", "model.html"])


def _first_broken(result: Result) -> int:
    assert result.breaks is not None
    return result.breaks.position
