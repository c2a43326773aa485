"""Docstrings in the site: each parameter, and what is raised, stands on a line of its own.

An extension of griffe, which mkdocstrings reads the code with. In the code a docstring names its parameters in running
text, ``name: what it is.``, so that it stays short; a page has room.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import griffe


class Parameters(griffe.Extension):
    """Make a list of the parameters that a docstring describes."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Rewrite the docstring of a function."""
        if any(decorator.callable_path.endswith("keywords") for decorator in func.decorators):
            _take_keywords(func)
        _rewrite(func.docstring, [parameter.name for parameter in func.parameters])

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Rewrite the docstring of a class: its fields are described as parameters are."""
        _rewrite(cls.docstring, [name for name, member in cls.members.items() if member.is_attribute])


def _take_keywords(func: griffe.Function) -> None:
    """Give a function the parameters and the docstring that its decorator makes of a record."""
    function: Any = import_module(func.module.path)
    for name in func.path.removeprefix(f"{func.module.path}.").split("."):
        function = getattr(function, name)
    own = inspect.signature(function).parameters.values()
    func.parameters = griffe.Parameters(
        *(
            griffe.Parameter(
                parameter.name,
                annotation=parameter.annotation,
                kind=griffe.ParameterKind(parameter.kind.description),
                default=None if parameter.default is parameter.empty else repr(parameter.default),
            )
            for parameter in own
        )
    )
    if func.docstring is not None:
        func.docstring.value = inspect.getdoc(function) or ""


def _rewrite(docstring: griffe.Docstring | None, names: list[str]) -> None:
    if docstring is None or not names:
        return
    name = "(?:" + "|".join(re.escape(name) for name in names) + ")"
    begins = re.compile(rf"(?:(?<=\.)|(?<=\.\))|(?<=\n)|^)[ \n]*({name}(?:(?:, | and ){name})*): ")
    blocks = []
    for block in docstring.value.split("\n\n"):
        if block.startswith("    "):  # code
            blocks.append(block)
            continue
        text = re.sub(r"\s+(Raises )", r"\n\n\1", block)
        blocks.append(begins.sub(lambda found: f"\n\n- `{found[1]}`: ", text).strip("\n"))
    docstring.value = "\n\n".join(blocks)
