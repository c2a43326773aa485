"""The torch.compile backend: forward, backward and optimizer graphs become programs of numc."""

from __future__ import annotations

import contextlib
import copy
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
import torch._dynamo
from torch import fx
from torch._decomp import decompositions as torch_rnn
from torch._dynamo.backends import registry
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config as functorch
from torch._functorch.partitioners import min_cut_rematerialization_partition

from numc.compiler.options import Options
from numc.compiler.torch_compile import leaving, regions, tracing
from numc.compiler.torch_compile.clock import Clock
from numc.compiler.torch_compile.draws import draw_in_vectors, keep_copies, keep_draws, narrow_masks
from numc.compiler.torch_compile.graphs.converted import expect
from numc.compiler.torch_compile.graphs.cuts import SWITCH as CUT
from numc.compiler.torch_compile.graphs.decompositions import rnn, training_table
from numc.compiler.torch_compile.graphs.free_sizes import (
    FixedSizesError,
    fix_numbers,
    is_free,
    lift_sizes,
    read_numbers,
)
from numc.compiler.torch_compile.graphs.recompute import SWITCH as RECOMPUTE
from numc.compiler.torch_compile.graphs.recompute import recompute
from numc.compiler.torch_compile.graphs.roles import backward_roles, forward_roles
from numc.compiler.torch_compile.inductor import without_inductor
from numc.compiler.torch_compile.regions import Counters, Region, compiled
from numc.compiler.torch_compile.saved import SWITCH, Kept, Saved
from numc.frontends.pytorch.graphs.graph import Refusal, listed, names_of
from numc.frontends.pytorch.graphs.traced_first import traced_as_in_the_table
from numc.numerics.policy.load import arithmetic as choose
from numc.numerics.policy.policy import Decision
from numc.numerics.policy.presets import Arithmetic, Given
from numc.runtime.gpu.gpu_program import GpuProgram
from numc.support.arguments import checked
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, quoted, shortened
from numc.support.freed import give_back
from numc.support.replaced import replaced
from numc.support.switches import disabled

if TYPE_CHECKING:
    from numc.compiler.policy_table import PolicyTable

_LISTED = 10
_NUMBERS = ("aten.scalar_tensor.default",)
"""What holds the value of a number that the function writes back, which is a double, as Python has it."""
_SETTINGS = {"force_non_lazy_backward_lowering": True}
Compiler = Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]


