"""Whole numbers of a graph in vectors of integers: each in the smallest width that holds its range."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from numc.numerics.circuits.number import Number
from numc.passes.kernels.builder import Code
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.ssa import Value

_WIDTHS = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
_MOST_SELECTED = 16  # values of a table that are selected from one by one
_CONDITIONS = {"lt": "slt", "le": "sle", "eq": "eq", "ne": "ne"}
_BITS: Mapping[str, str] = MappingProxyType({
    "add": "addi", "sub": "subi", "mul": "muli", "and": "andi", "or": "ori", "xor": "xori",
})  # fmt: skip
_ENDS: Mapping[str, str] = MappingProxyType({"min": "minsi", "max": "maxsi"})


def element_of(*numbers: Number) -> str:
    """Return the type that holds all of these numbers, as integers with signs."""
    most = max(max(n.high.bit_length(), (~n.low).bit_length()) for n in numbers) + 1
    return f"i{next(width for width in _WIDTHS if width >= most)}"


def to_element(code: Code, x: Value, element: str) -> Value:
    """Append a number in another type, which holds it; a condition is 1 or 0."""
    have, want = x.type.bits, int(element[1:])
    if have == 1:
        return code.cast("extui", x, element)
    return x if have == want else code.cast("extsi" if have < want else "trunci", x, element)


def condition(code: Code, x: Value) -> Value:
    """Append whether a number is not zero."""
    return x if x.type.bits == 1 else code.compare("ne", x, code.int(0, x.type.element))


def emit_integer(code: Code, n: Number, args: Sequence[Value], isa: InstructionSet) -> Value:
    """Append an operation on whole numbers; of a comparison the result is an i1."""
    own = element_of(n)
    if n.op == "constant":
        assert isinstance(n.data, int)
        return constant(code, n.data, own)
    if n.op == "mul" and own == "i32" and isa.half_product and all(_is_half(each) for each in n.args):
        return isa.half_product(code, *(to_element(code, x, own) for x in args))
    if n.op in _BITS:  # the low bits of the result are those of the operands'
        if all(x.type.bits == 1 for x in args) and n.op in ("and", "or", "xor"):
            return code.binary(_BITS[n.op], *args)
        return code.binary(_BITS[n.op], *(to_element(code, x, own) for x in args))
    if n.op in _CONDITIONS:
        wide = element_of(*n.args)
        return code.compare(_CONDITIONS[n.op], *(to_element(code, x, wide) for x in args))
    if n.op in _ENDS:
        wide = element_of(*n.args)
        return to_element(code, code.binary(_ENDS[n.op], *(to_element(code, x, wide) for x in args)), own)
    if n.op == "shr":
        return _shifted_down(code, n, args, own, isa)
    return _OTHERS[n.op](code, n, args, own)


def constant(code: Code, value: int, element: str) -> Value:
    """Append an integer of any width."""
    bits = int(element[1:])
    return code.int(value & ((1 << bits) - 1), element)


def _is_half(n: Number) -> bool:
    """Whether a number is one of 16 bits with a sign, which it does not have."""
    return n.low >= 0 and n.high < 1 << 15


def _shifted_up(code: Code, n: Number, args: Sequence[Value], own: str) -> Value:
    # A zero may be shifted by more than its type has bits.
    amount = code.binary("minui", to_element(code, args[1], own), constant(code, int(own[1:]) - 1, own))
    fits = n.args[1].high < int(own[1:])
    return code.binary("shli", to_element(code, args[0], own), to_element(code, args[1], own) if fits else amount)


def _shifted_down(code: Code, n: Number, args: Sequence[Value], own: str, isa: InstructionSet) -> Value:
    wide = element_of(n.args[0])
    amount = to_element(code, args[1], wide if n.args[1].high < 1 << 31 else element_of(n.args[1]))
    x, bits = to_element(code, args[0], wide), int(wide[1:])
    shift = "shrsi" if n.args[0].low < 0 else "shrui"
    if n.args[1].high < bits:
        shifted = code.binary(shift, x, amount)
    elif n.args[0].low < 0:
        shifted = code.binary(shift, x, code.binary("minui", amount, constant(code, bits - 1, wide)))
    elif bits == 32:
        shifted = isa.shifted_down(code, x, amount)
    else:
        inside = code.compare("ult", amount, constant(code, bits, wide))
        shifted = code.select(inside, code.binary(shift, x, amount), constant(code, 0, wide))
    return to_element(code, shifted, own)


def _selected(code: Code, n: Number, args: Sequence[Value], own: str) -> Value:
    if all(x.type.bits == 1 for x in args[1:]):
        return code.select(condition(code, args[0]), args[1], args[2])
    return code.select(condition(code, args[0]), *(to_element(code, x, own) for x in args[1:]))


def _leading_zeros(code: Code, n: Number, args: Sequence[Value], own: str) -> Value:
    """Of fewer than 32 bits by the exponent of a binary32 number, which every processor's vectors have."""
    x, width = n.args
    if x.high < 1 << 31:
        small = to_element(code, args[0], "i32")
        # No bit follows the highest one, so that the conversion rounds to no greater power of two.
        spread = code.binary("andi", small, code.binary("xori", code.binary("shrui", small, code.int(1)), code.int(-1)))
        bits = code.cast("bitcast", code.cast("sitofp", spread, "f32"), "i32")
        exponent = code.binary("subi", code.binary("shrui", bits, code.int(23)), code.int(126))
        length = code.select(code.compare("eq", small, code.int(0)), code.int(0), exponent)
        return to_element(code, code.binary("subi", code.int(width.low), length), own)
    wide = element_of(x)
    value = to_element(code, args[0], wide)
    count = code.op(
        f'"llvm.intr.ctlz"({value}) <{{is_zero_poison = false}}> : ({value.type}) -> {value.type}', value.type
    )
    return to_element(code, code.binary("subi", count, constant(code, int(wide[1:]) - width.low, wide)), own)


