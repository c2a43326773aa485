"""From a module to what a program file holds: machine code, and its description."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch_mlir import ir

from numc.compiler import pipeline
from numc.compiler.dump import Dump
from numc.compiler.lower import module_of, signature
from numc.compiler.options import Options
from numc.frontends.imported import Imported
from numc.numerics.policy.layer import SWAPPED, kinds_of, role_of
from numc.numerics.policy.table import COLUMNS
from numc.passes import facts
from numc.passes.explicit.fmas import fmas_of
from numc.passes.explicit.width_slots import slots_of
from numc.passes.llvm.packed_entry import ENTRY
from numc.passes.plan.contraction_rows import contractions_of
from numc.passes.plan.functions import kernels_of
from numc.passes.tensors.narrow.narrow_operands import ACTIVATIONS
from numc.passes.vector.mark_parts import buffers_of, parts_of
from numc.runtime.abi import NO_LIMIT, Abi, SizeSymbol, Weight, WidthRange
from numc.runtime.container import Contents, pack_ir
from numc.support.versions import version_of


@dataclass(frozen=True)
class HeldWeight:
    """A weight of a program: its description, the array that the file holds, and a row about it for the manifest.

    values: how many numbers it has. held: in what, in memory, and why not in fewer bytes.
    """

    described: Weight
    stored: np.ndarray
    values: int
    held: str

    def row(self) -> dict[str, Any]:
        """The entry of the manifest for it; the bytes are those in memory."""
        name, size = self.described.name, self.described.nbytes
        return {"name": name, "values": self.values, "bytes": size, "held": self.held}


Weights = list[HeldWeight]


def assemble(
    imported: Imported,
    options: Options,
    dump_dir: str | os.PathLike[str] | None = None,
    *,
    weights_of: Callable[[ir.Operation], Weights] = lambda _: [],
) -> Contents:
    """Return what a program file holds, without loading it: also for processors that this one is not.

    weights_of: gives the weights that the program holds, described and as they are stored, in the order of the entry's
    arguments, once the IR of stage ``vector`` says how; a module without weights needs none. dump_dir: an existing
    folder that receives the IR after every pass. Raises NumcError for bad input.
    """
    dump = Dump(Path(dump_dir)) if dump_dir is not None else None
    state = pipeline.State.of(options)
    module = module_of(imported, options)
    inputs, outputs = signature(imported)
    pipeline.run(module, state, to="numc", dump=dump)
    numc_ir = pipeline.text(module)
    fmas, sizes = fmas_of(module.operation)
    pipeline.run(module, state, after="numc", to="kernels", dump=dump)
    with pipeline.object_code(state) as making:
        if dump is not None:  # with the kernels, which leave the module that becomes code
            whole = ir.Module.parse(pipeline.text(module), module.context)
            pipeline.run(whole, state, after="kernels", dump=dump)
        making.begin(module, kernels_of(module.operation))
        pipeline.run(module, state, after="kernels", to="vector")
        weights = weights_of(module.operation)
        pipeline.run(module, state, after="vector", to="loops")
        code = making.finish(module)
    contractions = json.loads(json.dumps([asdict(c) for c in contractions_of(module.operation)]))  # as files have them
    abi = Abi(
        entry=ENTRY,
        arguments=(*inputs, *(weight.described for weight in weights)),
        results=outputs,
        features=frozenset(state.target.features),
        target=state.target.name,
        updates=imported.updates,
        symbols=_symbols(imported),
        widths=tuple(WidthRange(layer, operand, *widths.both) for layer, operand, widths in slots_of(module.operation)),
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
        "respect_dtypes": options.respect_dtypes,
        "sources": list(imported.sources),
        "versions": {name: version_of(name) or "unknown" for name in ("numc", *state.target.code_packages)},
        "contractions": contractions,
        "parts": [asdict(replace(part, role=_role(imported, part.layer))) for part in parts_of(module.operation)],
        "buffers": [asdict(buffer) for buffer in buffers_of(module.operation)],
        "fmas": None if fmas is None else [asdict(row) for row in fmas],
        "sizes": sizes,
        "converted_weights": {imported.weights[n][0]: to for n, to in conversions.items()},
        "weights": [weight.row() for weight in weights],
        "activations": facts.get(module.operation, ACTIVATIONS, []),
        "failures": {str(n): text for n, text in enumerate(facts.get(module.operation, "numc.failures", []), 1)},
    }
    manifest["code"] = hashlib.sha256(code).hexdigest()
    return Contents(abi, code, tuple(w.stored for w in weights), manifest, pack_ir(numc_ir))


def _role(imported: Imported, layer: str) -> str:
    """The role of the operations of a name, those without arithmetic too, which no policy asks about."""
    if not imported.roles:
        return role_of(kinds_of(imported.nodes.get(layer, "")))
    return imported.roles.get(layer, "").partition(SWAPPED)[0]


def _symbols(imported: Imported) -> tuple[SizeSymbol, ...]:
    """The sizes that have a name in the model."""
    places: dict[str, list[tuple[int, int]]] = {}
    for number, argument in enumerate(imported.inputs):
        for dimension, name in enumerate(argument.symbols):
            if name:
                places.setdefault(name, []).append((number, dimension))
    return tuple(
        SizeSymbol(name, *imported.ranges.get(name, (0, NO_LIMIT)), tuple(occurrences))
        for name, occurrences in places.items()
    )
