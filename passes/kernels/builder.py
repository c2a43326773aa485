"""A tiny writer of straight-line MLIR text over f32 scalars or vectors.

Arithmetic is written once and used at any width: as a scalar inside a linalg body, as ``vector<16xf32>`` in a
micro-kernel. Text, because generated code is read far more often than it is built.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


def f32_bits(value: float) -> int:
    """Return the binary32 encoding of `value`."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


class Code:
    """Straight-line code over one lane shape; every method appends an operation and returns the name of its result."""

    def __init__(self, width: int = 0, prefix: str = "") -> None:
        """`width` is the number of lanes, 0 for scalars; `prefix` keeps names apart from those of the text around."""
        self.width = width
        self.prefix = prefix
        self.lines: list[str] = []
        self._constants: dict[tuple[str, str], str] = {}
        self._count = 0

    def ty(self, element: str) -> str:
        """Return the lane type with this element type."""
        return f"vector<{self.width}x{element}>" if self.width else element

    def op(self, text: str) -> str:
        """Append ``%new = text``."""
        name = f"%{self.prefix}{self._count}"
        self._count += 1
        self.lines.append(f"{name} = {text}")
        return name

    def _constant(self, element: str, literal: str) -> str:
        key = (element, literal)
        if key not in self._constants:
            value = f"dense<{literal}>" if self.width else literal
            self._constants[key] = self.op(f"arith.constant {value} : {self.ty(element)}")
        return self._constants[key]

    def f32(self, value: float) -> str:
        """A binary32 constant, written as its bits so that no decimal is ever rounded."""
        return self._constant("f32", f"0x{f32_bits(value):08X}")

    def f64(self, value: float) -> str:
        """A binary64 constant, written as its bits."""
        return self._constant("f64", f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}")

    def llvm_constant(self, value: int, element: str = "i32") -> str:
        """A scalar the operand of an intrinsic must have as an immediate."""
        key = ("llvm." + element, str(value))
        if key not in self._constants:
            self._constants[key] = self.op(f"llvm.mlir.constant({value} : {element}) : {element}")
        return self._constants[key]

    def address(self, base: str, index: str | int) -> str:
        """The address of f32 number `index` (a constant or an i64) from the pointer `base`."""
        if isinstance(index, int):
            return self.op(f"llvm.getelementptr {base}[{index}] : (!llvm.ptr) -> !llvm.ptr, f32")
        return self.op(f"llvm.getelementptr {base}[{index}] : (!llvm.ptr, i64) -> !llvm.ptr, f32")

    def fetch_ahead(self, base: str, step: str, words: int) -> None:
        """Ask for f32 number `step` * `words` from `base` to be in the first cache; it need not exist."""
        scalar = Code(0, f"{self.prefix}f")
        place = scalar.binary("muli", step, scalar.int(words, "i64"), "i64")
        hint = "<{rw = 0 : i32, hint = 3 : i32, cache = 1 : i32}>"
        at = scalar.address(base, place)
        self.lines += [*scalar.lines, f'"llvm.intr.prefetch"({at}) {hint} : (!llvm.ptr) -> ()']

    def int(self, value: int, element: str = "i32") -> str:
        """An integer constant; values above the signed range wrap."""
        bits = int(element[1:])
        if bits > 1 and value >= 1 << (bits - 1):
            value -= 1 << bits
        return self._constant(element, str(value))

    def binary(self, name: str, a: str, b: str, element: str = "f32") -> str:
        """``arith.name a, b``."""
        return self.op(f"arith.{name} {a}, {b} : {self.ty(element)}")

    def fma(self, a: str, b: str, c: str, element: str = "f32") -> str:
        """One correctly rounded ``a * b + c``."""
        return self.op(f"math.fma {a}, {b}, {c} : {self.ty(element)}")

    def compare(self, predicate: str, a: str, b: str, element: str = "i32") -> str:
        """``arith.cmpi`` or ``arith.cmpf``, by the element type."""
        kind = "cmpf" if element.startswith("f") else "cmpi"
        return self.op(f"arith.{kind} {predicate}, {a}, {b} : {self.ty(element)}")

    def select(self, condition: str, a: str, b: str, element: str = "f32") -> str:
        """Lane-wise ``condition ? a : b``."""
        types = f"{self.ty('i1')}, {self.ty(element)}" if self.width else self.ty(element)
        return self.op(f"arith.select {condition}, {a}, {b} : {types}")

    def cast(self, name: str, a: str, source: str, target: str) -> str:
        """``arith.name a : source to target`` (bitcast, extf, truncf, ...)."""
        return self.op(f"arith.{name} {a} : {self.ty(source)} to {self.ty(target)}")

    def load(self, address: str, mask: str = "") -> str:
        """Load f32 lanes; with a mask, +0 where it is false, and nothing is read there."""
        if not mask:
            return self.op(f"llvm.load {address} {{alignment = 4 : i64}} : !llvm.ptr -> {self.ty('f32')}")
        types = f"(!llvm.ptr, {self.ty('i1')}, {self.ty('f32')}) -> {self.ty('f32')}"
        return self.op(f"llvm.intr.masked.load {address}, {mask}, {self.f32(0.0)} {{alignment = 4 : i32}} : {types}")

    def store(self, value: str, address: str, mask: str = "") -> None:
        """Store f32 lanes, those where the mask is true."""
        if not mask:
            self.lines.append(f"llvm.store {value}, {address} {{alignment = 4 : i64}} : {self.ty('f32')}, !llvm.ptr")
        else:
            types = f"{self.ty('f32')}, {self.ty('i1')} into !llvm.ptr"
            self.lines.append(f"llvm.intr.masked.store {value}, {address}, {mask} {{alignment = 4 : i32}} : {types}")

    def splat(self, address: str) -> str:
        """One f32 from memory in every lane."""
        scalar = self.op(f"llvm.load {address} {{alignment = 4 : i64}} : !llvm.ptr -> f32")
        return self.op(f"vector.broadcast {scalar} : f32 to {self.ty('f32')}") if self.width else scalar

    def text(self, indent: str = "    ") -> str:
        """The code, one operation a line."""
        return "\n".join(indent + line for line in self.lines)


