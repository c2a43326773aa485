"""Operations of arith and math on tiles, as text of Triton: what a kernel's line says for each of them.

A tile has a value for every element that a program instance computes; an operation of MLIR on scalars becomes one on
tiles. The text means to the bit what MLIR's operation does: FMAs are asked for by name and never made (kernels are
compiled without contraction), divisions and square roots are the rounded ones, and integers without a sign are cast.
Triton's language (``tl``) and Gluon's (``gl``) have the same names for all of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from torch_mlir import ir

from numc.passes.gpu.tile_instructions import LARGER_MAGNITUDE

DTYPES: Mapping[str, str] = {
    "i1": "int1",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "index": "int64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
}
"""Element types of MLIR, and Triton's names of them."""

_ORDERED = {"oeq": "==", "ogt": ">", "oge": ">=", "olt": "<", "ole": "<="}
_UNORDERED = {"une": "==", "ule": ">", "ult": ">=", "uge": "<", "ugt": "<="}
_SIGNED = {"eq": "==", "ne": "!=", "sgt": ">", "sge": ">=", "slt": "<", "sle": "<="}
_UNSIGNED = {"ugt": ">", "uge": ">=", "ult": "<", "ule": "<="}
_FLOAT_PREDICATES = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno"),
    "true",
)
_INT_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


class UnknownError(Exception):
    """An operation that has no text on tiles; the message is its name and types."""


def text_of(op: ir.Operation, operands: Sequence[str], language: str, let: Callable[[str], str]) -> str:
    """Return the expression for an operation of arith or math, given those of its operands.

    language: ``tl`` or ``gl``. let: gives an expression a name, in a line before. Raises UnknownError for an operation
    that tiles lack.
    """
    write = _TABLE.get(op.name)
    if write is None:
        raise UnknownError(f"{op.name} on {', '.join(str(v.type) for v in op.operands) or op.results[0].type}")
    return write(_Line(op, operands, language, let))


def constant(value: ir.Attribute, language: str) -> str:
    """Return a constant: floats by their bits, so that no decimal is rounded. Raises UnknownError for other types."""
    dtype = str(value.type)
    if dtype not in DTYPES:
        raise UnknownError(f"arith.constant of {dtype}")
    if isinstance(value, ir.FloatAttr):
        return float_constant(value.value, dtype, language)
    number = int(value.value)  # type: ignore[attr-defined]
    return full(str(bool(number)) if dtype == "i1" else str(number), dtype, language)


def float_constant(value: float, dtype: str, language: str) -> str:
    """Return a constant of f32 or f64; as a decimal where that is exact. Raises UnknownError for narrow types."""
    if dtype not in ("f32", "f64"):
        raise UnknownError(f"arith.constant of {dtype}")
    if value == value and abs(value) < 2.0**24 and value == int(value) and str(value) != "-0.0":
        return full(f"{value:.1f}", dtype, language)
    code, integer = ("<f", "<i") if dtype == "f32" else ("<d", "<q")
    (bits,) = struct.unpack(integer, struct.pack(code, value))
    return cast(full(str(bits), "i32" if dtype == "f32" else "i64", language), dtype, language, bits=True)


def full(text: str, dtype: str, language: str) -> str:
    """Return a scalar constant of a type."""
    if language == "tl":
        return f"tl.full([], {text}, tl.{DTYPES[dtype]})"
    return f"gl.to_tensor({text}).to(gl.{DTYPES[dtype]})"


def cast(x: str, dtype: str, language: str, *, bits: bool = False) -> str:
    """Return `x` as another type: its number, or the same `bits`."""
    return f"{x}.to({language}.{DTYPES[dtype]}{', bitcast=True' if bits else ''})"


class _Line:
    """An operation, its operands as text, and the language that is written."""

    def __init__(self, op: ir.Operation, operands: Sequence[str], language: str, let: Callable[[str], str]) -> None:
        self.op, self.x, self.language, self.let = op, operands, language, let
        self.dtype = str(op.operands[0].type) if len(op.operands) else ""
        self.result = str(op.results[0].type)
        for dtype in (self.dtype, self.result):
            if dtype and dtype not in DTYPES:
                raise UnknownError(f"{op.name} on {dtype}")

    def unsigned(self, n: int, dtype: str = "") -> str:
        """Operand `n` as an integer without a sign."""
        name = DTYPES[dtype or self.dtype]
        return self.x[n] if name == "int1" else f"{self.x[n]}.to({self.language}.u{name}, bitcast=True)"

    def back(self, text: str) -> str:
        """An integer without a sign as the type of the result."""
        return f"({text}).to({self.language}.{DTYPES[self.result]}, bitcast=True)"

    def call(self, name: str, *arguments: str) -> str:
        return f"{self.language}.{name}({', '.join(arguments or self.x)})"

    def where(self, condition: str, a: str, b: str) -> str:
        return f"{self.language}.where({condition}, {a}, {b})"

    def integer(self, n: int) -> str:
        """The bits of operand `n`, a float."""
        return cast(self.x[n], "i32" if self.dtype == "f32" else "i64", self.language, bits=True)


