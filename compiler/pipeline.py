"""The whole lowering, as one list a reader can recite. Each stage is a word: `--emit WORD`, dump name, resume point."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect  # noqa: F401  (registers the refback-* and tm-tensor-* passes)
from torch_mlir.passmanager import PassManager

from numc.compiler.arithmetic.formats import Conversion
from numc.compiler.arithmetic.operators import Fma
from numc.compiler.arithmetic.policy.policy import Decision, Policy
from numc.compiler.support.errors import CompilerBug, NumcError
from numc.compiler.support.switches import disabled
from numc.compiler.targets import Target
from numc.passes import facts
from numc.passes.buffers.free_early import free_early
from numc.passes.buffers.lower_math import lower_math
from numc.passes.buffers.lower_numc import lower_numc
from numc.passes.buffers.outline import outline
from numc.passes.buffers.parallel_loops import parallel_loops
from numc.passes.explicit.explicit_arithmetic import escaped, explicit_arithmetic
from numc.passes.explicit.layers_of import layers_of
from numc.passes.explicit.tidy_conversions import tidy_conversions
from numc.passes.llvm.checks_to_failures import checks_to_failures
from numc.passes.llvm.packed_entry import packed_entry
from numc.passes.llvm.without_fma import without_fma
from numc.passes.plan.emit_kernels import emit_kernels
from numc.passes.plan.plan import Machine
from numc.passes.plan.plan_kernels import plan_kernels
from numc.passes.tensors.drop_unused_results import drop_unused_results
from numc.passes.tensors.fold_constants import Folded, fold_constants
from numc.passes.tensors.fuse_elementwise import fuse_elementwise
from numc.passes.tensors.merge_products import merge_products
from numc.passes.tensors.read_only_arguments import read_only_arguments
from numc.passes.tensors.separate_buffers import separate_buffers
from numc.passes.tensors.skip_zeros import skip_zeros
from numc.passes.tensors.update_in_place import return_updated, update_in_place


@dataclass
class State:
    """What the passes are told, and what they find out on the way."""

    policy: Policy
    target: Target
    fast: bool = True
    weights: frozenset[int] = frozenset()
    updates: Mapping[int, int] = field(default_factory=dict)  # results that may take an input's memory, by number
    statistics: bool = False
    fold: bool = True  # only where this machine can run what it compiles
    calibration: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # options.py, by number
    weight_conversions: dict[int, str] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)  # what the operations of a name are in the model
    roles: Mapping[str, str] = field(default_factory=dict)  # what they are for
    decisions: dict[ir.Operation, Decision] = field(default_factory=dict)
    numc_ir: str = ""
    folded: Folded | None = None

    def decide(self, module: ir.Operation) -> None:
        """Ask the policy for the arithmetic of every operation."""
        layers = layers_of(module, self.nodes, self.roles)
        self.decisions = dict(zip(layers, self.policy.decide(list(layers.values())), strict=True))

    def arithmetic_of(self, op: ir.Operation) -> tuple[Fma, Conversion]:
        """The operator and the format that an operation of the model computes in."""
        decision = self.decisions[op]
        return decision.fma, decision.ops


Pass = Callable[[ir.Module, State], None]


def upstream(pipeline: str) -> Pass:
    """A pass that is a pipeline of upstream passes."""

    def run(module: ir.Module, _: State) -> None:
        manager = PassManager.parse(f"builtin.module({pipeline})", module.context)
        manager.enable_verifier(False)  # once at the end, not after each of them: a third of the time
        manager.run(module.operation)
        module.operation.verify()

    return run


_cse = upstream("cse")


def _merge_equal(module: ir.Module, state: State) -> None:
    """Equal operations are one, unless each of them draws random bits of its own."""
    if not state.policy.draws:
        _cse(module, state)


def _explicit(module: ir.Module, state: State) -> None:
    """Write every FMA operator and every rounding into the IR: those that the policy names."""
    state.decide(module.operation)
    explicit_arithmetic(module.operation, state.arithmetic_of)


def _tidy(module: ir.Module, state: State) -> None:
    state.weight_conversions = tidy_conversions(module.operation, state.weights)


def _check(module: ir.Module, state: State) -> None:
    """Prove that no multiply-add escaped its operator, and keep the IR in which all arithmetic is explicit."""
    if left := escaped(module.operation):
        raise AssertionError(f"a multiply-add has no operator: {left[0]}")
    state.numc_ir = text(module)


def _read_only_arguments(module: ir.Module, state: State) -> None:
    read_only_arguments(module.operation, set(state.updates.values()))


def _skip_zeros(module: ir.Module, _: State) -> None:
    if not disabled("skip-zeros"):
        skip_zeros(module.operation)


def _drop_unused_results(module: ir.Module, _: State) -> None:
    drop_unused_results(module.operation)


def _fuse_elementwise(module: ir.Module, _: State) -> None:
    if not disabled("fuse-elementwise"):
        fuse_elementwise(module.operation)


def _merge_products(module: ir.Module, _: State) -> None:
    if not disabled("merge-products"):
        merge_products(module.operation)


def _fold_constants(module: ir.Module, state: State) -> None:
    if state.fold and state.weights and not disabled("fold-constants"):
        state.folded = fold_constants(module.operation, state.weights)
        if state.folded is not None:
            state.weights |= set(state.folded.results)


def _separate_buffers(module: ir.Module, _: State) -> None:
    separate_buffers(module.operation)


def _update_in_place(module: ir.Module, state: State) -> None:
    update_in_place(module.operation, state.updates)


def _return_updated(module: ir.Module, state: State) -> None:
    return_updated(module.operation, state.updates)


def _free_early(module: ir.Module, _: State) -> None:
    free_early(module.operation)


def _plan_kernels(module: ir.Module, state: State) -> None:
    if state.weights and not facts.of_arguments(module.operation, "numc.weight"):
        facts.put_arguments(module.operation, "numc.weight", {n: f"weight_{n}" for n in state.weights})
    plan_kernels(module.operation, _machine(state), state.fast, state.statistics, state.calibration)


def _emit_kernels(module: ir.Module, state: State) -> None:
    emit_kernels(module.operation, _machine(state))


def _machine(state: State) -> Machine:
    target = state.target
    registers = 32 if "avx512f" in target.features else 16
    return Machine(target.tile.width, registers, target.tile, target.has_fma, target.has_dot)


def _lower_numc(module: ir.Module, _: State) -> None:
    lower_numc(module.operation)


def _lower_math(module: ir.Module, _: State) -> None:
    lower_math(module.operation, None)


def _parallel_loops(module: ir.Module, _: State) -> None:
    if not disabled("parallel-loops"):
        parallel_loops(module.operation)


def _outline(module: ir.Module, _: State) -> None:
    outline(module.operation)


def _checks_to_failures(module: ir.Module, state: State) -> None:
    state.failures = checks_to_failures(module)


def _packed_entry(module: ir.Module, _: State) -> None:
    packed_entry(module)


def _without_fma(module: ir.Module, state: State) -> None:
    if not state.target.has_fma:
        without_fma(module.operation)


# Stage -> its passes, in order. A pass is named so that --passes and dumps can speak of it.
STAGES: Mapping[str, Mapping[str, Pass]] = {
    "linalg": {
        # Padding and concatenation as plain structured ops; named contractions as linalg.generic, which we rewrite.
        "generalize": upstream(
            "func.func(convert-elementwise-to-linalg,refback-generalize-tensor-pad,refback-generalize-tensor-concat,"
            "linalg-generalize-named-ops),canonicalize"
        ),
        "merge-equal": _merge_equal,
    },
    "numc": {
        "explicit-arithmetic": _explicit,
        "tidy-conversions": _tidy,  # after everything is explicit: only then is every use of a weight known
        "check-arithmetic": _check,
    },
    "tensors": {
        "skip-zeros": _skip_zeros,
        "drop-unused-results": _drop_unused_results,
        "fuse-elementwise": _fuse_elementwise,  # while values are tensors: who reads what is plain to see
        "merge-products": _merge_products,  # after fusion: transposed slices are read in place
        "fold-constants": _fold_constants,  # after fusion: what became an index map needs no constant
        "read-only-arguments": _read_only_arguments,
        "separate-buffers": _separate_buffers,  # no cse from here to bufferize: it would merge them again
        "update-in-place": _update_in_place,
    },
    "buffers": {
        "bufferize": upstream(
            "convert-shape-to-std,func.func(tm-tensor-bufferize),eliminate-empty-tensors,func.func(empty-tensor-to-alloc-tensor),"
            "one-shot-bufferize{bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map"
            " allow-return-allocs-from-loops=true},refback-mlprogram-bufferize,buffer-deallocation-pipeline,"
            "convert-bufferization-to-memref,canonicalize,cse"
        ),
        "return-updated": _return_updated,
        "free-early": _free_early,
    },
    "plan": {
        "plan-kernels": _plan_kernels,  # on buffers: kernels address memory
    },
    "vector": {
        "emit-kernels": _emit_kernels,
        "lower-numc": _lower_numc,  # what is left of numc lives in elementwise bodies
        "lower-math": _lower_math,  # before loops, so that bodies are still easy to find
        "inline": upstream("inline{default-pipeline=}"),
        "copies": upstream("func.func(refback-munge-memref-copy)"),  # as linalg.generic, to be outlined like the rest
        "parallel-loops": _parallel_loops,
        "outline": _outline,  # after inlining: bodies are complete, equal ones become equal functions
    },
    "llvm": {
        "checks-to-failures": _checks_to_failures,
        "loops": upstream("func.func(tm-tensor-to-loops,convert-linalg-to-loops,fold-memref-alias-ops)"),
        "packed-entry": _packed_entry,  # on memrefs still: their static sizes stay known
        "without-fma": _without_fma,
        "lower": upstream(
            "func.func(expand-strided-metadata),lower-affine,func.func(refback-expand-ops-for-llvm,arith-expand),"
            "canonicalize,cse,convert-vector-to-scf,convert-scf-to-cf,convert-vector-to-llvm,convert-math-to-llvm,"
            "convert-index-to-llvm,convert-arith-to-llvm,convert-cf-to-llvm,finalize-memref-to-llvm,convert-func-to-llvm,"
            "canonicalize,cse,reconcile-unrealized-casts"
        ),
    },
}


def run(module: ir.Module, state: State, *, after: str = "", to: str = "llvm", dump_dir: Path | None = None) -> None:
    """Run the stages that follow `after` up to and including `to` on `module`, in place.

    `dump_dir` receives the IR after every pass (``03-numc-tidy-conversions.mlir``) and every stage (``numc.mlir``),
    which `numc opt --from STAGE` resumes. Raises CompilerBug when a pass fails; the IR before it is kept.
    """
    names = list(STAGES)
    count = 0
    for stage in names[names.index(after) + 1 if after else 0 : names.index(to) + 1]:
        for name, function in STAGES[stage].items():
            run_pass(name, function, module, state)
            count += 1
            if dump_dir:
                (dump_dir / f"{count:02}-{stage}-{name}.mlir").write_text(text(module))
        if dump_dir:
            (dump_dir / f"{stage}.mlir").write_text(text(module))


def run_pass(name: str, function: Pass, module: ir.Module, state: State) -> None:
    """Run one pass on `module`. Raises CompilerBug naming the kept IR and the command that reproduces the failure."""
    before = module.operation.clone()
    try:
        function(module, state)
    except NumcError:
        raise
    except Exception as error:
        folder = Path(tempfile.mkdtemp(prefix="numc-failure-", dir="."))
        (folder / "before.mlir").write_text(before.get_asm(enable_debug_info=True))
        reason = str(error).strip().splitlines()
        command = ["numc", "opt", f"{folder}/before.mlir", "--passes", name, *_arithmetic(state.policy, folder)]
        command += ["--target", state.target.name]
        raise CompilerBug(
            f"pass '{name}' failed: {' '.join(reason[:2]) or type(error).__name__}; "
            f"reproduce with: {shlex.join(command)}"
        ) from error


def _arithmetic(policy: Policy, folder: Path) -> list[str]:
    """The options that mean a policy; one that is not plain is written to `folder`."""
    if policy.is_plain:
        fma, ops = policy.default
        return ["--fma", str(fma), "--ops", str(ops)]
    (folder / "policy").write_text(str(policy), encoding="utf-8")
    return ["--policy", f"{folder}/policy"]


def text(module: ir.Module) -> str:
    """The text of a module with its locations, which carry the names of the model's layers."""
    return str(module.operation.get_asm(enable_debug_info=True))


def find_pass(name: str) -> Pass | None:
    """Return the pass of the pipeline called `name`."""
    return next((passes[name] for passes in STAGES.values() if name in passes), None)
