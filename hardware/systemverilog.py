"""A circuit as a SystemVerilog module: a named wire for each number, as wide as its range, and registers at cuts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from numc.hardware.emission import Plan
from numc.numerics.circuits import Circuit, Number
from numc.support.errors import NumcError


@dataclass(frozen=True)
class Module:
    """A circuit and how it is cut: `stages` clock cycles from the inputs to the output, none for wires alone."""

    circuit: Circuit
    name: str
    stages: int = 0

    @cached_property
    def plan(self) -> Plan:
        return Plan(self.circuit)

    @cached_property
    def at(self) -> Mapping[int, int]:
        """The stage in which each number is computed, from 0 up, by its id."""
        times = self.plan.arrivals
        end = max(times[id(output)] for output in self.circuit.outputs.values())
        count = max(self.stages, 1)
        return {key: min(int(time * count / end - 1e-9) if time else 0, count - 1) for key, time in times.items()}

    @property
    def registers(self) -> int:
        """The bits of all registers."""
        return sum(self.plan.width(number) for number, _ in self._held()) + (
            sum(output.width for output in self.circuit.outputs.values()) if self.stages else 0
        )

    def _held(self) -> list[tuple[Number, int]]:
        """Numbers that have to be held at the end of a stage, for each of these."""
        last: dict[int, int] = {}
        for number in self.plan.numbers:
            for arg in number.args:
                last[id(arg)] = max(last.get(id(arg), 0), self.at[id(number)])
        for output in self.circuit.outputs.values():
            last[id(output)] = max(last.get(id(output), 0), max(self.stages - 1, 0))
        numbers = [*self.circuit.inputs.values(), *self.plan.numbers]
        return [
            (number, stage)
            for number in numbers
            for stage in range(self.at.get(id(number), 0), last.get(id(number), 0))
        ]

    def text(self, about: Sequence[str]) -> str:
        """Return the module. Raises NumcError for more stages than the longest path has operations."""
        check_stages(self)
        clock = ["input  logic clk"] if self.stages else []
        ports = [f"input  logic {_range(n.width)}{name}" for name, n in self.circuit.inputs.items()]
        ports += [f"output logic {_range(n.width)}{name}" for name, n in self.circuit.outputs.items()]
        lines = [*(f"// {line}" for line in about), f"module {self.name} ("]
        lines += [",\n".join(f"  {port}" for port in [*clock, *ports]), ");"]
        lines += [f"  {line}" for line in [*self._functions(), *self._body(), *self._outputs()]]
        return "\n".join([*lines, "endmodule", ""])

    def _body(self) -> Iterator[str]:
        held: dict[int, list[Number]] = {}
        for number, stage in self._held():
            held.setdefault(stage, []).append(number)
        for stage in range(max(self.stages, 1)):
            if self.stages:
                yield f"// Stage {stage + 1} of {self.stages}."
            for number in self.plan.numbers:
                if self.at[id(number)] == stage:
                    yield self._assignment(number, stage)
            yield from self._registers(held.get(stage, []), stage)

    def _assignment(self, number: Number, stage: int) -> str:
        writer = _Expression(self, stage)
        name, comment = self.plan.names[id(number)], self.plan.comment(number)
        declared = f"wire {_type(self.plan, number)}{name} = {writer.of(number)};"
        return f"{declared}  // {comment}" if comment else declared

    def _registers(self, numbers: Sequence[Number], stage: int) -> Iterator[str]:
        if not numbers:
            return
        for number in numbers:
            yield f"logic {_type(self.plan, number)}{self.name_at(number, stage + 1)};"
        yield "always_ff @(posedge clk) begin"
        for number in numbers:
            yield f"  {self.name_at(number, stage + 1)} <= {self.name_at(number, stage)};"
        yield "end"

    def name_at(self, number: Number, stage: int) -> str:
        """A number as a stage sees it: the wire, or the register that holds it."""
        name = self.plan.names[id(number)]
        return name if stage <= self.at.get(id(number), 0) else f"{name}_at_{stage + 1}"

    def _outputs(self) -> Iterator[str]:
        for name, number in self.circuit.outputs.items():
            text = _Expression(self, max(self.stages - 1, 0)).held(number, number.width)
            if self.stages:
                yield f"always_ff @(posedge clk) {name} <= {text};"
            else:
                yield f"assign {name} = {text};"

    def _functions(self) -> Iterator[str]:
        """Functions that count leading zeros, and tables."""
        sizes = sorted({_power(number.args[1].low) for number in self.plan.numbers if number.op == "lzc"})
        for size in sizes:
            yield from _count_function(size)
        for number in self.plan.numbers:
            if number.op == "lookup":
                yield from _table_function(self.plan, number)


@dataclass(frozen=True)
class _Expression:
    """The text of a number in a stage."""

    module: Module
    stage: int

    @property
    def plan(self) -> Plan:
        return self.module.plan

    def held(self, number: Number, width: int) -> str:
        """A number in `width` bits: its sign or zeros go on above it, and what is above them is cut."""
        if number.op == "constant":
            return f"{width}'h{number.low & (1 << width) - 1:x}"
        name = self.module.name_at(number, self.stage)
        own = self.plan.width(number)
        if own == width:
            return name
        return f"{width}'({name})" if width > own else f"{name}[{width - 1}:0]" if own > 1 else name

    def of(self, number: Number) -> str:
        op, args, width = number.op, number.args, self.plan.width(number)
        if op in ("add", "sub", "mul", "and", "or", "xor"):
            sign = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}[op]
            return f"{self.held(args[0], width)} {sign} {self.held(args[1], width)}"
        if op in ("lt", "le", "eq", "ne"):
            return self.comparison(op, *args)
        if op == "select":
            return f"{self.truth(args[0])} ? {self.held(args[1], width)} : {self.held(args[2], width)}"
        if op in ("min", "max"):
            x, y = args if op == "min" else args[::-1]
            return f"({self.comparison('lt', x, y)}) ? {self.held(args[0], width)} : {self.held(args[1], width)}"
        if op == "shl":
            return f"{self.held(args[0], width)} << {self.amount(args[1])}"
        if op == "shr":
            return self.shifted(number, width)
        if op == "lzc":
            size = _power(args[1].low)
            padding = size - args[1].low
            whole = self.held(args[0], args[1].low)
            padded = f"{{{whole}, {padding}'d0}}" if padding else whole
            return self.counted(f"zeros_{size}({padded})", width, args[0], args[1].low)
        if op == "lookup":
            return f"{self.plan.names[id(number)]}_table({self.held(args[0], self.plan.width(args[0]))})"
        assert op == "within", op
        return self.held(args[0], width)

    def counted(self, text: str, width: int, x: Number, count: int) -> str:
        """The zeros of `count` bits, of which a padded zero has more."""
        name = self.held(x, self.plan.width(x))
        return f"({name} == 0) ? {width}'d{count} : {width}'({text})" if x.low == 0 else f"{width}'({text})"

    def shifted(self, number: Number, width: int) -> str:
        x, amount = number.args
        own, is_signed = self.plan.width(x), self.plan.signed(x)
        if x.op == "constant":
            return f"{width}'({own}'h{x.low & (1 << own) - 1:x} >> {self.amount(amount)})"
        name = self.held(x, own)
        if amount.is_constant and amount.low < own:
            most = min(own - 1, amount.low + width - 1)
            part = f"{name}[{most}:{amount.low}]" if own > 1 else name
            more = most - amount.low + 1 < width and is_signed
            return f"{width}'($signed({part}))" if more else f"{width}'({part})"
        return f"{width}'({name} {'>>>' if is_signed else '>>'} {self.amount(amount)})"

    def comparison(self, op: str, x: Number, y: Number) -> str:
        is_signed = self.plan.signed(x) or self.plan.signed(y)
        width = max(self.plan.width(each) + (is_signed and not self.plan.signed(each)) for each in (x, y))
        sign = {"lt": "<", "le": "<=", "eq": "==", "ne": "!="}[op]
        left, right = self.held(x, width), self.held(y, width)
        if is_signed and op in ("lt", "le"):
            return f"$signed({left}) {sign} $signed({right})"
        return f"{left} {sign} {right}"

    def truth(self, number: Number) -> str:
        text = self.held(number, self.plan.width(number))
        return text if self.plan.width(number) == 1 else f"({text} != 0)"

    def amount(self, number: Number) -> str:
        return str(number.low) if number.is_constant else self.held(number, self.plan.width(number))


def check_stages(module: Module) -> None:
    """Raise NumcError for more stages than there are operations on the longest path."""
    levels: dict[int, int] = {}
    for number in module.circuit.numbers:
        levels[id(number)] = 1 + max((levels[id(arg)] for arg in number.args), default=0)
    most = max(levels[id(output)] for output in module.circuit.outputs.values())
    if not 0 <= module.stages <= most:
        raise NumcError(f"stages: got {module.stages}, want 0 to {most}: the longest path has so many operations")


def _range(width: int) -> str:
    return f"[{width - 1}:0] " if width > 1 else ""


def _type(plan: Plan, number: Number) -> str:
    return ("signed " if plan.signed(number) else "") + _range(plan.width(number))


def _power(width: int) -> int:
    """The power of two that a count of leading zeros halves."""
    return 1 << max(width - 1, 1).bit_length()


def _count_function(size: int) -> Iterator[str]:
    """The zeros above the highest one, found by halves."""
    bits = size.bit_length() - 1
    yield f"function automatic [{bits}:0] zeros_{size}(input [{size - 1}:0] x);"
    yield f"  logic [{size - 1}:0] rest;"
    yield "  rest = x;"
    yield f"  zeros_{size} = '0;"
    for bit in reversed(range(bits)):
        half = 1 << bit
        yield f"  if (rest[{size - 1}:{size - half}] == 0) begin zeros_{size}[{bit}] = 1'b1; rest = rest << {half}; end"
    yield "endfunction"


def _table_function(plan: Plan, number: Number) -> Iterator[str]:
    assert isinstance(number.data, tuple)
    name, width, own = plan.names[id(number)], plan.width(number), plan.width(number.args[0])
    yield f"function automatic {_type(plan, number)}{name}_table(input [{own - 1}:0] index);"
    yield "  case (index)"
    for n, value in enumerate(number.data[: 1 << own]):
        yield f"    {own}'d{n}: {name}_table = {width}'h{value & (1 << width) - 1:x};"
    yield f"    default: {name}_table = '0;"
    yield "  endcase"
    yield "endfunction"


def joined(modules: Iterable[str], head: Sequence[str]) -> str:
    """Return a whole file."""
    return "\n".join(
        [*(f"// {line}" for line in head), "`default_nettype none", "", *modules, "`default_nettype wire", ""]
    )
