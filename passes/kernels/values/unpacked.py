"""Numbers from codes that follow each other in the bits of words, as in panels of weights (packing/layout.py)."""

from __future__ import annotations

from numc.numerics.formats import RECORDS, Fixed, Format
from numc.numerics.groups import GroupFormat
from numc.passes.kernels.builder import Code
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.codes import emit_widened_top
from numc.passes.kernels.values.listed import emit_listed_value

_MOST_LISTED_BITS = 8
_LARGEST = float(RECORDS["fp32"].max_finite)


def reads_codes(fmt: Format) -> bool:
    """Whether numbers can be made of the codes of a format: by fields, as integers, or by the list of its values."""
    return fmt.is_usual or _is_integer(fmt) or (fmt.parts == 1 and fmt.bits <= _MOST_LISTED_BITS)


def emit_unpacked(
    code: Code, words: tuple[Value, Value | None], first: int | Value, fmt: Format, isa: InstructionSet
) -> Value:
    """Append the float32 numbers whose codes begin at bit `first` (a constant or an i32) of a vector of words.

    words: that vector and the one that follows, None if no code goes on there. fmt: a format that `reads_codes` takes.
    """
    fmt, (low, high) = fmt.part, words
    if high is not None:
        bits, first = _joined(code, low, high, first), 0
    else:
        bits = low
    if (value := _looked_up(code, bits, first, fmt, isa)) is not None:
        return value
    if not (fmt.is_usual or _is_integer(fmt)):
        alone = code.binary("andi", _shifted(code, "shrui", bits, first), code.int((1 << fmt.bits) - 1))
        return emit_listed_value(code, alone, fmt)
    to_top = 32 - fmt.bits - first if isinstance(first, int) else code.binary("subi", code.int(32 - fmt.bits), first)
    top = _shifted(code, "shli", bits, to_top)
    if fmt.is_usual:
        return emit_widened_top(code, top, fmt, clean=high is None and isinstance(first, int) and first == 0)
    units = code.cast("sitofp", code.binary("shrsi", top, code.int(32 - fmt.bits)), "f32")
    return units if fmt.unit_exponent == 0 else code.binary("mulf", units, code.f32(2.0**fmt.unit_exponent))


def emit_scaled(code: Code, element: Value, factor: Value, groups: GroupFormat) -> Value:
    """Append the value of an element of a group, which is to be multiplied by `factor`."""
    product = code.binary("mulf", element, factor)
    if not groups.sums_integers:
        return product
    # The largest integer times its scale may round to an infinity. A NaN stays.
    for predicate, limit in (("ogt", _LARGEST), ("olt", -_LARGEST)):
        bound = code.f32(limit)
        product = code.select(code.compare(predicate, product, bound), bound, product)
    return product


def _is_integer(fmt: Format) -> bool:
    """Whether a code is an integer in two's complement that counts units."""
    return isinstance(fmt, Fixed) and fmt.signed


def _looked_up(code: Code, bits: Value, first: int | Value, fmt: Format, isa: InstructionSet) -> Value | None:
    """The values by a list of them in one register or two, if instructions find them there by the lowest bits."""
    registers = (1 << fmt.bits) // isa.width
    if isa.permute is None or code.width != isa.width or registers > 2:
        return None
    listed = [fmt.decode(n % (1 << fmt.bits)) for n in range(max(1, registers) * isa.width)]
    tables = [code.table(listed[n : n + isa.width], "f32") for n in range(0, len(listed), isa.width)]
    index = _shifted(code, "shrui", bits, first)
    values = [isa.permute(code, table, index) for table in tables]
    if len(values) == 1:
        return values[0]
    last = code.binary("andi", index, code.int(isa.width))
    return code.select(code.compare("eq", last, code.int(0)), values[0], values[1])


def _joined(code: Code, low: Value, high: Value, first: int | Value) -> Value:
    """The bits from bit `first` on, which go on in the next word; in two steps, because no shift is by 32 bits."""
    rest = 31 - first if isinstance(first, int) else code.binary("subi", code.int(31), first)
    above = code.binary("shli", _shifted(code, "shli", high, rest), code.int(1))
    return code.binary("ori", _shifted(code, "shrui", low, first), above)


def _shifted(code: Code, name: str, x: Value, by: int | Value) -> Value:
    if isinstance(by, int):
        return code.binary(name, x, code.int(by)) if by else x
    return code.binary(name, x, by)
