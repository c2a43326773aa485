"""The contractions of a model that is a file, or of its training step, and the arithmetic that a policy chooses."""

from __future__ import annotations

from dataclasses import replace

from numc.compiler.lower import lowered
from numc.compiler.options import Options
from numc.frontends.imported import Imported
from numc.numerics.policy.policy import Decision
from numc.passes.explicit.contractions_of import contractions_of
from numc.passes.explicit.layers_of import decide
from numc.support.errors import NumcError


def contractions(imported: Imported, options: Options, *, training: bool) -> list[Decision]:
    """Return the decisions for the contractions of the forward pass and, for training, of the backward pass.

    For training, the policy is not strict, because each pass has only some of the layers. Raises NumcError for a wrong
    option or model, and for a model without weights that is to be trained.
    """
    policy = options.resolved()[0]
    module = lowered(imported, options, "linalg").operation
    decisions = [decision for _, decision in decide(module, replace(policy, strict=policy.strict and not training))]
    forward, backward = contractions_of(module)
    known = (decision for decision in decisions if decision.layer.position is not None)
    forward_decisions = [replace(decision, layer=layer) for decision, layer in zip(known, forward, strict=True)]
    if not training:
        return forward_decisions
    if not any(layer.role == "wgrad" for layer in backward):
        source = imported.sources[0] if imported.sources else "the model"
        raise NumcError(f"{source}: no contraction has weights, so there is nothing to train: leave training out")
    return forward_decisions + replace(policy, strict=False).decide(backward)
