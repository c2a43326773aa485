"""numc.training_sensitivity: which part of a narrow arithmetic costs the gradients of a training step how much."""

from __future__ import annotations

import copy
import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import FunctionType

import numpy as np
import torch
from torch._dynamo.external_utils import wrap_inline

from numc.compiler.options import Options
from numc.compiler.policy_table import policy_table
from numc.compiler.torch_compile.backend import Backend, backend
from numc.frontends.lowering.torch_mlir_passes import one_line
from numc.frontends.pytorch.load import read_program
from numc.numerics.grammar import parse_fma
from numc.numerics.operators import Fma
from numc.numerics.policy.layer import Layer, pattern_of
from numc.numerics.policy.policy import module_of
from numc.studies.data import Array
from numc.studies.sensitivity.changes import WIDTHS, Change, of_operator
from numc.studies.sensitivity.records import Part
from numc.studies.sensitivity.sensitivity import Sensitivity
from numc.support.arguments import check_function, checked, checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted

ROLES = ("forward", "dgrad", "wgrad")
"""The roles of contractions of a training step: its forward pass, gradients of inputs, and of weights."""

_EXACT = "default fp32"


@in_default_environment
def training_sensitivity(
    module: torch.nn.Module,
    inputs: Sequence[torch.Tensor],
    loss: Callable[[torch.Tensor], torch.Tensor],
    *,
    fma: str,
    widths: Sequence[int] = WIDTHS,
    progress: Callable[[str, float], None] | None = None,
) -> Sensitivity:
    """Say what each part of a narrow arithmetic does to the gradients of one training step, the rest of which is fp32.

    Narrow alone are everything; each layer, in the forward and the backward pass, or each contraction of what `module`
    multiplies itself; the forward pass, gradients of inputs (``dgrad``) and of weights (``wgrad``), each in all layers;
    of the operator A, B and both; then the operator has accumulators of other widths. Errors are of the gradients of
    all parameters: Σ(g - r)² / Σr², against those in fp32, r. module: it stays as it is, with its own gradients.
    inputs: its arguments. loss: of its result, a tensor of one number. fma: the operator. widths: the significand bits
    of accumulators, 1 to 23. progress: called with what is being done, and the fraction of all work that is done.
    Raises NumcError for arguments of other types, for a loss that has no gradient, a module without contractions, and
    for an operator or a width that does not exist.
    """
    checked(module, "module", torch.nn.Module, "a module of PyTorch")
    checked(inputs, "inputs", (list, tuple), "a sequence of tensors")
    check_function(loss, "loss")
    op = parse_fma(fma)
    for width in checked(widths, "widths", (list, tuple), "a sequence of significand bits"):
        checked_integer(width, "a width of widths", 1, 23)
    say = progress or (lambda text, fraction: None)
    say("fp32", 0.0)
    exact, used = _gradients(module, inputs, loss, _EXACT)
    energy = float((exact**2).sum())
    if energy == 0:
        raise NumcError("training_sensitivity: all gradients are zero in fp32, so that errors have no scale")
    layers = _contractions(used)
    if not layers:
        raise NumcError("training_sensitivity: the step has no contractions, and so nothing that an operator computes")
    tried, shares = _changes(op, layers, widths), {**_shares(layers, _of_module), **_shares(layers, _of_role)}
    parts = []
    for done, change in enumerate(tried, 1):
        say(f"{change.what} {change.name}", done / (len(tried) + 1))
        difference = _gradients(module, inputs, loss, change.policy)[0] - exact
        error = float((difference**2).sum()) / energy
        told = {"what": change.what, "name": change.name, "policy": change.policy}
        parts.append(Part(**told, share=shares.get((change.what, change.name)), error=error, metrics={}))
    return Sensitivity(
        model=type(module).__name__,
        fma=str(op),
        samples=len(inputs[0]) if inputs and inputs[0].ndim else 1,
        metrics=(),
        fp32={},
        parts=tuple(parts),
        measured="gradients",
    )


