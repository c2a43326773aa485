"""From a model to a program, or to the IR of any stage on the way."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect

from numc.compiler import pipeline
from numc.compiler.arithmetic.formats import Format
from numc.compiler.arithmetic.grammar import parse_conversion
from numc.compiler.arithmetic.groups import GroupFormat
from numc.compiler.arithmetic.policy.load import load_policy
from numc.compiler.arithmetic.policy.policy import Policy
from numc.compiler.arithmetic.policy.table import COLUMNS
from numc.compiler.options import Options
from numc.compiler.pipeline import State
from numc.compiler.stored_weights import narrow
from numc.compiler.support.errors import NumcError, did_you_mean
from numc.compiler.support.versions import version_of
from numc.frontends.imported import Argument, Imported
from numc.frontends.load import load_file
from numc.passes import dialect, facts
from numc.passes.kernels.packing.layout import Layout
from numc.passes.llvm.packed_entry import ENTRY
from numc.passes.plan.emit_kernels import contractions_of
from numc.passes.plan.weights import empty_weights_of, packings_of
from numc.runtime.container import Abi, Contents, Input, TensorSpec, Weight
from numc.runtime.program import Program

DTYPES = {
    "f32": "float32",
    "f64": "float64",
    "i1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
}


def parse_module(text: str, name: str) -> ir.Module:
    """Parse MLIR text in a fresh context. Raises NumcError with the location if it does not parse or verify."""
    ctx = dialect.context()
    torch_dialect.register_dialect(ctx)
    with ctx:
        try:
            return ir.Module.parse(text)
        except ir.MLIRError as error:
            first = next((str(d) for d in error.error_diagnostics), str(error)).splitlines()[0]
            raise NumcError(f"{name}: not valid MLIR of this version: {first}") from None


def lower(
    source: str | os.PathLike[str] | Imported,
    *,
    to: str = "numc",
    fma: str = "fp32",
    ops: str = "fp32",
    target: str = "host",
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    policy: str | os.PathLike[str] | Policy | None = None,
) -> ir.Module:
    """Return the IR of `source` after stage `to` (one of `numc list stages`): an mlir module; ``str`` gives its text.

    policy: a text, a file or a preset (docs/policies.md), instead of fma and ops. Raises NumcError for bad input.
    """
    if to not in pipeline.STAGES:
        raise NumcError(f"unknown stage {to!r}{did_you_mean(to, pipeline.STAGES)}: one of {', '.join(pipeline.STAGES)}")
    imported = source if isinstance(source, Imported) else load_file(source, shapes)
    return lowered(imported, Options(fma, ops, target, policy=chosen(policy)), to)


def chosen(policy: str | os.PathLike[str] | Policy | None) -> Policy | None:
    """Return the policy that a text, a file or a preset stands for; None for none. Raises NumcError."""
    return None if policy is None else load_policy(policy)


def lowered(imported: Imported, options: Options, to: str, dump_dir: Path | None = None) -> ir.Module:
    """Return the IR of a model after stage `to`. Raises NumcError for bad input."""
    state = State.of(options)
    module = module_of(imported)
    pipeline.run(module, state, to=to, dump_dir=dump_dir)
    return module


def module_of(imported: Imported) -> ir.Module:
    """Return the module of a model, with what is known about it as attributes (passes/facts.py). Raises NumcError.

    On arguments of @main: `numc.weight`, a weight's name; `numc.updates`, the number of the result that may take the
    memory. On the module: `numc.nodes` and `numc.roles`, from names of operations to what they are in the model.
    """
    module = parse_module(imported.mlir, imported.sources[0] if imported.sources else "<text>")
    facts.put_arguments(module.operation, "numc.weight", {n: name for n, (name, _) in imported.weights.items()})
    facts.put_arguments(module.operation, "numc.updates", {n: result for result, n in imported.updates.items()})
    for name, known in (("numc.nodes", imported.nodes), ("numc.roles", imported.roles)):
        facts.drop(module.operation, name)
        if known:
            facts.put(module.operation, name, {key: value for key, value in known.items() if key})
    return module


def build(imported: Imported, options: Options, dump_dir: str | os.PathLike[str] | None = None) -> Contents:
    """Return what a program file holds, without loading it: also for processors that this one is not.

    Raises NumcError for bad input.
    """
    inputs, outputs = signature(imported)
    dump = Path(dump_dir) if dump_dir is not None else None
    state = State.of(options)
    module = module_of(imported)
    pipeline.run(module, state, to="numc", dump_dir=dump)
    numc_ir = pipeline.text(module)
    pipeline.run(module, state, after="numc", to="vector", dump_dir=dump)
    weights = _weights(imported, module.operation, options)
    contractions = [asdict(c) for c in contractions_of(module.operation)]
    pipeline.run(module, state, after="vector", dump_dir=dump)
    abi = Abi(
        ENTRY,
        (*inputs, *(described for described, _ in weights)),
        outputs,
        frozenset(state.target.features),
        state.target.name,
        imported.updates,
    )
    fma, ops = state.policy.default
    conversions = facts.of_arguments(module.operation, "numc.conversion")
    manifest = {
        "fma": str(fma),
        "ops": str(ops),
        "policy": str(state.policy),
        "layers": [{column: row[column] for column in COLUMNS} for row in facts.get(module.operation, "numc.layers")],
        "target": state.target.name,
        "statistics": options.statistics,
        "calibrated": bool(options.calibration),
        "sources": list(imported.sources),
        "versions": {name: version_of(name) or "unknown" for name in ("numc", "torch-mlir")},
        "contractions": contractions,
        "converted_weights": {imported.weights[n][0]: to for n, to in conversions.items()},
        "failures": {str(n): text for n, text in enumerate(facts.get(module.operation, "numc.failures", []), 1)},
        "symbols": {a.name: list(a.symbols) for a in imported.inputs if any(a.symbols)},
        "ranges": {name: list(limits) for name, limits in imported.ranges.items()},
    }
    code = state.target.backend.object_code(module, state.target, ENTRY)
    return Contents(abi, code, tuple(w for _, w in weights), manifest, numc_ir)


def _weights(imported: Imported, module: ir.Operation, options: Options) -> list[tuple[Weight, np.ndarray]]:
    """The arguments of the entry that the program holds, in order, as the program holds them.

    The model's weights come first, then what was computed from them, then those packed for a contraction.
    """
    weights = {n: (name, value) for n, (name, value) in imported.weights.items()}
    stored: dict[int, tuple[Format | GroupFormat, tuple[int, ...], Layout | None]] = {}
    for position, conversion in facts.of_arguments(module, "numc.conversion").items():
        name, value = weights[position]
        weights[position] = name, _converted(value, conversion)
        stored[position] = parse_conversion(conversion).format, value.shape, None
    weights |= _folded(module, weights, options)
    for position, packing in packings_of(module).items():
        name, value = weights[packing.weight]
        if packing.conversion:
            value = _converted(value, packing.conversion)
        weights[position] = f"{name} (packed)", packing(value)
        stored[position] = packing.format, packing.shape, packing.layout
    for position in empty_weights_of(module):
        weights[position] = weights[position][0], np.zeros(0, np.float32)
        stored.pop(position, None)
    result = []
    for position, (name, value) in sorted(weights.items()):
        short = narrow(value, *stored[position]) if options.pack_weights and position in stored else None
        described = Weight(name, value.dtype.name, value.shape, None if short is None else short[0])
        result.append((described, value if short is None else short[1]))
    return result


def _folded(
    module: ir.Operation, weights: Mapping[int, tuple[str, np.ndarray]], options: Options
) -> dict[int, tuple[str, np.ndarray]]:
    """The arguments that fold-constants made, by their numbers: computed by a program for this machine."""
    constants = facts.get(module, "numc.constants")
    if constants is None:
        return {}
    inputs = [weights[n][1] for n in constants["arguments"]]
    values = _run(parse_module("\n".join(constants["module"]), "<constants>"), inputs, options)
    names = facts.of_arguments(module, "numc.weight")
    return {n: (names[n], values[result]) for n, result in facts.of_arguments(module, "numc.folded").items()}


def _run(module: ir.Module, inputs: list[np.ndarray], options: Options) -> list[np.ndarray]:
    """The results of ``@main`` of a module of the numc stage on this machine."""
    described, results = _signature_of(module, "<constants>")
    policy, target = replace(options, target="host").resolved()
    pipeline.run(module, State(policy, target, options.fast), after="numc")
    abi = Abi(ENTRY, described, results, frozenset(target.features), target.name)
    program = Program(Contents(abi, target.backend.object_code(module, target, ENTRY), (), {}))
    named = dict(zip((spec.name for spec in described), inputs, strict=True))
    return list(program.by_name(named, threads=1).values())


def _converted(value: np.ndarray, to: str) -> np.ndarray:
    from numc.compiler.arrays import round as round_array

    return round_array(value, to)


def signature(imported: Imported) -> tuple[tuple[Input, ...], tuple[TensorSpec, ...]]:
    """The inputs and outputs: as the frontend named them, or from the types of ``@main``."""
    if imported.inputs or imported.outputs:
        return (
            tuple(Input(a.name, a.dtype, _dims(a)) for a in imported.inputs),
            tuple(TensorSpec(a.name, a.dtype, _dims(a)) for a in imported.outputs),
        )
    source = imported.sources[0] if imported.sources else "<text>"
    return _signature_of(parse_module(imported.mlir, source), source)


def _signature_of(module: ir.Module, source: str) -> tuple[tuple[Input, ...], tuple[TensorSpec, ...]]:
    """The inputs and outputs of ``@main``, nameless. Raises NumcError."""
    with module.context:
        for op in module.body.operations:
            if op.operation.name == "func.func" and ir.StringAttr(op.attributes["sym_name"]).value == "main":
                kind = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
                ins = [_spec(f"arg{n}", t, source) for n, t in enumerate(kind.inputs)]
                outs = [_spec(f"result{n}", t, source) for n, t in enumerate(kind.results)]
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
