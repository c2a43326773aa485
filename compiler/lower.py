"""From a model to the IR of any stage on the way to a program."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import linalg as linalg_dialect  # noqa: F401  (takes long: not when the model is there)

from numc.compiler import pipeline
from numc.compiler.dump import Dump
from numc.compiler.options import Options
from numc.frontends.imported import Argument, Imported
from numc.frontends.load import load
from numc.frontends.parse import parse_module
from numc.numerics.dtypes import NARROW_ELEMENTS
from numc.numerics.policy.policy import Policy
from numc.passes import facts
from numc.passes.explicit.stored_codes import INPUTS, RESULTS
from numc.passes.gpu.gpu_backend import GPU
from numc.passes.tensors.products.inserted_zeros import INSERTED, LARGEST
from numc.runtime.abi import Input, TensorSpec
from numc.support.arguments import checked
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, did_you_mean, quoted

DTYPES = {
    "f32": "float32",
    "f64": "float64",
    "i1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    **{element: narrow.name for element, narrow in NARROW_ELEMENTS.items()},
}


@in_default_environment
def lower(
    source: Any,
    example_inputs: Any = None,
    *,
    to: str = "numc",
    fma: str = "fp32",
    ops: str = "fp32",
    target: str = "host",
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    dynamic_shapes: Any = None,
    policy: str | os.PathLike[str] | Policy | None = None,
) -> ir.Module:
    """Return the IR of `source` after stage `to` (one of `numc list stages`): an mlir module; ``str`` gives its text.

    source, example_inputs, dynamic_shapes, shapes: a model, as numc.compile takes it. policy: a text, a file or a
    preset (docs/policies.md), instead of fma and ops. Raises NumcError for bad input.
    """
    if checked(to, "to", str, "the name of a stage") not in pipeline.STAGES:
        near, stages = did_you_mean(to, pipeline.STAGES), ", ".join(pipeline.STAGES)
        raise NumcError(f"unknown stage {quoted(to)}{near}: want {stages}")
    imported = load(source, example_inputs, dynamic_shapes=dynamic_shapes, shapes=shapes, purpose="lower")
    return lowered(imported, Options(fma=fma, ops=ops, target=target, policy=policy), to)


def lowered(imported: Imported, options: Options, to: str, dump: Dump | None = None) -> ir.Module:
    """Return the IR of a model after stage `to`. Raises NumcError for bad input."""
    state = pipeline.State.of(options)
    module = module_of(imported, options)
    pipeline.run(module, state, to=to, dump=dump)
    return module


def emitted(imported: Imported, options: Options, stage: str, dump: Dump | None = None) -> str:
    """Return the text of a model after a stage: IR, but for target ``cuda`` after ``kernels`` the program in Python.

    Raises NumcError for bad input.
    """
    if stage == "kernels" and pipeline.State.of(options).target.backend is GPU:
        from numc.passes.gpu.program_text import program_text

        return program_text(lowered(imported, options, "vector", dump))[0]
    return pipeline.text(lowered(imported, options, stage, dump), stage)


def module_of(imported: Imported, options: Options) -> ir.Module:
    """Return the module of a model, with what is known about it as attributes (passes/facts.py). Raises NumcError.

    On arguments of @main: `numc.weight`, a weight's name; `numc.largest`, where transposed convolutions ask for it, its
    largest magnitude; `numc.updates`, the number of the result that may take the memory; `numc.stored`, the format in
    whose codes it is. On the module: `numc.stored_results`, the same of results;
    `numc.nodes` and `numc.roles`, from names of operations to what they are in the model; `numc.calibration`, numbers
    of contractions with the largest magnitudes of their operands, where these are given.
    """
    source = imported.sources[0] if imported.sources else "<text>"
    module = parse_module(imported.mlir, source)
    _check_model(module, imported, source)
    facts.put_arguments(module.operation, "numc.weight", {n: name for n, (name, _) in imported.weights.items()})
    facts.put_arguments(module.operation, LARGEST, _largest(imported) if INSERTED in imported.mlir else {})
    facts.put_arguments(module.operation, "numc.updates", {n: result for result, n in imported.updates.items()})
    facts.put_arguments(module.operation, INPUTS, imported.stored_inputs)
    facts.drop(module.operation, RESULTS)
    if imported.stored_outputs:
        facts.put(module.operation, RESULTS, [list(each) for each in sorted(imported.stored_outputs.items())])
    facts.drop(module.operation, "numc.calibration")
    if options.calibration:
        facts.put(module.operation, "numc.calibration", [list(each) for each in options.calibration])
    for name, known in (("numc.nodes", imported.nodes), ("numc.roles", imported.roles)):
        facts.drop(module.operation, name)
        if known:
            facts.put(module.operation, name, {key: value for key, value in known.items() if key})
    return module


def _largest(imported: Imported) -> dict[int, float]:
    """The largest magnitudes of weights of single precision, or NaN, by the numbers of the arguments that they are."""
    floats = {n: weight for n, (_, weight) in imported.weights.items() if weight.dtype == np.float32 and weight.size}
    return {n: float(np.maximum(weight.max(), -weight.min())) for n, weight in floats.items()}


def _check_model(module: ir.Module, imported: Imported, source: str) -> None:
    """Raise NumcError for IR on its way to a program, which is no model: its weights are not in it."""
    if (stage := pipeline.stage_of(module)) not in (None, "linalg"):
        raise NumcError(
            f"{source}: is IR after the stage '{stage}', and no model: go on from it with `numc opt --from {stage}`"
        )
    missing = [
        name for n, name in facts.of_arguments(module.operation, "numc.weight").items() if n not in imported.weights
    ]
    if missing:
        raise NumcError(
            f"{source}: is IR of a model whose weights are not in it ({', '.join(map(quoted, missing[:3]))}"
            f"{', ...' if len(missing) > 3 else ''}): compile the model, or go on with `numc opt --from STAGE`"
        )
    facts.drop(module.operation, pipeline.STAGE)


def signature(imported: Imported) -> tuple[tuple[Input, ...], tuple[TensorSpec, ...]]:
    """The inputs and outputs: as the frontend named them, or from the types of ``@main``."""
    if imported.inputs or imported.outputs:
        return (
            tuple(Input(a.name, a.dtype, _dims(a)) for a in imported.inputs),
            tuple(TensorSpec(a.name, a.dtype, _dims(a)) for a in imported.outputs),
        )
    source = imported.sources[0] if imported.sources else "<text>"
    return signature_of(parse_module(imported.mlir, source), source)


def signature_of(module: ir.Module, source: str) -> tuple[tuple[Input, ...], tuple[TensorSpec, ...]]:
    """The inputs and outputs of ``@main``, nameless. Raises NumcError."""
    with module.context:
        for op in module.body.operations:
            if op.operation.name == "func.func" and ir.StringAttr(op.attributes["sym_name"]).value == "main":
                function_type = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
                ins = [_spec(f"arg{n}", t, source) for n, t in enumerate(function_type.inputs)]
                outs = [_spec(f"result{n}", t, source) for n, t in enumerate(function_type.results)]
                return tuple(Input(s.name, s.dtype, s.shape) for s in ins), tuple(outs)
    raise NumcError(f"{source}: found no func.func @main: the program's entry must be called main")


def _dims(argument: Argument) -> tuple[int | None, ...]:
    return tuple(None if d < 0 else d for d in argument.shape)


def _spec(name: str, kind: ir.Type, source: str) -> TensorSpec:
    if not isinstance(kind, ir.RankedTensorType) or str(kind.element_type) not in DTYPES:
        raise NumcError(
            f"{source}: @main has a {kind}: arguments and results must be ranked tensors of {', '.join(DTYPES)}"
        )
    shape = tuple(None if kind.is_dynamic_dim(n) else kind.get_dim_size(n) for n in range(kind.rank))
    return TensorSpec(name, DTYPES[str(kind.element_type)], shape)