def _infix(sign: str) -> Callable[[_Line], str]:
    return lambda line: f"{line.x[0]} {sign} {line.x[1]}"


def _unsigned(sign: str) -> Callable[[_Line], str]:
    return lambda line: line.back(f"{line.unsigned(0)} {sign} {line.unsigned(1)}")


def _named(name: str) -> Callable[[_Line], str]:
    return lambda line: line.call(name)


def _number(line: _Line) -> str:
    return cast(line.x[0], line.result, line.language)


def _same_bits(line: _Line) -> str:
    return cast(line.x[0], line.result, line.language, bits=True)


def _zero_extended(line: _Line) -> str:
    if line.dtype == "i1":  # true is 1, and -1 as a number of one bit
        return line.where(line.x[0], full("1", line.result, line.language), full("0", line.result, line.language))
    return line.back(f"{line.unsigned(0)}.to({line.language}.u{DTYPES[line.result]})")


def _sign_extended(line: _Line) -> str:
    if line.dtype == "i1":
        return line.where(line.x[0], full("-1", line.result, line.language), full("0", line.result, line.language))
    return _number(line)


def _cut(line: _Line) -> str:
    if line.result == "i1":
        return f"({line.x[0]} & {full('1', line.dtype, line.language)}) != {full('0', line.dtype, line.language)}"
    return _number(line)


def _from_unsigned(line: _Line) -> str:
    if line.dtype == "i1":
        ends = (float_constant(value, line.result, line.language) for value in (1.0, 0.0))
        return line.where(line.x[0], *ends)
    return cast(line.unsigned(0), line.result, line.language)


def _compare_floats(line: _Line) -> str:
    a, b = line.x
    predicate = _FLOAT_PREDICATES[int(ir.IntegerAttr(line.op.attributes["predicate"]).value)]
    if predicate in _ORDERED:
        return f"{a} {_ORDERED[predicate]} {b}"
    if predicate in _UNORDERED:  # true where the opposite does not hold, as with a NaN
        return f"~({a} {_UNORDERED[predicate]} {b})"
    if predicate == "uno":
        return f"~({a} == {a})" if a == b else f"~(({a} == {a}) & ({b} == {b}))"
    if predicate == "ord":
        return f"{a} == {a}" if a == b else f"({a} == {a}) & ({b} == {b})"
    if predicate in ("one", "ueq"):
        apart = f"({a} < {b}) | ({a} > {b})"
        return apart if predicate == "one" else f"~({apart})"
    return f"({a} == {a}) {'|' if predicate == 'true' else '&'} ~({a} == {a})"


def _compare_ints(line: _Line) -> str:
    predicate = _INT_PREDICATES[int(ir.IntegerAttr(line.op.attributes["predicate"]).value)]
    if predicate in _SIGNED:
        return f"{line.x[0]} {_SIGNED[predicate]} {line.x[1]}"
    return f"{line.unsigned(0)} {_UNSIGNED[predicate]} {line.unsigned(1)}"


def _extreme(sign: str, *, numbers: bool) -> Callable[[_Line], str]:
    """The larger or the smaller one, of zeros +0 or -0; a NaN if one is, or if both are (`numbers`)."""

    def write(line: _Line) -> str:
        a, b = line.x
        both = f"({line.integer(0)} {'&' if sign == '>' else '|'} {line.integer(1)})"
        equal = cast(both, line.dtype, line.language, bits=True)
        taken = line.where(f"{a} == {b}", equal, line.where(f"{a} {sign} {b}", a, b))
        keeps = (b, a) if numbers else (a, b)
        taken = line.where(f"{b} == {b}", taken, keeps[1])
        return line.where(f"{a} == {a}", taken, keeps[0])

    return write


def _whole_extreme(sign: str, *, unsigned: bool) -> Callable[[_Line], str]:
    def write(line: _Line) -> str:
        a, b = (line.unsigned(n) for n in (0, 1)) if unsigned else line.x
        return line.where(f"{a} {sign} {b}", line.x[0], line.x[1])

    return write


