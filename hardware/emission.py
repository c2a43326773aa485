"""Circuits on their way to text: names for their numbers, the widths that are computed, and their estimated depth."""

from __future__ import annotations

import keyword
import linecache
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from numc.numerics.circuits import Circuit, Number
from numc.support.errors import shortened

_ASSIGNED = re.compile(r"\s*([a-z]\w*)(?:: \w+)?(?:, \w+)* [-+|]?= ")
_WRAPPING = ("add", "sub", "mul", "shl", "and", "or", "xor", "select")
# Words of C++ and SystemVerilog that a variable of Python can be called by, and names that the written text has.
_RESERVED = {
    "alias",
    "always",
    "and",
    "assert",
    "assign",
    "auto",
    "before",
    "begin",
    "bind",
    "bins",
    "bit",
    "bool",
    "break",
    "buf",
    "byte",
    "case",
    "cell",
    "char",
    "class",
    "clocking",
    "config",
    "const",
    "constraint",
    "context",
    "continue",
    "cover",
    "cross",
    "default",
    "delete",
    "design",
    "disable",
    "dist",
    "do",
    "double",
    "edge",
    "else",
    "end",
    "enum",
    "event",
    "expect",
    "explicit",
    "extends",
    "extern",
    "final",
    "first_match",
    "float",
    "for",
    "force",
    "fork",
    "friend",
    "function",
    "global",
    "goto",
    "if",
    "iff",
    "ifnone",
    "import",
    "in",
    "include",
    "initial",
    "inline",
    "inout",
    "input",
    "inside",
    "int",
    "integer",
    "interface",
    "intersect",
    "join",
    "large",
    "library",
    "local",
    "logic",
    "long",
    "loop",
    "macromodule",
    "matches",
    "medium",
    "modport",
    "module",
    "namespace",
    "nand",
    "negedge",
    "new",
    "nmos",
    "nor",
    "not",
    "null",
    "operator",
    "or",
    "output",
    "package",
    "packed",
    "parameter",
    "pmos",
    "posedge",
    "primitive",
    "priority",
    "private",
    "program",
    "property",
    "protected",
    "public",
    "pull",
    "pulldown",
    "pullup",
    "pure",
    "rand",
    "randc",
    "real",
    "ref",
    "reg",
    "register",
    "release",
    "repeat",
    "return",
    "sequence",
    "short",
    "signed",
    "small",
    "solve",
    "static",
    "string",
    "strong",
    "struct",
    "super",
    "supply",
    "switch",
    "table",
    "tagged",
    "task",
    "template",
    "this",
    "throw",
    "time",
    "timeprecision",
    "timeunit",
    "tran",
    "tri",
    "type",
    "typedef",
    "typename",
    "union",
    "unique",
    "unsigned",
    "use",
    "using",
    "var",
    "vectored",
    "virtual",
    "void",
    "volatile",
    "wait",
    "wand",
    "weak",
    "while",
    "wildcard",
    "wire",
    "with",
    "within",
    "wor",
    "xnor",
    "xor",
    "clk",
    "index",
    "rest",
    "up",
    "down",
    "less",
    "load",
    "leading_zeros",
    "word_of",
    "top_bit",
    "step",
    "total",
    "start",
    "finish",
}


@dataclass(frozen=True)
class Plan:
    """The numbers of a circuit that a writer makes text of, in order, without constants and inputs.

    A number is called after the variable that its line assigns to. ranges: the least and the greatest number, where a
    bound that its author stated (`within`) makes them smaller than its operands tell.
    """

    circuit: Circuit

    @cached_property
    def numbers(self) -> list[Number]:
        """Those that are computed."""
        return [number for number in self.circuit.numbers if number.op not in ("constant", "input")]

    @cached_property
    def names(self) -> Mapping[int, str]:
        """A name for each number, by its id."""
        names = {id(number): name for name, number in self.circuit.inputs.items()}
        counts: Counter[str] = Counter([*self.circuit.inputs, *self.circuit.outputs])
        for number in self.numbers:
            hint = self._hint(number)
            counts[hint] += 1
            names[id(number)] = hint if counts[hint] == 1 else f"{hint}_{counts[hint]}"
        return names

    @staticmethod
    def _hint(number: Number) -> str:
        if number.place is None:
            return f"{number.op}_"
        match = _ASSIGNED.match(linecache.getline(number.place.file, number.place.line))
        hint = match[1] if match else f"{number.op}_"
        taken = hint in _RESERVED or keyword.iskeyword(hint)
        return f"{hint}_" if taken or re.search(r"\d$", hint) else hint

    @cached_property
    def ranges(self) -> Mapping[int, tuple[int, int]]:
        """The range of each number, by its id."""
        users: dict[int, list[Number]] = {}
        for number in self.numbers:
            for arg in number.args:
                users.setdefault(id(arg), []).append(number)
        outputs = {id(output) for output in self.circuit.outputs.values()}
        ranges = {}
        for number in self.circuit.numbers:
            uses = users.get(id(number), [])
            bounds = [use for use in uses if use.op == "within"]
            narrow = number.op in _WRAPPING and bounds and len(bounds) == len(uses) and id(number) not in outputs
            ends = [(use.low, use.high) for use in bounds] if narrow else [(number.low, number.high)]
            ranges[id(number)] = (min(a for a, _ in ends), max(b for _, b in ends))
        return ranges

    def width(self, number: Number) -> int:
        """The bits that hold it."""
        low, high = self.ranges[id(number)]
        return max(high.bit_length(), (-1 - low).bit_length(), 0 if low < 0 else 1) + (low < 0)

    def signed(self, number: Number) -> bool:
        """Whether it can be negative."""
        return self.ranges[id(number)][0] < 0

    def comment(self, number: Number) -> str:
        """The line of the definition that made it."""
        if number.place is None:
            return ""
        return shortened(" ".join(linecache.getline(number.place.file, number.place.line).split()), 70)

    @cached_property
    def arrivals(self) -> Mapping[int, float]:
        """When each number is there after the inputs, in delays of a gate of two inputs, roughly."""
        times = {id(number): 0.0 for number in self.circuit.numbers}
        for number in self.numbers:
            times[id(number)] = max(times[id(arg)] for arg in number.args) + self._delay(number)
        return times

    def _delay(self, number: Number) -> float:
        op, width = number.op, max(self.width(arg) for arg in number.args)
        log = float(max(width - 1, 1).bit_length())
        if op in ("shl", "shr"):
            amount = number.args[1]
            return 0.0 if amount.is_constant else 2.0 * max(amount.high.bit_length(), 1)
        delays: Mapping[str, Callable[[], float]] = {
            "within": lambda: 0.0,
            "and": lambda: 0.0 if any(arg.is_constant for arg in number.args) else 1.0,
            "select": lambda: 2.0,
            "lookup": lambda: float(number.args[0].width),
            "mul": lambda: 4 * log,
            "lzc": lambda: 3 * log,
            "min": lambda: 2 * log + 2,
            "max": lambda: 2 * log + 2,
        }
        return delays.get(op, lambda: 1.0 if op in ("or", "xor") else 2 * log)()


def identifier(text: str) -> str:
    """Return a text as a name in C++ and SystemVerilog."""
    return re.sub(r"_+", "_", re.sub(r"\W", "_", text)).strip("_")
