"""Policies: which operation of a model computes in which arithmetic.

A policy is a list of rules. Every operation starts in fp32; each rule that matches it changes its FMA operator, the
format of its other float operations, or both; later rules win. ``str`` of a policy is text that parses back to it
(grammar: policy.lark; description: docs/policies.md).
"""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from numc.numerics.formats import Conversion
from numc.numerics.grammar import MAX_LENGTH, parse_fma
from numc.numerics.groups import GroupConversion
from numc.numerics.operators import Fma
from numc.numerics.policy.layer import KINDS, Layer, same_kind
from numc.numerics.policy.ops import Ops, parse_ops
from numc.support.arguments import checked_text
from numc.support.errors import NumcError, did_you_mean, quoted, shortened

LONGEST = 1 << 20
"""The most characters of a policy."""
KEYS = ("fma", "ops", "a", "b", "acc", "bias")
BIASES = ("first", "last")
"""When the bias of a contraction is added: the accumulator starts from it, or it is added to the rounded result.

Where a policy does not say it, it is as the model has it: first in convolutions, last in products of matrices."""
_COMPARE: Mapping[str, Callable[[int, int], bool]] = MappingProxyType(
    {
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        "==": operator.eq,
        "!=": operator.ne,
    }
)
_WORD = re.compile(r"(?<![\w:/])[A-Za-z_]\w*(?!\w|\s*[=/])")


@dataclass(frozen=True)
class Span:
    """The contractions at positions `first` to `last` in program order, both included; -1 is the last position."""

    first: int
    last: int

    def has(self, position: int, count: int) -> bool:
        """Whether the contraction at `position`, of `count` in the program, is in the span."""
        first, last = self._ends(count)
        return first <= position <= last

    def reaches_beyond(self, count: int) -> bool:
        """Whether an end of the span is not the position of one of `count` contractions."""
        return not all(0 <= end < count for end in self._ends(count))

    def _ends(self, count: int) -> tuple[int, int]:
        first, last = (n + count if n < 0 else n for n in (self.first, self.last))
        return first, last

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}..{self.last}"


@dataclass(frozen=True)
class Outermost:
    """The contractions of the first or the last `number` modules or nodes that have any, forward and backward.

    A graph of a backward pass alone begins with the gradients of the last ones.
    """

    end: str
    number: int

    def has(self, layer: Layer, model: Contractions) -> bool:
        """Whether a layer is one of them."""
        modules = model.last if self.end == "last" else model.first
        return layer.position is not None and module_of(layer.name) in modules[: self.number]

    def __str__(self) -> str:
        return self.end if self.number == 1 else f"{self.end} {self.number}"


Selector = str | Span | Outermost


@dataclass(frozen=True)
class Contractions:
    """The contractions of a program: how many there are, and the modules with any, from either end of the forward pass.

    A module that is called more than once is where it is first met.
    """

    count: int
    first: tuple[str, ...]
    last: tuple[str, ...]

    @staticmethod
    def of(layers: Sequence[Layer]) -> Contractions:
        """Those of a list of layers."""
        every = [layer for layer in layers if layer.position is not None]
        backward = ("dgrad", "wgrad")
        forward = [module_of(layer.name) for layer in every if layer.role not in backward]
        names = forward or [module_of(layer.name) for layer in reversed(every)]
        return Contractions(len(every), tuple(dict.fromkeys(names)), tuple(dict.fromkeys(reversed(names))))


def module_of(name: str) -> str:
    """The module of an operation of PyTorch, as in ``head/dgrad``; names of nodes that are paths begin with a slash."""
    return name if name.startswith("/") else name.rpartition("/")[0] or name


@dataclass(frozen=True)
class Comparison:
    """A condition on one size (m, n or k) of a contraction."""

    size: str
    compare: str
    number: int

    def holds(self, layer: Layer) -> bool | None:
        """Whether the condition holds; None if the model leaves the size free."""
        value = layer.sizes[self.size]
        return None if value is None else _COMPARE[self.compare](value, self.number)

    def free(self, layer: Layer) -> list[str]:
        """Return the sizes in the condition that the model leaves free."""
        return [self.size] if layer.sizes[self.size] is None else []

    def __str__(self) -> str:
        return f"{self.size} {self.compare} {self.number}"


@dataclass(frozen=True)
class Junction:
    """Several conditions, all of which have to hold (`word` is "and"), or at least one ("or")."""

    word: str
    terms: tuple[Comparison | Junction, ...]

    def holds(self, layer: Layer) -> bool | None:
        """Whether the condition holds; None if that depends on a size that the model leaves free."""
        decisive = self.word == "or"
        truths = [term.holds(layer) for term in self.terms]
        return decisive if decisive in truths else None if None in truths else not decisive

    def free(self, layer: Layer) -> list[str]:
        """Return the sizes in the conditions that the model leaves free."""
        return list(dict.fromkeys(size for term in self.terms for size in term.free(layer)))

    def __str__(self) -> str:
        nested = self.word == "and"
        parts = [f"({t})" if nested and isinstance(t, Junction) and t.word == "or" else str(t) for t in self.terms]
        return f" {self.word} ".join(parts)


