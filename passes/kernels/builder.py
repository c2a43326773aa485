"""The builder of emitted code: typed values, straight-line code on lanes, and functions with loops.

Arithmetic is written once and used at any width: as a scalar inside a linalg body, as ``vector<16xf32>`` in a
micro-kernel. A value knows its type, and an operation whose operands do not fit raises `TypeError` where it is written.
The result is MLIR text: parsing a module is several times faster than creating its operations one by one from Python.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

PTR = "!llvm.ptr"
Number = int  # in `Code`, whose method `int` hides the type
Index = int | str  # a constant, or an i64 value


def f32_bits(value: float) -> int:
    """Return the binary32 encoding of `value`."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


@dataclass(frozen=True)
class Type:
    """The type of a value: its element (``f32``, ``i64``, ``!llvm.ptr``, ...) and its lanes, 0 for a scalar."""

    element: str
    lanes: int = 0

    @staticmethod
    def of(text: str) -> Type:
        """Parse ``f32`` or ``vector<16xf32>``."""
        if not text.startswith("vector<"):
            return Type(text)
        lanes, _, element = text[len("vector<") : -1].partition("x")
        return Type(element, int(lanes))

    def __str__(self) -> str:
        return f"vector<{self.lanes}x{self.element}>" if self.lanes else self.element

    @property
    def is_float(self) -> bool:
        """Whether elements are floating-point numbers."""
        return self.element in ("f16", "bf16", "f32", "f64")

    @property
    def is_int(self) -> bool:
        """Whether elements are integers (``index`` too)."""
        return self.element[0] == "i"

    @property
    def bits(self) -> int:
        """Bits of an element; of a pointer and an index 64."""
        digits = self.element.lstrip("bfi")
        return int(digits) if digits.isdigit() else 64


class Value(str):
    """An SSA value: its name in the text, and its type."""

    __slots__ = ("type",)
    type: Type

    def __new__(cls, name: str, type_: Type | str) -> Value:
        made = super().__new__(cls, name)
        made.type = Type.of(type_) if isinstance(type_, str) else type_
        return made


@dataclass
class _Text:
    """What the views of one piece of code write to: lines, and the constants that are visible where it stands."""

    prefix: str
    lines: list[str] = field(default_factory=list)
    top: list[str] | None = None  # of a function: where constants stand
    scopes: list[dict[tuple[str, str], Value]] = field(default_factory=lambda: [{}])
    depth: int = 0
    count: int = 0


