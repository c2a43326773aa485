"""The contractions of a training step of a model that is a file, and the arithmetic that a policy chooses for them."""

from __future__ import annotations

from dataclasses import replace

from numc.compiler.arithmetic.policy.policy import Decision
from numc.compiler.lower import lowered
from numc.compiler.options import Options
from numc.compiler.support.errors import NumcError
from numc.frontends.imported import Imported
from numc.passes.explicit.training_layers_of import training_layers_of


def training_step(imported: Imported, options: Options) -> list[Decision]:
    """Return the decisions for the forward pass, and for the contractions of the backward pass.

    The policy is not strict, as in every training: each pass has only some of the layers. Raises NumcError for a wrong
    option or model, and for a model without weights.
    """
    policy = replace(options.resolved()[0], strict=False)
    forward, backward = training_layers_of(lowered(imported, options, "linalg").operation)
    if not any(layer.role == "wgrad" for layer in backward):
        source = imported.sources[0] if imported.sources else "the model"
        raise NumcError(f"{source}: no contraction has weights, so there is nothing to train: leave training out")
    return policy.decide(forward) + policy.decide(backward)