@dataclass(frozen=True)
class Rule:
    """One rule of a policy.

    subject: "default", "layer", "op" or "role". selectors: for "layer", patterns of names and spans of positions; for
    "op", kinds; for "role", roles. settings: pairs of a key (one of KEYS) and a text; the key "" stands for a text
    alone, which is an operator, a format, or both. where: the condition on sizes, if there is one. line: the line in
    the text of the policy, 0 for a rule that was made from options.
    """

    subject: str
    selectors: tuple[Selector, ...]
    settings: tuple[tuple[str, str], ...]
    where: Comparison | Junction | None = None
    line: int = field(default=0, compare=False)

    def selects(self, selector: Selector, layer: Layer, model: Contractions) -> bool:
        """Whether one selector of the rule selects `layer`, in a program of these contractions."""
        if isinstance(selector, Outermost):
            return selector.has(layer, model)
        if isinstance(selector, Span):
            return layer.position is not None and selector.has(layer.position, model.count)
        if self.subject == "layer":
            return fnmatch.fnmatchcase(layer.name, selector)
        return (
            any(same_kind(selector, kind) for kind in layer.kinds) if self.subject == "op" else selector == layer.role
        )

    def matches(self, layer: Layer, model: Contractions) -> bool:
        """Whether the rule applies to `layer`, in a program of these contractions.

        Raises NumcError if that depends on a size that the model leaves free.
        """
        if self.subject != "default" and not any(self.selects(s, layer, model) for s in self.selectors):
            return False
        if self.where is None:
            return True
        if layer.position is None:
            return False
        holds = self.where.holds(layer)
        if holds is None:
            sizes = " and ".join(self.where.free(layer))
            raise NumcError(
                f"{quoted(layer.name)} has a free {sizes}, which {quoted(self)} asks for: fix the shape (--shape)"
            )
        return holds

    @property
    def head(self) -> str:
        """The text of the rule without its settings."""
        names = [f'"{s}"' if self.subject == "layer" and isinstance(s, str) else str(s) for s in self.selectors]
        parts = [self.subject, ", ".join(names), "" if self.where is None else f"where {self.where}"]
        return " ".join(filter(None, parts))

    def __str__(self) -> str:
        return f"{self.head} {', '.join(f'{key} = {text}' if key else text for key, text in self.settings)}"


@dataclass(frozen=True)
class Definition:
    """A name that the policy gives to a format (`what` is "format") or to an operator ("fma")."""

    what: str
    name: str
    text: str
    line: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{self.what} {self.name} = {self.text}"


@dataclass(frozen=True)
class Decision:
    """The arithmetic of one operation, with the rules that decided its operator and its format.

    A rule is None where no rule says anything, which means fp32. bias: one of BIASES, or nothing.
    """

    layer: Layer
    fma: Fma
    ops: Ops
    fma_rule: Rule | None
    ops_rule: Rule | None
    bias: str = ""

    @property
    def rule(self) -> Rule | None:
        """The rule that decided the operator of a contraction, or the format of any other operation."""
        return self.ops_rule if self.layer.position is None else self.fma_rule


