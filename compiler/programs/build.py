"""From a model to a program: the machine code, and the weights as the code reads them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from torch_mlir import ir

from numc.compiler import pipeline
from numc.compiler.arrays.arrays import round as round_array
from numc.compiler.assemble import HeldWeight, Weights, assemble
from numc.compiler.lower import signature_of
from numc.compiler.options import Options
from numc.compiler.programs.stored_weights import held, narrow
from numc.frontends.imported import Imported
from numc.frontends.parse import parse_module
from numc.numerics.formats import Format
from numc.numerics.grammar import parse_conversion
from numc.numerics.groups import GroupFormat
from numc.passes import facts
from numc.passes.kernels.packing.layout import Layout
from numc.passes.llvm.packed_entry import ENTRY
from numc.passes.plan.weights import empty_weights_of, packings_of
from numc.runtime.abi import Abi, Weight
from numc.runtime.container import Contents
from numc.runtime.library import default_threads
from numc.runtime.program import Program
from numc.support.collector import seldom
from numc.support.environment import in_default_environment
from numc.support.progress import tell


@in_default_environment
def build(imported: Imported, options: Options, dump_dir: str | os.PathLike[str] | None = None) -> Contents:
    """Return what the program file of a model holds, without loading it. Raises NumcError for bad input."""
    with seldom():
        return assemble(imported, options, dump_dir, weights_of=lambda module: _weights(imported, module, options))


def _weights(imported: Imported, module: ir.Operation, options: Options) -> Weights:
    """The arguments of the entry that the program holds, in order, as the program holds them.

    The model's weights come first, then what was computed from them, then those packed for a contraction.
    """
    weights = {n: (name, value) for n, (name, value) in imported.weights.items()}
    stored: dict[int, tuple[Format | GroupFormat, tuple[int, ...], Layout | None, bool]] = {}
    for position, conversion in facts.of_arguments(module, "numc.conversion").items():
        name, value = weights[position]
        weights[position] = name, round_array(value, conversion)
        stored[position] = parse_conversion(conversion).format, value.shape, None, False
    weights |= _folded(module, weights, options)
    packed, packings = {}, packings_of(module)
    with ThreadPoolExecutor(default_threads()) as pool:  # numpy works on large arrays without Python's lock
        for number, (position, packing) in enumerate(packings.items()):
            name, value = weights[packing.weight]
            tell("weight", name, number, len(packings))
            if packing.conversion:
                value = round_array(value, packing.conversion)
            packed[position] = f"{name} (packed)", pool.submit(packing, value)
            if not packing.is_open and not packing.layout.code:
                stored[position] = packing.format, packing.shape, packing.layout, packing.factors == "sums"
    weights |= {position: (name, array.result()) for position, (name, array) in packed.items()}
    empty = empty_weights_of(module)
    for position in empty:
        weights[position] = weights[position][0], np.zeros(0, np.float32)
        stored.pop(position, None)
    result = []
    for position, (name, value) in sorted(weights.items()):
        short = narrow(value, *stored[position]) if options.pack_weights and position in stored else None
        described = Weight(name, value.dtype.name, value.shape, None if short is None else short[0])
        of_weight = packings.get(position)
        values = value.size if of_weight is None else math.prod(of_weight.shape)
        how = "packed only" if position in empty else held(described, of_weight, options.pack_weights)
        result.append(HeldWeight(described, value if short is None else short[1], values, how))
    return result


def _folded(
    module: ir.Operation, weights: Mapping[int, tuple[str, np.ndarray]], options: Options
) -> dict[int, tuple[str, np.ndarray]]:
    """The arguments that fold-constants made, by their numbers: computed by a program for this machine."""
    constants = facts.get(module, "numc.constants")
    if constants is None:
        return {}
    # The text has no unsigned types: their bytes are those of others.
    inputs = [value.view(np.int8) if value.dtype == np.uint8 else value for value in
              (weights[n][1] for n in constants["arguments"])]  # fmt: skip
    values = _run(parse_module("\n".join(constants["module"]), "<constants>"), inputs, options)
    names = facts.of_arguments(module, "numc.weight")
    return {n: (names[n], values[result]) for n, result in facts.of_arguments(module, "numc.folded").items()}


def _run(module: ir.Module, inputs: list[np.ndarray], options: Options) -> list[np.ndarray]:
    """The results of ``@main`` of a module of the numc stage on this machine."""
    described, results = signature_of(module, "<constants>")
    policy, target = replace(options, target="host").resolved()
    state = pipeline.State(policy, target, options.fast)
    pipeline.run(module, state, after="numc", to="loops")
    with pipeline.object_code(state) as making:
        code = making.finish(module)
    program = Program(
        Contents(
            Abi(
                entry=ENTRY,
                arguments=described,
                results=results,
                features=frozenset(target.features),
                target=target.name,
            ),
            code,
            (),
            {},
        )
    )
    named = dict(zip((spec.name for spec in described), inputs, strict=True))
    return list(program.by_name(named, threads=1).values())