class Code:
    """Code over one lane shape; every method appends an operation and returns its result."""

    def __init__(self, width: int = 0, prefix: str = "", *, text: _Text | None = None) -> None:
        """`width` is the number of lanes, 0 for scalars; `prefix` keeps names apart from those of the text around."""
        self.width = width
        self._text = text or _Text(prefix)

    def lanes(self, width: int) -> Code:
        """The same code seen with another number of lanes: what it appends stands in the same place."""
        return Code(width, text=self._text)

    @property
    def scalar(self) -> Code:
        """The same code seen with scalars."""
        return self.lanes(0)

    @property
    def prefix(self) -> str:
        """What the names of values begin with."""
        return self._text.prefix

    @property
    def lines(self) -> list[str]:
        """The text so far, one operation a line."""
        return self._text.lines

    @lines.setter
    def lines(self, lines: list[str]) -> None:
        self._text.lines = lines

    def ty(self, element: str) -> Type:
        """Return the lane type with this element type."""
        return Type(element, self.width)

    def line(self, text: str) -> None:
        """Append an operation without a result."""
        self._text.lines.append("  " * self._text.depth + text)

    def op(self, text: str, type_: Type | str | None = None) -> Value:
        """Append ``%new = text``, and return the result, of this type."""
        name = f"%{self._text.prefix}{self._text.count}"
        self._text.count += 1
        self.line(f"{name} = {text}")
        return name if type_ is None else Value(name, type_)  # type: ignore[return-value]  # without a type: on its way out

    # Types of operands. A name without a type has the one that the caller names, or the lane type of f32.

    def _type(self, operation: str, *operands: str, element: str | None = None, kinds: str = "fi") -> Type:
        """The one type of the operands. Raises TypeError if there are several, or one of another kind."""
        types = {x.type for x in operands if isinstance(x, Value)}
        if element is not None or not types:
            types.add(self.ty(element or "f32"))
        found = next(iter(types))
        if len(types) > 1:
            listed = ", ".join(f"{x}: {x.type}" if isinstance(x, Value) else x for x in operands)
            raise TypeError(f"{operation} {listed}: operands of one type wanted, found {' and '.join(map(str, types))}")
        if not (("f" in kinds and found.is_float) or ("i" in kinds and found.is_int)):
            raise TypeError(f"{operation}: operands are {found}, {'floats' if kinds == 'f' else 'integers'} wanted")
        return found

    # Constants

    def _constant(self, element: str, literal: str, text: str = "", type_: Type | None = None) -> Value:
        kind = type_ or self.ty(element)
        key = (str(kind), text + literal)
        state = self._text
        for scope in state.scopes:
            if key in scope:
                return scope[key]
        value = f"dense<{literal}>" if kind.lanes else literal
        written = text or f"arith.constant {value} : {kind}"
        if state.top is None:
            made = self.op(written, kind)
            state.scopes[-1][key] = made
        else:
            lines, depth = state.lines, state.depth
            state.lines, state.depth = state.top, 1
            made = self.op(written, kind)
            state.lines, state.depth = lines, depth
            state.scopes[0][key] = made
        return made

    def f32(self, value: float) -> Value:
        """A binary32 constant, written as its bits so that no decimal is ever rounded."""
        return self._constant("f32", f"0x{f32_bits(value):08X}")

    def f64(self, value: float) -> Value:
        """A binary64 constant, written as its bits."""
        return self._constant("f64", f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}")

    def int(self, value: Number, element: str = "i32") -> Value:
        """An integer constant; values above the signed range wrap."""
        bits = int(element[1:])
        if bits > 1 and value >= 1 << (bits - 1):
            value -= 1 << bits
        return self._constant(element, str(value))

    def number(self, value: Index) -> Value:
        """An i64 scalar: a constant, or the value that it is already."""
        if isinstance(value, Value):
            return value
        return Value(value, "i64") if isinstance(value, str) else self.scalar.int(value, "i64")

    def immediate(self, value: Number, element: str = "i32") -> Value:
        """A scalar that the operand of an intrinsic must have as an immediate."""
        return self._constant(element, "", f"llvm.mlir.constant({value} : {element}) : {element}", Type(element))

    llvm_constant = immediate

    # Arithmetic

    def binary(self, name: str, a: str, b: str, element: str | None = None) -> Value:
        """``arith.name a, b``: both of one type, floats or integers as the operation wants."""
        kinds = "f" if name.endswith("f") and name not in ("shrsif",) else "i"
        kind = self._type(f"arith.{name}", a, b, element=element, kinds=kinds)
        return self.op(f"arith.{name} {a}, {b} : {kind}", kind)

    def unary(self, name: str, a: str) -> Value:
        """``name a``: an operation of arith or math with one float, named with its dialect."""
        kind = self._type(name, a, kinds="f")
        return self.op(f"{name} {a} : {kind}", kind)

    def fma(self, a: str, b: str, c: str, element: str | None = None) -> Value:
        """One correctly rounded ``a * b + c``."""
        kind = self._type("math.fma", a, b, c, element=element, kinds="f")
        return self.op(f"math.fma {a}, {b}, {c} : {kind}", kind)

    def compare(self, predicate: str, a: str, b: str, element: str | None = None) -> Value:
        """``arith.cmpi`` or ``arith.cmpf``, by the type of the operands."""
        typed = isinstance(a, Value) or isinstance(b, Value)
        kind = self._type("compare", a, b, element=element if typed else element or "i32")
        name = "cmpf" if kind.is_float else "cmpi"
        return self.op(f"arith.{name} {predicate}, {a}, {b} : {kind}", Type("i1", kind.lanes))

    def select(self, condition: str, a: str, b: str, element: str | None = None) -> Value:
        """``condition ? a : b``, lane by lane where there are lanes."""
        types = {x.type for x in (a, b) if isinstance(x, Value)} or {self.ty(element or "f32")}
        if len(types) > 1:
            raise TypeError(
                f"arith.select {a}, {b}: operands of one type wanted, found {' and '.join(map(str, types))}"
            )
        (kind,) = types
        choice = condition.type if isinstance(condition, Value) else Type("i1", kind.lanes)
        if choice.element != "i1" or choice.lanes not in (0, kind.lanes):
            raise TypeError(f"arith.select: the condition is {choice}, it chooses between values of {kind}")
        head = f"{choice}, " if choice.lanes else ""
        return self.op(f"arith.select {condition}, {a}, {b} : {head}{kind}", kind)

    def cast(self, name: str, a: str, *elements: str) -> Value:
        """``arith.name a`` (bitcast, extf, truncf, sitofp, ...) to the last of `elements`."""
        target, source = (
            elements[-1],
            a.type if isinstance(a, Value) else self.ty(elements[0] if len(elements) == 2 else "f32"),
        )
        if len(elements) == 2 and source.element != elements[0]:
            raise TypeError(f"arith.{name} {a}: it is {source}, not {elements[0]}")
        kind = Type(target, source.lanes)
        if name == "bitcast" and source.bits != kind.bits:
            raise TypeError(f"arith.bitcast {a}: {source} and {kind} differ in size")
        grows = kind.bits - source.bits
        if (name.startswith("ext") and grows <= 0) or (name.startswith("trunc") and grows >= 0):
            raise TypeError(f"arith.{name} {a}: from {source} to {kind}")
        return self.op(f"arith.{name} {a} : {source} to {kind}", kind)

    def broadcast(self, a: str, element: str = "f32") -> Value:
        """A scalar in every lane; the scalar itself where there are no lanes."""
        source = a.type if isinstance(a, Value) else Type(element)
        if source.lanes:
            raise TypeError(f"vector.broadcast {a}: a scalar wanted, found {source}")
        if not self.width:
            return Value(a, source)
        kind = self.ty(source.element)
        return self.op(f"vector.broadcast {a} : {source} to {kind}", kind)

    def reduce(self, kind: str, a: str) -> Value:
        """``vector.reduction <kind>`` of a vector, to a scalar."""
        source = self._lanes_of("vector.reduction", a)
        return self.op(f"vector.reduction <{kind}>, {a} : {source} into {source.element}", source.element)

    def shuffle(self, a: str, lanes: Sequence[Number]) -> Value:
        """A vector of these lanes of `a`."""
        source = self._lanes_of("llvm.shufflevector", a)
        listed = ", ".join(map(str, lanes))
        return self.op(f"llvm.shufflevector {a}, {a} [{listed}] : {source}", Type(source.element, len(lanes)))

    def reinterpret(self, a: str, type_: Type | str) -> Value:
        """The same bits as another type of equal size (``llvm.bitcast``: other numbers of lanes are allowed)."""
        to, source = Type.of(str(type_)), self._known("llvm.bitcast", a)
        if to.bits * max(to.lanes, 1) != source.bits * max(source.lanes, 1):
            raise TypeError(f"llvm.bitcast {a}: {source} and {to} differ in size")
        return self.op(f"llvm.bitcast {a} : {source} to {to}", to)

    def intrinsic(self, name: str, *arguments: str, result: Type | str) -> Value:
        """Call an LLVM intrinsic by its full name."""
        types = ", ".join(str(self._known(name, a)) for a in arguments)
        return self.op(f'llvm.call_intrinsic "{name}"({", ".join(arguments)}) : ({types}) -> {result}', result)

    def effect(self, operation: str, *operands: str, attributes: str) -> None:
        """An operation in the generic syntax that has no result, with these properties."""
        types = ", ".join(str(self._known(operation, a)) for a in operands)
        self.line(f'"{operation}"({", ".join(operands)}) <{{{attributes}}}> : ({types}) -> ()')

    def assembly(self, text: str, constraints: str, *values: str) -> list[Value]:
        """Inline assembler with side effects, which gives one result for each of `values`, of its type."""
        types = [self._known("llvm.inline_asm", v) for v in values]
        struct = f"!llvm.struct<({_list(types)})>"
        head = f'llvm.inline_asm has_side_effects asm_dialect = att "{text}", "{constraints}"'
        found = self.op(f"{head} {', '.join(values)} : ({_list(types)}) -> {struct}", struct)
        return [self.op(f"llvm.extractvalue {found}[{n}] : {struct}", kind) for n, kind in enumerate(types)]

    def magnitude(self, a: str) -> Value:
        """The absolute value of signed integers; the smallest one stays as it is."""
        kind = self._type("llvm.intr.abs", a, kinds="i")
        return self.op(f'"llvm.intr.abs"({a}) <{{is_int_min_poison = false}}> : ({kind}) -> {kind}', kind)

    def _known(self, operation: str, a: str) -> Type:
        if not isinstance(a, Value):
            raise TypeError(f"{operation} {a}: its type is not known")
        return a.type

    def _lanes_of(self, operation: str, a: str) -> Type:
        kind = self._known(operation, a)
        if not kind.lanes:
            raise TypeError(f"{operation} {a}: a vector wanted, found {kind}")
        return kind

    # Memory

    def at(self, base: str, index: Index, element: str = "f32") -> Value:
        """The address of element `index` (a constant or an i64) from the pointer `base`."""
        for x, wanted in ((base, PTR), (index, "i64")):
            if isinstance(x, Value) and str(x.type) != wanted:
                raise TypeError(f"address {base}[{index}]: {x} is {x.type}, {wanted} wanted")
        types = PTR if isinstance(index, int) else f"{PTR}, i64"
        return self.op(f"llvm.getelementptr {base}[{index}] : ({types}) -> {PTR}, {element}", PTR)

    def address(self, base: str, index: Index) -> Value:
        """The address of f32 number `index` (a constant or an i64) from the pointer `base`."""
        return self.at(base, index)

    def load(
        self, address: str, mask: str = "", element: str = "f32", otherwise: str = "", alignment: Number = 4
    ) -> Value:
        """Load lanes; with a mask, `otherwise` (by default +0) where it is false, and nothing is read there.

        alignment: what the address is a multiple of, in bytes.
        """
        kind = self.ty(element)
        if not mask:
            return self.op(f"llvm.load {address} {{alignment = {alignment} : i64}} : {PTR} -> {kind}", kind)
        types = f"({PTR}, {self.ty('i1')}, {kind}) -> {kind}"
        other = otherwise or self.f32(0.0)
        return self.op(f"llvm.intr.masked.load {address}, {mask}, {other} {{alignment = 4 : i32}} : {types}", kind)

    def store(self, value: str, address: str, mask: str = "", alignment: Number = 4) -> None:
        """Store lanes, those where the mask is true. alignment: what the address is a multiple of, in bytes."""
        kind = value.type if isinstance(value, Value) else self.ty("f32")
        if not mask:
            self.line(f"llvm.store {value}, {address} {{alignment = {alignment} : i64}} : {kind}, {PTR}")
        else:
            types = f"{kind}, {Type('i1', kind.lanes)} into {PTR}"
            self.line(f"llvm.intr.masked.store {value}, {address}, {mask} {{alignment = 4 : i32}} : {types}")

    def splat(self, address: str, element: str = "f32") -> Value:
        """One element from memory in every lane."""
        return self.broadcast(self.scalar.load(address, element=element))

    def fetch(self, base: str, index: Index, kind: str = "i64") -> Value:
        """Load word `index` of `base`, an i64, i32 or pointer (i32 words are 4 bytes apart, the others 8)."""
        where = self.at(base, index, "i32" if kind == "i32" else "i64")
        return self.op(f"llvm.load {where} : {PTR} -> {kind}", kind)

    def alloca(self, count: Index, element: str) -> Value:
        """Room for `count` elements on the stack."""
        return self.op(f"llvm.alloca {self.number(count)} x {element} : (i64) -> {PTR}", PTR)

    # Scalars that address and count

    def i64(self, name: str, a: Index, b: Index) -> Value:
        """``arith.name a, b`` on i64 numbers."""
        return self.binary(name, self.number(a), self.number(b), "i64" if not self.width else None)

    def negated(self, condition: str) -> Value:
        """Whether the i1 `condition` does not hold."""
        return self.scalar.binary("xori", condition, self.scalar.int(-1, "i1"), "i1")

    def is_given(self, pointer: str) -> Value:
        """Whether a pointer is not null."""
        address = self.op(f"llvm.ptrtoint {pointer} : {PTR} to i64", "i64")
        return self.compare("ne", address, self.number(0))

    def null(self) -> Value:
        """The null pointer."""
        return self.op(f"llvm.mlir.zero : {PTR}", PTR)

    # Control flow

    def call(
        self, name: str, *arguments: str, types: str = "", results: str = "", dialect: str = "func"
    ) -> list[Value]:
        """Call a function; `results`: their types, with commas. Returns the results."""
        known = types or ", ".join(str(self._known(name, a)) for a in arguments)
        text = f"{dialect}.call @{name}({', '.join(arguments)}) : ({known}) -> ({results})"
        if not results:
            self.line(text)
            return []
        return self.several(text, *results.split(", "))

    def several(self, text: str, *types: str | Number) -> list[Value]:
        """Append ``%new:count = text``; returns the results, given their types."""
        if len(types) == 1 and isinstance(types[0], int):
            found = text[text.rindex("(") + 1 : text.rindex(")")].split(", ")
            types = tuple(found * (types[0] // len(found))) if len(found) != types[0] else tuple(found)
        name = f"%{self._text.prefix}{self._text.count}"
        self._text.count += 1
        count = f":{len(types)}" if len(types) > 1 else ""
        self.line(f"{name}{count} = {text}")
        if len(types) == 1:
            return [Value(name, str(types[0]))]
        return [Value(f"{name}#{n}", str(t)) for n, t in enumerate(types)]

    @contextmanager
    def loop(self, start: Index, end: Index, step: Index = 1) -> Iterator[Value]:
        """A loop over i64 numbers; yields the induction variable."""
        bounds = f"{self.number(start)} to {self.number(end)} step {self.number(step)}"
        index = self._fresh("i", "i64")
        with self._block(f"scf.for {index} = {bounds} : i64 {{"):
            yield index

    @contextmanager
    def carry(self, start: Index, end: Index, step: Index, values: Sequence[Value]) -> Iterator[CarryingLoop]:
        """A loop over i64 numbers that carries `values`: its body sets `next`, and `results` are what it leaves."""
        bounds = f"{self.number(start)} to {self.number(end)} step {self.number(step)}"
        index = self._fresh("i", "i64")
        kinds = [v.type for v in values]
        carried = [self._fresh("c", kind) for kind in kinds]
        types = ", ".join(map(str, kinds))
        head = f"scf.for {index} = {bounds} iter_args({_pairs(carried, values)}) -> ({types}) : i64 {{"
        found = CarryingLoop(index, carried, self.several(head, *map(str, kinds)))
        with self._inside():
            yield found
            self._yield(found.next, kinds)
        self.line("}")

    @contextmanager
    def repeat(self, values: Sequence[Value]) -> Iterator[RepeatingLoop]:
        """A loop while a condition holds: its body calls `going_on` first, then sets `next`; `results` are left."""
        kinds = [v.type for v in values]
        types = ", ".join(map(str, kinds))
        before, after = ([self._fresh(c, kind) for kind in kinds] for c in "bc")
        head = f"scf.while ({_pairs(before, values)}) : ({types}) -> ({types}) {{"
        found = RepeatingLoop(self, before, after, self.several(head, *map(str, kinds)))
        with self._inside():
            yield found
            self._yield(found.next, kinds)
        self.line("}")

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Code that runs if the i1 `condition` holds."""
        with self._block(f"scf.if {condition} {{"):
            yield

    @contextmanager
    def choose(self, condition: str, *kinds: Type | str) -> Iterator[Choice]:
        """Code with results of these types: both ``with c.then():`` and ``with c.otherwise():`` set `c.next`."""
        types = ", ".join(map(str, kinds))
        head = f"scf.if {condition} -> ({types}) {{" if kinds else f"scf.if {condition} {{"
        if kinds:
            results = self.several(head, *map(str, kinds))
        else:
            self.line(head)
            results = []
        yield Choice(self, [Type.of(str(k)) for k in kinds], results)
        self.line("}")

    def _fresh(self, stem: str, type_: Type | str) -> Value:
        name = f"%{stem}{self._text.prefix}{self._text.count}"
        self._text.count += 1
        return Value(name, type_)

    def _yield(self, values: Sequence[str], kinds: Sequence[Type]) -> None:
        found = [v.type if isinstance(v, Value) else k for v, k in zip(values, kinds, strict=True)]
        if list(found) != list(kinds):
            raise TypeError(f"scf.yield {', '.join(values)}: {_list(found)} where {_list(kinds)} is carried")
        if kinds:
            self.line(f"scf.yield {', '.join(values)} : {_list(kinds)}")

    @contextmanager
    def _inside(self) -> Iterator[None]:
        self._text.depth += 1
        self._text.scopes.append({})
        yield
        self._text.scopes.pop()
        self._text.depth -= 1

    @contextmanager
    def _block(self, head: str) -> Iterator[None]:
        self.line(head)
        with self._inside():
            yield
        self.line("}")

    def text(self, indent: str = "    ") -> str:
        """The code, one operation a line."""
        return "\n".join(indent + line for line in self.lines)


def _list(types: Sequence[Type]) -> str:
    return ", ".join(map(str, types))


def _pairs(names: Sequence[str], values: Sequence[str]) -> str:
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

    def going_on(self, condition: str) -> None:
        """End the part that computes the condition, from `before`; what follows is the body, on `values`."""
        types = _list([v.type for v in self.before])
        self.code.line(f"scf.condition({condition}) {', '.join(self.before)} : {types}")
        self.code._text.depth -= 1
        self.code.line("} do {")
        self.code.line(f"^bb0({', '.join(f'{v}: {v.type}' for v in self.values)}):")
        self.code._text.depth += 1
        self.code._text.scopes[-1] = {}


@dataclass
class Choice:
    """A choice with results: each side sets `next` to its own."""

    code: Code
    kinds: list[Type]
    results: list[Value]
    next: Sequence[Value] = ()

    @contextmanager
    def then(self) -> Iterator[None]:
        """What runs if the condition holds."""
        with self.code._inside():
            yield
            self.code._yield(self.next, self.kinds)

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """What runs if it does not."""
        self.code.line("} else {")
        with self.code._inside():
            yield
            self.code._yield(self.next, self.kinds)


# Functions of a generated module that LLVM must not inline: each is compiled once, whoever calls it.
APART = "attributes {no_inline, llvm.no_inline}"


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
        super().__init__(0, text=_Text("v", top=[], depth=1))
        self.arguments = {n.lstrip("%"): Value(f"%{n.lstrip('%')}", t) for n, t in arguments.items()}
        listed = ", ".join(f"{v}: {v.type}" for v in self.arguments.values())
        self._results, self._return = results, "return" if dialect == "func" else "llvm.return"
        head = (
            f"func.func private @{name}({listed}) -> ({results})"
            if dialect == "func"
            else f"llvm.func @{name}({listed})"
        )
        self._head = f"{head} {attributes} {{"

    def __getitem__(self, name: str) -> Value:
        return self.arguments[name]

    @contextmanager
    def carrying(self, bounds: str, start: Mapping[str, str], *kinds: str) -> Iterator[list[Value]]:
        """A loop that carries values, given by name with what they start from; yields the results.

        `kinds`: their types, or the one that all have.
        """
        types = [str(k) for k in kinds] * (len(start) // len(kinds))
        head = (
            f"scf.for {bounds} iter_args({_pairs(list(start), list(start.values()))}) -> ({', '.join(types)}) : i64 {{"
        )
        found = self.several(head, *types)
        with self._inside():
            yield found
        self.line("}")

    @contextmanager
    def part(self, width: int) -> Iterator[Code]:
        """Straight-line code on `width` lanes."""
        yield self.lanes(width)

    def function(self, *results: str) -> str:
        """The whole function, returning these values."""
        end = f"  return {', '.join(results)} : {self._results}" if results else f"  {self._return}"
        assert self._text.top is not None
        return "\n".join(["", self._head, *self._text.top, *self.lines, end, "}"])
