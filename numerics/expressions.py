"""Reads what is written of formats and of FMA operators with a parser, which takes long to import."""

from __future__ import annotations

import re
from dataclasses import replace

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken

from numc.numerics.datapaths import DATAPATHS, MAX_CHUNK, Datapath
from numc.numerics.formats import (
    FORMAT_SYNTAX,
    FORMATS,
    OVERFLOWS,
    ROUNDING_SYNTAX,
    ROUNDINGS,
    SYNTAX,
    Conversion,
    Format,
    Open,
    exmy,
    noise_of,
)
from numc.numerics.formats import KINDS as SINGLE_KINDS
from numc.numerics.groups import GroupConversion, GroupFormat
from numc.numerics.kinds import GROUP_FORMATS, KINDS
from numc.numerics.operators import ALIASES, DEFINED, FMAS, FP32, Fma, parts_of
from numc.numerics.units import NAMED
from numc.support.arguments import whole_number
from numc.support.errors import NumcError, did_you_mean, quoted, shortened

_PARSER = Lark(
    r"""
    conversion: format (":" OPTION)*
    format: NAME | PAPER | OPEN | call
    fma: NAME | NAME "{" INT "}" | call
    call: NAME "(" [argument ("," argument)* ","?] ")"
    argument: [NAME "="] (conversion | NUMBER | RANGE)

    NAME: /[A-Za-z_][A-Za-z0-9_]*(#[0-9a-f]+)?/
    OPTION: /[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)?/
    PAPER.2: /\d+\/\d+\/\d+\/\w+/
    OPEN.2: /e\d+(\.\.\d+m\d+(\.\.\d+)?|m\d+\.\.\d+)[a-z]*/
    RANGE.2: /\d+\.\.\d+/
    NUMBER: /[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?/
    %import common.INT
    %import common.WS
    %ignore WS
    """,
    parser="lalr",
    start=["conversion", "fma"],
    maybe_placeholders=False,
    g_regex_flags=re.ASCII,  # digits and letters of other scripts are none
)
_OPTIONED = re.compile(r"\s*(?!(fma|mac|macs|fmac|fmacs)\b)[\w./]+\s*(\([^:]*\))?\s*(:\s*[\w.]+\s*)+", re.ASCII)
_BRACKETS = 8  # in a text, of which one that means something has four
_RANGES = "in eX..XmY..Y and the last number of bfp(g,e,m)"
_SIZED = {kind.call: kind for kind in (*SINGLE_KINDS, *KINDS) if kind.call}
_RANGE = re.compile(r"\d+\.\.\d+", re.ASCII)
_OPEN = re.compile(r"e(\d+)(?:\.\.(\d+))?m(\d+)(?:\.\.(\d+))?(n|fn)?", re.ASCII)


def read_conversion(text: str) -> Conversion | GroupConversion:
    """Return the conversion `text` writes, to a format whose widths may be open. Raises NumcError."""
    return _any_conversion(_parse(text, "conversion"))


def read_fma(text: str) -> Fma:
    """Return the FMA operator `text` writes. Raises NumcError."""
    if _OPTIONED.fullmatch(text):
        return _of_conversion(text)
    head, *rest = _parse(text, "fma").children
    if not rest and (group := _group_format(head)) is not None:
        fmt, widths = group
        to = GroupConversion(fmt, fmt.default_rounding, open=widths)
        return Fma(a=to, b=to, acc=FP32, products=1)
    if isinstance(head, Tree):
        return _call(head)
    name = str(head) + (f"{{{rest[0]}}}" if rest else "")
    name = ALIASES.get(name, name)
    if name in NAMED:
        return NAMED[name]
    if (defined := _defined(name)) is not None:
        return defined
    if rest and str(head) in ALIASES:
        allowed = " or ".join(k for k in FMAS if k.startswith(f"{head}{{"))
        raise NumcError(f"operator {quoted(text)}: {shortened(rest[0])} products, want {allowed}")
    if _single_format(name, None) is not None:
        raise NumcError(f"'{name}' is a format, not an FMA operator: want fmac({name}) or fma(a={name}, acc=...)")
    if str(head) in _CALLS:
        raise NumcError(f"operator '{name}' needs its formats: want {_CALLS[str(head)]}")
    _check_sized(name)
    operators = [*NAMED, *DEFINED, *ALIASES, *GROUP_FORMATS]
    single = [name for name, fmt in FORMATS.items() if fmt.parts == 1 and name not in operators]
    near = did_you_mean(name.lower(), [*operators, *single], 3, lambda it: f"fmac({it})" if it in single else it)
    raise NumcError(
        f"unknown FMA operator {quoted(name)}{near}: want a name of 'numc list fmas' or 'numc list units', "
        f"fma(a=F, b=F, acc=G), {', '.join(text for key, text in _CALLS.items() if key != 'fma')}, or the text of a "
        "format of groups such as bfp(16,3,4)"
    )


