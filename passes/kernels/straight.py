"""Straight-line emitted code over one lane shape: constants, arithmetic and memory, on values that know their types.

Arithmetic is written once and used at any width: as a scalar inside a linalg body, as ``vector<16xf32>`` in a
micro-kernel. An operation whose operands do not fit raises `TypeError` where it is written. The result is MLIR text:
parsing a module is several times faster than creating its operations one by one from Python.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from numc.passes.kernels.ssa import PTR, Type, Value, f32_bits, f64_bits, listed

Number = int  # inside of `Straight`, `int` is a method
Index = Value | int
#: What the names of tables in memory begin with; equal ones have one name.
TABLES = "numc_table_"


@dataclass
class Text:
    """The text of one piece of code, which its views write: lines, and the constants that are visible where it stands.

    top: of a function, the lines of its constants. scopes: the constants of the blocks around, the outermost first.
    tables: the definitions of the tables in memory that a function brings along, by their names.
    """

    prefix: str = ""
    lines: list[str] = field(default_factory=list)
    top: list[str] | None = None
    scopes: list[dict[tuple[str, str], Value]] = field(default_factory=lambda: [{}])
    depth: int = 0
    count: int = 0
    tables: dict[str, str] = field(default_factory=dict)


class Straight:
    """Straight-line code; every method appends an operation and returns its result."""

    def __init__(self, width: Number = 0, text: Text | None = None) -> None:
        """`width` is the number of lanes, 0 for scalars."""
        self.width = width
        self._text = text or Text()

    def lanes(self, width: Number) -> Straight:
        """This code seen with another number of lanes: what it appends stands in the same place."""
        return Straight(width, self._text)

    @property
    def scalar(self) -> Straight:
        """This code seen with scalars."""
        return self.lanes(0)

    @property
    def lines(self) -> list[str]:
        """The text so far, one operation a line."""
        return self._text.lines

    def ty(self, element: str) -> Type:
        """Return the lane type with this element type."""
        return Type(element, self.width)

    def line(self, text: str) -> None:
        """Append an operation without a result."""
        self._text.lines.append("  " * self._text.depth + text)

    def op(self, text: str, type_: Type | str) -> Value:
        """Append ``%new = text``, and return the result, of this type."""
        made = self.fresh("", type_)
        self.line(f"{made.name} = {text}")
        return made

    def several(self, text: str, *types: Type | str) -> list[Value]:
        """Append ``%new:count = text``; returns the results, given their types."""
        if len(types) == 1:
            return [self.op(text, *types)]
        name = self.fresh("", PTR).name
        self.line(f"{name}:{len(types)} = {text}")
        return [Value(f"{name}#{n}", Type.of(t) if isinstance(t, str) else t) for n, t in enumerate(types)]

    def fresh(self, stem: str, type_: Type | str) -> Value:
        """A value of a name that is not used yet."""
        name = f"%{stem}{self._text.prefix}{self._text.count}"
        self._text.count += 1
        return Value(name, Type.of(type_) if isinstance(type_, str) else type_)

    def in_turns(self, pieces: Sequence[Callable[[], Value]]) -> list[Value]:
        """Append pieces without blocks, an operation of each in turns; returns their results."""
        state, values, written = self._text, [], []
        around = state.lines
        for piece in pieces:
            state.lines = []
            values.append(piece())
            written.append(state.lines)
        state.lines = around
        around += [line for lines in zip_longest(*written) for line in lines if line is not None]
        return values

    def _same(self, operation: str, *operands: Value, kinds: str = "fi") -> Type:
        """The one type of the operands. Raises TypeError if there are several, or one of another kind."""
        operand_type = operands[0].type
        if any(x.type != operand_type for x in operands):
            seen = ", ".join(f"{x}: {x.type}" for x in operands)
            raise TypeError(f"{operation} {seen}: operands of one type wanted")
        if not (("f" in kinds and operand_type.is_float) or ("i" in kinds and operand_type.is_int)):
            raise TypeError(
                f"{operation}: operands are {operand_type}, {'floats' if kinds == 'f' else 'integers'} wanted"
            )
        return operand_type

    # Constants

    def _constant(self, kind: Type, literal: str, text: str = "") -> Value:
        """A constant of the innermost block where it can be seen, or of the function's top."""
        key, state = (str(kind), text + literal), self._text
        for scope in state.scopes:
            if key in scope:
                return scope[key]
        written = text or f"arith.constant {f'dense<{literal}>' if kind.lanes else literal} : {kind}"
        if state.top is None:
            made = state.scopes[-1][key] = self.op(written, kind)
            return made
        lines, depth = state.lines, state.depth
        state.lines, state.depth = state.top, 1
        made = state.scopes[0][key] = self.op(written, kind)
        state.lines, state.depth = lines, depth
        return made

    def f32(self, value: float) -> Value:
        """A binary32 constant, written as its bits so that no decimal is ever rounded."""
        return self._constant(self.ty("f32"), f"0x{f32_bits(value):08X}")

    def f64(self, value: float) -> Value:
        """A binary64 constant, written as its bits."""
        return self._constant(self.ty("f64"), _f64_word(value))

    def table(self, values: Sequence[float], element: str = "f64") -> Value:
        """A constant vector of these numbers."""
        words = [_f64_word(value) if element == "f64" else f"0x{f32_bits(value):08X}" for value in values]
        return self._constant(Type(element, len(values)), f"[{listed(words)}]")

    def int(self, value: Number, element: str = "i32") -> Value:
        """An integer constant; values above the signed range wrap."""
        value_type = self.ty(element)
        if value_type.bits > 1 and value >= 1 << (value_type.bits - 1):
            value -= 1 << value_type.bits
        return self._constant(value_type, str(value))

    def zero(self, element: str) -> Value:
        """The constant whose bits are zeros: of f32, of f64, or of integers."""
        floats = {"f32": self.f32, "f64": self.f64}
        return floats[element](0.0) if element in floats else self.int(0, element)

    def number(self, value: Index) -> Value:
        """An i64 scalar: a constant, or the value that it is already."""
        return value if isinstance(value, Value) else self.scalar.int(value, "i64")

    def immediate(self, value: Number, element: str = "i32") -> Value:
        """A scalar that the operand of an intrinsic must have as an immediate."""
        return self._constant(Type(element), "", f"llvm.mlir.constant({value} : {element}) : {element}")

    def counting(self) -> Value:
        """The number of each lane (i32)."""
        return self._constant(self.ty("i32"), f"[{listed(list(range(self.width)))}]")

    # Arithmetic

    def binary(self, name: str, a: Value, b: Value) -> Value:
        """``arith.name a, b``: both of one type, floats or integers as the operation wants."""
        operand_type = self._same(f"arith.{name}", a, b, kinds="f" if name.endswith("f") else "i")
        return self.op(f"arith.{name} {a}, {b} : {operand_type}", operand_type)

    def unary(self, name: str, a: Value) -> Value:
        """``name a``: an operation of arith or math with one float, named with its dialect."""
        operand_type = self._same(name, a, kinds="f")
        return self.op(f"{name} {a} : {operand_type}", operand_type)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """One correctly rounded ``a * b + c``."""
        operand_type = self._same("math.fma", a, b, c, kinds="f")
        return self.op(f"math.fma {a}, {b}, {c} : {operand_type}", operand_type)

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        """``arith.cmpi`` or ``arith.cmpf``, by the type of the operands."""
        operand_type = self._same("arith.cmp", a, b)
        name = "cmpf" if operand_type.is_float else "cmpi"
        return self.op(f"arith.{name} {predicate}, {a}, {b} : {operand_type}", Type("i1", operand_type.lanes))

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """``condition ? a : b``, lane by lane where there are lanes."""
        operand_type, choice = a.type, condition.type
        if b.type != operand_type:
            raise TypeError(f"arith.select {a}: {operand_type}, {b}: {b.type}: operands of one type wanted")
        if choice.element != "i1" or choice.lanes not in (0, operand_type.lanes):
            raise TypeError(f"arith.select: the condition is {choice}, it chooses between values of {operand_type}")
        head = f"{choice}, " if choice.lanes else ""
        return self.op(f"arith.select {condition}, {a}, {b} : {head}{operand_type}", operand_type)

    def cast(self, name: str, a: Value, element: str) -> Value:
        """``arith.name a`` (bitcast, extf, truncf, sitofp, ...) to another element."""
        source, target = a.type, Type(element, a.type.lanes)
        if name == "bitcast" and source.bits != target.bits:
            raise TypeError(f"arith.bitcast {a}: {source} and {target} differ in size")
        grows = target.bits - source.bits
        if (name.startswith("ext") and grows <= 0) or (name.startswith("trunc") and grows >= 0):
            raise TypeError(f"arith.{name} {a}: from {source} to {target}")
        return self.op(f"arith.{name} {a} : {source} to {target}", target)

    def i64(self, name: str, a: Index, b: Index) -> Value:
        """``arith.name a, b`` on i64 scalars."""
        return self.binary(name, self.number(a), self.number(b))

    def rounded_up(self, a: Value, unit: Number) -> Value:
        """The i64 scalar `a` rounded up to a multiple of `unit`, a power of two."""
        return self.i64("andi", self.i64("addi", a, unit - 1), -unit)

    def negated(self, condition: Value) -> Value:
        """Whether the i1 `condition` does not hold."""
        return self.binary("xori", condition, self.scalar.int(-1, "i1"))

    def magnitude(self, a: Value) -> Value:
        """The absolute value of signed integers; the smallest one stays as it is."""
        operand_type = self._same("llvm.intr.abs", a, kinds="i")
        return self.op(
            f'"llvm.intr.abs"({a}) <{{is_int_min_poison = false}}> : ({operand_type}) -> {operand_type}', operand_type
        )

    def intrinsic(self, name: str, *arguments: Value, result: Type | str) -> Value:
        """Call an LLVM intrinsic by its full name."""
        types = listed([a.type for a in arguments])
        return self.op(f'llvm.call_intrinsic "{name}"({listed(arguments)}) : ({types}) -> {result}', result)

    def instruct(self, name: str, *arguments: Value) -> None:
        """Call an LLVM intrinsic that has no result."""
        types = listed([a.type for a in arguments])
        self.line(f'llvm.call_intrinsic "{name}"({listed(arguments)}) : ({types}) -> ()')

    def effect(self, operation: str, *operands: Value, attributes: str) -> None:
        """An operation in the generic syntax that has no result, with these properties."""
        types = listed([a.type for a in operands])
        self.line(f'"{operation}"({listed(operands)}) <{{{attributes}}}> : ({types}) -> ()')

    def assembly(self, text: str, constraints: str, *values: Value) -> list[Value]:
        """Inline assembler with side effects, which gives one result for each of `values`, of its type."""
        types = [v.type for v in values]
        struct = f"!llvm.struct<({listed(types)})>"
        head = f'llvm.inline_asm has_side_effects asm_dialect = att "{text}", "{constraints}"'
        outputs = self.op(f"{head} {listed(values)} : ({listed(types)}) -> {struct}", struct)
        return [
            self.op(f"llvm.extractvalue {outputs}[{n}] : {struct}", output_type) for n, output_type in enumerate(types)
        ]

    def fence(self) -> None:
        """Memory is read anew behind it, and not kept in registers; no instruction."""
        self.line('llvm.fence syncscope("singlethread") acq_rel')

    # Lanes

    def broadcast(self, a: Value) -> Value:
        """A scalar in every lane; the scalar itself where there are no lanes."""
        if a.type.lanes:
            raise TypeError(f"vector.broadcast {a}: a scalar wanted, found {a.type}")
        if not self.width:
            return a
        vector_type = self.ty(a.type.element)
        return self.op(f"vector.broadcast {a} : {a.type} to {vector_type}", vector_type)

    def reduce(self, kind: str, a: Value) -> Value:
        """``vector.reduction <kind>`` of a vector, to a scalar."""
        element = _vector("vector.reduction", a).element
        return self.op(f"vector.reduction <{kind}>, {a} : {a.type} into {element}", element)

    def shuffle(self, a: Value, lanes: Sequence[Number], b: Value | None = None) -> Value:
        """A vector of these lanes of `a`, and of `b`, whose lanes are counted on from those of `a`."""
        vector_type, other = _vector("llvm.shufflevector", a), b or a
        if other.type != vector_type:
            raise TypeError(f"llvm.shufflevector {a}: {vector_type}, {b}: {other.type}: operands of one type wanted")
        return self.op(
            f"llvm.shufflevector {a}, {other} [{listed(lanes)}] : {vector_type}", Type(vector_type.element, len(lanes))
        )

    def joined(self, parts: Sequence[Value]) -> Value:
        """The lanes of vectors of one type, one after the other; there are 1, 2, 4, 8 ... of them."""
        while len(parts) > 1:
            lanes = range(2 * parts[0].type.lanes)
            parts = [self.shuffle(a, lanes, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def gathered(self, values: Sequence[Value]) -> Value:
        """A vector of these scalars."""
        vector_type = Type(values[0].type.element, len(values))
        vector = self.op(f"llvm.mlir.poison : {vector_type}", vector_type)
        for n, value in enumerate(values):
            index = self.scalar.int(n, "i64")
            vector = self.op(f"llvm.insertelement {value}, {vector}[{index} : i64] : {vector_type}", vector_type)
        return vector

    def reinterpret(self, a: Value, type_: Type | str) -> Value:
        """The bits of a value as another type of equal size (``llvm.bitcast``: other numbers of lanes are allowed)."""
        to, source = Type.of(str(type_)), a.type
        if to.bits * max(to.lanes, 1) != source.bits * max(source.lanes, 1):
            raise TypeError(f"llvm.bitcast {a}: {source} and {to} differ in size")
        return self.op(f"llvm.bitcast {a} : {source} to {to}", to)

    # Memory

    def at(self, base: Value, index: Index, element: str = "f32") -> Value:
        """The address of element `index` (a constant or an i64) from the pointer `base`."""
        _is(base, PTR, "the base of an address")
        if isinstance(index, Value):
            _is(index, "i64", "an index")
        types = f"{PTR}, i64" if isinstance(index, Value) else PTR
        return self.op(f"llvm.getelementptr {base}[{index}] : ({types}) -> {PTR}, {element}", PTR)

    def load(
        self,
        address: Value,
        mask: Value | None = None,
        element: str = "f32",
        otherwise: Value | None = None,
        alignment: Number = 4,
    ) -> Value:
        """Load lanes; with a mask, `otherwise` (by default +0) where it is false, and nothing is read there.

        alignment: what the address is a multiple of, in bytes.
        """
        _is(address, PTR, "an address")
        loaded_type = self.ty(element)
        if mask is None:
            return self.op(
                f"llvm.load {address} {{alignment = {alignment} : i64}} : {PTR} -> {loaded_type}", loaded_type
            )
        types = f"({PTR}, {mask.type}, {loaded_type}) -> {loaded_type}"
        other = otherwise or self.zero(element)
        form = f"{{alignment = {alignment} : i32}} : {types}"
        return self.op(f"llvm.intr.masked.load {address}, {mask}, {other} {form}", loaded_type)

    def store(self, value: Value, address: Value, mask: Value | None = None, alignment: Number = 4) -> None:
        """Store lanes, those where the mask is true. alignment: what the address is a multiple of, in bytes."""
        _is(address, PTR, "an address")
        if mask is None:
            self.line(f"llvm.store {value}, {address} {{alignment = {alignment} : i64}} : {value.type}, {PTR}")
        else:
            types = f"{value.type}, {mask.type} into {PTR}"
            self.line(f"llvm.intr.masked.store {value}, {address}, {mask} {{alignment = {alignment} : i32}} : {types}")

    def splat(self, address: Value, element: str = "f32") -> Value:
        """One element from memory in every lane."""
        return self.broadcast(self.scalar.load(address, element=element))

    def words(self, values: Sequence[Number]) -> Value:
        """The address of a constant table of i32 words, which the function brings along."""
        hexadecimal = "".join(f"{_swapped(value):08X}" for value in values)
        name = f"{TABLES}{hashlib.sha256(hexadecimal.encode()).hexdigest()[:16]}"
        dense = f'dense<"0x{hexadecimal}"> : tensor<{len(values)}xi32>'
        array = f"!llvm.array<{len(values)} x i32>"
        self._text.tables[name] = f"llvm.mlir.global internal constant @{name}({dense}) : {array}"
        return self.op(f"llvm.mlir.addressof @{name} : {PTR}", PTR)

    def gather(self, base: Value, index: Value) -> Value:
        """The i32 words of a table in memory at these places (i32), lane by lane."""
        _is(base, PTR, "the base of a table")
        if not self.width:
            return self.load(self.at(base, self.cast("extui", index, "i64"), "i32"), element="i32")
        places = Type(PTR, self.width)
        where = self.op(f"llvm.getelementptr {base}[{index}] : ({PTR}, {index.type}) -> {places}, i32", places)
        words, always = self.ty("i32"), self.int(1, "i1")
        types = f"({places}, {always.type}, {words}) -> {words}"
        form = f"{{alignment = 4 : i32}} : {types}"
        return self.op(f"llvm.intr.masked.gather {where}, {always}, {self.int(0)} {form}", words)

    def fetch(self, base: Value, index: Index, kind: str = "i64") -> Value:
        """Load word `index` of `base`, an i64, i32 or pointer (i32 words are 4 bytes apart, the others 8)."""
        where = self.at(base, index, "i32" if kind == "i32" else "i64")
        return self.op(f"llvm.load {where} : {PTR} -> {kind}", kind)

    def alloca(self, count: Index, element: str, alignment: Number = 0) -> Value:
        """Room for `count` elements on the stack. alignment: of the address, in bytes; 0 for that of the element."""
        aligned = f"{{alignment = {alignment} : i64}} " if alignment else ""
        return self.op(f"llvm.alloca {self.number(count)} x {element} {aligned}: (i64) -> {PTR}", PTR)

    def is_given(self, pointer: Value) -> Value:
        """Whether a pointer is not null."""
        address = self.op(f"llvm.ptrtoint {pointer} : {PTR} to i64", "i64")
        return self.compare("ne", address, self.number(0))

    def null(self) -> Value:
        """The null pointer."""
        return self.op(f"llvm.mlir.zero : {PTR}", PTR)


def _f64_word(value: float) -> str:
    return f"0x{f64_bits(value):016X}"


def _swapped(value: Number) -> Number:
    """A word with its bytes in memory order, as texts of MLIR have them."""
    return int.from_bytes((value & 0xFFFFFFFF).to_bytes(4, "little"), "big")


def _vector(operation: str, a: Value) -> Type:
    if not a.type.lanes:
        raise TypeError(f"{operation} {a}: a vector wanted, found {a.type}")
    return a.type


def _is(a: Value, wanted: str, what: str) -> None:
    if str(a.type) != wanted:
        raise TypeError(f"{what} is {wanted}, found {a}: {a.type}")
