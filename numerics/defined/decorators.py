"""``numc.operator`` and ``numc.reduction``: a function becomes an operator that texts can name.

The function is the exact definition: the reference calls it with numbers. Traced once for the formats of an operator,
it is also what kernels compute.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from types import MappingProxyType
from typing import TypeVar

from numc.numerics.circuits.ordering import digest
from numc.numerics.datapaths import DEFINED as DEFINED_PATHS
from numc.numerics.datapaths import MAX_CHUNK, Admits, Blocks, Parameter
from numc.numerics.defined.definition import DEFINITIONS, Definition, Function
from numc.numerics.defined.graphs import outputs
from numc.numerics.defined.naming import checked_name, version_of
from numc.numerics.grammar import forget, parse_fma
from numc.numerics.operators import DEFINED, Fma
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted, shortened

MOST_PRODUCTS = 64
"""The longest block of a reduction that a user defines: its graph holds every product."""
MOST_REGISTER = 1024
"""The most bits of a register."""
_LENGTH = Parameter(1, MOST_PRODUCTS, "how many products a block has")
_NUMBERS = count()
_SIGNATURES = {False: "(a, b, c, *, parameter=number)", True: "(a, b, c, *, l=length, parameter=number)"}

F = TypeVar("F", bound=Function)
T = TypeVar("T")


@in_default_environment
def operator(
    *,
    a: str,
    b: str | None = None,
    acc: str,
    name: str | None = None,
    register: int = 0,
    last: Function | None = None,
) -> Callable[[F], F]:
    """Make a multiply-add of a function ``step(a, b, c)`` of real numbers, which returns the new accumulator.

    Afterwards the function's name is the text of an operator with these formats, wherever operators have texts, and
    that of a datapath, as in ``fma(a=e4m3fn, acc=fp16, datapath=step)``. a, b, acc: texts of formats; b is a's by
    default. name: the operator's, by default the function's. Arguments behind ``*`` are whole numbers with defaults:
    parameters of the datapath, as in ``datapath=step(bits=7)``. What it returns is rounded as `acc` says; a whole
    number is the code of a value. The function itself is returned, unchanged.

    register: the accumulator is a whole number of so many bits, with its sign, that begins at 0 (up to 1024). `step`
    takes and returns it as `c`, and ``last(c, register)`` makes the result, of the accumulator that a reduction began
    with and of the register.

    numc calls the functions with exact numbers, in the reference, and once for every choice of formats with numbers
    that are traced: `numc.circuits` has what they can be made of.
    Raises NumcError, with the line, for what cannot be traced, and for a name that numc has for something else.
    """
    return _registered((a, b or a, acc), name, in_blocks=False, register=register, last=last)


@in_default_environment
def reduction(
    *,
    a: str,
    b: str | None = None,
    acc: str,
    name: str | None = None,
    register: int = 0,
    last: Function | None = None,
) -> Callable[[F], F]:
    """Make an operator that adds a block of products, of a function ``block(a, b, c, *, l=16)``, as `operator` does.

    a and b are lists of `l` real numbers: operands whose products a reduction takes together, counted from its first
    one. A last block that is short is filled with +0. l: up to 64.
    """
    return _registered((a, b or a, acc), name, in_blocks=True, register=register, last=last)


def _registered(
    formats: tuple[str, str, str], name: str | None, *, in_blocks: bool, register: int, last: Function | None
) -> Callable[[F], F]:
    @in_default_environment
    def registered(function: F) -> F:
        called = checked_name("operator", function.__name__ if name is None else name, "mine")
        _check_register(called, register, last)
        definition = Definition(
            name=called,
            function=function,
            in_blocks=in_blocks,
            parameters=_parameters(called, function, in_blocks),
            register=register,
            last=last,
        )
        before = DEFINED_PATHS.get(called), DEFINED.pop(called, None)
        a, b, acc = formats
        text = f"fma(a={a},b={b},acc={acc},datapath={called})"
        try:
            # To trace it, which its version is made from, under one that no other definition has had.
            unnamed = _known_as(definition, f"{next(_NUMBERS):x}", text)
            fma = _known_as(definition, _version(definition, unnamed), text)
        except BaseException:
            _restore(DEFINED_PATHS, called, before[0])
            _restore(DEFINED, called, before[1])
            raise
        finally:
            forget()
        DEFINED[called] = replace(fma, name=fma.datapath.name)
        return function

    return registered


def _restore(table: dict[str, T], name: str, before: T | None) -> None:
    table.pop(name, None)
    if before is not None:
        table[name] = before


def _known_as(definition: Definition, version: str, text: str) -> Fma:
    """An operator of this definition, which gets its name and version."""
    forget()
    name = definition.name
    DEFINITIONS[f"{name}#{version}"] = definition
    DEFINED_PATHS[name] = Admits(
        order=Blocks,
        sums="defined",
        parameters=definition.parameters,
        version=version,
        whole=bool(definition.register),
    )
    return parse_fma(text)


def _version(definition: Definition, fma: Fma) -> str:
    """Digits that tell this definition from others of its name: of its text, and of what it does for its formats."""
    texts = [_text(each) for each in (definition.function, definition.last) if each is not None]
    return version_of("\n".join([*texts, digest(outputs(fma))]))


def _text(function: Function) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return repr(function.__code__.co_code) if inspect.isfunction(function) else repr(function)


def _check_register(name: str, register: object, last: object) -> None:
    if not isinstance(register, int) or isinstance(register, bool) or not 0 <= register <= MOST_REGISTER:
        raise NumcError(
            f"operator '{name}': register={shortened(register)}, want the bits of a whole number with its sign, from 2 "
            f"to {MOST_REGISTER}"
        )
    if bool(register) != (last is not None) or register == 1:
        what = f"register={register}, and {'no function' if last is None else 'a function'} for its end"
        raise NumcError(f"operator '{name}': {what}, want both or none: register=64, last=function(c, register)")


def _parameters(name: str, function: Function, in_blocks: bool) -> Mapping[str, Parameter]:
    """The parameters of a datapath from the signature of its function."""
    wanted = name + _SIGNATURES[in_blocks]
    positional: list[str] = []
    parameters: dict[str, Parameter] = {}
    for key, each in inspect.signature(function).parameters.items():
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD):
            positional.append(key)
        elif each.kind is not each.KEYWORD_ONLY:
            raise NumcError(f"operator '{name}': takes {each}, want {wanted}")
        elif isinstance(each.default, bool) or not isinstance(each.default, int):
            shown = "no default" if each.default is each.empty else f"the default {shortened(each.default)}"
            raise NumcError(f"operator '{name}': parameter {quoted(key)} has {shown}, want a whole number: {wanted}")
        elif key == "l" and in_blocks:
            parameters[key] = Parameter(_LENGTH.least, _LENGTH.most, _LENGTH.about, each.default)
        else:
            parameters[key] = Parameter(-MAX_CHUNK, MAX_CHUNK, "a parameter of its definition", each.default)
    if len(positional) != 3 or (in_blocks and "l" not in parameters):
        raise NumcError(f"operator '{name}': takes {shortened(inspect.signature(function))}, want {wanted}")
    return MappingProxyType(parameters)