def _defined(name: str) -> Fma | None:
    """The operator that this process has defined by a name, which may have its version behind it."""
    fma = DEFINED.get(name.partition("#")[0])
    if fma is None and "#" not in name:
        return None
    Datapath(name)  # raises NumcError if it is another version, or none
    return fma


def _of_conversion(text: str) -> Fma:
    """The sum of dot products of groups whose elements are rounded as a conversion says, as ``mxfp8:sr8``."""
    name, *_ = map(str.strip, text.split(":"))
    if name in NAMED or name in ALIASES:
        raise NumcError(
            f"operator {quoted(text)}: only formats have roundings: want {name}, or fma(a=F:rtz, acc=G:rtz)"
        )
    to = read_conversion(text)
    if isinstance(to, Conversion):
        raise NumcError(f"'{to}' is a format, not an FMA operator: want fmac({to}) or fma(a={to}, acc=...)")
    return Fma(a=to, b=to, acc=FP32, products=1)


def _check_sized(name: str) -> None:
    if needs := _SIZED.get(name):
        raise NumcError(f"format '{name}' needs its sizes: want {needs.syntax}, as in {needs.example}")


def _parse(text: str, start: str) -> Tree[Token]:
    what = "FMA operator" if start == "fma" else "format"
    if text.count("(") > _BRACKETS:  # deep trees take more recursion than Python allows
        raise NumcError(f"{what} {quoted(text)}: {text.count('(')} opening brackets, want at most {_BRACKETS}")
    try:
        return _PARSER.parse(text, start=start)
    except UnexpectedInput as error:
        syntax = f"a name or {', '.join(_CALLS.values())}" if start == "fma" else f"{FORMAT_SYNTAX}, then :rounding"
        raise NumcError(f"{what} {quoted(text)}: cannot read it from {_place(text, error)}, want {syntax}") from None


def _place(text: str, error: UnexpectedInput) -> str:
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return "its end"
    return quoted(text[error.pos_in_stream :])


def _any_conversion(tree: Tree[Token]) -> Conversion | GroupConversion:
    head, *options = tree.children
    (node,) = head.children  # type: ignore[union-attr]
    fmt, widths = _group_format(node) or _format(node)
    texts = [str(option) for option in options]
    channel = not isinstance(fmt, Format) and "channel" in texts
    if channel:
        texts.remove("channel")
    discards = not isinstance(fmt, Format) and widths is not None and "discard" in texts
    if discards:
        texts.remove("discard")
    rounding, overflow = _options(fmt.name, texts)
    if isinstance(fmt, Format):
        return Conversion(fmt, rounding or fmt.default_rounding, overflow, widths)
    if overflow:
        which = "without infinities (eXmYfn)" if overflow == "nan" else "of one part with infinities"
        raise NumcError(f"'{fmt.name}:{overflow}': only formats {which} take ':{overflow}'")
    to = GroupConversion(fmt, rounding or fmt.default_rounding, channel, widths)
    if not discards:
        return to
    assert widths is not None
    if to.noise is None:
        raise NumcError(f"'{to}:discard': only stochastic roundings make a difference, want '{to}:sr8:discard'")
    return replace(to, discard=widths.significand[1])


def _options(name: str, options: list[str]) -> tuple[str, str]:
    """The rounding and the overflow behind a format; "" where it is not given."""
    rounding, overflow = "", ""
    for option in options:
        noise = noise_of(option)
        if option in OVERFLOWS and not overflow:
            overflow = option
        elif noise is not None and not rounding:
            rounding = f"sr{noise.bits}" + (".lfsr" if noise.lfsr else "")
        elif option in ROUNDINGS and not rounding:
            rounding = option
        elif option in (*ROUNDINGS, *OVERFLOWS) or noise is not None:
            before = overflow if option in OVERFLOWS else rounding
            raise NumcError(f"'{name}': {quoted(':' + option)} after ':{before}', keep one of them")
        else:
            near = did_you_mean(option.lower(), ROUNDINGS)
            allowed = ", ".join((ROUNDING_SYNTAX, *OVERFLOWS))
            raise NumcError(f"unknown rounding {quoted(option)} of '{name}'{near}: want {allowed}")
    return rounding, overflow


