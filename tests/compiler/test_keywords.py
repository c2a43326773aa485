"""Keywords of public functions from records: what they take, what help says, and what they refuse."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, fields

import click
import pytest

import numc
from numc.cli import cli
from numc.compiler.options import CompileOptions
from numc.studies.bisect import BisectOptions
from numc.studies.compare import CompareOptions
from numc.studies.search.options import SearchOptions
from numc.support.keywords import about, keywords, part

RECORDS = {"compile": CompileOptions, "compare": CompareOptions, "search": SearchOptions, "bisect": BisectOptions}


@dataclass(frozen=True, kw_only=True)
class Size:
    width: int = field(default=2, metadata=about("in bits"))


@dataclass(frozen=True, kw_only=True)
class Box(Size):
    height: int = field(kw_only=False, metadata=about("in rows"))


@keywords(Box)
def area(name: str, given: Box) -> tuple[str, int]:
    """Return a name and an area.

    Raises nothing.
    """
    return name, given.width * given.height


def test_a_record_gives_a_function_its_keywords() -> None:
    assert area("a", 3) == area("a", height=3) == area(name="a", height=3) == ("a", 6)
    assert area("a", 3, width=5) == ("a", 15)
    assert str(inspect.signature(area)) == "(name: 'str', height: 'int', *, width: 'int' = 2) -> 'tuple[str, int]'"
    assert area.__doc__ == "Return a name and an area.\n\nwidth: in bits.\nheight: in rows.\n\nRaises nothing."
    assert part(Size, Box(4, width=3)) == Size(width=3)


def test_wrong_keywords_are_refused_in_one_line() -> None:
    with pytest.raises(numc.NumcError, match="area: no keyword 'widht' .did you mean 'width'.*want height, width$"):
        area("a", 3, widht=1)
    with pytest.raises(TypeError, match="missing a required argument: 'height'"):
        area("a")
    with pytest.raises(TypeError, match="too many positional arguments"):
        area("a", 3, 5)
    for name in RECORDS:
        with pytest.raises(numc.NumcError, match=f"^{name}: no keyword 'thread'"):
            getattr(numc, name)("model.onnx", thread=1)
    with pytest.raises(numc.NumcError, match="TrainBF: no keyword 'step' .did you mean 'steps'.*want model, "):
        numc.train.TrainBF(step=1)


@pytest.mark.parametrize("name", RECORDS)
def test_help_shows_every_keyword(name: str) -> None:
    function = getattr(numc, name)
    shown = inspect.signature(function).parameters
    taken = [each for each in fields(RECORDS[name]) if each.init]
    assert {each.name for each in taken} == {*list(shown)[1:]}
    for each in taken:
        begin = " ".join(f"{each.name}: {each.metadata['about']}".split()[:4])
        assert f"\n{begin}" in function.__doc__, each.name


@pytest.mark.parametrize("name", RECORDS)
def test_a_command_has_the_defaults_of_the_function(name: str) -> None:
    defaults = inspect.signature(getattr(numc, name)).parameters
    compared = 0
    for option in cli.commands[name].params:
        if isinstance(option, click.Option) and option.name in defaults and isinstance(option.default, str | int):
            assert option.default == defaults[option.name].default, option.name
            compared += 1
    assert compared