def _floored(line: _Line) -> str:
    """The quotient of integers, downwards: one less than towards zero where that was cut and has a minus."""
    a, b = line.x
    quotient = line.let(f"{a} // {b}")
    below = line.let(f"({quotient} * {b} != {a}) & ((({a} ^ {b})) < 0)")
    unit = full("1", line.dtype, line.language)
    return f"{quotient} - {line.where(below, unit, f'{unit} - {unit}')}"


def _divided(line: _Line) -> str:
    return line.call("div_rn") if line.dtype == "f32" else f"{line.x[0]} / {line.x[1]}"


def _remainder(line: _Line) -> str:
    """The rest of x after whole multiples of y, with the sign of x, exactly.

    In binary64, multiples of y * 2^k are taken away for falling k: a quotient of 24 bits at most, one too many or too
    few perhaps, times a number of 24 bits is exact, and so is the difference.
    """
    if line.dtype != "f32":
        raise UnknownError(f"{line.op.name} on {line.dtype}")
    size = [line.let(cast(_magnitude(line, n), "f64", line.language)) for n in (0, 1)]
    rest, zero = size[0], float_constant(0.0, "f64", line.language)
    for k in range(264, -1, -24):
        unit = line.let(f"{size[1]} * {float_constant(2.0**k, 'f64', line.language)}")
        count = line.let(line.call("floor", f"{rest} / {unit}"))
        less = line.let(line.where(f"{rest} >= {unit}", f"{rest} - {count} * {unit}", rest))
        less = line.let(line.where(f"{less} < {zero}", f"{less} + {unit}", less))
        rest = line.let(line.where(f"{less} >= {unit}", f"{less} - {unit}", less))
    taken = line.let(_with_sign(line, _bits(line, cast(rest, "f32", line.language)), 0))
    x, y = line.x
    infinite = float_constant(float("inf"), "f32", line.language)
    small = cast(size[1], "f32", line.language)
    taken = line.let(line.where(f"{small} == {infinite}", x, taken))
    none = f"({x} - {x} == {x} - {x}) & ({y} == {y}) & ({small} != 0.0)"
    return line.where(none, taken, float_constant(float("nan"), "f32", line.language))


def _intrinsic(line: _Line) -> str:
    name = ir.StringAttr(line.op.attributes["intrin"]).value
    if name != LARGER_MAGNITUDE or line.language != "gl":
        raise UnknownError(f"{name} in {line.language}")
    return f"at_least({', '.join(line.x)})"


def _root(line: _Line) -> str:
    return line.call("sqrt_rn" if line.dtype == "f32" else "sqrt")


def _negated(line: _Line) -> str:
    # Triton's minus is 0 - x, which is +0 for +0.
    return f"{line.x[0]} * {float_constant(-1.0, line.dtype, line.language)}"


def _signed_like(line: _Line) -> str:
    return _with_sign(line, f"{line.integer(0)} & {_masks(line)[0]}", 1)


def _with_sign(line: _Line, magnitude: str, n: int) -> str:
    """A magnitude, as its bits, with the sign of operand `n`."""
    return cast(f"(({magnitude}) | ({line.integer(n)} & {_masks(line)[1]}))", line.dtype, line.language, bits=True)


def _masks(line: _Line) -> tuple[str, str]:
    """All bits of a float but its sign, and its sign."""
    dtype, low = ("i32", 0x7FFFFFFF) if line.dtype == "f32" else ("i64", 0x7FFFFFFFFFFFFFFF)
    return full(str(low), dtype, line.language), full(str(-low - 1), dtype, line.language)


def _bits(line: _Line, x: str) -> str:
    return cast(f"({x})", "i32" if line.dtype == "f32" else "i64", line.language, bits=True)


def _magnitude(line: _Line, n: int = 0) -> str:
    return cast(f"({line.integer(n)} & {_masks(line)[0]})", line.dtype, line.language, bits=True)


