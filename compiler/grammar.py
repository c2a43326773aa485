"""The texts of formats and FMA operators: ``e6m9:rtz``, ``bf16_2_2{3}``, ``fma(a=bf16, acc=fp32, datapath=exact)``."""

from __future__ import annotations

import re
from functools import cache

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken

from numc.compiler.errors import NumcError, did_you_mean
from numc.compiler.fma import ALIASES, FMAS, FP32, MAX_CHUNK, Fma
from numc.compiler.formats import FORMATS, ROUNDINGS, Conversion, Format

_PARSER = Lark(
    r"""
    conversion: format (":" NAME)*
    format: NAME | PAPER | call
    fma: NAME | NAME "{" INT "}" | call
    call: NAME "(" [argument ("," argument)* ","?] ")"
    argument: [NAME "="] (conversion | NUMBER)

    NAME: /[A-Za-z_][A-Za-z0-9_]*/
    PAPER.2: /\d+\/\d+\/\d+\/\w+/
    NUMBER: /[+-]?\d+(\.\d*)?/
    %import common.INT
    %import common.WS
    %ignore WS
    """,
    parser="lalr",
    start=["conversion", "fma"],
    maybe_placeholders=False,
)
_FORMAT_SYNTAX = "a name, eXmY, eXmYn, eXmYfn or 1/X/Y/d"
_EXMY = re.compile(r"e(\d+)m(\d+)(n|fn)?")
_LATER = (
    (re.compile(r"sr\d*"), "stochastic rounding"),
    (re.compile(r"bfp|msfp\d+|(low|mid|high)bfp"), "block floating point"),
    (re.compile(r"mx\w*"), "OCP microscaling (mx)"),
    (re.compile(r"u?int\d+"), "uniform integer quantisation (intN)"),
)


@cache
def parse_conversion(text: str) -> Conversion:
    """Return the conversion `text` writes: a format, then its rounding and ``:nan``. Raises NumcError."""
    return _conversion(_parse(text, "conversion"))


@cache
def parse_fma(text: str) -> Fma:
    """Return the FMA operator `text` writes (arithmetic.md section 3). Raises NumcError."""
    head, *rest = _parse(text, "fma").children
    if isinstance(head, Tree):
        return _call(head)
    name = str(head) + (f"{{{rest[0]}}}" if rest else "")
    name = ALIASES.get(name, name)
    if name in FMAS:
        return FMAS[name]
    if rest and str(head) in ALIASES:
        allowed = " or ".join(k for k in FMAS if k.startswith(f"{head}{{"))
        raise NumcError(f"operator '{text}': {rest[0]} products, allowed are {allowed}")
    if name in FORMATS or _EXMY.fullmatch(name):
        raise NumcError(f"'{name}' is a format, not an FMA operator: write fmac({name}) or fma(a={name}, acc=...)")
    if str(head) in _CALLS:
        raise NumcError(f"operator '{name}' needs its formats: write {_CALLS[str(head)]}")
    near = did_you_mean(name.lower(), [*FMAS, *ALIASES])
    raise NumcError(f"unknown FMA operator '{name}'{near}: allowed are {', '.join(FMAS)}, {', '.join(_CALLS.values())}")


def _parse(text: str, start: str) -> Tree[Token]:
    try:
        return _PARSER.parse(text, start=start)
    except UnexpectedInput as error:
        what = "FMA operator" if start == "fma" else "format"
        syntax = f"a name or {', '.join(_CALLS.values())}" if start == "fma" else f"{_FORMAT_SYNTAX}, then :rounding"
        raise NumcError(f"{what} '{text}': cannot read it from {_place(text, error)}, write {syntax}") from None


def _place(text: str, error: UnexpectedInput) -> str:
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return "its end"
    return f"'{text[error.pos_in_stream :]}'"


def _conversion(tree: Tree[Token]) -> Conversion:
    head, *options = tree.children
    fmt = _format(head.children[0])  # type: ignore[union-attr]
    rounding, overflow = "", ""
    for option in map(str, options):
        _reject_later(option, f"rounding '{option}' of '{fmt.name}'")
        if option == "nan" and not overflow:
            overflow = option
        elif option in ROUNDINGS and not rounding:
            rounding = option
        elif option in (*ROUNDINGS, "nan"):
            raise NumcError(
                f"'{fmt.name}': ':{option}' after '{':' + rounding if rounding else ':nan'}', keep one of them"
            )
        else:
            near = did_you_mean(option.lower(), ROUNDINGS)
            raise NumcError(
                f"unknown rounding '{option}' of '{fmt.name}'{near}: allowed are {', '.join(ROUNDINGS)}, nan"
            )
    return Conversion(fmt, rounding or "rne", overflow)


