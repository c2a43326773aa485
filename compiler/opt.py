"""Stages and single passes on IR that somebody has: ``numc.opt`` and the command ``numc opt``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from numc.compiler import pipeline
from numc.compiler.options import Options
from numc.compiler.pipeline import STAGES, Pass, find_pass, upstream
from numc.frontends import mlir
from numc.frontends.parse import parse_module
from numc.numerics.policy.policy import Policy
from numc.passes import facts
from numc.support.arguments import checked_text
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, did_you_mean, quoted

GROUP = "numc.passes"
"""The entry points of passes from outside: a name, and a function of the operation of the module, which it changes."""


@in_default_environment
def opt(
    source: str | os.PathLike[str] | ir.Module,
    passes: str | Sequence[str],
    *,
    fma: str = "fp32",
    ops: str = "fp32",
    policy: str | os.PathLike[str] | Policy | None = None,
    target: str = "host",
) -> ir.Module:
    """Return `source` after exactly the passes named, in their order.

    source: an mlir module, which stays as it is, a file of MLIR text (a path that ends with .mlir), or the text itself.
    passes: names of `numc list passes`, of entry points of the group ``numc.passes``, or texts of upstream passes; one
    text with commas between them, or a list. fma, ops, policy, target: what passes that choose arithmetic or
    instructions are told. Raises NumcError for bad input, and CompilerBug if a pass fails.
    """
    steps = (
        split_passes(passes) if isinstance(passes, str) else [step for text in passes for step in split_passes(text)]
    )
    if isinstance(source, ir.Module):
        text, name = pipeline.text(source), "source"
    elif isinstance(source, os.PathLike) or source.endswith(".mlir"):
        text, name = mlir.load(source).mlir, os.fspath(source)
    else:
        text, name = source, "source"
    module = parse_module(text, name)
    run_steps(module, steps, pipeline.State.of(Options(fma=fma, ops=ops, target=target, policy=policy)))
    return module


def opted(
    text: str,
    name: str,
    options: Options,
    *,
    after: str = "",
    to: str = "",
    steps: list[str] | None = None,
) -> str:
    """Return the IR text after the stages `after` (exclusive) to `to`, or after exactly the passes `steps`.

    `name` is what errors call the text. Raises NumcError, also where the text says that it is of another stage.
    """
    state = pipeline.State.of(options)
    module = parse_module(text, name)
    if steps is None:
        _check_stage(pipeline.stage_of(module), after, name)
        pipeline.run(module, state, after=after, to=to)
        return pipeline.text(module, to)
    run_steps(module, steps, state, "--passes")
    return pipeline.text(module)


def run_steps(module: ir.Module, steps: Sequence[str], state: pipeline.State, what: str = "passes") -> None:
    """Run passes by their names on a module, in place; all names are looked up before the first pass runs.

    what: the name of the argument or option that names them. Raises NumcError for an unknown one.
    """
    facts.drop(module.operation, pipeline.STAGE)
    for step, function in [(step, _find(step, module, what)) for step in steps]:
        pipeline.run_pass(step, function, module, state)


def outside() -> dict[str, EntryPoint]:
    """The passes from outside, by name; those of numc come first."""
    return {entry.name: entry for entry in entry_points(group=GROUP) if find_pass(entry.name) is None}


def _check_stage(stage: str | None, after: str, name: str) -> None:
    if stage is None or stage == after:
        return
    if not after:
        raise NumcError(
            f"{name}: is IR after the stage '{stage}', and without --from it is taken for a model: add --from {stage}"
        )
    raise NumcError(f"--from {after}: {name} is IR after the stage '{stage}': want --from {stage}")


def _find(step: str, module: ir.Module, what: str) -> Pass:
    """Return the pass `step`: one of ours, one from outside, or upstream pass text. Raises NumcError."""
    if ours := find_pass(step):
        return ours
    others = outside()
    if step in others:
        return _from_outside(others[step], what)
    try:
        PassManager.parse(f"builtin.module({step})", module.context)
    except ValueError as error:
        known = [name for stage in STAGES.values() for name in stage]
        near = did_you_mean(step, [*known, *others, *_UPSTREAM])
        reason = str(error).splitlines()[0].split("error: ")[-1]
        if "does not refer to a registered pass" in reason:
            reason = "no such pass"
        raise NumcError(f"{what} {quoted(step)}: {reason}{near}: see `numc list passes`") from None
    return upstream("", step)


def _from_outside(entry: EntryPoint, what: str) -> Pass:
    try:
        function = entry.load()
    except Exception as error:
        raise NumcError(f"{what} '{entry.name}': {entry.value} cannot be imported: {error}") from None
    return Pass((getattr(function, "__doc__", None) or "").strip(), lambda module, _: function(module.operation))


# Upstream passes people ask for by name; only suggestions are made from this list.
_UPSTREAM = (
    "canonicalize",
    "cse",
    "inline",
    "symbol-dce",
    "one-shot-bufferize",
    "convert-linalg-to-loops",
    "convert-scf-to-cf",
    "lower-affine",
    "fold-memref-alias-ops",
    "expand-strided-metadata",
    "linalg-generalize-named-ops",
    "linalg-fuse-elementwise-ops",
    "eliminate-empty-tensors",
    "convert-math-to-llvm",
    "convert-arith-to-llvm",
    "convert-vector-to-llvm",
    "convert-vector-to-scf",
    "convert-func-to-llvm",
    "finalize-memref-to-llvm",
    "reconcile-unrealized-casts",
    "loop-invariant-code-motion",
    "arith-expand",
)


def split_passes(text: str, what: str = "passes") -> list[str]:
    """Split at the commas outside brackets; what: the name of the argument or option that has the text.

    Raises NumcError for an empty name or unbalanced brackets.
    """
    steps, depth = [""], 0
    for character in checked_text(text, what, 20_000):
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            break
        if character == "," and depth == 0:
            steps.append("")
        else:
            steps[-1] += character
    steps = [step.strip() for step in steps]
    if depth != 0:
        raise NumcError(f"{what} {quoted(text)}: unbalanced brackets: want a,b{{option=1}},func.func(c)")
    if not all(steps):
        raise NumcError(f"{what} {quoted(text)}: an empty name: want a,b{{option=1}},func.func(c)")
    return steps