def _group_format(node: Token | Tree[Token]) -> tuple[GroupFormat, Open | None] | None:
    """The grouped format a node writes, and its open widths; None where it writes something else."""
    if isinstance(node, Tree):
        name, *arguments = node.children
        sizes = [_written(argument) for argument in arguments]
        if not any(map(_RANGE.fullmatch, sizes)):
            group_format = _read_group(str(name), sizes)
            return None if group_format is None else (group_format, None)
        ends = [text.split("..") if _RANGE.fullmatch(text) else (text, text) for text in sizes]
        least, most = (_read_group(str(name), [each[n] for each in ends]) for n in (0, 1))
        if least is None or most is None:
            return None
        widths = most.opened(least)
        if widths is None:
            raise NumcError(f"format {quoted(f'{name}({chr(44).join(sizes)})')}: want a range only {_RANGES}")
        _check_range(sizes[-1], *widths.significand)
        return most, widths
    group_format = _read_group(str(node), None) or GROUP_FORMATS.get(str(node))
    return None if group_format is None else (group_format, None)


def _read_group(name: str, sizes: list[str] | None) -> GroupFormat | None:
    return next((fmt for kind in KINDS if (fmt := kind.read(name, sizes))), None)


def _check_range(what: str, least: int, most: int) -> None:
    if least >= most:
        raise NumcError(f"format {quoted(what)}: a range goes from a smaller to a larger number")


def _format(node: Token | Tree[Token]) -> tuple[Format, Open | None]:
    """The format of single values that a node writes, and its open widths."""
    if isinstance(node, Token) and node.type == "OPEN":
        return _open_format(str(node))
    return _fixed_format(node), None


def _open_format(text: str) -> tuple[Format, Open]:
    match = _OPEN.fullmatch(text)
    if match is None:
        raise NumcError(f"format {quoted(text)}: want eXmY, eXmYn or eXmYfn, in which X and Y may be ranges like 2..8")
    *sizes, suffix = match.groups()
    ends = []
    for low, high in (sizes[:2], sizes[2:]):
        least, most = _size(low, text), _size(high or low, text)
        if high is not None:
            _check_range(text, least, most)
        ends.append((least, most))
    exponent, significand = ends
    if significand[0] < 1:
        raise NumcError(f"format {quoted(text)}: open significand bits begin at 1")
    _, widest = (
        exmy(*each, subnormals=suffix != "n", finite=suffix == "fn") for each in zip(exponent, significand, strict=True)
    )
    return widest, Open(exponent, significand)


def _fixed_format(node: Token | Tree[Token]) -> Format:
    if isinstance(node, Tree):
        head, *arguments = node.children
        single_format = _single_format(str(head), [_written(argument) for argument in arguments])
        if single_format is None:
            sized = " or ".join(kind.syntax for kind in KINDS if kind.call)
            raise NumcError(f"unknown format {quoted(f'{head}(...)')}: want {FORMAT_SYNTAX} or {sized}")
        return single_format
    text = name = str(node)
    if node.type == "PAPER":
        sign, exponent, significand, kind = text.split("/")
        if sign != "1" or kind not in ("d", "n"):
            raise NumcError(f"format {quoted(text)}: want 1/X/Y/d (with subnormals) or 1/X/Y/n (without)")
        x, y = _size(exponent, text), _size(significand, text)
        name = f"e{x}m{y}" + ("n" if kind == "n" else "")
    if (fmt := _single_format(name, None)) is not None:
        return fmt
    _check_sized(name)
    near = did_you_mean(name.lower(), [*FORMATS, *GROUP_FORMATS], 3)
    raise NumcError(
        f"unknown format {quoted(name)}{near}: want a name of 'numc list formats', {SYNTAX}, or along an axis the text "
        "of a format of groups such as bfp(16,3,4)"
    )


def _single_format(name: str, sizes: list[str] | None) -> Format | None:
    """The format of single values that a name means, or a name with sizes in parentheses; None for another text."""
    if sizes is None and name in FORMATS:
        return FORMATS[name]
    return next((fmt for kind in SINGLE_KINDS if (fmt := kind.read(name, sizes)) is not None), None)