def sensitivity_of_file(
    path: str,
    data: Mapping[str, Array] | Array,
    labels: Array,
    *,
    fma: str,
    widths: Sequence[int] = WIDTHS,
    progress: Callable[[str, float], None] | None = None,
) -> Sensitivity:
    """Return the `training_sensitivity` of a step of an exported program in a file (``.pt2``).

    data: its inputs by name, or the one it has; the loss is the cross entropy of class numbers, whose scores are in the
    last axis of the output or, as torch has it, in the second, or the mean squared error of values. Raises NumcError
    for a file, inputs and labels that are none of it, and as `training_sensitivity`.
    """
    program = read_program(path)
    names = list(program.graph_signature.user_inputs)
    arrays = data if isinstance(data, Mapping) else {str(names[0]): data}
    if len(names) == 1 and len(arrays) == 1:
        arrays = dict(zip(map(str, names), arrays.values(), strict=True))
    if sorted(arrays) != sorted(map(str, names)):
        raise NumcError(f"{path}: inputs {', '.join(map(quoted, arrays))}, want {', '.join(map(quoted, names))}")
    module, inputs = program.module(), [torch.from_numpy(arrays[str(name)]) for name in names]
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise NumcError(f"{path}: has no parameters, want a model that can be trained")
    classes = np.issubdtype(labels.dtype, np.integer)
    wanted = torch.from_numpy(labels.astype(np.int64 if classes else np.float32))
    measure = torch.nn.functional.cross_entropy if classes else torch.nn.functional.mse_loss

    def loss(outputs: torch.Tensor) -> torch.Tensor:
        if classes and outputs.shape[:-1] == wanted.shape:
            return measure(outputs.flatten(0, -2), wanted.flatten())
        return measure(outputs, wanted)

    try:
        outputs = module(*inputs)
        if isinstance(outputs, torch.Tensor):
            loss(outputs)
    except Exception as error:
        raise NumcError(f"{path}: these samples make no step of it: {one_line(str(error), 200)}") from None
    if not isinstance(outputs, torch.Tensor):
        raise NumcError(f"{path}: gives a {type(outputs).__name__}, want one tensor, which the labels are of")
    return replace(training_sensitivity(module, inputs, loss, fma=fma, widths=widths, progress=progress), model=path)


def _changes(fma: Fma, layers: Sequence[Layer], widths: Sequence[int]) -> list[Change]:
    """Return what is tried, everything first."""
    tried = [Change("all", "everything", f"default fma = {fma}")]
    for name in dict.fromkeys(_of_module(layer)[1] for layer in layers):
        places = dict.fromkeys(pattern_of(each.name) for each in layers if _of_module(each)[1] == name)
        tried.append(Change("layer", name, f"default fp32\nlayer {', '.join(places)} fma = {fma}"))
    tried += [Change("role", role, f"default fp32\nrole {role} fma = {fma}") for role in ROLES]
    return [*tried, *of_operator(fma, widths)]


def _of_module(layer: Layer) -> tuple[str, str]:
    return "layer", module_of(layer.name)


def _of_role(layer: Layer) -> tuple[str, str]:
    return "role", layer.role


def _shares(layers: Sequence[Layer], key: Callable[[Layer], tuple[str, str]]) -> dict[tuple[str, str], float]:
    """The shares of the multiply-adds of a step, by what a row is about."""
    counts: Counter[tuple[str, str]] = Counter()
    for layer in layers:
        counts[key(layer)] += math.prod(size or 0 for size in layer.sizes.values())
    return {what: count / max(1, counts.total()) for what, count in counts.items()}


def _gradients(
    module: torch.nn.Module, inputs: Sequence[torch.Tensor], loss: Callable[[torch.Tensor], torch.Tensor], policy: str
) -> tuple[np.ndarray, Backend]:
    """The gradients of all parameters in an arithmetic, one after the other, in float64; and what computed them."""
    with warnings.catch_warnings():  # that torch copies an exported program by names it calls deprecated
        warnings.simplefilter("ignore", FutureWarning)
        step = copy.deepcopy(module)
    step.zero_grad()
    # torch keeps what it has traced with the code of a function, and only so often: this has code of its own, so that
    # other modules keep their share. Dropout is the same in all arithmetics.
    shared = wrap_inline(step)
    call = FunctionType(shared.__code__.replace(), shared.__globals__, closure=shared.__closure__)
    limits = torch._dynamo.config.patch(recompile_limit=10_000, accumulated_recompile_limit=10_000)
    with limits, torch.random.fork_rng():
        torch.manual_seed(0)
        used = backend(policy=policy)
        value = loss(torch.compile(call, backend=used, dynamic=False)(*inputs))
        if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.requires_grad:
            raise NumcError(
                "training_sensitivity: loss: want a function that returns a tensor of one number and a gradient"
            )
        value.backward()
    made = [parameter.grad for parameter in step.parameters() if parameter.grad is not None]
    return np.concatenate([each.detach().double().numpy().ravel() for each in made]), used


def _contractions(used: Backend) -> list[Layer]:
    tables = [policy_table(region.imported, Options(policy=_EXACT)) for region in used.regions]
    layers = [decision.layer for table in tables for decision in table.decisions]
    return [layer for layer in layers if layer.position is not None]