class Backend:
    """A backend for torch.compile that computes in one arithmetic.

    arithmetic, target: as given. strict: whether a function that leaves numc is an error (leaving.py).
    regions: the parts of graphs that numc computes, in the order in which they were compiled.
    refused: the operations that torch runs instead, with reasons. saved: what each graph keeps for its backward pass.
    clock: measures these, if there is one.
    """

    def __init__(
        self, arithmetic: Arithmetic, clock: Clock | None = None, strict: bool = False, target: str | None = None
    ) -> None:
        self.arithmetic = arithmetic
        self.target = target
        self.strict = strict
        self._clock = clock
        self.regions: list[Region] = []
        self.refused: list[Refusal] = []
        self.saved: list[Saved] = []
        self._warned = False
        tracing.collect_seldom()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle what was given: the copy of a compiled module is traced again."""
        return Backend, (self.arithmetic, None, self.strict, self.target)

    def __call__(
        self, graph_module: fx.GraphModule, example_inputs: Sequence[Any], options: Any = None, mode: Any = None
    ) -> Callable[..., Any]:
        """Compile a graph that torch traced; torch calls this. Raises NumcError for unknown options, and for a mode."""
        if mode is not None:
            raise NumcError(f"mode {quoted(str(mode))}: modes are those of torch's own compiler: leave it out")
        kwargs = {name: value for name, value in (options or {}).items() if name != "strict"}  # which leaving.py reads
        chosen = choose(self.arithmetic, **kwargs) if kwargs else self.arithmetic
        if not any(map(is_free, example_inputs)):
            return self._compile(graph_module, example_inputs, chosen)
        per_shape = _PerShape(graph_module, lambda graph, inputs: self._compile(graph, inputs, chosen))
        differentiated = torch.is_grad_enabled() and any(
            isinstance(x, torch.Tensor) and x.requires_grad for x in example_inputs
        )
        if differentiated and any(isinstance(x, torch.Tensor) and is_free(x) for x in example_inputs):
            return per_shape
        if any(each.policy().takes_apart for each in (chosen, regions.in_use(chosen))):
            return per_shape
        try:
            return self._compile(_copied(graph_module), example_inputs, chosen)
        except FixedSizesError:
            return per_shape

    def check(self) -> None:
        """Wait for the last replay of each CUDA graph with runs of what was compiled. Raises NumcError as those do."""
        for region in self.regions:
            for program in region.programs.values():
                if isinstance(program, GpuProgram):
                    program.check()

    @in_default_environment
    def _compile(self, graph_module: fx.GraphModule, inputs: Sequence[Any], chosen: Arithmetic) -> Callable[..., Any]:
        expect(graph_module, inputs)
        parameters = {f"primals_{n}" for n, x in enumerate(inputs, 1) if isinstance(x, torch.nn.Parameter)}
        alive = {f"primals_{n}" for n, x in enumerate(inputs, 1) if _is_alive(x)}
        saved, before = Saved(), len(self.regions)
        self.saved.append(saved)
        policies = chosen.policy(), regions.in_use(chosen).policy()
        repeats = all(policy.repeats_products for policy in policies)

        def cut(joint: fx.GraphModule, *args: Any, num_fwd_outputs: int, **given: Any) -> Any:
            saved.user_results = num_fwd_outputs
            narrow_masks(joint.graph)
            keep_draws(joint.graph)
            parts = min_cut_rematerialization_partition(joint, *args, num_fwd_outputs=num_fwd_outputs, **given)
            if not disabled(RECOMPUTE) and not any(policy.draws_results for policy in policies):
                forward, backward = (part.graph for part in parts)
                saved.again = recompute(forward, backward, num_fwd_outputs, alive, repeats)
            if not disabled(SWITCH):
                keep_copies(*(part.graph for part in parts))
            return parts

        compiler = aot_autograd(
            fw_compiler=self._compiler(chosen, forward_roles, saved.forward),
            bw_compiler=self._compiler(
                chosen,
                lambda graph: backward_roles(graph, parameters),
                saved.backward,
                updated=_donating_nothing,
                frees=repeats and not disabled(CUT),
            ),
            inference_compiler=self._compiler(chosen, forward_roles, updated=_updated),
            decompositions=training_table(),
            partition_fn=cut,
        )
        # The forward pass keeps what the backward pass reads, so that both have to be known when it runs first.
        with (
            _traceable(),
            without_inductor(),
            tracing.without_texts(),
            tracing.with_numbers(),
            functorch.patch(**_SETTINGS),
        ):
            made: Callable[..., Any] = compiler(graph_module, inputs)
        give_back()  # what tracing has freed
        for region in self.regions[before:]:
            region.begin()
        return made

    def _compiler(
        self,
        chosen: Arithmetic,
        roles_of: Callable[[fx.Graph], dict[fx.Node, str]],
        found: Callable[[fx.GraphModule, Sequence[tuple[str, Any]]], None] | None = None,
        updated: Callable[[], Sequence[int]] = tuple,
        frees: bool = False,
    ) -> Compiler:
        def compile_graph(graph_module: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
            lift_sizes(graph_module.graph)
            roles = roles_of(graph_module.graph)
            names = names_of(graph_module.graph, roles)
            results = [
                (node.name, node.meta.get("val")) if isinstance(node, fx.Node) else ("", None)
                for node in graph_module.graph.output_node().args[0]
            ]
            split, refused, regions = compiled(
                graph_module, names, roles, arithmetic=chosen, updated=updated(), frees=frees, alone=found is None
            )
            target = self.target or _target_of(graph_module)
            for region in regions:
                region.target = target
            if found is not None and target == "host":  # programs for GPUs keep what is kept as it is
                found(split, results)
            self.refused += refused
            self.regions += regions
            self._warn([r for r in refused if r.is_of_tensors and r.op not in _NUMBERS])
            if self._clock is not None:
                self._clock.watch(split, {refusal.op for refusal in refused})
            draw_in_vectors(split)
            split.graph.set_codegen(torch.fx.graph._BoxedCodeGen())  # so that inputs are freed after their last use
            split.recompile()
            return _boxed(split.forward)

        return compile_graph

    def _warn(self, refused: list[Refusal]) -> None:
        if refused and not self._warned:
            self._warned = True
            warnings.warn(f"numc: {listed(refused)}", stacklevel=2)


def _target_of(graph_module: fx.GraphModule) -> str:
    """The target of a graph's programs: ``cuda`` if a tensor is on a GPU, else this machine."""
    inputs = (node.meta.get("val") for node in graph_module.graph.find_nodes(op="placeholder"))
    on_gpu = any(isinstance(value, torch.Tensor) and value.device.type == "cuda" for value in inputs)
    return "cuda" if on_gpu else "host"


def _is_alive(value: Any) -> bool:
    """Whether a tensor is in memory until the backward pass, whatever is kept: a parameter, or data.

    What else needs a gradient may be the result of another graph.
    """
    return isinstance(value, torch.nn.Parameter) or (isinstance(value, torch.Tensor) and not value.requires_grad)


