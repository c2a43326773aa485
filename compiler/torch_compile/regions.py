"""The parts of a traced graph: those that numc compiles, one program for each arithmetic, and those that torch runs."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import getitem
from typing import Any, Protocol

import numpy as np
import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, guard_or_false
from torch.fx.passes.split_module import split_module

from numc.compiler.arrays.statistics import counting
from numc.compiler.options import Options
from numc.compiler.programs import compile as compiling
from numc.compiler.torch_compile import ahead
from numc.compiler.torch_compile.ahead import Ahead
from numc.compiler.torch_compile.draws import draws
from numc.compiler.torch_compile.graphs.converted import diagnose, to_linalg
from numc.compiler.torch_compile.graphs.cuts import cuts
from numc.compiler.torch_compile.graphs.free_sizes import (
    FixedSizesError,
    has_free_sizes,
    is_number,
    numbers_to_tensors,
    with_fixed_sizes,
)
from numc.compiler.torch_compile.graphs.orders import inputs_by_strides, inverse, results_by_strides
from numc.compiler.torch_compile.graphs.result_views import result_views
from numc.compiler.torch_compile.graphs.roles import by_name
from numc.compiler.torch_compile.open_widths import widths_of
from numc.frontends.imported import Argument, ConversionError, Imported, with_codes
from numc.frontends.pytorch.graphs.graph import DTYPES, Refusal, path_of, refusal, source_of, values_of, words_of
from numc.frontends.pytorch.graphs.narrow import widened
from numc.frontends.pytorch.graphs.selections import by_repeats
from numc.numerics.policy.presets import Arithmetic
from numc.runtime.any_program import program_of
from numc.runtime.caller import orders_of
from numc.runtime.container import Contents
from numc.runtime.context import CONTEXT
from numc.runtime.gpu.gpu_program import GpuProgram
from numc.runtime.program import Program
from numc.runtime.run_counts import run_counts
from numc.support.errors import CompilerBug, NumcError

aten = torch.ops.aten
RUNS_IT = "torch runs it"
# torch runs these without a report, because they have no arithmetic.
_EAGER = {
    **dict.fromkeys((aten.empty_strided.default, aten.empty.memory_format), "its values are undefined"),
    aten._assert_async.msg: "checks what depends on data",
}
# Scattered writes that did not become put_along (frontends/pytorch/rewrites/scatters.py).
_SCATTERS = frozenset({aten.index_put, aten.scatter, aten.scatter_reduce, aten._unsafe_index_put, aten.masked_scatter})


Stored = tuple[tuple[tuple[int, str], ...], tuple[tuple[int, str], ...]]
"""The formats in whose codes inputs and results of a program are, by number."""
_Needed = tuple[Arithmetic, Stored, bool, str]
"""What a program is for: the arithmetic, what is stored, whether it counts, and the target."""


@dataclass
class Counters:
    """Counts of what happened in this process. Only `calls` grows once all shapes and arithmetics have been seen.

    graphs: graphs that torch traced. programs: programs that were needed. compilations: how many of these were not in
    the cache. eager_operations: operations that torch runs instead. calls: runs of programs. left: functions that torch
    runs itself, or cuts where it did not before: numc warns of each. graph_breaks: places at which torch cut functions.
    """

    graphs: int = 0
    programs: int = 0
    compilations: int = 0
    eager_operations: int = 0
    calls: int = 0
    left: int = 0
    graph_breaks: int = 0


COUNTERS = Counters()


@contextlib.contextmanager
def arithmetic(chosen: Arithmetic) -> Iterator[None]:
    """Run what torch.compile compiled with numc in another arithmetic while a ``with`` block lasts, in all threads."""
    with CONTEXT.arithmetics.around(chosen):
        yield


def in_use(arithmetic: Arithmetic) -> Arithmetic:
    """Return the arithmetic of the innermost ``with`` block, or the given one outside of all."""
    return CONTEXT.arithmetics[-1] if CONTEXT.arithmetics else arithmetic


def seeded(seeds: Iterator[int]) -> contextlib.AbstractContextManager[Iterator[int]]:
    """Let the runs of programs in a ``with`` block draw with the next of these seeds, modulo 2^64."""
    return CONTEXT.seeds.around(seeds)


def tally() -> contextlib.AbstractContextManager[Counter[tuple[str, str]]]:
    """Count the multiply-adds of the programs that run while a ``with`` block lasts, by role and operator."""
    return CONTEXT.tallies.around(Counter())


class Keeping(Protocol):
    """The formats in which tensors are kept between regions, by saved.py."""

    def kept_by(self, region: Region, arithmetic: Arithmetic) -> tuple[dict[int, str], dict[int, str]]:
        """Return the formats of inputs, by number, and of results, if both passes are in one arithmetic."""

    def results_of(self, region: Region, arithmetic: Arithmetic) -> dict[int, str]:
        """Return the formats in whose codes a region returns what is kept, by number of the result."""

    def inputs_of(self, region: Region, arithmetic: Arithmetic, tensors: list[torch.Tensor]) -> dict[int, str]:
        """Take the marks off the inputs of a region; return the formats in whose codes they are, by number."""

    def mark(self, result: torch.Tensor, stored: str) -> torch.Tensor:
        """Return a result that says in which format it is."""


@dataclass(eq=False)
class Region:
    """A part of a graph that numc computes: a function from tensors to a tensor or a tuple of tensors.

    orders: for the results that are not dense in the order of their dimensions, by number, the places of the dimensions
    among those that the program returns, which are in the order of strides. input_orders: for the inputs whose
    dimensions the program takes in the order of strides, by number, this order. target: what programs are for.
    saved: knows what is kept between this region and others, if anything is. programs: those that have been loaded;
    begun: those that compile.
    """

    imported: Imported
    arithmetic: Arithmetic
    single: bool
    operations: int
    orders: Mapping[int, list[int]]
    input_orders: Mapping[int, list[int]] = field(default_factory=dict)
    target: str = "host"
    saved: Keeping | None = None
    programs: dict[_Needed, Program | GpuProgram] = field(default_factory=dict)
    begun: dict[_Needed, Ahead[tuple[Contents, bool]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._orders = orders_of(self.orders, len(self.imported.outputs))

    def sizes_of(self, number: int) -> tuple[int, ...]:
        """Return the sizes of an input as it is given, -1 for a free one."""
        shape, order = self.imported.inputs[number].shape, self.input_orders.get(number)
        return shape if order is None else tuple(shape[axis] for axis in inverse(order))

    def begin(self) -> None:
        """Begin to compile the program that the first call will need in the arithmetic that is chosen now."""
        chosen, counts, target = self._chosen(), counting(), self._target()
        try:
            taken, made = self.saved.kept_by(self, chosen) if self.saved is not None else ({}, {})
        except (NumcError, CompilerBug):
            return  # the call raises it
        stored = tuple(taken.items()), tuple(made.items())
        needed = chosen, stored, counts, target
        self.begun[needed] = ahead.begin(lambda: self._contents(needed))

    def _chosen(self) -> Arithmetic:
        return in_use(self.arithmetic)

    def _target(self) -> str:
        """The target of a run. What observes programs sees those of this machine, which have the same bits."""
        return "host" if CONTEXT.watches else self.target

    def _contents(self, needed: _Needed) -> tuple[Contents, bool]:
        chosen, stored, counts, target = needed
        options = Options(
            policy=chosen.policy(), statistics=counts, respect_dtypes=chosen.respect_dtypes, target=target
        )
        return compiling.contents(with_codes(self.imported, *map(dict, stored)), options, apart=True)

    def program(self, chosen: Arithmetic, stored: Stored = ((), ()), target: str | None = None) -> Program | GpuProgram:
        """Return the program for an arithmetic, which is compiled when it is first needed.

        stored: the inputs and the results that are codes. target: None for that of the region, or of this machine
        within a block of anything that observes programs. Within a block of numc.collect_stats that counts swamping,
        it is one that can count.
        """
        target, counts = target or self._target(), False
        program = self.programs.get((chosen, stored, False, target))
        if counting() and (program is None or program.manifest["contractions"]):
            program, counts = self.programs.get((chosen, stored, True, target)), True
        needed = chosen, stored, counts, target
        if program is None:
            COUNTERS.programs += 1
            begun = self.begun.pop(needed, None)
            contents, cached = begun.result() if begun else self._contents(needed)
            COUNTERS.compilations += not cached
            program = self.programs[needed] = program_of(contents)
        return program

    def __call__(self, *given: torch.Tensor | float) -> Any:
        COUNTERS.calls += 1
        chosen = self._chosen()
        tensors = [_of_number(value) if isinstance(value, (int, float)) else value for value in given]
        taken, made = {}, {}
        if self.saved is not None:
            taken, made = self.saved.inputs_of(self, chosen, tensors), self.saved.results_of(self, chosen)
        for number, order in self.input_orders.items():
            tensors[number] = tensors[number].permute(order)
        codes = tuple(taken.items()), tuple(made.items())
        program = self.program(chosen, codes)
        widths = widths_of(program)
        if isinstance(program, GpuProgram) and program.finds(widths):
            program = self.program(chosen, codes, "host")
        seed = next(CONTEXT.seeds[-1]) % 2**64 if CONTEXT.seeds else None
        if isinstance(program, Program):
            here = tensors if self.target == "host" else [tensor.cpu() for tensor in tensors]
            results = program.run(tuple(here), tensors=True, seed=seed, widths=widths, orders=self._orders)
            if self.target != "host":  # the program of this machine, in place of a GPU's
                device = next((tensor.device for tensor in tensors if tensor.dim()), torch.device("cpu"))
                results = [result.to(device) for result in results]
        else:
            results = program.run_where(tensors, seed=seed, widths=widths)
            for number, order in self.orders.items():
                results[number] = results[number].permute(order)
        for counts in CONTEXT.tallies:
            for role, fma, count in run_counts(program.manifest, tensors):
                counts[role, fma] += count
        for number, stored in made.items():
            assert self.saved is not None
            results[number] = self.saved.mark(results[number], stored)
        return results[0] if self.single else tuple(results)


def _of_number(value: float) -> torch.Tensor:
    """Return the tensor that a program takes for a number."""
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else torch.int64)


def compiled(
    graph_module: fx.GraphModule,
    names: Mapping[fx.Node, str],
    roles: Mapping[fx.Node, str],
    arithmetic: Arithmetic,
    updated: Sequence[int],
    frees: bool,
    alone: bool,
) -> tuple[fx.GraphModule, list[Refusal], list[Region]]:
    """Return the graph with regions in place of its parts, the operations that torch runs, and the regions.

    Operations that cannot be compiled stay in the graph, and are returned with reasons; the others are cut into as few
    regions as their order allows. updated: the positions of the inputs that torch overwrites with the first results
    after a run, in the same order. frees: whether more regions serve to free what the earlier ones have read. alone:
    whether the graph has no backward pass and is none.
    """
    COUNTERS.graphs += 1
    for node in graph_module.graph.find_nodes(op="call_function", target=aten.repeat_interleave.Tensor):
        by_repeats(node)
    for node in graph_module.graph.nodes:
        if node.op == "call_function":
            node.meta["numc"] = node.name, names[node], roles[node]
    views = result_views(graph_module.graph, alone)
    nodes = [node for node in graph_module.graph.nodes if node.op == "call_function" and node not in views]
    inputs = list(graph_module.graph.find_nodes(op="placeholder"))
    updates = dict(zip(_results(graph_module.graph), [inputs[n] for n in updated], strict=False))
    eager = {node: why for node in nodes if not is_number(node) and (why := _against(node))}
    begins = cuts(graph_module.graph) if frees else ()
    while True:
        split, regions, culprits = _split(graph_module, eager.keys() | views, begins, arithmetic, updates)
        if not culprits:
            break
        eager |= culprits
    counted = (node for node in eager if node.target is not getitem and node.target not in _EAGER)
    refused = [eager[node] for node in counted if _has_tensors(node)]
    COUNTERS.eager_operations += len(refused)
    return split, refused, regions


def _against(node: fx.Node) -> Refusal | None:
    objection = refusal(node)
    if objection is not None:
        return replace(objection, advice=f"{RUNS_IT}, {objection.advice}" if objection.is_of_tensors else RUNS_IT)
    if node.target in _EAGER:
        return _refused(node, _EAGER[node.target])
    packet = getattr(node.target, "overloadpacket", None)
    if packet in _SCATTERS:
        return _refused(node, "writes to places that depend on data")
    operands = [v for n in node.all_input_nodes for v in values_of(n)]
    if any(isinstance(v, torch.Tensor) and v.dtype == torch.float64 for v in (*operands, *values_of(node))):
        # No operator would apply to it, and it keeps its width.
        return _refused(node, "is float64")
    if any(isinstance(v, torch.SymBool) or free_unbacked_symbols(v) for v in (*operands, *values_of(node))):
        return _refused(node, "a size or number depends on data")
    if any(isinstance(v, torch.Tensor) and guard_or_false(v.numel() == 0) for v in values_of(node)):
        return _refused(node, "has no elements")
    return None


def _has_tensors(node: fx.Node) -> bool:
    return any(isinstance(v, torch.Tensor) for n in (node, *node.all_input_nodes) for v in values_of(n))


def _refused(node: fx.Node, reason: str) -> Refusal:
    return Refusal(str(node.target), path_of(node), source_of(node), reason, RUNS_IT)


def _split(
    graph_module: fx.GraphModule,
    eager: Collection[fx.Node],
    begins: Collection[fx.Node],
    arithmetic: Arithmetic,
    updates: Mapping[fx.Node, fx.Node],
) -> tuple[fx.GraphModule, list[Region], dict[fx.Node, Refusal]]:
    """Cut the graph; return it, its regions, and the operations that turned out not to be compilable."""
    stages = _stages(graph_module.graph, eager, begins)
    originals = {node.name: node for node in graph_module.graph.nodes}
    # An input that only one part reads may be overwritten in that part.
    places = {
        result.name: input_node.name
        for result, input_node in updates.items()
        if all(stages.get(user) == stages[result] for user in input_node.users)
    }
    split = split_module(graph_module, None, lambda node: stages[node], keep_original_order=False)
    regions: list[Region] = []
    culprits: dict[fx.Node, Refusal] = {}
    for name, part in list(split.named_children()):
        stage = int(name.rpartition("_")[2])
        if stage % 2 == 0:
            continue
        call = split.graph.find_nodes(op="call_module", target=name)[0]
        call.args = tuple(call.args[n] for n in numbers_to_tensors(part.graph))
        try:
            region = _region(part, arithmetic, places)
        except ConversionError as error:
            failures = diagnose(part.graph)
            # What fails with fixed sizes too is left to torch; what does not, alone or with others, gets them.
            if has_free_sizes(part.graph) and not (
                failures and all(diagnose(with_fixed_sizes(node).graph) for node, _ in failures)
            ):
                raise FixedSizesError from None
            if not failures:  # each operation can be lowered alone, but not all together: torch runs them
                failures = [(n, _refused(n, str(error))) for n in part.graph.nodes if n.op == "call_function"]
            culprits |= {originals[node.meta["numc"][0]]: replace(why, advice=RUNS_IT) for node, why in failures}
            continue
        delattr(split, name)
        setattr(split, name, region)
        regions.append(region)
    return split, regions, culprits


def _stages(graph: fx.Graph, eager: Collection[fx.Node], begins: Collection[fx.Node]) -> dict[fx.Node, int]:
    """Return a number for each part, so that each depends on earlier ones only: numc's are odd, torch's are even.

    begins: operations that no part has together with what is before them in the graph.

    Random numbers are drawn in the order of the graph, so that the generator's state does not depend on the cut.
    """
    stages: dict[fx.Node, int] = {}
    drawn = least = 0
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr") or is_number(node):
            stages[node] = 0
            continue
        if node.op != "call_function":
            continue
        if node in begins:
            least = max(stages.values()) // 2 * 2 + 2
        stage = max([least, *(stages[n] for n in node.all_input_nodes)])
        if node.target is getitem:
            stages[node] = stages[node.args[0]]
            continue
        if stage % 2 != (node not in eager):
            stage += 1
        if draws(node):
            stage = drawn = max(stage, drawn)
        stages[node] = stage
    return stages


def _results(graph: fx.Graph) -> list[Any]:
    """Return the results of a graph."""
    (returned,) = graph.output_node().args
    return [returned] if isinstance(returned, fx.Node) else list(returned)


def _region(part: fx.GraphModule, arithmetic: Arithmetic, places: Mapping[str, str]) -> Region:
    """Compile a part. places: by name of a result, the names of the inputs that it may overwrite."""
    graph = part.graph
    output = graph.output_node()
    single = isinstance(output.args[0], fx.Node)
    output.args = (tuple(_results(graph)),)
    inputs, weights = [], {}
    placeholders = list(graph.find_nodes(op="placeholder"))
    updates = _updates(placeholders, _results(graph), places)
    input_orders = inputs_by_strides(graph, placeholders)
    for number, node in enumerate(placeholders):
        inputs.append(_argument(f"i{number}", node))
    for node in [node for node in graph.nodes if node.op == "get_attr"]:
        value = getattr(part, str(node.target)).detach()
        with graph.inserting_after(placeholders[-1] if placeholders else None):
            constant = graph.placeholder(node.name + "_constant")
        value = widened(value)  # which changes no number
        constant.meta = {"val": value}
        node.replace_all_uses_with(constant)
        graph.erase_node(node)
        placeholders.append(constant)
        weights[len(placeholders) - 1] = str(node.target), np.ascontiguousarray(value.numpy())
    result_orders = results_by_strides(graph, output)
    marked = {node: node.meta["numc"] for node in graph.nodes if "numc" in node.meta}
    names = {node: name for node, (_, name, _) in marked.items()}
    imported = Imported(
        mlir=to_linalg(graph, names),
        inputs=tuple(inputs),
        outputs=tuple(_argument(f"o{n}", node) for n, node in enumerate(output.args[0])),
        weights=weights,
        sources=("torch.compile",),
        nodes={names[node]: words_of(node) for node in names},
        roles=by_name({node: role for node, (_, _, role) in marked.items()}, names),
        updates=updates,
    )
    return Region(
        imported=imported,
        arithmetic=arithmetic,
        single=single,
        operations=len(marked),
        orders=result_orders,
        input_orders=input_orders,
    )


def _updates(inputs: Sequence[fx.Node], results: Sequence[fx.Node], places: Mapping[str, str]) -> dict[int, int]:
    """Return, for results that can be written into an input, the input's number: both are dense and of one type."""
    numbers, updates = {node.name: n for n, node in enumerate(inputs)}, {}
    for result, node in enumerate(results):
        number = numbers.get(places.get(node.meta["numc"][0], ""))
        if number is not None and _is_dense_like(node.meta["val"], inputs[number].meta["val"]):
            updates[result] = number
    return updates


def _is_dense_like(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (one.shape, one.dtype) == (other.shape, other.dtype) and one.is_contiguous() and other.is_contiguous()


def _argument(name: str, node: fx.Node) -> Argument:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype not in DTYPES:
        raise ConversionError(f"{node.name} is no tensor that numc takes")
    free = [isinstance(size, torch.SymInt) for size in value.shape]
    sizes = tuple(-1 if is_free else int(size) for size, is_free in zip(value.shape, free, strict=True))
    symbols = tuple(str(size) if is_free else "" for size, is_free in zip(value.shape, free, strict=True))
    return Argument(name, DTYPES[value.dtype], sizes, symbols)