@dataclass(frozen=True)
class Policy:
    """Definitions and rules, in the order of the text.

    name: what messages call the policy, such as the name of its file. strict: whether a rule that matches nothing is an
    error; policies made from options are not strict, because they have to fit every model. Raises NumcError if a
    setting is not an arithmetic.
    """

    definitions: tuple[Definition, ...] = ()
    rules: tuple[Rule, ...] = ()
    name: str = field(default="policy", compare=False)
    strict: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        for rule in self.rules:
            try:
                for key, text in rule.settings:  # alone: whether operands fit depends on the operator
                    self._parsed(key, text)
            except NumcError as error:
                raise NumcError(f"{self.name}:{rule.line}: {error}" if rule.line else str(error)) from None

    @cached_property
    def _texts(self) -> dict[str, str]:
        texts: dict[str, str] = {}
        for definition in self.definitions:
            texts[definition.name] = expanded(definition.text, texts)
        return texts

    @property
    def default(self) -> tuple[Fma, Ops]:
        """The operator and the format of an operation to which only the default rules apply."""
        fma, ops = parse_fma("fp32"), parse_ops("fp32")
        for rule in self.rules:
            if rule.subject == "default":
                fma, ops, _, _ = self._apply(rule, fma, ops)
        return fma, ops

    @property
    def is_plain(self) -> bool:
        """Whether every operation computes in the same arithmetic."""
        return all(rule.subject == "default" for rule in self.rules)

    @property
    def draws(self) -> bool:
        """Whether a rule names a stochastic rounding."""
        return any(each.stochastic if isinstance(each, Fma) else each.noise is not None for each in self._said())

    @property
    def draws_results(self) -> bool:
        """Whether a rule names a stochastic rounding of what other operations than contractions return."""
        formats = [self._parsed(key, text)[1] for rule in self.rules for key, text in rule.settings]
        return any(each.noise is not None for ops in formats if ops is not None for each in ops.conversions)

    @property
    def repeats_products(self) -> bool:
        """Whether a contraction more in a program changes no bit of the others, and has the bits that it has elsewhere.

        Random bits depend on how many contractions are before, and so do positions, for which rules may ask.
        """
        return not self.draws and not any(
            isinstance(each, Span | Outermost) for rule in self.rules for each in rule.selectors
        )

    @property
    def takes_apart(self) -> bool:
        """Whether a rule names an operator that is written out, which needs sizes that are known."""
        return any(isinstance(each, Fma) and each.written_out for each in self._said())

    @property
    def is_local(self) -> bool:
        """Whether every number depends on those that it is computed of alone.

        Where a rule names a stochastic rounding, it depends on its place, too, and where scales or widths are those of
        whole tensors, on all that a contraction reads.
        """
        whole = (
            each.sees_whole_operands
            if isinstance(each, Fma)
            else each.open is not None or (isinstance(each, GroupConversion) and each.format.shares_tensor)
            for each in self._said()
        )
        return not self.draws and not any(whole)

    def _said(self) -> list[Fma | Conversion | GroupConversion]:
        """The operators and formats that rules name."""
        every = [self._parsed(key, text) for rule in self.rules for key, text in rule.settings]
        said = [(fma, *(() if ops is None else ops.conversions), operand) for fma, ops, operand in every]
        return [each for texts in said for each in texts if each is not None]

    def decide(self, layers: Sequence[Layer]) -> list[Decision]:
        """Return the arithmetic of every layer.

        Raises NumcError if a rule that applies does not fit the operator of a layer, if a rule depends on a size that
        the model leaves free, and, if the policy is strict, for a rule that matches nothing.
        """
        model = Contractions.of(layers)
        matched: set[int] = set()
        decisions = []
        for layer in layers:
            fma, ops = parse_fma("fp32"), parse_ops("fp32")
            fma_rule = ops_rule = None
            bias = ""
            for number, rule in enumerate(self.rules):
                try:
                    if not rule.matches(layer, model):
                        continue
                    fma, ops, says_fma, says_ops = self._apply(rule, fma, ops)
                except NumcError as error:
                    raise NumcError(f"{self.name}:{rule.line}: {error}") from None
                matched.add(number)
                fma_rule = rule if says_fma else fma_rule
                ops_rule = rule if says_ops else ops_rule
                bias = dict(rule.settings).get("bias", bias)
            decisions.append(
                Decision(
                    layer=layer,
                    fma=fma.swapped if layer.swapped else fma,
                    ops=ops,
                    fma_rule=fma_rule,
                    ops_rule=ops_rule,
                    bias=bias,
                )
            )
        if self.strict:
            self._check_matches(layers, model, matched)
        return decisions

    def _check_matches(self, layers: Sequence[Layer], model: Contractions, matched: set[int]) -> None:
        trains = any(layer.role in ("dgrad", "wgrad", "update") for layer in layers)
        for number, rule in enumerate(self.rules):
            if rule.subject == "role" and not trains:
                continue  # only a training step has every role, and one policy serves training and inference
            for selector in rule.selectors:
                beyond = isinstance(selector, Span) and selector.reaches_beyond(model.count)
                if beyond or not any(rule.selects(selector, layer, model) for layer in layers):
                    raise NumcError(f"{self.name}:{rule.line}: {_nothing(rule, selector, layers, model.count)}")
            if number not in matched and rule.subject != "default":
                kinds, head = shortened(", ".join(map(str, rule.selectors))), quoted(rule.head)
                raise NumcError(f"{self.name}:{rule.line}: {head} matches nothing: no {kinds} has such sizes")

    def _parsed(self, key: str, text: str) -> tuple[Fma | None, Ops | None, Conversion | GroupConversion | None]:
        """Parse a setting into an operator, a format of other operations, or the format of an operand.

        Raises NumcError.
        """
        if key == "bias":
            if text not in BIASES:
                near = did_you_mean(text, BIASES)
                raise NumcError(f"bias = {shortened(text)}: got {quoted(text)}{near}, want {' or '.join(BIASES)}")
            return None, None, None
        value = expanded(text, self._texts)
        if not key:
            return *_either(value), None
        if key in ("fma", "ops"):
            return (parse_fma(value), None, None) if key == "fma" else (None, parse_ops(value), None)
        return None, None, parse_operand(value, key)

    def _apply(self, rule: Rule, fma: Fma, ops: Ops) -> tuple[Fma, Ops, bool, bool]:
        """Return operator and format as the rule changes them, and whether it set each of the two. Raises NumcError."""
        operands: dict[str, Conversion | GroupConversion] = {}
        says_fma = says_ops = False
        for key, text in rule.settings:
            whole, other, operand = self._parsed(key, text)
            fma, ops = whole or fma, other or ops
            if operand is not None:
                operands[key] = operand
            says_fma |= whole is not None or operand is not None
            says_ops |= other is not None
        if operands:
            acc = operands.get("acc", fma.acc)
            assert isinstance(acc, Conversion)  # see parse_operand
            fma = fma.with_operands(operands.get("a", fma.a), operands.get("b", fma.b), acc)
        return fma, ops, says_fma, says_ops

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in (*self.definitions, *self.rules))