def _written(argument: Token | Tree[Token]) -> str:
    """A size in parentheses, with the name that it may have."""
    assert isinstance(argument, Tree)
    *name, value = argument.children
    return "".join(f"{key}=" for key in name) + _source(value)


def _source(node: Token | Tree[Token]) -> str:
    """The text that a value was read from."""
    if not isinstance(node, Tree):
        return str(node)
    if node.data == "call":
        name, *arguments = node.children
        return f"{name}({','.join(map(_written, arguments))})"
    return ":".join(map(_source, node.children))


def _size(digits: str, name: str) -> int:
    return whole_number(digits, f"format {quoted(name)}")


_PATHS = "|".join(admits.syntax(name) for name, admits in DATAPATHS.items())
_CALLS = {
    "fma": f"fma(a=F, b=F, acc=G, products=k, product=F, datapath={_PATHS}, chunk=c, splits=n, total=fp32, unit=..., "
    "hadamard=h, signs=s)",
    "mac": "mac(F)",
    "macs": "macs(F)",
    "fmac": "fmac(F, chunk=c)",
    "fmacs": "fmacs(F)",
}


def _call(tree: Tree[Token]) -> Fma:
    name = str(tree.children[0])
    if name not in _CALLS:
        near = did_you_mean(name.lower(), _CALLS)
        calls = ", ".join(["fma(a=F, b=F, acc=G)", *(text for key, text in _CALLS.items() if key != "fma")])
        raise NumcError(f"unknown FMA operator {quoted(name + '(...)')}{near}: want {calls}")
    arguments = _arguments(name, tree.children[1:])  # type: ignore[arg-type]
    path, parameters = _path(arguments["datapath"]) if "datapath" in arguments else ("fp32", {})
    result = {key: parameters.pop(key) for key in _RESULT if path == "fused" and key in parameters}
    datapath = _datapath(name, arguments, path, parameters)
    if name == "fma":
        return _fma(arguments, datapath, result)
    if result:
        wanted = ", ".join(f"{key}={value}" for key, value in result.items())
        raise NumcError(f"{name}: datapath 'fused': {wanted}, want fma(a=F, acc=G:rounding, datapath=fused(...))")
    f = _taken(name, arguments, "a")
    if isinstance(f, GroupConversion):
        raise NumcError(f"{name}({f}): {name} takes a format of single values, want fma(a={f}, acc=fp32)")
    if f.format.parts > 1:
        raise NumcError(f"{name}({f}): {name} takes a format of one part, want fma(a={f}, acc=...)")
    acc = FP32 if name.endswith("s") else f
    return Fma(a=f, b=f, acc=acc, products=1, datapath=datapath, product=f if name.startswith("mac") else None)


def _datapath(name: str, given: dict[str, Tree[Token] | Token], path: str, parameters: dict[str, str]) -> Datapath:
    """The datapath of a call, with its parameters and with chunks."""
    chunk, splits = (
        _number(name, key, _text(given[key]), 1, MAX_CHUNK) if key in given else None for key in ("chunk", "splits")
    )
    if "total" in given and (text := _text(given["total"])) != "fp32":
        raise NumcError(f"{name}: total={shortened(text)}, a sum of chunks is rounded to acc or kept: want total=fp32")
    numbers = tuple((key, _number(f"datapath {quoted(path)}", key, text)) for key, text in parameters.items())
    return Datapath(path, numbers, chunk, keeps_total="total" in given, splits=splits)


def _path(node: Tree[Token] | Token) -> tuple[str, dict[str, str]]:
    """The name of a datapath, and the texts of its parameters."""
    if not isinstance(node, Tree) or len(node.children) > 1 or not (call := next(node.find_data("call"), None)):
        return _text(node), {}
    name, *arguments = call.children
    parameters: dict[str, str] = {}
    for argument in arguments:
        assert isinstance(argument, Tree)
        if len(argument.children) != 2:
            raise NumcError(f"datapath '{name}': {quoted(_text(argument))} has no name, want {name}(l=16,...)")
        key, value = str(argument.children[0]), _text(argument.children[1])
        if key in parameters:
            raise NumcError(f"datapath '{name}': {quoted(key)} is given twice, keep one of them")
        parameters[key] = value
    return str(name), parameters


