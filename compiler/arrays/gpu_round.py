"""numc.round on tensors of a GPU: elementwise programs for target ``cuda``, which tests run emulated.

The largest magnitudes of groups, which no rounding changes, come from torch; what follows from them is numc's.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from numc.compiler.arrays.text_programs import compiled_text, elementwise
from numc.numerics.groups import GroupConversion
from numc.numerics.numpy_groups import layout
from numc.numerics.reference.random import draws
from numc.runtime.tensors import dtype_of, is_tensor
from numc.support.errors import NumcError

if TYPE_CHECKING:
    import torch

_MAGNITUDE = 0x7FFFFFFF


def gpu_operand(value: Any, name: str) -> Any:
    """Return a float32 tensor as it is. Raises NumcError for anything else."""
    if not is_tensor(value) or dtype_of(value) != "float32":
        raise NumcError(f"{name}: target 'cuda' takes tensors of torch in float32: use torch.as_tensor(...).float()")
    return value


def round_values(x: torch.Tensor, to: str, seed: int | None) -> torch.Tensor:
    """Return a tensor of float32 or float64 rounded to a format of single values, as float32."""
    element = "f64" if str(x.dtype) == "torch.float64" else "f32"
    text = f'numc.round"(%a0) {{to = "{to}"}} : ({element}) -> f32'
    program = elementwise(text, 1, element, "cuda")
    (result,) = program.run_where((x.reshape(-1),), seed=seed, widths=None)
    return result.reshape(x.shape)


def round_groups(x: torch.Tensor, to: GroupConversion, axis: int | None, key: int) -> torch.Tensor:
    """Return a float32 tensor rounded to a format with groups along an axis. key: of what a stochastic one draws.

    Raises NumcError for an axis that it does not have, and for formats whose scales are those of tiles.
    """
    import torch

    from numc.runtime.gpu.launching import largest_magnitude

    fmt = to.format
    if fmt.written_out:
        raise NumcError(f"target 'cuda' has no conversion to '{to}': round the tensor on the CPU")
    if x.numel() == 0:
        return x.clone()
    where = layout(tuple(x.shape), fmt, axis)
    size = x.numel() if where.axis is None else where.group

    def in_groups(t: torch.Tensor) -> torch.Tensor:
        moved = t if where.axis is None else t.movedim(where.axis, -1)
        rows = moved.reshape(-1, size if where.axis is None else where.length)
        return torch.nn.functional.pad(rows, (0, -rows.shape[1] % size)).reshape(-1, size)

    groups = in_groups(x)
    most = (groups.view(torch.int32) & _MAGNITUDE).amax(1)
    operands = [groups, most, largest_magnitude(x, finite=fmt.finite_only)]
    if to.noise is not None:
        drawn = torch.from_numpy(draws(key, x.numel(), to.noise).astype(np.int32)).reshape(x.shape)
        operands.append(in_groups(drawn.to(x.device)))
    (result,) = _converting(to).run_where(operands, seed=None, widths=None)
    length = size if where.axis is None else where.length
    rows = result.reshape(-1, length + -length % size)[:, :length]
    if where.axis is None:
        return rows.reshape(x.shape)
    shape = [n for d, n in enumerate(x.shape) if d != where.axis]
    return rows.reshape(*shape, length).movedim(-1, where.axis).contiguous()


@cache
def _converting(to: GroupConversion) -> Any:
    """The program that converts groups [n, size], given their largest magnitudes, the tensor's, and what is drawn."""
    from numc.passes.kernels.builder import Code
    from numc.passes.kernels.ssa import Type, Value
    from numc.passes.kernels.straight import Text
    from numc.passes.kernels.values.kinds import code_of

    text = Text("v")
    code = Code(0, text)
    x, most, largest, drawn = (Value(f"%{name}", Type.of(element)) for name, element, _ in _OPERANDS)
    groups = code_of(to, factors="values")
    scaling = groups.scaling(code, most, groups.shared(code, largest))
    (value,) = groups.values(code, x, scaling, 1, None if to.noise is None else drawn)
    operands = _OPERANDS if to.noise is not None else _OPERANDS[:-1]
    types = [f"tensor<{'?x' * len(dims)}{element}>" for _, element, dims in operands]
    arguments = ", ".join(f"%t{n}: {type_}" for n, type_ in enumerate(types))
    names, maps = (", ".join(each) for each in (
        [f"%t{n}" for n in range(len(operands))],
        [f"affine_map<(i, j) -> ({', '.join(dims)})>" for dims in (*(dims for *_, dims in operands), "ij")],
    ))  # fmt: skip
    block = ", ".join(f"%{name}: {element}" for name, element, _ in operands)
    body, tables, out = "\n    ".join(text.lines), "\n".join(text.tables.values()), "tensor<?x?xf32>"
    return compiled_text(
        f"""
{tables}
func.func @main({arguments}) -> {out} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %t0, %c0 : {out}
  %m = tensor.dim %t0, %c1 : {out}
  %e = tensor.empty(%n, %m) : {out}
  %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel"]}}
      ins({names} : {", ".join(types)}) outs(%e : {out}) {{
  ^bb0({block}, %out: f32):
    {body}
    linalg.yield {value} : f32
  }} -> {out}
  return %r : {out}
}}""",
        target="cuda",
    )


#: Name, element type and dimensions of what is converted, of magnitudes of groups and tensor, and of what is drawn.
_OPERANDS = (("x", "f32", "ij"), ("most", "i32", "i"), ("largest", "i32", ""), ("drawn", "i32", "ij"))
