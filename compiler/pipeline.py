"""The whole lowering, as one list a reader can recite. Each stage is a word: `--emit WORD`, dump name, resume point."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect  # noqa: F401  (registers the refback-* and tm-tensor-* passes)
from torch_mlir.passmanager import PassManager

from numc.compiler.dump import Dump
from numc.compiler.options import Options
from numc.numerics.policy.policy import Policy
from numc.passes import facts, linalg
from numc.passes.buffers.free_early import free_early
from numc.passes.buffers.return_updated import return_updated
from numc.passes.explicit.explicit_arithmetic import check_arithmetic, explicit_arithmetic
from numc.passes.explicit.scales.write_out_scales import write_out_scales
from numc.passes.explicit.stored_codes import stored_codes
from numc.passes.explicit.tidy_conversions import tidy_conversions
from numc.passes.gpu.gpu_backend import GPU
from numc.passes.gpu.tiles.tile_contractions import contractions
from numc.passes.imported.affine_reads import affine_reads
from numc.passes.imported.crop_windows import crop_windows
from numc.passes.imported.narrow_tensors import narrow_tensors
from numc.passes.imported.run_time_checks import run_time_checks
from numc.passes.kernels.backend import Backend, Making, Target
from numc.passes.kernels.backend.aarch64 import AARCH64
from numc.passes.kernels.backend.mlir_c import run as run_unlocked
from numc.passes.kernels.backend.x86 import X86
from numc.passes.llvm.checks_to_failures import checks_to_failures
from numc.passes.llvm.locate_arguments import locate_arguments
from numc.passes.llvm.packed_entry import ENTRY, packed_entry
from numc.passes.llvm.scalar_loops import annotate_branches, scalar_loops
from numc.passes.llvm.without_fma import without_fma
from numc.passes.plan.emit_kernels import emit_kernels
from numc.passes.plan.functions import kernels_of
from numc.passes.plan.keep_borders import keep_borders
from numc.passes.plan.plan_kernels import plan_kernels
from numc.passes.rows.by_rows import by_rows
from numc.passes.streams.side_by_side import side_by_side
from numc.passes.tensors.direct_slices import direct_slices
from numc.passes.tensors.drop_unused_results import drop_unused_results
from numc.passes.tensors.fold_constants import fold_constants
from numc.passes.tensors.fuse_elementwise import fuse_elementwise
from numc.passes.tensors.index_tables import index_tables
from numc.passes.tensors.join_reductions import join_reductions
from numc.passes.tensors.measured_first import measured_first
from numc.passes.tensors.memory.read_only_arguments import read_only_arguments
from numc.passes.tensors.memory.separate_buffers import separate_buffers
from numc.passes.tensors.memory.update_in_place import update_in_place
from numc.passes.tensors.memory.write_over import write_over
from numc.passes.tensors.narrow.byte_tensors import byte_tensors
from numc.passes.tensors.narrow.narrow_operands import narrow_operands
from numc.passes.tensors.permuted_results import permuted_results
from numc.passes.tensors.products.hoist_products import hoist_products
from numc.passes.tensors.products.inserted_zeros import inserted_zeros
from numc.passes.tensors.products.integer_products import integer_products
from numc.passes.tensors.products.merge_products import merge_products
from numc.passes.tensors.products.skip_zeros import skip_zeros
from numc.passes.tensors.products.split_batches import split_batches
from numc.passes.tensors.products.sum_products import sum_products
from numc.passes.tensors.windows.unroll_windows import unroll_windows
from numc.passes.vector.call_rows import call_rows
from numc.passes.vector.lower_math import lower_math
from numc.passes.vector.lower_numc import lower_numc
from numc.passes.vector.mark_parts import mark_parts
from numc.passes.vector.outline import outline
from numc.passes.vector.parallel_loops import parallel_loops
from numc.support.errors import FAULT, CompilerBug, NumcError
from numc.support.files import keep
from numc.support.progress import tell
from numc.support.switches import disabled, switched_off


@dataclass(frozen=True)
class State:
    """The options of the user that a pass needs. All else that a pass needs is in the IR (passes/facts.py)."""

    policy: Policy
    target: Target
    fast: bool = True
    statistics: bool = False
    respect_dtypes: bool = True
    pack_weights: bool = False
    streams: int | None = None

    @staticmethod
    def of(options: Options) -> State:
        """The state of `options` on this machine. Raises NumcError for unknown names, and for what a GPU cannot do."""
        policy, target = options.resolved()
        if target.backend is GPU and (options.pack_weights or options.statistics):
            what = "weights are not packed" if options.pack_weights else "additions are not counted"
            option = "pack_weights" if options.pack_weights else "statistics"
            raise NumcError(f"target '{target.name}': {what} on GPUs: leave {option} out")
        flags = options.fast, options.statistics, options.respect_dtypes, options.pack_weights
        return State(policy, target, *flags, options.streams)


@dataclass(frozen=True)
class Pass:
    """A pass of the pipeline: what it does, in one line, and the function that does it, in place.

    switch: one of support/switches.py, which leaves the pass out. text: of upstream passes, as `numc opt` takes it.
    """

    about: str
    run: Callable[[ir.Module, State], object]
    switch: str = ""
    text: str = ""

    def __call__(self, module: ir.Module, state: State) -> None:
        if not (self.switch and disabled(self.switch)):
            self.run(module, state)


def ours(function: Callable[..., object], *asked: str, switch: str = "") -> Pass:
    """A function of the module's operation, and of these fields of what the user asked for (``target.isa.fma``)."""
    fields = [attrgetter(name) for name in asked]

    def run(module: ir.Module, state: State) -> object:
        return function(module.operation, *(get(state) for get in fields))

    return Pass((function.__doc__ or "").strip().splitlines()[0], run, switch)


