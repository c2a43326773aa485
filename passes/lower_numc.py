"""lower-numc: the numc operations left in linalg bodies become calls of small private functions, to be inlined."""

from __future__ import annotations

from torch_mlir import ir

from numc.compiler.dialect import conversion_of, fma_of
from numc.compiler.errors import NumcError
from numc.compiler.fma import Fma
from numc.compiler.formats import Conversion
from numc.passes import walk
from numc.passes.code import Code
from numc.passes.operators import emit_fma
from numc.passes.rounding import emit_parts, emit_round


def lower_numc(module: ir.Operation) -> None:
    """Replace every ``numc.round`` and ``numc.fma`` of `module` in place by the exact scalar sequence."""
    with module.context, ir.Location.unknown():
        symbols: dict[str, str] = {}
        for op in walk.operations(module):
            if op.name == "numc.round":
                name = _define(module, symbols, f"round {conversion_of(op)}", _round_text(conversion_of(op)))
            elif op.name == "numc.fma":
                _reject_reduction(op, fma_of(op))
                name = _define(module, symbols, f"fma {fma_of(op)}", _fma_text(fma_of(op)))
            else:
                continue
            with ir.InsertionPoint(op), op.location:
                call = ir.Operation.create(
                    "func.call",
                    results=[ir.F32Type.get()],
                    operands=list(op.operands),
                    attributes={"callee": ir.FlatSymbolRefAttr.get(name)},
                )
            op.results[0].replace_all_uses_with(call.results[0])
            op.erase()


def _reject_reduction(op: ir.Operation, fma: Fma) -> None:
    if fma.chunk is not None or fma.groups:
        raise NumcError(
            f"{op.location}: '{fma}' needs reductions whose body is one multiply-add, this one does more: "
            f"use '{fma.step}'"
        )


def _define(module: ir.Operation, symbols: dict[str, str], key: str, body: str) -> str:
    if key not in symbols:
        symbols[key] = f"numc_scalar_{len(symbols)}"
        source = ir.Module.parse(body.replace("@f(", f"@{symbols[key]}("))
        ir.InsertionPoint(module.regions[0].blocks[0]).insert(source.body.operations[0].operation.clone())
    return symbols[key]


def _round_text(to: Conversion) -> str:
    code = Code()
    result = emit_round(code, "%x", to)
    return f"func.func private @f(%x: f32) -> f32 {{\n{code.text()}\n    return {result} : f32\n}}"


def _fma_text(fma: Fma) -> str:
    code = Code()
    a, b = (emit_parts(code, x, parts) for x, parts in zip(("%a", "%b"), fma.parts, strict=True))
    result = emit_fma(code, a, b, "%c", fma)
    return f"func.func private @f(%a: f32, %b: f32, %c: f32) -> f32 {{\n{code.text()}\n    return {result} : f32\n}}"