def _whole(direction: str) -> Callable[[_Line], str]:
    """A whole number: ``even``, the nearest and the even one of two; ``down``, ``up`` or towards ``zero``.

    The magnitude is rounded by adding and taking away the first float without fractions, then it is one less, or more,
    where that went too far. Triton's own floor and ceil replace subnormal numbers by zeros first.
    """

    def write(line: _Line) -> str:
        language, dtype = line.language, line.dtype
        magic = float_constant(2.0**23 if dtype == "f32" else 2.0**52, dtype, language)
        size = line.let(_magnitude(line))
        near = line.let(f"({size} + {magic}) - {magic}")
        if direction != "even":
            unit, zero = (float_constant(value, dtype, language) for value in (1.0, 0.0))
            less, more = f"{near} > {size}", f"{near} < {size}"
            negative = f"{line.x[0]} < {zero}"
            cut = line.let(line.where(less, f"{near} - {unit}", near))
            if direction == "zero":
                near = cut
            else:
                raised = line.let(line.where(more, f"{near} + {unit}", near))
                near = line.let(line.where(negative, *((raised, cut) if direction == "down" else (cut, raised))))
        return line.where(f"{size} < {magic}", _with_sign(line, _bits(line, near), 0), line.x[0])

    return write


def _leading_zeros(line: _Line) -> str:
    """Of i32 and i64, by halves: what is empty above is shifted out."""
    bits = 32 if line.dtype == "i32" else 64
    unsigned = f"{line.language}.u{DTYPES[line.dtype]}"
    count, value = full("0", line.dtype, line.language), line.let(line.unsigned(0))
    unit = full("1", line.dtype, line.language)
    step = bits // 2
    while step:
        empty = line.let(f"({value} >> {bits - step}) == 0")
        shift = line.let(line.where(empty, full(str(step), line.dtype, line.language), f"{unit} - {unit}"))
        count = line.let(f"{count} + {shift}")
        value = line.let(f"{value} << {shift}.to({unsigned}, bitcast=True)")
        step //= 2
    return f"{count} + {line.where(f'{value} == 0', unit, f'{unit} - {unit}')}"


_TABLE: Mapping[str, Callable[[_Line], str]] = {
    "arith.addf": _infix("+"),
    "arith.subf": _infix("-"),
    "arith.mulf": _infix("*"),
    "arith.divf": _divided,
    "arith.remf": _remainder,
    "arith.negf": _negated,
    "arith.cmpf": _compare_floats,
    "arith.maximumf": _extreme(">", numbers=False),
    "arith.minimumf": _extreme("<", numbers=False),
    "arith.maxnumf": _extreme(">", numbers=True),
    "arith.minnumf": _extreme("<", numbers=True),
    "arith.addi": _infix("+"),
    "arith.subi": _infix("-"),
    "arith.muli": _infix("*"),
    "arith.divsi": _infix("//"),
    "arith.floordivsi": _floored,
    "arith.remsi": _infix("%"),
    "arith.divui": _unsigned("//"),
    "arith.remui": _unsigned("%"),
    "arith.andi": _infix("&"),
    "arith.ori": _infix("|"),
    "arith.xori": _infix("^"),
    "arith.shli": _infix("<<"),
    "arith.shrsi": _infix(">>"),
    "arith.shrui": _unsigned(">>"),
    "arith.cmpi": _compare_ints,
    "arith.maxsi": _whole_extreme(">", unsigned=False),
    "arith.minsi": _whole_extreme("<", unsigned=False),
    "arith.maxui": _whole_extreme(">", unsigned=True),
    "arith.minui": _whole_extreme("<", unsigned=True),
    "arith.select": lambda line: line.call("where"),
    "arith.bitcast": _same_bits,
    "arith.extf": _number,
    "arith.truncf": _number,
    "arith.sitofp": _number,
    "arith.fptosi": _number,
    "arith.uitofp": _from_unsigned,
    "arith.fptoui": lambda line: line.back(f"{line.x[0]}.to({line.language}.u{DTYPES[line.result]})"),
    "arith.extsi": _sign_extended,
    "arith.extui": _zero_extended,
    "arith.trunci": _cut,
    "arith.index_cast": _sign_extended,
    "arith.index_castui": _zero_extended,
    "math.fma": _named("fma"),
    "math.sqrt": _root,
    "math.absf": _magnitude,
    "math.absi": lambda line: line.where(f"{line.x[0]} < 0", f"0 - {line.x[0]}", line.x[0]),
    "math.floor": _whole("down"),
    "math.ceil": _whole("up"),
    "math.trunc": _whole("zero"),
    "math.roundeven": _whole("even"),
    "math.copysign": _signed_like,
    "math.ctlz": _leading_zeros,
    "llvm.call_intrinsic": _intrinsic,
    "llvm.intr.abs": lambda line: line.where(f"{line.x[0]} < 0", f"0 - {line.x[0]}", line.x[0]),
}