def upstream(about: str, *passes: str) -> Pass:
    """Passes of MLIR and torch-mlir, by their text."""
    pipeline = ",".join(passes)

    def run(module: ir.Module, _: State) -> None:
        manager = PassManager.parse(f"builtin.module({pipeline})", module.context)
        manager.enable_verifier(False)  # once at the end, not after each of them: a third of the time
        # The operations of numc are Python, whose lock they need; the contexts of parts do not know them.
        run_on = PassManager.run if module.context.is_registered_operation("numc.round") else run_unlocked
        run_on(manager, module.operation)
        module.operation.verify()

    return Pass(about, run, text=pipeline)


_GENERALIZE = upstream("", "func.func(convert-elementwise-to-linalg,linalg-generalize-named-ops)", "canonicalize")


def _generalize(module: ir.Module, state: State) -> None:
    _GENERALIZE(module, state)
    for end in linalg.operations(module.operation, "linalg.yield"):  # a named operation has a body without a place
        end.location = end.parent.location


_cse = upstream("Make equal operations one.", "cse")


def _merge_equal(module: ir.Module, state: State) -> None:
    if not state.policy.draws:
        _cse(module, state)


_TM_TENSOR = upstream("", "func.func(tm-tensor-bufferize)")


def _math(module: ir.Module, state: State) -> None:
    lower_math(module, isa=state.target.isa)


def _math_of_kernels(module: ir.Module, state: State) -> None:
    for kernel in kernels_of(module.operation).values():
        lower_math(kernel, isa=state.target.isa)


def _scatter_and_sort(module: ir.Module, state: State) -> None:
    _TM_TENSOR(module, state)
    for op in linalg.operations(module.operation, "bufferization.to_tensor"):
        op.attributes["restrict"] = ir.UnitAttr.get(module.context)  # no other tensor has that buffer


_TO_LLVM = upstream(
    "",
    "func.func(expand-strided-metadata)",
    "lower-affine",
    "func.func(refback-expand-ops-for-llvm,arith-expand)",
    "canonicalize,cse",
    "convert-vector-to-scf,convert-scf-to-cf,convert-vector-to-llvm,convert-math-to-llvm,convert-index-to-llvm,"
    "convert-arith-to-llvm,convert-cf-to-llvm,finalize-memref-to-llvm,convert-func-to-llvm",
    "canonicalize,cse",
    "reconcile-unrealized-casts",
)


def _lower(module: ir.Module, state: State) -> None:
    locate_arguments(module.operation)  # else a dumped file would be lowered to other locations
    _TO_LLVM(module, state)
    annotate_branches(module.operation)


Stages: TypeAlias = Mapping[str, Mapping[str, Pass]]

