"""numc.explain: which operation computes in which arithmetic, and why, before anything is compiled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numc.compiler.options import Options
from numc.compiler.policy_table import policy_table
from numc.frontends.load import has_inputs, load, pytorch, title_of
from numc.numerics.policy.policy import Policy
from numc.support.arguments import checked_fixed
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError

if TYPE_CHECKING:
    import numpy.typing as npt


@in_default_environment
def explain(
    model: Any,
    inputs: Any = None,
    *,
    policy: str | os.PathLike[str] | Policy | None = None,
    fma: str = "fp32",
    ops: str = "fp32",
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Mapping[str, npt.ArrayLike] | None = None,
) -> Any:
    """Say which operation of a model computes in which arithmetic, and why, before anything is compiled.

    model: a file, an onnx.ModelProto or an exported program of PyTorch, for which a PolicyTable is returned; or a
    module or function that torch.compile takes, for which `inputs` are needed. A module or function is run, forward and
    backward, and an Explanation is returned, which also says which operations PyTorch runs. inputs: a tensor or a tuple
    of tensors. policy, fma, ops, shapes, values: as for numc.compile. Raises NumcError if the model, its inputs or an
    option is not valid.
    """
    options = Options(fma=fma, ops=ops, policy=policy)
    options.resolved()
    fixed = checked_fixed(shapes, values)
    if has_inputs(model):
        if inputs is not None:
            raise NumcError(f"{title_of(model)}: a file has its inputs: leave them out")
        return policy_table(load(model, shapes=fixed, purpose="explain"), options)
    type_name = type(model).__name__
    frontend = pytorch(type_name)
    if fixed:
        raise NumcError(f"{type_name}: shapes and values are for files: the inputs say what sizes are")
    if type_name == "ExportedProgram":
        return policy_table(frontend.load(model, inputs), options)
    if not callable(model):
        raise NumcError(f"cannot explain a {type_name}: want a file name, a torch.nn.Module or a function")
    if inputs is None:
        raise NumcError(f"{type_name}: it is run to see what it does: give its inputs")
    from numc.compiler.torch_compile import backend

    return backend.explain(model, inputs, options)
