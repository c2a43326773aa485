"""From a model to a program, or to the IR of any stage on the way."""

from __future__ import annotations

import itertools
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
from numc.compiler.arithmetic.policy.table import rows
from numc.compiler.codegen import object_code
from numc.compiler.options import Options
from numc.compiler.stored_weights import narrow
from numc.compiler.support.errors import NumcError, did_you_mean
from numc.compiler.support.versions import version_of
from numc.compiler.targets import resolve
from numc.frontends.imported import Argument, Imported
from numc.frontends.load import load_file
from numc.passes import dialect
from numc.passes.kernels.packing.layout import Layout
from numc.passes.llvm.packed_entry import ENTRY
from numc.runtime.container import Abi, Contents, Input, TensorSpec, Weight
from numc.runtime.library import cpu_features
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
    return lowered(imported, Options(fma, ops, target, policy=chosen(policy)), to)[0]


def chosen(policy: str | os.PathLike[str] | Policy | None) -> Policy | None:
    """Return the policy that a text, a file or a preset stands for; None for none. Raises NumcError."""
    return None if policy is None else load_policy(policy)


def lowered(
    imported: Imported, options: Options, to: str, dump_dir: Path | None = None
) -> tuple[ir.Module, pipeline.State]:
    """Return the IR of a model after stage `to`, and what the passes found out. Raises NumcError for bad input."""
    policy, target = options.resolved()
    module = parse_module(imported.mlir, imported.sources[0] if imported.sources else "<text>")
    state = pipeline.State(policy, target, options.fast, frozenset(imported.weights), fold=_runs_here())
    state.nodes, state.roles, state.updates = imported.nodes, imported.roles, imported.updates
    state.statistics = options.statistics
    state.calibration = {number: (rows, lanes) for number, rows, lanes in options.calibration}
    pipeline.run(module, state, to=to, dump_dir=dump_dir)
    return module, state


def build(imported: Imported, options: Options, dump_dir: str | os.PathLike[str] | None = None) -> Contents:
    """Return what a program file holds, without loading it: also for processors that this one is not.

    Raises NumcError for bad input.
    """
    inputs, outputs = signature(imported)
    dump = Path(dump_dir) if dump_dir is not None else None
    module, state = lowered(imported, options, "llvm", dump)
    weights = _weights(imported, state, options)
    abi = Abi(
        ENTRY,
        (*inputs, *(described for described, _ in weights)),
        outputs,
        frozenset(state.target.features),
        state.target.name,
        imported.updates,
    )
    fma, ops = state.policy.default
    manifest = {
        "fma": str(fma),
        "ops": str(ops),
        "policy": str(state.policy),
        "layers": rows(state.decisions.values()),
        "target": state.target.name,
        "statistics": options.statistics,
        "calibrated": bool(options.calibration),
        "sources": list(imported.sources),
        "versions": {name: version_of(name) or "unknown" for name in ("numc", "torch-mlir")},
        "contractions": [asdict(c) for c in state.contractions],
        "converted_weights": {imported.weights[p][0]: c for p, c in state.weight_conversions.items()},
        "failures": {str(code): text for code, text in state.failures.items()},
        "symbols": {a.name: list(a.symbols) for a in imported.inputs if any(a.symbols)},
        "ranges": {name: list(limits) for name, limits in imported.ranges.items()},
    }
    return Contents(abi, object_code(module, state.target), tuple(w for _, w in weights), manifest, state.numc_ir)


def _runs_here() -> bool:
    try:
        return bool(resolve("host", cpu_features()))
    except NumcError:
        return False


def _weights(imported: Imported, state: pipeline.State, options: Options) -> list[tuple[Weight, np.ndarray]]:
    """The arguments of the entry that the program holds, in order, as the program holds them.

    The model's weights come first, then what was computed from them, then those packed for a contraction.
    """
    weights = {}
    stored: dict[int, tuple[Format | GroupFormat, tuple[int, ...], Layout | None]] = {}
    for position, (name, value) in imported.weights.items():
        conversion = state.weight_conversions.get(position)
        weights[position] = name, value if conversion is None else _converted(value, conversion)
        if conversion is not None:
            stored[position] = parse_conversion(conversion).format, value.shape, None
    if state.folded is not None:
        values = _run(state.folded.module, [weights[p][1] for p in state.folded.arguments], options)
        taken = {name for name, _ in weights.values()}
        fresh = (name for name in map("folded_{}".format, itertools.count()) if name not in taken)
        weights |= zip(state.folded.results, zip(fresh, values, strict=False), strict=True)
    for position, packing in state.packings.items():
        name, value = weights[packing.weight]
        if packing.conversion:
            value = _converted(value, packing.conversion)
        weights[position] = f"{name} (packed)", packing(value)
        stored[position] = packing.format, packing.shape, packing.layout
    for position in state.unused_weights:
        weights[position] = weights[position][0], np.zeros(0, np.float32)
        stored.pop(position, None)
    result = []
    for position, (name, value) in sorted(weights.items()):
        short = narrow(value, *stored[position]) if options.pack_weights and position in stored else None
        described = Weight(name, value.dtype.name, value.shape, None if short is None else short[0])
        result.append((described, value if short is None else short[1]))
    return result


def _run(module: ir.Module, inputs: list[np.ndarray], options: Options) -> list[np.ndarray]:
    """The results of ``@main`` of a module of the numc stage on this machine."""
    described, results = _signature_of(module, "<constants>")
    policy, target = replace(options, target="host").resolved()
    state = pipeline.State(policy, target, options.fast)
    pipeline.run(module, state, after="numc")
    abi = Abi(ENTRY, described, results, frozenset(target.features), target.name)
    program = Program(Contents(abi, object_code(module, target), (), {}))
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