# Stage -> its passes, in order. A pass is named so that --passes and dumps can speak of it.
TO_PLAN: Stages = {
    # The model as it was imported, in structured operations of one kind.
    "linalg": {
        "generalize": Pass(
            "Write elementwise operations and named contractions as linalg.generic.", _generalize, text=_GENERALIZE.text
        ),
        "affine-reads": ours(affine_reads),  # before indices get checks
        "crop-windows": ours(crop_windows, "policy.is_local"),  # before contractions are layers of a policy
        "narrow-tensors": ours(narrow_tensors, "respect_dtypes"),
        "run-time-checks": ours(run_time_checks),  # while padding and concatenation are operations with sizes to check
        "pad-and-concat": upstream(
            "Write padding and concatenation as insertions of slices.",
            "func.func(refback-generalize-tensor-pad,refback-generalize-tensor-concat,linalg-generalize-named-ops)",
            "canonicalize",
        ),
        "merge-equal": Pass(
            "Make equal operations one, unless each of them draws random bits of its own.", _merge_equal
        ),
    },
    # All arithmetic is explicit: every operator, every rounding, every order of accumulation.
    "numc": {
        "explicit-arithmetic": ours(explicit_arithmetic, "policy"),
        "write-out-scales": ours(write_out_scales),  # while operands are what they were before their conversion
        "tidy-conversions": ours(tidy_conversions),  # once all is explicit: only then is every use of a weight known
        "check-arithmetic": ours(check_arithmetic),
        "stored-codes": ours(stored_codes),  # after the roundings that it relies on
    },
    # Fewer operations on tensors, while it is plain to see who reads what.
    "tensors": {
        # Before anything that looks for contractions, and after policies: its float32 products are none of a layer's.
        "integer-products": ours(integer_products, "statistics", switch="integer-products"),
        "inserted-zeros": ours(inserted_zeros),  # before anything takes zeros for those of the model
        "skip-zeros": ours(skip_zeros, switch="skip-zeros"),
        "drop-unused-results": ours(drop_unused_results),
        "direct-slices": ours(direct_slices),
        "split-batches": ours(split_batches, switch="split-batches"),
        "index-tables": ours(index_tables),  # before fusion, so that what gathers can be fused
        "unroll-windows": ours(unroll_windows, switch="unroll-windows"),  # before fusion: with what follows
        "fuse-elementwise": ours(fuse_elementwise, switch="fuse-elementwise"),
        "permuted-results": ours(permuted_results),  # after fusion: what has joined the copy is no copy
        # After fusion: transposed operands are read in place.
        "sum-products": ours(sum_products, switch="sum-products"),
        "join-reductions": ours(join_reductions),  # after fusion: then equal operands are the same
        "merge-products": ours(
            merge_products, switch="merge-products"
        ),  # after fusion: transposed slices are read in place
        "hoist-products": ours(hoist_products, switch="hoist-products"),  # after merging: fewer and larger ones
        "measured-first": ours(measured_first),  # after products have been merged and hoisted
        # After fusion: what became an index map needs no constant.
        "fold-constants": ours(fold_constants, switch="fold-constants"),
        # Both after everything that looks for contractions, and copies them.
        "byte-tensors": ours(byte_tensors, "target.isa.masks", switch="byte-tensors"),
        "narrow-operands": ours(narrow_operands, "pack_weights", "statistics", switch="narrow-operands"),
        "read-only-arguments": ours(read_only_arguments),
        "separate-buffers": ours(separate_buffers),  # no cse from here to bufferize: it would merge them again
        "update-in-place": ours(update_in_place),
        "write-over": ours(write_over, switch="write-over"),
    },
    # Tensors become buffers.
    "buffers": {
        "scatter-and-sort": Pass("Give scatters and sorts buffers of their own.", _scatter_and_sort),
        "bufferize": upstream(
            "Give tensors memory: buffers, and where they are freed.",
            "convert-shape-to-std",
            "eliminate-empty-tensors",
            "func.func(empty-tensor-to-alloc-tensor)",
            "one-shot-bufferize{bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map"
            " allow-return-allocs-from-loops=true}",
            "refback-mlprogram-bufferize",
            "buffer-deallocation-pipeline",
            "convert-bufferization-to-memref,canonicalize,cse",
        ),
        "return-updated": ours(return_updated),
        "free-early": ours(free_early),
    },
    # What was decided about every contraction, as attributes that a person can read and edit.
    "plan": {
        "plan-kernels": ours(plan_kernels, "target.isa", "fast", "statistics", "pack_weights"),
        "by-rows": ours(by_rows, "target.isa", switch="by-rows"),
        "keep-borders": ours(keep_borders, switch="keep-borders"),  # what is padded for one operation alone is gone
    },
}

