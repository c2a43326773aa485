"""The tensors that a forward graph keeps for its backward graph, each in the fewest bytes from which no bit changes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import fx

from numc.compiler.cache import cache
from numc.compiler.options import Options
from numc.compiler.programs import apart
from numc.compiler.torch_compile.graphs.orders import inverse
from numc.compiler.torch_compile.regions import Region
from numc.frontends.imported import Imported
from numc.numerics.policy.presets import Arithmetic
from numc.numerics.stored import BITS, IN_BITS, along, groups_of, stored_dtype, stored_shape
from numc.support.errors import NumcError, quoted
from numc.support.json_values import parsed
from numc.support.switches import disabled

SWITCH = "stored-codes"


@dataclass(frozen=True)
class Kept:
    """A tensor that the forward pass keeps for the backward pass.

    name: in the graph. shape: its sizes, -1 for a free one. dtype: in the graph. format: in whose codes it is kept,
    ``bits`` for a bit for each element, which says what the backward pass asks of it, "" where it is kept as it is.
    why: the reason for that. bytes: that it takes, where free sizes count as 1; 0 if it is computed again, and why says
    of what.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    format: str
    why: str
    bytes: int

    @property
    def elements(self) -> int:
        """The number of elements; free sizes count as 1."""
        return prod(max(size, 1) for size in self.shape)

    def __str__(self) -> str:
        shape = ",".join("?" if size < 0 else str(size) for size in self.shape)
        how = f"kept in {self.format}" if self.format else f"kept in {self.dtype}: {self.why}"
        if not self.bytes:
            return f"{self.name} [{shape}]: {self.why}"
        return f"{self.name} [{shape}]: {self.bytes} bytes, {how}"


