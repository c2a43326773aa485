"""lower-numc: the numc operations left in linalg bodies become calls of small private functions, to be inlined.

So do conversions to and from narrow dtypes, which change no number: instructions for them flush subnormals, or are
missing on some processors.

A stochastic rounding takes more than its operand: the stream of its operation, for which the runtime is asked each time
that the linalg operation runs, and the index of its element. An accumulator draws by the element of the output and by
the step k of the reduction; a conversion draws by the position in all loops, of which those of the output come first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from torch_mlir import ir

from numc.numerics.dtypes import NARROW_ELEMENTS, Narrow
from numc.numerics.formats import Conversion, Noise
from numc.numerics.operators import Fma
from numc.passes import linalg
from numc.passes.dialect import conversion_of, fma_of, number_of, slot_of, slots_of
from numc.passes.kernels.builder import Function
from numc.passes.kernels.datapaths.datapath import NOTHING, Drawn, product_numbers
from numc.passes.kernels.datapaths.table import emit_fma
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import F32, F64
from numc.passes.kernels.values.codes import emit_encoded, emit_narrowed, emit_widened
from numc.passes.kernels.values.random_bits import (
    emit_conversion_noise,
    emit_draw,
    emit_element,
    emit_group,
    emit_mix,
    run_of,
)
from numc.passes.kernels.values.rounding import emit_parts, emit_round
from numc.passes.kernels.values.widths import run_time
from numc.passes.parsed import parsed
from numc.support.errors import NumcError

STREAM, _WIDTH = "numc_stream", "numc_width_of"


def lower_numc(module: ir.Operation) -> None:
    """Replace the roundings and multiply-adds that are left by calls of functions with their exact scalar sequences."""
    with module.context, ir.Location.unknown():
        symbols: dict[str, str] = {}
        for op in linalg.operations(module):
            told: list[ir.Value] = []
            if op.name == "numc.round":
                to = conversion_of(op)
                if to.noise is not None:
                    place = _Place.of(module, op)
                    told = [place.stream, place.linear([*place.parallel, *place.reductions])]
                if (slot := slot_of(op)) is not None:
                    told.append(width(module, _loops(op), slot))
                element_type = str(op.operands[0].type)
                name = _define(
                    module, symbols, f"round {to} {element_type}", partial(_round_function, to=to, kind=element_type)
                )
            elif op.name == "numc.fma":
                fma = fma_of(op)
                _reject_reduction(op, fma)
                if fma.draws:
                    place = _Place.of(module, op)
                    told = [place.stream, place.linear(place.parallel), place.linear(place.reductions)]
                if fma.product is not None and fma.product.open is not None:
                    told.append(width(module, _loops(op), slots_of(op)["product"]))
                name = _define(module, symbols, f"fma {fma}", partial(_fma_function, fma=fma))
            elif op.name == "numc.encode":
                to, element_type = conversion_of(op), str(op.results[0].type)
                name = _define(module, symbols, f"encode {to}", partial(_encode_function, to=to, kind=element_type))
            elif op.name in ("arith.extf", "arith.truncf") and (narrow := _narrow_of(op)):
                name = _define(module, symbols, f"{op.name} {narrow.name}", partial(_narrow_function, op.name, narrow))
            else:
                continue
            with ir.InsertionPoint(op), op.location:
                call = ir.Operation.create(
                    "func.call",
                    results=[op.results[0].type],
                    operands=[*op.operands, *told],
                    attributes={"callee": ir.FlatSymbolRefAttr.get(name)},
                )
            linalg.replace(op, call.results)


def _narrow_of(op: ir.Operation) -> Narrow | None:
    """The narrow dtype that a conversion is from or to; None for other conversions."""
    element_types = (op.operands[0].type, op.results[0].type)
    return next(
        (NARROW_ELEMENTS[str(element_type)] for element_type in element_types if str(element_type) in NARROW_ELEMENTS),
        None,
    )


def _loops(op: ir.Operation) -> ir.Operation:
    """The linalg.generic that an operation is in the body of, or the operation itself."""
    while op.parent is not None and op.parent.name != "func.func":
        op = op.parent.operation
        if op.name == "linalg.generic":
            return op
    return op


def _reject_reduction(op: ir.Operation, fma: Fma) -> None:
    if fma.groups or fma.datapath != fma.datapath.step:
        raise NumcError(
            f"{op.location}: '{fma}' needs reductions whose body is one multiply-add, this one does more: "
            f"use '{fma.step}'"
        )


def stream(module: ir.Operation, before: ir.Operation, number: int) -> ir.Value:
    """Ask the runtime, before an operation, for the stream of operation `number` (i64)."""
    return _asked(module, before, STREAM, number)


def width(module: ir.Operation, before: ir.Operation, slot: int) -> ir.Value:
    """Ask the runtime, before an operation, for the widths in a slot (i64), as values/widths.py takes them."""
    return _asked(module, before, _WIDTH, slot)


def _asked(module: ir.Operation, before: ir.Operation, function: str, number: int) -> ir.Value:
    block = module.regions[0].blocks[0]
    if function not in _names(block):
        text = f"func.func private @{function}(i64) -> i64"
        ir.InsertionPoint(block).insert(parsed(text).body.operations[0].operation.clone())
    with ir.InsertionPoint(before), before.location:
        return _create("func.call", [_number(number)], {"callee": ir.FlatSymbolRefAttr.get(function)})


@dataclass(frozen=True)
class _Place:
    """Where a body is in the loops of its linalg.generic; `sizes`: of the dimensions, i64 values outside of it."""

    op: ir.Operation
    stream: ir.Value
    sizes: dict[int, ir.Value]
    parallel: list[int]  # in the order of the output
    reductions: list[int]

    @staticmethod
    def of(module: ir.Operation, op: ir.Operation) -> _Place:
        """The place of an operation that draws. Raises NumcError where it has none."""
        generic: ir.Operation | None = op.parent
        while generic is not None and generic.name != "linalg.generic":
            generic = generic.parent
        if generic is None:
            raise NumcError(f"{op.location}: a stochastic rounding draws by elements: it has to be in a linalg.generic")
        generic = generic.operation
        maps, kinds = linalg.indexing_maps(generic), linalg.iterator_types(generic)
        parallel = [d for d, iterator in enumerate(kinds) if iterator == "parallel"]
        out = [e.position for e in maps[linalg.input_count(generic)].results if isinstance(e, ir.AffineDimExpr)]
        if set(out) == set(parallel) and len(out) == len(parallel):
            parallel = out
        sizes: dict[int, ir.Value] = {}
        for value, map_ in zip(generic.operands, maps, strict=True):
            for n, expr in enumerate(map_.results):
                if isinstance(expr, ir.AffineDimExpr) and expr.position not in sizes:
                    sizes[expr.position] = _size(generic, value, n)
        if len(sizes) < len(kinds):
            raise NumcError(f"{op.location}: a stochastic rounding in loops whose sizes no operand tells")
        reductions = [d for d, iterator in enumerate(kinds) if iterator == "reduction"]
        return _Place(op, stream(module, generic, number_of(op)), sizes, parallel, reductions)

    def linear(self, dims: list[int]) -> ir.Value:
        """The row-major index of the body in these dimensions (i64)."""
        with ir.InsertionPoint(self.op), self.op.location:
            total = None
            for d in dims:
                attributes = {"dim": ir.IntegerAttr.get(_I64(), d)}
                index = _create("linalg.index", [], attributes, ir.IndexType.get())
                here = _create("arith.index_cast", [index])
                if total is not None:
                    here = _create("arith.addi", [_create("arith.muli", [total, self.sizes[d]]), here])
                total = here
            return _number(0) if total is None else total


def _size(generic: ir.Operation, value: ir.Value, n: int) -> ir.Value:
    with ir.InsertionPoint(generic), generic.location:
        shaped_type = ir.ShapedType(value.type)
        if not shaped_type.is_dynamic_dim(n):
            return _number(shaped_type.get_dim_size(n))
        index = _create("arith.constant", [], {"value": ir.IntegerAttr.get(ir.IndexType.get(), n)}, ir.IndexType.get())
        size = _create("memref.dim", [value, index], {}, ir.IndexType.get())
        return _create("arith.index_cast", [size])


def _I64() -> ir.Type:  # noqa: N802
    return ir.IntegerType.get_signless(64)


def _create(
    name: str,
    operands: list[ir.Value],
    attributes: Mapping[str, ir.Attribute] | None = None,
    result: ir.Type | None = None,
) -> ir.Value:
    """An operation with one result, an i64 unless told otherwise."""
    result_type = _I64() if result is None else result
    return ir.Operation.create(name, results=[result_type], operands=operands, attributes=attributes or {}).results[0]


def _number(value: int) -> ir.Value:
    return _create("arith.constant", [], {"value": ir.IntegerAttr.get(_I64(), value)})


def _names(block: ir.Block) -> set[str]:
    """The names of the functions and tables of a module."""
    names = (op.attributes["sym_name"] for op in block.operations if "sym_name" in op.attributes)
    return {ir.StringAttr(name).value for name in names}


def _define(module: ir.Operation, symbols: dict[str, str], key: str, function: Callable[[str], str]) -> str:
    """The name of the function for `key`, which is added to the module when it is first asked for."""
    if key not in symbols:
        symbols[key] = f"numc_scalar_{len(symbols)}"
        block = module.regions[0].blocks[0]
        known = _names(block)
        for op in parsed(function(symbols[key])).body.operations:
            if ir.StringAttr(op.attributes["sym_name"]).value not in known:  # other functions may bring a table, too
                ir.InsertionPoint(block).insert(op.operation.clone())
    return symbols[key]


def _round_function(name: str, to: Conversion, kind: str) -> str:
    """A function that rounds an f32 or f64; it is told stream and element if it draws, and its widths if open."""
    told = ["stream", "element"] * (to.noise is not None) + ["width"] * (to.open is not None)
    code = Function(name, {"x": kind, **dict.fromkeys(told, "i64")}, "f32", attributes="")
    carrier = F32 if kind == "f32" else F64
    noise = widths = None
    if to.noise is not None:
        noise = emit_conversion_noise(code, code["stream"], code["element"], to.noise)
    if to.open is not None:
        widths = run_time(code, code["width"], to, carrier)
    if carrier is F32:
        return code.function(emit_round(code, code["x"], to, noise=noise, widths=widths))
    x = code["x"] if to.format.parts == 1 else _clamped(code, code["x"])
    return code.function(code.cast("truncf", emit_round(code, x, to, carrier, noise=noise, widths=widths), "f32"))


def _clamped(code: Function, x: Value) -> Value:
    """The f64 `x`, or 2^129 with its sign where it is larger: compound roundings have no room for all exponents."""
    largest = code.f64(2.0**129)
    above = code.select(code.compare("ogt", x, largest), largest, x)
    least = code.f64(-(2.0**129))
    return code.select(code.compare("olt", above, least), least, above)


def _narrow_function(operation: str, narrow: Narrow, name: str) -> str:
    """A function that widens a number of a narrow dtype, or narrows a float32 that is one."""
    bits = f"i{narrow.bits}"
    if operation == "arith.extf":
        code = Function(name, {"x": narrow.element}, "f32", attributes="")
        x = code.cast("extui", code.cast("bitcast", code["x"], bits), "i32")
        return code.function(emit_widened(code, x, narrow.stored.format))
    code = Function(name, {"x": "f32"}, narrow.element, attributes="")
    x = code.cast("trunci", emit_narrowed(code, code["x"], narrow.stored.format), bits)
    return code.function(code.cast("bitcast", x, narrow.element))


def _encode_function(name: str, to: Conversion, kind: str) -> str:
    """A function that rounds a float32 and stores it in a narrow dtype."""
    code = Function(name, {"x": "f32"}, kind, attributes="")
    x = code.cast("trunci", emit_encoded(code, code["x"], to), f"i{NARROW_ELEMENTS[kind].bits}")
    return code.function(code.cast("bitcast", x, kind))


def _fma_function(name: str, fma: Fma) -> str:
    """A function that is one step of an operator.

    It is told stream, element and step if it draws, and the widths of its product if they are open.
    """
    is_open = fma.product is not None and fma.product.open is not None
    told = ["stream", "element", "k"] * fma.draws + ["width"] * is_open
    code = Function(name, {**dict.fromkeys("abc", "f32"), **dict.fromkeys(told, "i64")}, "f32", attributes="")
    a, b = (emit_parts(code, code[x], to.format) for x, to in zip("ab", fma.singles, strict=True))
    drawn = _drawn(code, fma) if fma.draws else NOTHING
    if is_open:
        drawn = drawn._replace(widths=product_numbers(code, fma, code["width"]))
    return code.function(emit_fma(code, a, b, c=code["c"], fma=fma, drawn=drawn))


def _drawn(code: Function, fma: Fma) -> Drawn:
    """The random bits that one step draws for its product and for its accumulator."""
    low = code.cast("trunci", code["stream"], "i32")
    high = code.cast("trunci", code.binary("shrui", code["stream"], code.int(32, "i64")), "i32")
    of_element = emit_element(code, code.cast("trunci", code["element"], "i32"), low)
    k = code.cast("trunci", code["k"], "i32")

    def draw(noise: Noise, product: bool) -> Value:
        run = run_of(noise)
        group = code.binary("shrui", k, code.int(run.bit_length() - 1))
        word = emit_mix(code, code.binary("addi", of_element, emit_group(code, group, high, product=product)))
        return emit_draw(code, word, code.binary("andi", k, code.int(run - 1)), noise)

    product, acc = fma.product.noise if fma.product else None, fma.acc.noise
    return Drawn(None if product is None else draw(product, True), None if acc is None else draw(acc, False))