# The stages after the plan belong to the backend.
_VECTORS: Stages = {
    # Contractions become calls of kernels, which no pass changes from here to the dialect of LLVM.
    "kernels": {
        "emit-kernels": ours(emit_kernels, "target"),
        "math-of-kernels": Pass("Replace math functions in what kernels begin and end with.", _math_of_kernels),
    },
    # Everything else becomes loops over memory, in functions of their own.
    "vector": {
        "lower-numc": ours(lower_numc),  # what is left of numc is in the bodies of elementwise operations
        "inline": upstream(
            "Put the sequences of roundings and multiply-adds in their places.", "inline{default-pipeline=}"
        ),
        # As linalg.generic, to be outlined like the rest.
        "copies": upstream("Write copies of buffers as linalg.generic.", "func.func(refback-munge-memref-copy)"),
        "mark-parts": ours(mark_parts),  # while it is plain what every operation does
        "parallel-loops": ours(parallel_loops, "target.isa", switch="parallel-loops"),
        "call-rows": ours(call_rows),
        "lower-math": Pass(
            "Replace math functions by code that gives the same bits on every machine.", _math
        ),  # in scalars or in lanes, whichever the loops decided
        "outline": ours(outline),  # after inlining: bodies are complete, so that equal ones become equal functions
        "side-by-side": ours(side_by_side, "streams", switch="side-by-side"),  # once every part is a call
    },
    # Only functions of loops and of vectors are left, and one of them is the entry.
    "loops": {
        "checks-to-failures": ours(checks_to_failures),
        "loops": upstream(
            "Make loops of the linalg operations that are left.",
            "func.func(tm-tensor-to-loops,convert-linalg-to-loops,fold-memref-alias-ops)",
        ),
        "packed-entry": ours(packed_entry),  # on memrefs still: their static sizes stay known
    },
    # The dialect of LLVM, function by function: parts of a module get there on several threads.
    "llvm": {
        "without-fma": ours(without_fma, "target.isa.fma"),
        "scalar-loops": ours(scalar_loops),  # once all code is there
        "lower": Pass("Convert everything to the dialect of LLVM.", _lower, text=_TO_LLVM.text),
    },
}


# Of GPUs, the text of the program is written from the loops: no stage follows them.
_TILES: Stages = {
    "kernels": {"contractions": ours(contractions)},
    # Everything else stays as it is, with scalar bodies of arithmetic alone.
    "vector": {
        "lower-numc": _VECTORS["vector"]["lower-numc"],
        "inline": _VECTORS["vector"]["inline"],
        "lower-math": _VECTORS["vector"]["lower-math"],
    },
    "loops": {},
    "llvm": {},
}

AFTER_PLAN: Mapping[str, Stages] = {X86.name: _VECTORS, AARCH64.name: _VECTORS, GPU.name: _TILES}


def stages_of(backend: Backend) -> Stages:
    """All stages of the lowering to a backend's code."""
    return {**TO_PLAN, **AFTER_PLAN[backend.name]}


STAGE = "numc.stage"
"""On a module that was dumped or emitted: the last stage whose passes have all run."""
STAGES: Stages = stages_of(X86)
"""The stages of the backend whose code runs on this machine."""


def run(module: ir.Module, state: State, *, after: str = "", to: str = "llvm", dump: Dump | None = None) -> None:
    """Run the stages that follow `after` up to and including `to` on `module`, in place.

    `dump` receives the IR after every pass and every stage (compiler/dump.py). Raises CompilerBug when a pass fails;
    the IR before it is kept. Raises NumcError if the folder of `dump` cannot be written.
    """
    stages = stages_of(state.target.backend)
    names = list(stages)
    first = names.index(after) + 1 if after else 0
    number, total = (sum(len(stages[stage]) for stage in some) for some in (names[:first], names))
    facts.drop(module.operation, STAGE)
    if dump:
        dump.begin(text(module))
    for stage in names[first : names.index(to) + 1]:
        begin = Begin(module.operation.clone())
        for name, function in stages[stage].items():
            tell("pass", name, number, total)
            run_pass(name, function, module, state, begin)
            number += 1
            if dump:
                dump.after_pass(number, stage, name, text(module))
        if dump:
            dump.after_stage(stage, text(module, stage))