@dataclass
class Saved:
    """The tensors that the regions of a forward graph keep for those of its backward graph, by name.

    user_results: how many results of the forward graph come before them. made, read: which region makes and which reads
    a tensor, as which result and which input; only those that nothing else sees. others: the tensors that something
    else sees too, with the reason. again: those that the backward pass computes again, and of what.
    """

    user_results: int = 0
    made: dict[str, tuple[Region, int]] = field(default_factory=dict)
    read: dict[str, tuple[Region, int]] = field(default_factory=dict)
    others: dict[str, tuple[torch.Tensor, str]] = field(default_factory=dict)
    again: dict[str, tuple[torch.Tensor, str]] = field(default_factory=dict)
    _known: dict[Arithmetic, dict[str, tuple[str, str]]] = field(default_factory=dict)
    _formats: list[str] = field(default_factory=list)
    _reads: dict[Region, list[tuple[str, int]]] = field(default_factory=dict)
    _results: dict[tuple[Region, Arithmetic], dict[int, str]] = field(default_factory=dict)

    def forward(self, split: fx.GraphModule, results: Sequence[tuple[str, Any]]) -> None:
        """Find the kept tensors of a forward graph that is cut; results: their names and values before that."""
        made = list(split.graph.output_node().args[0])
        for (name, value), node in list(zip(results, made, strict=True))[self.user_results :]:
            if not isinstance(value, torch.Tensor) or node.op == "placeholder":
                continue  # a size, or what torch has anyway
            region, number = _result_of(split, node)
            if region is None or len(node.users) > 1 or made.count(node) > 1:
                self.others[name] = value, "made by torch" if region is None else "read in the forward pass too"
            else:
                region.saved, self.made[name] = self, (region, number)

    def backward(self, split: fx.GraphModule, _: Sequence[tuple[str, Any]]) -> None:
        """Find the readers of the kept tensors, in a backward graph that is cut."""
        for node in split.graph.find_nodes(op="placeholder"):
            if node.name not in self.made:
                continue
            users = list(node.users)
            region = getattr(split, str(users[0].target)) if _is_call(users, node) else None
            if not isinstance(region, Region):
                self.others[node.name] = node.meta["val"], "read by torch, or several times"
                del self.made[node.name]
            else:
                region.saved, number = self, list(users[0].args).index(node)
                self.read[node.name] = region, number
                self._reads.setdefault(region, []).append((node.name, number))

    def readings(self, arithmetic: Arithmetic) -> Mapping[str, tuple[str, str]]:
        """Return, by name, the format that all readers of a tensor need no more than, or "" and why there is none."""
        if arithmetic not in self._known:
            readings: dict[str, tuple[str, str]] = {}
            asked: dict[int, tuple[Region, dict[int, str]]] = {}
            for name, (region, number) in self.read.items() if not disabled(SWITCH) else ():
                if name in self.made and (dtype := region.imported.inputs[number].dtype) == "float32":
                    asked.setdefault(id(region), (region, {}))[1][number] = name
                elif name in self.made and dtype == "bool":
                    readings[name] = BITS, ""
            for region, names in asked.values():
                options = Options(policy=arithmetic.policy(), respect_dtypes=arithmetic.respect_dtypes)
                for number, reading in _readings(region.imported, options, sorted(names)).items():
                    readings[names[number]] = reading
            for name, (stored, _) in readings.items():
                if stored in IN_BITS or (stored and groups_of(stored)):
                    readings[name] = (stored, "") if not (why := self._against_planes(name)) else ("", why)
            self._known[arithmetic] = readings
        return self._known[arithmetic]

    def _against_planes(self, name: str) -> str:
        """Return why a tensor is not kept in planes, which have the elements in the order of memory; "" if it is."""
        (maker, result), (reader, number) = self.made[name], self.read[name]
        made, read = maker.orders.get(result), reader.input_orders.get(number)
        shape = reader.imported.inputs[number].shape
        if min(shape, default=0) < 0:
            return "its sizes are free"
        if prod(shape) < 8:
            return "it is small"
        return "" if (made and inverse(made)) == read else "it is read in another order of dimensions"

    def kept_by(self, region: Region, arithmetic: Arithmetic) -> tuple[dict[int, str], dict[int, str]]:
        """Return the formats of inputs of a region, by number, and of its results, in a step in one arithmetic."""
        readings = self.readings(arithmetic)
        taken = {
            n: readings[name][0] for name, (reader, n) in self.read.items() if reader is region and name in readings
        }
        return {n: stored for n, stored in taken.items() if stored}, self.results_of(region, arithmetic)

    def results_of(self, region: Region, arithmetic: Arithmetic) -> dict[int, str]:
        """Return the formats in whose codes a region of the forward graph returns what is kept, by number."""
        key = region, arithmetic  # every step asks
        if key not in self._results:
            readings = self.readings(arithmetic)
            kept = {
                n: readings[name][0] for name, (maker, n) in self.made.items() if maker is region and name in readings
            }
            self._results[key] = {number: stored for number, stored in kept.items() if stored}
        return self._results[key]

    def mark(self, result: torch.Tensor, stored: str) -> torch.Tensor:
        """Return a tensor that says what it is stored in: by its number of leading dimensions of size 1.

        torch may copy what is kept, or move it elsewhere and back, and the backward pass may be in another arithmetic.
        """
        if stored not in self._formats:
            self._formats.append(stored)
        return result[(None,) * (self._formats.index(stored) + 1)]

    def inputs_of(self, region: Region, arithmetic: Arithmetic, tensors: list[torch.Tensor]) -> dict[int, str]:
        """Take the marks off the inputs of a region of the backward graph; return the formats that they are stored in.

        Raises NumcError if this arithmetic reads more of a tensor than the forward pass has kept.
        """
        stored: dict[int, str] = {}
        for name, number in self._reads.get(region, ()):
            extra = tensors[number].dim() - len(region.imported.inputs[number].shape)
            if not extra:
                continue
            stored[number] = self._formats[extra - 1]
            tensors[number] = tensors[number][(0,) * extra]
            needed, why = self.readings(arithmetic).get(name, ("", "read as float32"))
            if stored[number] != needed and (needed not in IN_BITS or stored[number] in IN_BITS):
                raise NumcError(
                    f"backward pass: the forward pass kept {quoted(name)} in {stored[number]}, in another arithmetic, "
                    f"and it is {f'rounded to {needed}' if needed else why} here: call backward() in the arithmetic of "
                    f"the forward pass, or set NUMC_DISABLE={SWITCH}"
                )
        return stored

    def rows(self, arithmetic: Arithmetic) -> list[Kept]:
        """Return how every tensor is kept, the largest first."""
        readings, rows = self.readings(arithmetic), []
        for name, (region, number) in self.read.items():
            spec = region.imported.inputs[number]
            dtype, kept = getattr(torch, spec.dtype), [max(size, 1) for size in spec.shape]
            otherwise = (
                "switched off"
                if dtype == torch.float32
                else "it is narrow"
                if dtype.itemsize < 4
                else "it has integers"
            )
            stored, why = readings.get(name, ("", otherwise))
            if stored:
                dtype, kept = getattr(torch, stored_dtype(stored)), list(stored_shape(stored, kept))
            how = _reported(stored, region.input_orders.get(number))
            rows.append(
                Kept(
                    name=name,
                    shape=region.sizes_of(number),
                    dtype=spec.dtype,
                    format=how,
                    why=why,
                    bytes=prod(kept) * dtype.itemsize,
                )
            )
        for name, (value, why) in self.others.items():
            sizes = tuple(int(size) if isinstance(size, int) else -1 for size in value.shape)
            size = prod(max(n, 1) for n in sizes) * value.itemsize
            rows.append(
                Kept(
                    name=name,
                    shape=sizes,
                    dtype=str(value.dtype).removeprefix("torch."),
                    format="",
                    why=why,
                    bytes=size,
                )
            )
        for name, (value, how) in self.again.items():
            rows.append(
                Kept(
                    name=name,
                    shape=tuple(value.shape),
                    dtype=str(value.dtype).removeprefix("torch."),
                    format="",
                    why=how,
                    bytes=0,
                )
            )
        return sorted(rows, key=lambda row: -row.bytes)


def _reported(stored: str, order: Sequence[int] | None) -> str:
    """Return the format for a report; order: of the dimensions of a tensor as a program takes them."""
    if stored in IN_BITS:
        return BITS
    grouping = groups_of(stored) if stored else None
    return stored if grouping is None or order is None else along(grouping[0], [order[axis] for axis in grouping[1]])


def _readings(imported: Imported, options: Options, numbers: Collection[int]) -> dict[int, tuple[str, str]]:
    """Return how inputs are read, from the cache where that was found before."""

    def find() -> str:
        return json.dumps(apart.readings(imported, options, numbers))

    entry = cache.entry(imported, options, None)
    text = find() if entry is None else cache.text_of(f"readings {entry.program.name} {numbers}", find)
    return {int(number): (stored, why) for number, (stored, why) in parsed(text).items()}


def _result_of(split: fx.GraphModule, node: fx.Node) -> tuple[Region | None, int]:
    """Return the region that makes a result, and as which of its results."""
    call, number = (node.args[0], node.args[1]) if node.op == "call_function" and len(node.args) == 2 else (node, 0)
    if not isinstance(call, fx.Node) or call.op != "call_module":
        return None, 0
    region = getattr(split, str(call.target))
    return (region, int(str(number))) if isinstance(region, Region) else (None, 0)


def _is_call(users: list[fx.Node], node: fx.Node) -> bool:
    """Whether a tensor is read once, by a part of the graph."""
    return len(users) == 1 and users[0].op == "call_module" and list(users[0].args).count(node) == 1