def _looked_up(code: Code, n: Number, args: Sequence[Value], own: str) -> Value:
    assert isinstance(n.data, tuple)
    low, high = n.args[0].low, n.args[0].high
    reached = n.data[low : high + 1]
    index = to_element(code, args[0], "i32")
    index = code.binary("subi", index, code.int(low)) if low else index
    if len(reached) > _MOST_SELECTED:
        return _in_memory(code, reached, index, own)
    values = [constant(code, each, own) for each in reached]
    bit = 0
    while len(values) > 1:  # pairs that differ in the lowest bit first
        odd = code.compare("ne", code.binary("andi", index, code.int(1 << bit)), code.int(0))
        pairs = [values[k : k + 2] for k in range(0, len(values), 2)]
        values = [pair[0] if len(pair) == 1 else code.select(odd, pair[1], pair[0]) for pair in pairs]
        bit += 1
    return values[0]


def _in_memory(code: Code, values: Sequence[int], index: Value, own: str) -> Value:
    """From words of 32 bits; of wider values the words of each piece are a table, the lowest first."""
    table = None
    for low in range(0, int(own[1:]), 32):
        words = code.gather(code.words([value >> low & 0xFFFFFFFF for value in values]), index)
        if own == "i32":
            return words
        piece = code.binary("shli", code.cast("extui", words, own), constant(code, low, own))
        table = piece if table is None else code.binary("ori", table, piece)
    assert table is not None
    return table


def _bounded(code: Code, n: Number, args: Sequence[Value], own: str) -> Value:
    return to_element(code, args[0], own)


_OTHERS: Mapping[str, Callable[[Code, Number, Sequence[Value], str], Value]] = MappingProxyType({
    "shl": _shifted_up,
    "select": _selected,
    "lzc": _leading_zeros,
    "lookup": _looked_up,
    "within": _bounded,
})  # fmt: skip