def _updated() -> Sequence[int]:
    """Return the positions of the inputs that the graph being compiled updates.

    The first results of the graph are their new values.
    """
    context = torch._guards.TracingContext.try_get()
    known = context and context.fw_metadata
    return known.mutated_inp_runtime_indices if known else ()


def _donating_nothing() -> Sequence[int]:
    """Tell torch that a backward graph overwrites none of its inputs: then it may run twice. It updates none, either.

    torch does this itself where it compiles a backward graph in the backward pass.
    """
    context = torch._guards.TracingContext.try_get()
    if context is not None and context.fw_metadata is not None:
        context.fw_metadata.bw_donated_idxs = []
    return ()


def _copied(graph_module: fx.GraphModule) -> fx.GraphModule:
    """Return a copy of a graph that has the same tensors: a copy of a parameter would be updated in its place."""
    tensors = {id(tensor): tensor for tensor in (*graph_module.parameters(), *graph_module.buffers())}
    return copy.deepcopy(graph_module, tensors)


class _PerShape:
    """A graph with free sizes, which is compiled for each combination of sizes and numbers with which it is called."""

    def __init__(
        self,
        graph_module: fx.GraphModule,
        compile_for: Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]],
    ) -> None:
        self._graph_module, self._compile_for = graph_module, compile_for
        self._numbers = read_numbers(graph_module.graph).keys()
        self._compiled: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def __call__(self, *inputs: Any) -> Any:
        sizes = (tuple(x.shape) if isinstance(x, torch.Tensor) else x for x in inputs)
        key = (*sizes, *(inputs[position].item() for position in self._numbers))
        if key not in self._compiled:
            graph_module = _copied(self._graph_module)
            fix_numbers(graph_module, inputs)
            self._compiled[key] = self._compile_for(graph_module, inputs)
        return self._compiled[key](*inputs)


def _boxed(run: Callable[..., Any]) -> Callable[..., Any]:
    @in_default_environment
    def call(arguments: list[Any]) -> Any:
        return run(arguments)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


@contextlib.contextmanager
def _traceable() -> Iterator[None]:
    """Make torch trace attention, recurrent networks and losses as the operations that they consist of."""
    mkldnn, flash = torch._C._get_mkldnn_enabled(), torch.backends.cuda.flash_sdp_enabled()
    torch._C._set_mkldnn_enabled(False)
    torch.backends.cuda.enable_flash_sdp(False)
    try:
        with replaced(torch_rnn, _rnn_helper=rnn), traced_as_in_the_table():
            yield
    finally:
        torch._C._set_mkldnn_enabled(mkldnn)
        torch.backends.cuda.enable_flash_sdp(flash)


def backend(
    name: str | Arithmetic = "fp32",
    /,
    *,
    respect_dtypes: bool | None = None,
    strict: bool = False,
    target: str | None = None,
    **given: Given,
) -> Backend:
    """Return a backend for ``torch.compile(module, backend=...)`` that computes in the given arithmetic.

    name: a preset (`numc list presets`) or an FMA operator. given: ``fma``, ``ops``, roles, or ``policy`` alone, as in
    docs/pytorch.md. respect_dtypes: False computes on tensors of bfloat16, float16 and float8 as on float32, instead of
    rounding what they store. strict: whether it is an error, instead of a warning, that torch runs a function itself
    which it was to compile, or cuts it where it did not before. target: ``host`` or ``cuda``; None: where the tensors
    are. Under ``cuda``, kernels on tensors of the CPU are emulated (docs/targets.md). Raises NumcError for unknown
    names.
    """
    chosen = choose(name, respect_dtypes=respect_dtypes, **given)
    if target not in (None, "host", "cuda"):
        raise NumcError(f"target: got {shortened(target)}, want 'host', 'cuda' or None")
    return Backend(chosen, strict=checked(strict, "strict", bool, "True or False"), target=target)


def numc(
    graph_module: fx.GraphModule, example_inputs: Sequence[Any], options: Any = None, mode: Any = None
) -> Callable[..., Any]:
    """Compile a graph for ``torch.compile(..., backend="numc")``; torch calls this.

    options: the keywords of `backend`, and ``arithmetic``, a preset or an FMA operator, "fp32" by default. Raises
    NumcError for unknown names, and for a mode, which no other compiler than torch's own has.
    """
    kwargs = dict(options or {})
    return backend(kwargs.pop("arithmetic", "fp32"), **kwargs)(graph_module, example_inputs, mode=mode)


# For a numc that runs from its source tree; an installed one has an entry point, which torch finds (entry.py).
if "numc" not in registry._COMPILER_FNS:
    registry.register_backend(numc, name="numc")


