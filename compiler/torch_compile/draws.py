"""Masks of dropout: the numbers that torch draws, and the same state of its generator after them, in less time.

torch draws an element at a time. The runtime computes the same generator in vectors, wherever a comparison of both
shows that they draw the same in this process.
"""

from __future__ import annotations

import functools
from operator import getitem
from typing import Any

import torch
from torch import fx
from torch._functorch.partitioners import must_recompute
from torch.utils.checkpoint import CheckpointPolicy

from numc.runtime.abi import DTYPES
from numc.runtime.library import library_of_python

aten = torch.ops.aten


def narrow_masks(graph: fx.Graph) -> None:
    """Draw masks as bool, which is converted to their dtype where it is read: the same numbers, of a byte each.

    It is called before the graph is cut into forward and backward pass, which keeps masks for the latter.
    """
    for node in graph.find_nodes(op="call_function", target=aten.bernoulli.p):
        empty, value = node.args[0], node.meta["val"]
        if empty.target is not aten.empty.memory_format or not value.is_floating_point():
            continue
        with graph.inserting_before(node):
            narrow = graph.create_node("call_function", empty.target, empty.args, {**empty.kwargs, "dtype": torch.bool})
            drawn = graph.create_node("call_function", node.target, (narrow, *node.args[1:]), node.kwargs)
            wide = graph.create_node("call_function", aten._to_copy.default, (drawn,), {"dtype": value.dtype})
        with value.fake_mode:
            mask = torch.empty_like(value, dtype=torch.bool)
        for made, of in (narrow, mask), (drawn, mask), (wide, value):
            made.meta = {**node.meta, "val": of}
            made.meta.pop("tensor_meta", None)
        node.replace_all_uses_with(wide)
        graph.erase_node(node)


def keep_draws(graph: fx.Graph) -> None:
    """Keep what checkpointed regions draw, so that both passes see the same numbers; the rest is computed again.

    torch would draw again from a saved state of its generator, which takes longer and lets no mask be kept in bits.
    It is called before the graph is cut.
    """
    for node in graph.nodes:
        if draws(node) and must_recompute(node):
            for kept in (node, *(user for user in node.users if user.target is getitem)):
                kept.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def draws(node: fx.Node) -> bool:
    """Whether an operation draws random numbers."""
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def keep_copies(forward: fx.Graph, backward: fx.Graph) -> None:
    """Let a forward graph keep copies of the masks that torch draws: its parts make these, and keep them in bits."""
    output = forward.output_node()
    kept = {node.name: node for node in backward.find_nodes(op="placeholder")}
    for mask in forward.find_nodes(op="call_function", target=aten.bernoulli.p):
        if mask not in output.args[0] or mask.name not in kept or mask.meta["val"].dtype != torch.bool:
            continue
        with forward.inserting_before(output):
            copy = forward.create_node("call_function", aten.clone.default, (mask,), name=f"{mask.name}_kept")
        copy.meta = dict(mask.meta)
        output.replace_input_with(mask, copy)
        kept[mask.name].name = kept[mask.name].target = copy.name


def draw_in_vectors(graph_module: fx.GraphModule) -> None:
    """Let the runtime draw what the parts of a cut graph that torch runs draw, where it can."""
    for part in graph_module.modules():
        if isinstance(part, fx.GraphModule):
            for node in part.graph.find_nodes(op="call_function", target=aten.bernoulli.p):
                node.target = bernoulli
            part.recompile()


def in_vectors(operation: Any) -> Any:
    """Return what runs in place of an operation of torch: itself, unless it draws."""
    return bernoulli if operation is aten.bernoulli.p else operation


def bernoulli(like: torch.Tensor, p: float, *, generator: torch.Generator | None = None) -> torch.Tensor:
    """Return what ``aten.bernoulli.p`` does: a tensor like `like`, with ones drawn with probability `p` and zeros."""
    simple = like.dtype in _DTYPES and like.device.type == "cpu" and like.is_contiguous() and 0 <= p <= 1
    if simple and generator is None and _draws_the_same():
        drawn = _drawn(torch.default_generator, torch.empty_like(like, memory_format=torch.contiguous_format), p)
        if drawn is not None:
            return drawn
    return aten.bernoulli.p(like, p, generator=generator)


def _drawn(generator: torch.Generator, out: torch.Tensor, p: float) -> torch.Tensor | None:
    """Fill `out` and return it; None for a state that the runtime does not know, which stays as it is."""
    state = generator.get_state()
    if state.numel() != _STATE_BYTES:
        return None
    # Python's lock is held, so that no other thread of Python draws from this state meanwhile.
    arguments = state.data_ptr(), p, _DTYPES[out.dtype], out.data_ptr(), out.numel()
    if library_of_python().numc_bernoulli(*arguments) != 0:
        return None
    generator.set_state(state)
    return out


_STATE_BYTES = 5056
_DTYPES = {dtype: DTYPES.index(str(dtype).removeprefix("torch.")) for dtype in (torch.float32, torch.bool)}


@functools.cache
def _draws_the_same() -> bool:
    """Whether torch draws here as the runtime does; on Intel's processors, MKL draws something else."""
    generator, cpu = torch.Generator(), torch.device("cpu")  # whatever the default device is
    for seed, size, p, dtype in (1, 1, 0.5, torch.bool), (2, 2000, 0.3, torch.float32), (3, 313, 0.9, torch.bool):
        generator.manual_seed(seed)
        torch.empty(seed - 1, device=cpu).uniform_(generator=generator)  # pairs of outputs begin at any place
        before = generator.get_state()
        theirs = torch.empty(size, dtype=dtype, device=cpu).bernoulli_(p, generator=generator)
        after = generator.get_state()
        generator.set_state(before)
        mine = _drawn(generator, torch.empty_like(theirs), p)
        if mine is None or not torch.equal(mine, theirs) or not torch.equal(generator.get_state(), after):
            return False
    return True
