"""The builder of emitted functions: straight-line code (straight.py) with calls, loops and choices around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from numc.passes.kernels.ssa import Type, Value, listed
from numc.passes.kernels.straight import Index, Straight, Text

# Functions of a generated module that LLVM must not inline: each is compiled once, whoever calls it.
APART = "attributes {no_inline, llvm.no_inline}"


class Code(Straight):
    """Code over one lane shape, with control flow."""

    def lanes(self, width: int) -> Code:
        """This code seen with another number of lanes: what it appends stands in the same place."""
        return Code(width, self._text)

    @property
    def scalar(self) -> Code:
        """This code seen with scalars."""
        return self.lanes(0)

    def call(self, name: str, *arguments: Value, results: str = "", dialect: str = "func") -> list[Value]:
        """Call a function; `results`: their types, with commas. Returns the results."""
        text = f"{dialect}.call @{name}({listed(arguments)}) : ({listed([a.type for a in arguments])}) -> ({results})"
        if not results:
            self.line(text)
            return []
        return self.several(text, *results.split(", "))

    @contextmanager
    def loop(self, start: Index, end: Index, step: Index = 1) -> Iterator[Value]:
        """A loop over i64 numbers; yields the induction variable."""
        bounds = f"{self.number(start)} to {self.number(end)} step {self.number(step)}"
        index = self.fresh("i", "i64")
        with self._block(f"scf.for {index} = {bounds} : i64 {{"):
            yield index

    @contextmanager
    def carry(self, start: Index, end: Index, step: Index, values: Sequence[Value]) -> Iterator[CarryingLoop]:
        """A loop over i64 numbers that carries `values`: its body sets `next`, and `results` are what it leaves."""
        bounds = f"{self.number(start)} to {self.number(end)} step {self.number(step)}"
        index, kinds = self.fresh("i", "i64"), [v.type for v in values]
        carried = [self.fresh("c", value_type) for value_type in kinds]
        head = f"scf.for {index} = {bounds} iter_args({_pairs(carried, values)}) -> ({listed(kinds)}) : i64 {{"
        loop = CarryingLoop(index, carried, self.several(head, *kinds))
        with self.inside():
            yield loop
            self.leave_block(loop.next, kinds)
        self.line("}")

    @contextmanager
    def repeat(self, values: Sequence[Value]) -> Iterator[RepeatingLoop]:
        """A loop while a condition holds: its body calls `going_on` first, then sets `next`; `results` are left."""
        kinds = [v.type for v in values]
        before, after = ([self.fresh(c, value_type) for value_type in kinds] for c in "bc")
        head = f"scf.while ({_pairs(before, values)}) : ({listed(kinds)}) -> ({listed(kinds)}) {{"
        loop = RepeatingLoop(self, before, after, self.several(head, *kinds))
        with self.inside():
            yield loop
            self.leave_block(loop.next, kinds)
        self.line("}")

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Code that runs if the i1 `condition` holds."""
        with self._block(f"scf.if {condition} {{"):
            yield

    @contextmanager
    def choose(self, condition: Value, *kinds: Type | str) -> Iterator[Choice]:
        """Code with results of these types: both ``with c.then():`` and ``with c.otherwise():`` set `c.next`."""
        types = [Type.of(k) if isinstance(k, str) else k for k in kinds]
        results = []
        if types:
            results = self.several(f"scf.if {condition} -> ({listed(types)}) {{", *types)
        else:
            self.line(f"scf.if {condition} {{")
        yield Choice(self, types, results)
        self.line("}")

    def seldom(self, condition: Value) -> Value:
        """An i1 that is expected to be false: registers go to the code that runs then."""
        return self.op(f"llvm.intr.expect {condition}, {self.int(0, 'i1')} : i1", "i1")

    def leave_block(self, values: Sequence[Value], kinds: Sequence[Type]) -> None:
        """End a block that gives `values`, which have to be of these types."""
        types = [v.type for v in values]
        if types != list(kinds):
            raise TypeError(f"scf.yield {listed(values)}: {listed(types)} where {listed(kinds)} is carried")
        if kinds:
            self.line(f"scf.yield {listed(values)} : {listed(kinds)}")

    def next_block(self, line: str) -> None:
        """Begin another block of the same operation: constants of the one before cannot be seen in it."""
        self._text.depth -= 1
        self.line(line)
        self._text.depth += 1
        self._text.scopes[-1] = {}

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Code inside of a block."""
        self._text.depth += 1
        self._text.scopes.append({})
        yield
        self._text.scopes.pop()
        self._text.depth -= 1

    @contextmanager
    def _block(self, head: str) -> Iterator[None]:
        self.line(head)
        with self.inside():
            yield
        self.line("}")


def _pairs(names: Sequence[Value], values: Sequence[Value]) -> str:
    return ", ".join(f"{n} = {v}" for n, v in zip(names, values, strict=True))


@dataclass
class CarryingLoop:
    """A loop that carries values: its index, the values at the start of a step, and the results after the loop.

    next: set by the body, what the next step begins with.
    """

    index: Value
    values: list[Value]
    results: list[Value]
    next: Sequence[Value] = ()


@dataclass
class RepeatingLoop:
    """A loop with a condition: the values that the condition sees, those of the body, and the results."""

    code: Code
    before: list[Value]
    values: list[Value]
    results: list[Value]
    next: Sequence[Value] = ()

    def going_on(self, condition: Value) -> None:
        """End the part that computes the condition, from `before`; what follows is the body, on `values`."""
        types = listed([v.type for v in self.before])
        self.code.line(f"scf.condition({condition}) {listed(self.before)} : {types}")
        self.code.next_block("} do {")
        self.code.line(f"^bb0({', '.join(f'{v}: {v.type}' for v in self.values)}):")


@dataclass
class Choice:
    """A choice with results: each side sets `next` to its own."""

    code: Code
    kinds: list[Type]
    results: list[Value]
    next: Sequence[Value] = ()

    @contextmanager
    def then(self) -> Iterator[None]:
        """The code that runs if the condition holds."""
        with self.code.inside():
            yield
            self.code.leave_block(self.next, self.kinds)

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """The code that runs if it does not."""
        self.code.line("} else {")
        with self.code.inside():
            yield
            self.code.leave_block(self.next, self.kinds)


class Function(Code):
    """A function of pointers and numbers. Its constants stand at its top; ``f["rows"]`` is an argument."""

    def __init__(
        self,
        name: str,
        arguments: Mapping[str, str],
        results: str = "",
        *,
        attributes: str = APART,
        dialect: str = "func",
    ) -> None:
        """`arguments`: their names, and types; `results`: types, with commas.

        attributes: as text, "" for a function that may be inlined. dialect: func, or llvm for a function whose address
        is taken, which has no result.
        """
        self._top: list[str] = []
        super().__init__(0, Text("v", top=self._top, depth=1))
        self.arguments = {n: Value(f"%{n}", Type.of(t)) for n, t in arguments.items()}
        types = ", ".join(f"{v}: {v.type}" for v in self.arguments.values())
        private = f"func.func private @{name}({types}) -> ({results})"
        self._head = f"{private if dialect == 'func' else f'llvm.func @{name}({types})'} {attributes} {{"
        self._results, self._return = results, "return" if dialect == "func" else "llvm.return"

    def __getitem__(self, name: str) -> Value:
        return self.arguments[name]

    def function(self, *results: Value) -> str:
        """The whole function, returning these values."""
        end = f"  return {listed(results)} : {self._results}" if results else f"  {self._return}"
        return "\n".join(["", *self._text.tables.values(), self._head, *self._top, *self.lines, end, "}"])
