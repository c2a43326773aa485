"""The common part of the front ends: torch-mlir's pipelines, diagnostics, and checks at run time."""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.passmanager import PassManager

from numc.frontends.imported import ConversionError
from numc.frontends.lowering.expansions import drop_idle_expansions
from numc.frontends.lowering.integers import multiply_negations
from numc.frontends.lowering.lines import lift_lines
from numc.frontends.lowering.loops import fill_starts, lower_calls, lower_scans
from numc.frontends.lowering.marked_zeros import mark_inserted
from numc.frontends.lowering.pool_places import keep_places_inside
from numc.frontends.lowering.reshapes import lower_reshapes
from numc.frontends.lowering.sorting import lower_sorts
from numc.frontends.words import crashed, in_words
from numc.frontends.workers import process
from numc.frontends.workers.worker import Answer, Parts, Stage
from numc.passes import dialect, linalg


def diagnostic(error: ir.MLIRError) -> str:
    """Return the first diagnostic of MLIR in one line, without the text of the operation, whose name it has anyway."""
    diagnostics = error.error_diagnostics
    text = one_line(diagnostics[0].message if diagnostics else str(error))
    return re.sub(r"( that was explicitly marked illegal)?: (%\S+ = )?\".*", "", text)


@contextmanager
def conversion_errors() -> Iterator[None]:
    """Turn every exception of torch-mlir in a ``with`` block into a ConversionError."""
    try:
        yield
    except Exception as error:
        said = diagnostic(error) if isinstance(error, ir.MLIRError) else one_line(f"{error}" or type(error).__name__)
        raise ConversionError(in_words(said), said) from None


def lower(module: ir.Module) -> None:
    """Lower `module` from torch's backend contract to linalg, in place. Raises MLIRError if a pass fails."""
    with module.context:
        multiply_negations(module)
        lift_lines(module)
        lower_reshapes(module)
        lower_calls(module)
        run("torch-backend-to-linalg-on-tensors-backend-pipeline", module)
        mark_inserted(module)
        drop_idle_expansions(module)
        lower_scans(module)
        lower_sorts(module)
        fill_starts(module)
        _keep_values(module)
        keep_places_inside(module)


def run(pipeline: str, module: ir.Module) -> None:
    """Run passes on `module`, in place. Raises MLIRError if one fails."""
    manager = PassManager.parse(f"builtin.module({pipeline})", module.context)
    manager.enable_verifier(False)  # once at the end, not after each pass: a third of the time
    manager.run(module.operation)
    module.operation.verify()


def _keep_values(module: ir.Module) -> None:
    """Let NaN stay NaN, and -0 what it is in torch and onnxruntime.

    torch-mlir's clamp replaces NaN by the limit, its maximum and minimum by the second operand; its relu makes -0 +0.
    """
    for op in operations(module):
        if op.name != "arith.select" or isinstance(op.operands[0].owner, ir.Block):
            continue
        compared, (true_value, false_value) = op.operands[0].owner, list(op.operands)[1:]
        if compared.name != "arith.cmpf":
            continue
        predicate = ir.IntegerAttr(compared.attributes["predicate"]).value
        if list(compared.operands) == [false_value, true_value] and predicate in _ORDERED:
            kept = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(_ORDERED[predicate]))
            compared.attributes["predicate"] = kept
        if list(compared.operands) == [true_value, false_value] and predicate in _ORDERED.values():
            with ir.InsertionPoint(op), op.location:
                is_nan = arith.CmpFOp(arith.CmpFPredicate.UNO, true_value, true_value).result
                op.operands[0] = arith.OrIOp(compared.results[0], is_nan).result
        if (
            list(compared.operands) == [true_value, false_value]
            and predicate == arith.CmpFPredicate.UGT
            and _is_zero(false_value)
        ):
            kept = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(arith.CmpFPredicate.UGE))
            compared.attributes["predicate"] = kept


def _is_zero(value: ir.Value) -> bool:
    """Whether a value is the constant +0."""
    made = linalg.maker(value)
    return (
        made is not None
        and made.name == "arith.constant"
        and str(made.attributes["value"]).startswith("0.000000e+00 :")
    )


_ORDERED = {
    int(arith.CmpFPredicate.ULT): int(arith.CmpFPredicate.OLT),
    int(arith.CmpFPredicate.UGT): int(arith.CmpFPredicate.OGT),
}


_TASK = "numc.frontends.lowering.torch_mlir_passes:lower_task"


def prepare() -> None:
    """Let the process start that `lower_apart` asks, while this one traces a model."""
    process.prepare(_TASK)


def lower_apart(module: ir.Module, to_backend_contract: str) -> ir.Module:
    """Return `module` in linalg, by this pipeline and `lower`, in a worker: a crash of torch-mlir takes only that.

    Raises ConversionError if a pass fails or crashes, NumcError if the limits of time or memory do not suffice.
    """
    code = _bytecode(module)
    request = {"pipeline": to_backend_contract}
    try:
        answer, parts = process.ask(_TASK, request, [code], size=len(code))
    except process.CrashError as death:
        raise ConversionError(crashed(str(death))) from None
    if "error" in answer:
        raise ConversionError(answer["error"], answer["said"])
    load_tm_tensor(module.context)
    return ir.Module.parse(parts[0], module.context)


def lower_task(request: dict[str, Any], parts: Parts, stage: Stage) -> Answer:
    """Do the worker's part of `lower_apart`."""
    context = ir.Context()
    context.enable_multithreading(False)  # a worker may not start threads
    torch_dialect.register_dialect(context)
    stage("lower")
    try:
        with conversion_errors():  # of what is no valid module, too
            module = ir.Module.parse(parts[0], context)
            run(request["pipeline"], module)
            lower(module)
    except ConversionError as error:
        return {"error": str(error), "said": error.said}, []
    return {}, [_bytecode(module)]


def _bytecode(module: ir.Module) -> bytes:
    stream = io.BytesIO()
    module.operation.write_bytecode(stream)
    return stream.getvalue()


def load_tm_tensor(context: ir.Context) -> None:
    """Load the dialect of torch-mlir's scatters and sorts, so that a module that has them can be parsed."""
    dialect.load_for(context, "func.func(tm-tensor-bufferize)")


def one_line(text: str, limit: int = 300) -> str:
    """Return a text in one line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit] + "..."


def operations(module: ir.Module) -> list[ir.Operation]:
    """Return all operations of a module."""
    visited: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        visited.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return visited


def erase_checks(module: ir.Module, idle: Collection[str]) -> list[str]:
    """Erase every cf.assert whose message is in `idle`; return the messages of the others without repetition."""
    messages: dict[str, None] = {}
    for op in operations(module):
        if op.name == "cf.assert":
            message = str(ir.StringAttr(op.attributes["msg"]).value)
            if message in idle:
                op.erase()
            else:
                messages[message] = None
    return list(messages)
