"""numc.training_sensitivity: which role of a training step costs its gradients how much in a narrow arithmetic."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from numc.compiler.torch_compile.backend import backend
from numc.frontends.lowering.torch_mlir_passes import one_line
from numc.frontends.pytorch.load import read_program
from numc.numerics.grammar import parse_fma
from numc.studies.data import Array
from numc.studies.sensitivity.changes import WIDTHS, Change, accumulators, operands
from numc.studies.sensitivity.records import Part
from numc.support.arguments import check_function, checked, checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted

ROLES = ("forward", "dgrad", "wgrad")
"""The roles of contractions of a training step: its forward pass, gradients of inputs, and of weights."""


@in_default_environment
def training_sensitivity(
    module: torch.nn.Module,
    inputs: Sequence[torch.Tensor],
    loss: Callable[[torch.Tensor], torch.Tensor],
    *,
    fma: str,
    widths: Sequence[int] = WIDTHS,
) -> tuple[Part, ...]:
    """Say what each part of a narrow arithmetic does to the gradients of one training step, the rest of which is fp32.

    Narrow alone are everything; the forward pass, gradients of inputs (``dgrad``) and of weights (``wgrad``), each in
    all layers; of the operator A, B and both; then the operator has accumulators of other widths. Errors are of the
    gradients of all parameters: Σ(g - r)² / Σr², against those in fp32, r. module: it stays as it is, with its own
    gradients. inputs: its arguments. loss: of its result, a tensor of one number. fma: the operator. widths: the
    significand bits of accumulators, 1 to 23. Raises NumcError for arguments of other types, for a loss that has no
    gradient, and for an operator or a width that does not exist.
    """
    checked(module, "module", torch.nn.Module, "a module of PyTorch")
    checked(inputs, "inputs", (list, tuple), "a sequence of tensors")
    check_function(loss, "loss")
    op = parse_fma(fma)
    for width in checked(widths, "widths", (list, tuple), "a sequence of significand bits"):
        checked_integer(width, "a width of widths", 1, 23)
    tried = [Change("all", "everything", f"default fma = {op}")]
    tried += [Change("role", role, f"default fp32\nrole {role} fma = {op}") for role in ROLES]
    tried += [Change("operand", name, f"default fma = {text}") for name, text in operands(op).items()]
    tried += [Change("accumulator", name, f"default fma = {text}") for name, text in accumulators(op, widths).items()]
    exact = _gradients(module, inputs, loss, "default fp32")
    energy = float((exact**2).sum())
    if energy == 0:
        raise NumcError("training_sensitivity: all gradients are zero in fp32, so that errors have no scale")
    parts = []
    for change in tried:
        difference = _gradients(module, inputs, loss, change.policy) - exact
        error = float((difference**2).sum()) / energy
        told = {"what": change.what, "name": change.name, "policy": change.policy}
        parts.append(Part(**told, share=None, error=error, metrics={}))
    return tuple(parts)


def sensitivity_of_file(
    path: str, data: Mapping[str, Array] | Array, labels: Array, *, fma: str, widths: Sequence[int] = WIDTHS
) -> tuple[Part, ...]:
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
    return training_sensitivity(module, inputs, loss, fma=fma, widths=widths)


def _gradients(
    module: torch.nn.Module, inputs: Sequence[torch.Tensor], loss: Callable[[torch.Tensor], torch.Tensor], policy: str
) -> np.ndarray:
    """The gradients of all parameters in an arithmetic, one after the other, in float64."""
    with warnings.catch_warnings():  # that torch copies an exported program by names it calls deprecated
        warnings.simplefilter("ignore", FutureWarning)
        step = copy.deepcopy(module)
    step.zero_grad()
    # torch traces one function for a limited number of backends. Dropout is the same in all arithmetics.
    limits = torch._dynamo.config.patch(recompile_limit=10_000, accumulated_recompile_limit=10_000)
    with limits, torch.random.fork_rng():
        torch.manual_seed(0)
        value = loss(torch.compile(step, backend=backend(policy=policy))(*inputs))
        if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.requires_grad:
            raise NumcError(
                "training_sensitivity: loss: want a function that returns a tensor of one number and a gradient"
            )
        value.backward()
    made = [parameter.grad for parameter in step.parameters() if parameter.grad is not None]
    return np.concatenate([each.detach().double().numpy().ravel() for each in made])