@dataclass(frozen=True)
class Begin:
    """The IR before some passes, and those of them that have run since: with them it is known before each of them.

    A copy for every pass would take a tenth of the passes' time.
    """

    copy: ir.Operation
    passes: list[Pass] = field(default_factory=list)

    def text(self, state: State) -> str:
        """The IR after these passes, with its locations."""
        module = ir.Module.parse(self.copy.get_asm(enable_debug_info=True), self.copy.context)
        for each in self.passes:
            each(module, state)
        return text(module)


def run_pass(name: str, function: Pass, module: ir.Module, state: State, begin: Begin | None = None) -> None:
    """Run one pass on `module`. Raises CompilerBug naming the kept IR and the command that reproduces the failure.

    begin: the IR from which earlier passes have made the module, to which this one is added.
    """
    begin = begin or Begin(module.operation.clone())
    try:
        function(module, state)
    except NumcError:
        raise
    except MemoryError:
        raise
    except Exception as error:
        reason = " ".join(str(error).strip().splitlines()[:2]) or type(error).__name__
        how = reproduced(name, begin.text(state), state)
        raise CompilerBug(f"pass '{name}' failed: {reason}; {FAULT}; {how}") from error
    begin.passes.append(function)


def reproduced(name: str, before: str, state: State) -> str:
    """Keep the IR `before` a pass that failed, and return the words that say how to reproduce the failure."""
    plain = state.policy.is_plain
    try:
        folder = keep({"before.mlir": before} | ({} if plain else {"policy": str(state.policy)}))
    except OSError as error:
        return f"the IR before it could not be kept: {error.strerror or error}"
    command = ["numc", "opt", f"{folder}/before.mlir", "--passes", name, *_asked(state, folder)]
    if off := switched_off():
        command = ["env", f"NUMC_DISABLE={','.join(sorted(off))}", *command]
    return f"reproduce with: {shlex.join(command)}"


def _asked(state: State, folder: Path) -> list[str]:
    """The options of `numc opt` that ask for the same; `folder` has a policy that is not plain."""
    if state.policy.is_plain:
        fma, ops = state.policy.default
        options = ["--fma", str(fma), "--ops", str(ops)]
    else:
        options = ["--policy", f"{folder}/policy"]
    options += ["--target", state.target.name]
    options += ["--no-respect-dtypes"] * (not state.respect_dtypes) + ["--pack-weights"] * state.pack_weights
    if state.streams is not None:
        options += ["--streams", str(state.streams)]
    return options + ["--statistics"] * state.statistics + ["--no-fast"] * (not state.fast)


def text(module: ir.Module, stage: str = "") -> str:
    """The text of a module with its locations, which carry the names of the model's layers.

    stage: the one whose last pass has just run, which the text then says of itself.
    """
    if not stage:
        return str(module.operation.get_asm(enable_debug_info=True))
    facts.put(module.operation, STAGE, stage)
    try:
        return text(module)
    finally:
        facts.drop(module.operation, STAGE)


def stage_of(module: ir.Module) -> str | None:
    """The stage that a text said of itself, or None."""
    stage: str | None = facts.get(module.operation, STAGE)
    return stage


def object_code(state: State) -> Making:
    """Maker of the machine code of a module after stage ``loops``, and of its kernels after stage ``kernels``."""

    def lower(part: ir.Module) -> None:
        for name, function in stages_of(state.target.backend)["llvm"].items():
            run_pass(name, function, part, state)

    return state.target.backend.making()(state.target, ENTRY, lower)


def find_pass(name: str) -> Pass | None:
    """Return the pass called `name` of the pipeline, of any backend."""
    every = (passes for stages in (STAGES, *AFTER_PLAN.values()) for passes in stages.values())
    return next((passes[name] for passes in every if name in passes), None)