def _number(what: str, key: str, text: str, least: int = -MAX_CHUNK, most: int = MAX_CHUNK) -> int:
    """The whole number that an argument is, of at most ten digits; its range is checked where it is used."""
    digits = text.removeprefix("-" if least < 0 else "")
    if not digits.isdecimal() or len(digits) > len(str(MAX_CHUNK)):
        limits = f" from {least} to {most}" if least > 0 else ""
        raise NumcError(f"{what}: {key}={shortened(text)}, want a whole number{limits}")
    return int(text)


#: The parameters of ``fused`` that say the rounding and the format of a result, which those of the accumulator are.
_RESULT = ("round", "out")


def _rounded_to(given: dict[str, Tree[Token] | Token], result: dict[str, str]) -> Conversion | GroupConversion:
    """The accumulator, whose format and rounding the datapath may state as those of its result."""
    out = read_conversion(result["out"]) if "out" in result else None
    acc = _taken("fma", given, "acc") if out is None or "acc" in given else out
    if not result or isinstance(acc, GroupConversion):
        return acc
    if isinstance(out, GroupConversion):
        return out
    fmt = acc.format if out is None else out.format
    rounding = result.get("round", acc.rounding if out is None or out.rounding == "rne" else out.rounding)
    to = read_conversion(f"{fmt.name}:{rounding}")
    if fmt != acc.format or acc.rounding not in ("rne", rounding):
        stated = ", ".join(f"{key}={value}" for key, value in result.items())
        why = "a block is rounded to the accumulator"
        raise NumcError(f"fma: acc={acc}, but {stated} in datapath 'fused', and {why}: want acc={to}")
    assert isinstance(to, Conversion)
    return replace(to, overflow=acc.overflow)


def _fma(given: dict[str, Tree[Token] | Token], datapath: Datapath, result: dict[str, str]) -> Fma:
    a = _taken("fma", given, "a")
    b = _taken("fma", given, "b") if "b" in given else a
    acc = _rounded_to(given, result)
    if isinstance(acc, GroupConversion):
        raise NumcError(f"fma: acc={acc} has groups, an accumulator is a single value: want acc=fp32")
    product = _taken("fma", given, "product") if "product" in given else None
    if isinstance(product, GroupConversion):
        raise NumcError(f"fma: product={product} has groups, a product is a single value: want product=eXmY")
    products = given.get("products")
    count = parts_of(a, datapath.name) * parts_of(b, datapath.name)
    count = count if products is None else whole_number(_text(products), "fma: products")
    unit = read_fma(_source(given["unit"])) if "unit" in given else None
    size, signs = (
        _number("fma", key, _text(given[key]), 0, MAX_CHUNK) if key in given else 0 for key in ("hadamard", "signs")
    )
    chosen = {"datapath": datapath, "product": product, "unit": unit, "hadamard": size, "signs": signs}
    return Fma(a=a, b=b, acc=acc, products=count, **chosen)  # type: ignore[arg-type]


def _arguments(name: str, nodes: list[Tree[Token]]) -> dict[str, Tree[Token] | Token]:
    of_fma = ("b", "acc", "products", "product", "unit", "hadamard", "signs") if name == "fma" else ()
    keys = ("a", *of_fma, "datapath", "chunk", "splits", "total")
    positional = ("a", "b") if name == "fma" else ("a",)
    arguments: dict[str, Tree[Token] | Token] = {}
    for index, node in enumerate(nodes):
        value = node.children[-1]
        if len(node.children) == 2:
            key = str(node.children[0])
        elif index < len(positional) and index == len(arguments):
            key = positional[index]
        else:
            raise NumcError(f"{name}: {quoted(_text(value))} has no name, want {_CALLS[name]}")
        if key not in keys:
            raise NumcError(f"{name}: unknown argument {quoted(key)}{did_you_mean(key, keys)}: want {_CALLS[name]}")
        if key in arguments:
            raise NumcError(f"{name}: '{key}' is given twice, keep one of them")
        arguments[key] = value
    return arguments


def _taken(name: str, given: dict[str, Tree[Token] | Token], key: str) -> Conversion | GroupConversion:
    node = given.get(key)
    if node is None:
        raise NumcError(f"{name}: the format '{key}' is missing, want {_CALLS[name]}")
    if isinstance(node, Token):
        raise NumcError(f"{name}: {key}={shortened(node)} is not a format, want {FORMAT_SYNTAX}")
    return _any_conversion(node)


def _text(node: Tree[Token] | Token) -> str:
    if not isinstance(node, Tree):
        return str(node)
    return ":".join(str(token) for token in node.scan_values(lambda _: True))
