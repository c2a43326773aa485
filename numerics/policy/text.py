"""Parsing the text of a policy, whose grammar is in policy.lark."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from numc.numerics.datapaths import DATAPATHS
from numc.numerics.formats import FORMATS
from numc.numerics.grammar import parse_fma
from numc.numerics.kinds import GROUP_FORMATS
from numc.numerics.operators import ALIASES, FMAS
from numc.numerics.policy.layer import ROLES, SIZES
from numc.numerics.policy.policy import (
    KEYS,
    LONGEST,
    Comparison,
    Definition,
    Junction,
    Outermost,
    Policy,
    Rule,
    Selector,
    Span,
    expanded,
    parse_operand,
)
from numc.support.arguments import checked_text, whole_number
from numc.support.errors import NumcError, ParseError, did_you_mean, escaped, quoted

_DEPTH = 50  # of conditions in brackets
_RESERVED = re.compile(r"e\d+m\d+(n|fn|x\d+)?|int\d+|(tf32|bf16|fp16)x\d+|s?r\w{1,2}|fmacs?|macs?|bfp")
_EXPECTED = {
    "NAME": "a name",
    "VALUE": "a format or an operator",
    "EQUAL": "'='",
    "STRING": 'a name in "quotes"',
    "OUTERMOST": "first or last",
    "INTEGER": "a number",
    "DECIMAL": "a number",
    "COMMA": "','",
    "_END": "the end of the line",
    "COMPARE": "< <= > >= == or !=",
    "RPAR": "')'",
    "RBRACE": "'}'",
    "COLON": "':'",
    "WHERE": "where",
}
_STATEMENTS = "format, fma, default, layer, op or role"


@cache
def _parser() -> Lark:
    return Lark.open(
        "policy.lark",
        rel_to=__file__,
        parser="lalr",
        propagate_positions=True,
        maybe_placeholders=False,
        g_regex_flags=re.ASCII,  # digits and letters of other scripts are none
    )


def parse_policy(text: str, name: str = "policy") -> Policy:
    """Parse the text of a policy; `name` is what messages call it.

    Raises ParseError, whose message shows the line and the place, if the text does not follow the grammar, and
    NumcError if it is longer than LONGEST, or if a definition, a setting or a selector is not valid.
    """
    checked_text(text, name, LONGEST)
    try:
        tree = _parser().parse(text + "\n")
    except UnexpectedInput as error:
        raise _problem(text, name, error) from None
    definitions: dict[str, Definition] = {}
    texts: dict[str, str] = {}
    rules: list[Rule] = []
    for statement in tree.children:
        assert isinstance(statement, Tree)
        line = statement.meta.line
        try:
            if statement.data == "definition":
                defined = _definition(statement, text, definitions)
                definitions[defined.name], texts[defined.name] = defined, _meaning(defined, texts)
            else:
                rules.append(_rule(statement, text))
        except NumcError as error:
            raise NumcError(f"{name}:{line}: {error}") from None
    return Policy(tuple(definitions.values()), tuple(rules), name)


def _problem(text: str, name: str, error: UnexpectedInput) -> ParseError:
    lines = [line.rstrip("\r") for line in text.split("\n")]
    number = min(max(error.line, 1), len(lines))
    line = lines[number - 1]
    at_end = isinstance(error, UnexpectedToken) and (error.token.type == "$END" or str(error.token)[0] in "\r\n")
    column = len(line.split("#")[0].rstrip()) + 1 if at_end else error.column
    start = not line[: column - 1].strip()
    if isinstance(error, UnexpectedCharacters):
        allowed, token = error.allowed, quoted(error.char)
    else:
        assert isinstance(error, UnexpectedToken)
        allowed, token = error.accepts or error.expected, "the end of the line" if at_end else quoted(error.token)
    words = {_EXPECTED[word] for word in allowed or () if word in _EXPECTED}
    if "NAME" in (allowed or ()) and "PAPER" in (allowed or ()):
        words |= {_EXPECTED["VALUE"]}
    want = _STATEMENTS if start else ", ".join(sorted(words)) or "something else"
    first = line.split()[0] if line.split() else ""
    near = did_you_mean(first, ("format", "fma", "default", "layer", "op", "role")) if start else ""
    before, after = escaped(line[: column - 1])[-100:], escaped(line[column - 1 :])[:100]
    # Tabs are kept, so that the caret is below the place that it means.
    space = "".join("\t" if c == "\t" else " " for c in before)
    return ParseError(f"{name}:{number}: found {token}{near}, want {want}\n  {before}{after}\n  {space}^")


def _text(tree: Tree[Token], source: str) -> str:
    """Return the text of a value without white space."""
    return "".join(source[tree.meta.start_pos : tree.meta.end_pos].split())


def _definition(tree: Tree[Token], source: str, before: Collection[str]) -> Definition:
    what, name, value = tree.children
    assert isinstance(value, Tree)
    taken = {*FORMATS, *GROUP_FORMATS, *FMAS, *ALIASES, *DATAPATHS, *KEYS}
    if str(name) in taken or _RESERVED.fullmatch(str(name)):
        raise NumcError(f"'{name}' is the name of something else already: want another name")
    if str(name) in before:
        raise NumcError(f"{quoted(name)} is defined twice, keep one of them")
    return Definition(str(what), str(name), _text(value, source), tree.meta.line)


def _meaning(definition: Definition, before: Mapping[str, str]) -> str:
    """Return what a definition stands for. Raises NumcError unless that is a format or an operator, used or not."""
    text = expanded(definition.text, before)
    parse_fma(text) if definition.what == "fma" else parse_operand(text)
    return text


def _rule(tree: Tree[Token], source: str) -> Rule:
    *heads, body = tree.children
    selectors: tuple[Selector, ...] = ()
    where = None
    for head in heads:
        assert isinstance(head, Tree)
        if head.data == "where":
            where = _condition(head.children[0])
        else:
            selectors = tuple(_selector(node) for node in head.children)
    assert isinstance(body, Tree)
    if tree.data == "role":
        for role in selectors:
            if role not in ROLES:
                raise NumcError(f"unknown role {quoted(role)}{did_you_mean(str(role), ROLES)}: want {', '.join(ROLES)}")
    return Rule(str(tree.data), selectors, _settings(body, source), where, tree.meta.line)


def _selector(node: Tree[Token] | Token) -> Selector:
    if isinstance(node, Tree):
        numbers = [whole_number(str(child), "layer") for child in node.children]
        span = Span(numbers[0], numbers[-1])
        if (span.first < 0) == (span.last < 0) and span.first > span.last:
            raise NumcError(
                f"layer {span.first}..{span.last}: the first comes after the last, want {span.last}..{span.first}"
            )
        return span
    if node.type == "OUTERMOST":
        end, *count = str(node).split()
        number = whole_number(count[0], f"layer {end}") if count else 1
        if number < 1:
            raise NumcError(f"layer {end} {number}: want 1 or more")
        return Outermost(end, number)
    return str(node)[1:-1] if node.type == "STRING" else str(node)


def _settings(tree: Tree[Token], source: str) -> tuple[tuple[str, str], ...]:
    if tree.data == "value":
        return (("", _text(tree, source)),)
    settings: dict[str, str] = {}
    for setting in tree.children:
        assert isinstance(setting, Tree)
        key, value = setting.children
        assert isinstance(value, Tree)
        if str(key) not in KEYS:
            raise NumcError(f"unknown setting {quoted(key)}{did_you_mean(str(key), KEYS)}: want {', '.join(KEYS)}")
        if str(key) in settings:
            raise NumcError(f"'{key}' is given twice, keep one of them")
        settings[str(key)] = _text(value, source)
    return tuple(settings.items())


def _condition(node: Tree[Token] | Token, depth: int = 0) -> Comparison | Junction:
    assert isinstance(node, Tree)
    if depth > 2 * _DEPTH:  # a bracket has an `or`, which has an `and`
        raise NumcError(f"where: more than {_DEPTH} brackets in one another: want fewer")
    if node.data == "comparison":
        size, compare, number = map(str, node.children)
        if size not in SIZES:
            raise NumcError(f"unknown size {quoted(size)}: want {', '.join(SIZES)}, those of an m x k by k x n product")
        return Comparison(size, compare, whole_number(number, size))
    word = str(node.data)
    terms: list[Comparison | Junction] = []
    for child in node.children:  # nested conditions of the same word are one condition
        term = _condition(child, depth + 1)
        terms += term.terms if isinstance(term, Junction) and term.word == word else [term]
    return terms[0] if len(terms) == 1 else Junction(word, tuple(terms))
