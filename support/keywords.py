"""Public functions whose keywords are the fields of a record: each is written, typed and described there, once.

    @dataclass(frozen=True, kw_only=True)
    class Options:
        fma: str = field(default="fp32", metadata=about("the operator of every contraction"))

    @keywords(Options)
    def compile(source: Any, given: Options) -> Program: ...

    compile("model.onnx", fma="mp")

A record inherits from those whose fields it has, too. Type checkers see the keywords, and `help` shows each with its
default and its description.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from numc.support.errors import NumcError, did_you_mean, quoted

_Fields = ParamSpec("_Fields")
_Record = TypeVar("_Record")
_Result = TypeVar("_Result")


def about(text: str) -> dict[str, str]:
    """Return the metadata of a field that `text` describes."""
    return {"about": text}


def part(kind: type[_Record], record: Any) -> _Record:
    """Return the fields that a record has from `kind`, as a record of this kind."""
    names = [field.name for field in dataclasses.fields(kind) if field.init]  # type: ignore[arg-type]
    return kind(**{name: getattr(record, name) for name in names})


def keywords(
    record: Callable[_Fields, _Record],
) -> Callable[[Callable[[Any, _Record], _Result]], Callable[Concatenate[Any, _Fields], _Result]]:
    """Let a function of a subject and a record take the fields of the record, by name or by position as that does.

    The function raises NumcError for a keyword that it does not have.
    """

    def decorate(function: Callable[[Any, _Record], _Result]) -> Callable[Concatenate[Any, _Fields], _Result]:
        own = inspect.signature(function)
        public = function.__qualname__.removesuffix(".__init__")
        subject = next(iter(own.parameters.values()))
        make: Callable[..., _Record] = record
        signature = own.replace(parameters=[subject, *inspect.signature(record).parameters.values()])

        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> _Result:
            for name in named:
                if name not in signature.parameters:
                    known = list(signature.parameters)[1:]
                    raise NumcError(
                        f"{public}: no keyword {quoted(name)}{did_you_mean(name, known)}: want {', '.join(known)}"
                    )
            bound = signature.bind(*arguments, **named).arguments
            return function(bound.pop(subject.name), make(**bound))

        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__doc__ = _described(inspect.getdoc(function) or "", record)
        return call

    return decorate


def _described(text: str, record: Any) -> str:
    """Return a docstring with a list of the fields of a record, in front of the errors that are raised."""
    lines = [f"{field.name}: {field.metadata['about']}." for field in dataclasses.fields(record) if field.init]
    body, raises, errors = text.partition("\nRaises ")
    listed = "\n".join(textwrap.fill(line, 116, subsequent_indent="    ") for line in lines)
    return f"{body.rstrip()}\n\n{listed}\n{raises}{errors}"