def plain(fma: str = "fp32", ops: str = "fp32", roles: Iterable[tuple[str, str, str]] = ()) -> Policy:
    """Return the policy of one arithmetic, with (role, fma, ops) for the roles that differ.

    Raises NumcError for unknown names.
    """

    def settings(fma: str, ops: str) -> tuple[tuple[str, str], ...]:
        return ("fma", str(parse_fma(fma))), ("ops", str(parse_ops(ops)))

    rules = [Rule("default", (), settings(fma, ops))]
    rules += [Rule("role", (role,), settings(own_fma, own_ops)) for role, own_fma, own_ops in roles]
    return Policy((), tuple(rules), strict=False)


def expanded(text: str, names: Mapping[str, str]) -> str:
    """Return a setting with the texts that defined names stand for. Raises NumcError if it is too long for one."""
    checked_text(text, "a setting", MAX_LENGTH)  # before too: a name may stand for hundreds of characters
    return checked_text(_WORD.sub(lambda match: names.get(match[0], match[0]), text), "a setting", MAX_LENGTH)


def _either(text: str) -> tuple[Fma | None, Ops | None]:
    """Parse a text alone, which is an operator, a format, or, like "fp32", both. Raises NumcError if it is neither."""
    parsed: list[Fma | Ops | None] = []
    errors = []
    for parse in (parse_fma, parse_ops):
        try:
            parsed.append(parse(text))
        except NumcError as error:
            parsed.append(None)
            errors.append(error)
    if len(errors) == 2:  # report the error of the parser that recognised more of the text
        of_fma, of_format = errors
        raise of_format if "is a format" in str(of_fma) or (":" in text and "(" not in text) else of_fma
    return parsed[0], parsed[1]  # type: ignore[return-value]


def parse_operand(text: str, key: str = "a") -> Conversion | GroupConversion:
    """Return the format of an operand (`key` is "a", "b" or "acc"), which may have groups. Raises NumcError."""
    fma = parse_fma(f"fma(a=fp32,acc={text})") if key == "acc" else parse_fma(f"fma(a={text},acc=fp32)")
    return fma.acc if key == "acc" else fma.a


def _nothing(rule: Rule, selector: Selector, layers: Sequence[Layer], count: int) -> str:
    """Return the message for a selector that matches nothing: what it is, and what the model has."""
    if isinstance(selector, Outermost):
        return f"layer {selector} matches nothing: the model has no contractions"
    if isinstance(selector, Span):
        there = f"has contractions 0 to {count - 1}" if count else "has no contractions"
        if any(selector.has(n, count) for n in range(count)):
            return f"layer {selector} reaches beyond the model, which {there}"
        return f"layer {selector} matches nothing: the model {there}"
    if rule.subject == "layer":
        names = list(dict.fromkeys(layer.name for layer in layers if layer.name))
        near = did_you_mean(selector, names)
        there = f"its layers are {_some(names)}" if names else "its operations have no names"
        return f'layer "{shortened(selector)}" matches nothing in this model{near}: {there}'
    kinds = list(dict.fromkeys(kind for layer in layers for kind in layer.kinds))
    if rule.subject == "op":
        near = did_you_mean(selector, [kind for kind in (*kinds, *KINDS) if kind != selector])
        return f"op {shortened(selector)} matches nothing in this model{near}: it has {_some(kinds)}"
    roles = list(dict.fromkeys(layer.role for layer in layers if layer.role))
    return f"role {selector} matches nothing in this model: it has {_some(roles)}"


def _some(names: Sequence[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(map(shortened, names[:most])) or "nothing") + more