def _format(node: Token | Tree[Token]) -> Format:
    if isinstance(node, Tree):
        name = str(node.children[0])
        _reject_later(name, f"format '{name}(...)'")
        raise NumcError(f"unknown format '{name}(...)': allowed is {_FORMAT_SYNTAX}")
    text = name = str(node)
    if node.type == "PAPER":
        sign, exponent, significand, kind = text.split("/")
        if sign != "1" or kind not in ("d", "n"):
            raise NumcError(f"format '{text}': write 1/X/Y/d (with subnormals) or 1/X/Y/n (without)")
        name = f"e{int(exponent)}m{int(significand)}" + ("n" if kind == "n" else "")
    if name == "bf16x1":
        name = "bf16"
    if name in FORMATS:
        return FORMATS[name]
    if match := _EXMY.fullmatch(name):
        x, y, kind = int(match[1]), int(match[2]), match[3]
        fmt = Format(f"e{x}m{y}{kind or ''}", x, y, subnormals=kind != "n", finite=kind == "fn")
        return next((known for known in FORMATS.values() if known == fmt), fmt)
    _reject_later(name, f"format '{name}'")
    if re.fullmatch(r"bf16x\d+", name):
        raise NumcError(f"format '{name}': allowed are bf16x1, bf16x2 and bf16x3")
    near = did_you_mean(name.lower(), FORMATS)
    raise NumcError(f"unknown format '{name}'{near}: allowed are {', '.join(FORMATS)}, eXmY, eXmYn, eXmYfn")


def _reject_later(name: str, what: str) -> None:
    for pattern, feature in _LATER:
        if pattern.fullmatch(name):
            raise NumcError(f"{what}: {feature} is not available in this version of numc, use {_FORMAT_SYNTAX}")


_CALLS = {
    "fma": "fma(a=F, b=F, acc=G, products=k, datapath=fp32|exact|amx_bf16|avx512_bf16, chunk=c)",
    "mac": "mac(F)",
    "macs": "macs(F)",
    "fmac": "fmac(F, chunk=c)",
    "fmacs": "fmacs(F)",
}


def _call(tree: Tree[Token]) -> Fma:
    name = str(tree.children[0])
    if name not in _CALLS:
        near = did_you_mean(name.lower(), _CALLS)
        raise NumcError(f"unknown FMA operator '{name}(...)'{near}: allowed are {', '.join(_CALLS.values())}")
    given = _arguments(name, tree.children[1:])  # type: ignore[arg-type]
    datapath = _text(given["datapath"]) if "datapath" in given else "fp32"
    chunk = _chunk(name, given)
    if name == "fma":
        return _fma(given, datapath, chunk)
    f = _taken(name, given, "a")
    if f.format.parts > 1:
        raise NumcError(f"{name}({f}): {name} takes a format of one part, write fma(a={f}, acc=...)")
    acc = FP32 if name.endswith("s") else f
    return Fma("", f, f, acc, 1, datapath, f if name.startswith("mac") else None, chunk)


def _chunk(name: str, given: dict[str, Tree[Token] | Token]) -> int | None:
    if "chunk" not in given:
        return None
    text = _text(given["chunk"])
    if not text.isdecimal() or len(text) > len(str(MAX_CHUNK)):
        raise NumcError(f"{name}: chunk={text}, write a whole number from 1 to {MAX_CHUNK}")
    return int(text)


def _fma(given: dict[str, Tree[Token] | Token], datapath: str, chunk: int | None) -> Fma:
    a = _taken("fma", given, "a")
    b = _taken("fma", given, "b") if "b" in given else a
    acc = _taken("fma", given, "acc")
    every = a.format.parts * b.format.parts
    products = given.get("products")
    if products is not None and not _text(products).isdecimal():
        raise NumcError(f"fma: products='{_text(products)}', write a number")
    return Fma("", a, b, acc, every if products is None else int(_text(products)), datapath, chunk=chunk)


def _arguments(name: str, nodes: list[Tree[Token]]) -> dict[str, Tree[Token] | Token]:
    keys = ("a", "b", "acc", "products", "datapath", "chunk") if name == "fma" else ("a", "datapath", "chunk")
    positional = ("a", "b") if name == "fma" else ("a",)
    given: dict[str, Tree[Token] | Token] = {}
    for index, node in enumerate(nodes):
        value = node.children[-1]
        if len(node.children) == 2:
            key = str(node.children[0])
        elif index < len(positional) and index == len(given):
            key = positional[index]
        else:
            raise NumcError(f"{name}: '{_text(value)}' has no name, write {_CALLS[name]}")
        if key not in keys:
            raise NumcError(f"{name}: unknown argument '{key}'{did_you_mean(key, keys)}: write {_CALLS[name]}")
        if key in given:
            raise NumcError(f"{name}: '{key}' is given twice, keep one of them")
        given[key] = value
    return given


def _taken(name: str, given: dict[str, Tree[Token] | Token], key: str) -> Conversion:
    node = given.get(key)
    if node is None:
        raise NumcError(f"{name}: the format '{key}' is missing, write {_CALLS[name]}")
    if isinstance(node, Token):
        raise NumcError(f"{name}: {key}={node} is not a format, write {_FORMAT_SYNTAX}")
    return _conversion(node)


def _text(node: Tree[Token] | Token) -> str:
    if not isinstance(node, Tree):
        return str(node)
    return ":".join(str(token) for token in node.scan_values(lambda _: True))
