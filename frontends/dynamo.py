"""The backend "numc" of torch.compile: forward, backward and optimizer graphs as programs of numc."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import register_backend
from torch._functorch.partitioners import min_cut_rematerialization_partition

from numc.compiler.roles import Arithmetic, Given
from numc.compiler.roles import arithmetic as choose
from numc.frontends.torch_decompositions import training_table
from numc.frontends.torch_graph import Refusal, names_of
from numc.frontends.torch_regions import compiled
from numc.frontends.torch_roles import backward_roles, forward_roles

Compiler = Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]


class Backend:
    """A backend for torch.compile that computes in one arithmetic; `refused` lists what torch runs instead."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        self.arithmetic = arithmetic
        self.refused: list[Refusal] = []

    def __call__(self, graph_module: fx.GraphModule, example_inputs: Sequence[Any], **options: Given) -> Callable[..., Any]:
        chosen = choose(self.arithmetic, **options) if options else self.arithmetic
        parameters = {f"primals_{n}" for n, x in enumerate(example_inputs, 1) if isinstance(x, torch.nn.Parameter)}
        compiler = aot_autograd(
            fw_compiler=self._compiler(chosen, forward_roles),
            bw_compiler=self._compiler(chosen, lambda graph: backward_roles(graph, parameters)),
            inference_compiler=self._compiler(chosen, forward_roles),
            decompositions=training_table(),
            partition_fn=min_cut_rematerialization_partition,
        )
        with _traceable():
            return compiler(graph_module, example_inputs)  # type: ignore[no-any-return]

    def _compiler(self, chosen: Arithmetic, roles_of: Callable[[fx.Graph], dict[fx.Node, str]]) -> Compiler:
        def compile_graph(graph_module: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
            roles = roles_of(graph_module.graph)
            split, refused, _regions = compiled(graph_module, names_of(graph_module.graph, roles), roles, chosen)
            self.refused += refused
            split.graph.set_codegen(torch.fx.graph._BoxedCodeGen())  # inputs are freed after their last use
            split.recompile()
            run = split.forward
            return _boxed(run)

        return compile_graph


def _boxed(run: Callable[..., Any]) -> Callable[..., Any]:
    def call(arguments: list[Any]) -> Any:
        return run(arguments)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


@contextlib.contextmanager
def _traceable() -> Iterator[None]:
    """Trace attention and recurrent networks as the operations they are made of."""
    mkldnn = torch._C._get_mkldnn_enabled()
    flash = torch.backends.cuda.flash_sdp_enabled()
    torch._C._set_mkldnn_enabled(False)
    torch.backends.cuda.enable_flash_sdp(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(mkldnn)
        torch.backends.cuda.enable_flash_sdp(flash)


def backend(name: str | Arithmetic = "fp32", /, **given: Given) -> Backend:
    """Return a backend for torch.compile. name: a preset or an FMA operator; given: fma, ops and roles.

    Raises NumcError for unknown names.
    """
    return Backend(choose(name, **given))


@register_backend(name="numc")  # type: ignore[misc]
def numc(graph_module: fx.GraphModule, example_inputs: Sequence[Any], options: Any = None) -> Callable[..., Any]:
    """The backend called "numc"; `options` are those of `backend`, and `arithmetic`, the name of a preset."""
    given = dict(options or {})
    return backend(given.pop("arithmetic", "fp32"), **given)(graph_module, example_inputs)


# Recurrent networks are traced, not left to torch: their products are what numc is for.
torch._dynamo.config.allow_rnn = True