def arithmetic(
    name: str | Arithmetic = "fp32", /, *, respect_dtypes: bool | None = None, **given: Given
) -> contextlib.AbstractContextManager[None]:
    """Run what torch.compile compiled with numc in another arithmetic while a ``with`` block lasts, in all threads.

    name, respect_dtypes, given: as for `backend`. Nothing is traced again; a program is compiled when it first runs in
    an arithmetic. Raises NumcError for unknown names.
    """
    return regions.arithmetic(choose(name, respect_dtypes=respect_dtypes, **given))


def counters() -> Counters:
    """Return a copy of the counts of what happened in this process so far: see Counters."""
    return replace(regions.COUNTERS, **vars(leaving.COUNTS))


@in_default_environment
@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The parts of a module or function that numc does, and those left to torch; ``str`` gives a report.

    programs: the number of numc's programs. operations: how many operations they have. eager: the operations that torch
    runs, with reasons. graph_breaks: the reasons why torch cut the graph. tables: the arithmetic of every operation,
    one table for each program. seconds: what one run took, forward and backward, when all was compiled. eager_seconds:
    what all operations of a name in `eager` took of it. kept: the tensors that the forward pass keeps for the backward
    pass in this arithmetic, the largest first.
    """

    programs: int
    operations: int
    eager: tuple[Refusal, ...]
    graph_breaks: tuple[str, ...]
    tables: tuple[PolicyTable, ...] = ()
    seconds: float = 0.0
    eager_seconds: Mapping[str, float] = field(default_factory=dict)
    kept: tuple[Kept, ...] = ()

    @property
    def layers(self) -> list[dict[str, Any]]:
        """The arithmetic of every operation, as in a program's ``manifest["layers"]``."""
        return [row for table in self.tables for row in table.layers]

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The decisions that the rows of `layers` are made from."""
        return tuple(decision for table in self.tables for decision in table.decisions)

    def __str__(self) -> str:
        lines = [f"{self.operations} operations in {self.programs} programs of numc"]
        lines += [f"torch runs {why}" for why in dict.fromkeys(map(str, self.eager))]
        for name, seconds in sorted(self.eager_seconds.items(), key=lambda one: -one[1]):
            share = f"{1e3 * seconds:.3g} of {1e3 * self.seconds:.3g} ms"
            lines.append(f"torch takes {share} for {name} ({seconds / self.seconds:.0%})")
        lines += [f"torch cuts the graph: {reason}" for reason in self.graph_breaks]
        if self.kept:
            lines.append(f"{sum(each.bytes for each in self.kept)} bytes are kept for the backward pass:")
            lines += [f"  {each}" for each in self.kept[:_LISTED]]
            if (more := len(self.kept) - _LISTED) > 0:
                lines.append(f"  and {more} smaller ones, which `kept` has")
        return "\n".join(lines)


def explain(function: Callable[..., Any], inputs: Any, options: Options) -> Explanation:
    """Run a module or function, forward and backward, and return what numc computes, what torch runs, and why.

    inputs: a tensor or a tuple of tensors. options: have the arithmetic of the tables. A module is copied first. The
    caches of torch.compile are cleared.
    """
    from numc.compiler.policy_table import policy_table  # needs MLIR

    args = inputs if isinstance(inputs, tuple) else (inputs,)
    target = copy.deepcopy(function) if isinstance(function, torch.nn.Module) else function
    breaks = torch._dynamo.explain(target)(*args).break_reasons
    clock = Clock()
    used = Backend(choose("fp32"), clock)
    compiled = torch.compile(target, backend=used)

    def run() -> None:
        results = torch.utils._pytree.tree_leaves(compiled(*args))
        total = sum(r.sum() for r in results if isinstance(r, torch.Tensor) and r.requires_grad)
        if isinstance(total, torch.Tensor):
            total.backward()

    try:
        run()
        clock.seconds.clear()  # the first run compiles
        begin = time.perf_counter()
        run()
        seconds = time.perf_counter() - begin
    finally:
        torch._dynamo.reset()
    reasons = []
    for cut in breaks:
        where = f"{cut.user_stack[-1].filename}:{cut.user_stack[-1].lineno}: " if cut.user_stack else ""
        reasons.append(where + cut.reason.strip().splitlines()[0])
    operations = sum(region.operations for region in used.regions)
    policy = replace(options.resolved()[0], strict=False)  # each graph has only some of the layers
    arithmetic = Arithmetic(given=policy, respect_dtypes=options.respect_dtypes)
    kept = sorted((row for saved in used.saved for row in saved.rows(arithmetic)), key=lambda row: -row.bytes)
    tables = [policy_table(region.imported, Options(policy=policy)) for region in used.regions]
    return Explanation(
        programs=len(used.regions),
        operations=operations,
        eager=tuple(used.refused),
        graph_breaks=tuple(reasons),
        tables=tuple(tables),
        seconds=seconds,
        eager_seconds=dict(clock.seconds),
        kept=tuple(kept),
    )