# Functions of a generated module that LLVM must not inline: each is compiled once, whoever calls it.
APART = "attributes {no_inline, llvm.no_inline}"


class Function(Code):
    """A function of pointers and i64 numbers, with loops. Its constants stand at its top."""

    def __init__(self, name: str, arguments: Mapping[str, str], results: str = "") -> None:
        """`arguments`: their names, with the percent sign, and types; `results`: types."""
        super().__init__(0, "v")
        listed = ", ".join(f"{n}: {t}" for n, t in arguments.items())
        self._results = results
        self._head = f"func.func private @{name}({listed}) -> ({results}) {APART} {{"
        self._top: list[str] = []
        self._depth = 1

    def op(self, text: str) -> str:
        """Append ``%new = text``."""
        name = super().op(text)
        self.lines[-1] = "  " * self._depth + self.lines[-1]
        return name

    def line(self, text: str) -> None:
        """Append an operation without a result."""
        self.lines.append("  " * self._depth + text)

    def _constant(self, element: str, literal: str) -> str:
        before = self.lines
        self.lines = self._top
        try:
            return super()._constant(element, literal)
        finally:
            self.lines = before

    def number(self, value: int | str) -> str:
        """An i64 constant; a name stays what it is."""
        return value if isinstance(value, str) else self.int(value, "i64")

    def i64(self, name: str, a: int | str, b: int | str) -> str:
        """``arith.name a, b`` on i64 numbers."""
        return self.binary(name, self.number(a), self.number(b), "i64")

    def at(self, base: str, index: int | str, element: str = "f32") -> str:
        """The address of element `index` from the pointer `base`."""
        if isinstance(index, int):
            return self.op(f"llvm.getelementptr {base}[{index}] : (!llvm.ptr) -> !llvm.ptr, {element}")
        return self.op(f"llvm.getelementptr {base}[{index}] : (!llvm.ptr, i64) -> !llvm.ptr, {element}")

    def fetch(self, base: str, index: int | str, kind: str = "i64") -> str:
        """Load word `index` of `base`, an i64, i32 or pointer (i32 words are 4 bytes apart, the others 8)."""
        return self.op(f"llvm.load {self.at(base, index, 'i32' if kind == 'i32' else 'i64')} : !llvm.ptr -> {kind}")

    def negated(self, condition: str) -> str:
        """Whether the i1 `condition` does not hold."""
        return self.binary("xori", condition, self.int(-1, "i1"), "i1")

    def is_given(self, pointer: str) -> str:
        """Whether a pointer is not null."""
        return self.compare("ne", self.op(f"llvm.ptrtoint {pointer} : !llvm.ptr to i64"), self.number(0), "i64")

    def call(self, name: str, *arguments: str, types: str, results: str = "", dialect: str = "func") -> list[str]:
        """Call a function; returns the names of its results."""
        text = f"{dialect}.call @{name}({', '.join(arguments)}) : ({types}) -> ({results})"
        if not results:
            self.line(text)
            return []
        return self.several(text, results.count(",") + 1)

    @contextmanager
    def loop(self, start: int | str, end: int | str, step: int | str = 1) -> Iterator[str]:
        """A loop over i64 numbers; yields the name of the induction variable."""
        name = f"%i{self._count}"
        self._count += 1
        bounds = f"{self.number(start)} to {self.number(end)} step {self.number(step)}"
        with self._block(f"scf.for {name} = {bounds} : i64 {{"):
            yield name

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Code that runs if the i1 `condition` holds."""
        with self._block(f"scf.if {condition} {{"):
            yield

    def several(self, text: str, count: int) -> list[str]:
        """Append ``%new:count = text``; returns the names of the results."""
        name = self.op(text)
        if count == 1:
            return [name]
        self.lines[-1] = self.lines[-1].replace(f"{name} =", f"{name}:{count} =", 1)
        return [f"{name}#{n}" for n in range(count)]

    @contextmanager
    def carrying(self, bounds: str, start: Mapping[str, str], *kinds: str) -> Iterator[list[str]]:
        """A loop that carries values, given by name with what they start from; yields the results.

        `kinds`: their types, or the one that all have.
        """
        carried = ", ".join(f"{name} = {value}" for name, value in start.items())
        types = ", ".join(kinds * (len(start) // len(kinds)))
        found = self.several(f"scf.for {bounds} iter_args({carried}) -> ({types}) : i64 {{", len(start))
        self._depth += 1
        yield found
        self._depth -= 1
        self.line("}")

    @contextmanager
    def part(self, width: int) -> Iterator[Code]:
        """Straight-line code on `width` lanes; it gets constants of its own."""
        code = Code(width, f"p{self._count}_")
        self._count += 1
        yield code
        self.lines += code.lines

    @contextmanager
    def _block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")

    def function(self, *results: str) -> str:
        """The whole function, returning these values."""
        end = f"  return {', '.join(results)} : {self._results}" if results else "  return"
        return "\n".join(["", self._head, *("  " + line for line in self._top), *self.lines, end, "}"])
