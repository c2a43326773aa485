# ruff: noqa: E501 - the long lines are MLIR text
"""parallel-loops: each linalg.generic on memrefs that is left becomes loops over strided pointers, split over threads.

Loops that are contiguous in every operand are one loop, which LLVM vectorises with the widest registers. A reduction
keeps the order of its sum in every element: it is innermost with its sums in registers, several rows at a time so that
the latency of an addition does not count, or outside of a vectorised loop over neighbouring elements (a pooling window).
Every element belongs to one task: no bit depends on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from torch_mlir import ir

from numc.passes import linalg

# Loop iterations, weighted by the cost of a body, that are worth a task of their own: a microsecond or more.
_TASK_WORK = 1 << 17
# Rows whose sums are computed together.
_ROWS = 8
_CHEAP = 1
_COSTLY = 8

_WIDTHS = {"f32": 4, "f64": 8, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "i1": 1}


@dataclass(frozen=True)
class _Size:
    """A product of a number and of sizes known at run time, by name."""

    number: int
    names: tuple[str, ...] = ()

    def __mul__(self, other: _Size) -> _Size:
        return _Size(self.number * other.number, tuple(sorted(self.names + other.names)))


_ZERO, _ONE = _Size(0), _Size(1)


@dataclass(frozen=True)
class _Loop:
    """A loop: its trip count, its stride in every operand in elements, and the linalg dimension, if it is only one."""

    count: _Size
    strides: tuple[_Size, ...]
    dim: int | None

    def around(self, inner: _Loop) -> _Loop | None:
        """This loop and `inner` as one, if they walk through every operand without a jump."""
        if any(s != t * inner.count for s, t in zip(self.strides, inner.strides, strict=True)):
            return None
        return _Loop(self.count * inner.count, inner.strides, None)


def parallel_loops(module: ir.Operation) -> None:
    """Make every linalg.generic with linear maps loops over memory, ``@loops_N``, split over threads if it is worth it."""
    known: dict[str, str] = {}
    with module.context, ir.Location.unknown():
        for generic in linalg.operations(module, "linalg.generic"):
            nest = _Nest.of(generic)
            if nest is not None:
                _replace(module, generic, nest, known)


def _replace(module: ir.Operation, generic: ir.Operation, nest: _Nest, known: dict[str, str]) -> None:
    text = nest.text()
    key = text + _body_text(generic, nest.captured)
    block = module.regions[0].blocks[0]
    if key not in known:
        name = known[key] = f"loops_{len(known)}"
        declared = {ir.StringAttr(op.attributes["sym_name"]).value for op in block.operations}
        for op in ir.Module.parse(text.replace("@loops", f"@{name}"), module.context).body.operations:
            symbol = ir.StringAttr(op.attributes["sym_name"]).value
            if symbol == _BODY or symbol in declared:
                continue
            block.append(copy := op.operation.clone())
            if symbol == f"{name}_task":
                _fill_in(copy.operation, generic, nest)
    with ir.InsertionPoint(generic), generic.location:
        callee = {"callee": ir.FlatSymbolRefAttr.get(known[key])}
        ir.Operation.create("func.call", operands=[*generic.operands, *nest.captured], attributes=callee)
    generic.erase()


def _body_text(generic: ir.Operation, captured: list[ir.Value]) -> str:
    """The body as text in which captured values are numbered, so that equal loops are found."""
    block = linalg.body(generic)
    names = {argument: f"a{n}" for n, argument in enumerate(block.arguments)}
    names.update({value: f"c{n}" for n, value in enumerate(captured)})
    lines = []
    for op in linalg.operations(generic):
        if op == generic:
            continue
        operands = [names.get(v) or str(v.owner.attributes["value"]) for v in op.operands]
        names.update({r: f"r{len(names)}" for r in op.results})
        attributes = [f"{a}={op.attributes[a]}" for a in op.attributes]
        lines.append(f"{op.name} {operands} {attributes} {[str(r.type) for r in op.results]} {op.parent.name}")
    return "\n".join(lines)


def _fill_in(task: ir.Operation, generic: ir.Operation, nest: _Nest) -> None:
    """Put the body of `generic` in the places of the calls that stand for it."""
    entry = task.regions[0].blocks[0]
    first = ir.InsertionPoint.at_block_begin(entry)
    constants = {op.results[0]: op.clone(first).operation.results[0] for op in nest.constants}
    block = linalg.body(generic)
    indices = [op.operation for op in linalg.operations(generic, "linalg.index")]
    for call in list(linalg.operations(task, "func.call")):
        operands = list(call.operands)
        given = [*block.arguments, *nest.captured, *(op.results[0] for op in indices)]
        values = dict(zip(given, operands, strict=True)) | constants
        linalg.replace(call, linalg.copy_body(block, ir.InsertionPoint(call), values))


_BODY = "numc_body"


@dataclass(frozen=True)
class _Nest:
    """The loops of one linalg.generic, merged where possible, as text."""

    types: list[ir.Type]  # of the operands
    inputs: int
    parallel: list[_Loop]
    reductions: list[_Loop]
    starts: list[list[tuple[str, int]]]  # for each operand: (stride, factor) of what its maps add to the start
    definitions: dict[str, str]  # name of a size or stride -> the value of the region function that it is
    constants: list[ir.Operation]
    captured: list[ir.Value]
    indices: list[int]  # the dimension of each linalg.index of the body
    cost: int

    @staticmethod
    def of(generic: ir.Operation) -> _Nest | None:
        """Return the loops of `generic`, or None if its maps or types are of a kind that this pass leaves alone."""
        types = [v.type for v in generic.operands]
        if any(_element(t) not in _WIDTHS for t in types):
            return None
        constants, captured = linalg.captured(generic)
        if any(str(v.type) not in _WIDTHS for v in captured):
            return None
        maps = [[linalg.linear(e) for e in m.results] for m in linalg.indexing_maps(generic)]
        if any(x is None for m in maps for x in m):
            return None
        dims = range(len(linalg.iterator_types(generic)))
        definitions: dict[str, str] = {}
        counts: list[_Size] = []
        for d, static in zip(dims, linalg.loop_sizes(generic), strict=True):
            counts.append(_Size(static) if static is not None else _Size(1, (f"n{d}",)))
            places = [(k, p) for k, m in enumerate(maps) for p, x in enumerate(m) if x == ({d: 1}, 0)]
            if not places:
                return None
            definitions[f"n{d}"] = f"%o{places[0][0]}_size#{places[0][1]}"
        steps: list[list[_Size]] = []
        starts: list[list[tuple[str, int]]] = []
        for k, (t, m) in enumerate(zip(types, maps, strict=True)):
            strides = _strides(k, t, m, counts, definitions) if isinstance(t, ir.MemRefType) else []
            step = [_ZERO for _ in dims]
            for p, x in enumerate(m):
                for d, factor in x[0].items():  # type: ignore[index]
                    if factor and step[d] != _ZERO:
                        return None  # a diagonal
                    if factor:
                        step[d] = strides[p] * _Size(factor)
            steps.append(step)
            starts.append([(f"%o{k}_stride#{p}", x[1]) for p, x in enumerate(m) if x[1]])  # type: ignore[index]
        kinds = linalg.iterator_types(generic)
        indices = [_index(op) for op in linalg.operations(generic, "linalg.index")]

        def loops(kind: str) -> list[_Loop]:
            found: list[_Loop] = []
            for d in dims:
                if kinds[d] == kind and counts[d] != _ONE:
                    loop = _Loop(counts[d], tuple(step[d] for step in steps), d)
                    merged = found[-1].around(loop) if found and not indices else None
                    found[-1:] = [merged] if merged else [*found[-1:], loop]
            return found

        parallel = loops("parallel") or [_Loop(_ONE, (_ZERO,) * len(types), None)]
        cost = sum(
            _COSTLY if op.name.split(".")[0] == "math" else _CHEAP for op in linalg.operations(generic) if op != generic
        )
        inputs = linalg.input_count(generic)
        return _Nest(
            types, inputs, parallel, loops("reduction"), starts, definitions, constants, captured, indices, cost
        )

    def text(self) -> str:
        """The function ``@loops`` and its task."""
        return _Writer(self).text()


def _element(kind: ir.Type) -> str:
    return str(kind.element_type) if isinstance(kind, ir.MemRefType) else str(kind)


def _index(op: ir.Operation) -> int:
    return int(ir.IntegerAttr(op.attributes["dim"]).value)


def _strides(
    k: int,
    kind: ir.MemRefType,
    exprs: list[linalg.Linear | None],
    counts: list[_Size],
    definitions: dict[str, str],
) -> list[_Size]:
    """The strides of operand `k`, those known at run time only by the sizes they are products of, if dense."""
    static, _ = kind.get_strides_and_offset()
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    dense = isinstance(kind.layout, ir.AffineMapAttr)
    result: list[_Size] = []
    inner = _ONE
    for p in reversed(range(kind.rank)):
        if static[p] != dynamic:
            result.append(_Size(static[p]))
        elif dense:
            result.append(inner)
        else:
            definitions[f"st{k}_{p}"] = f"%o{k}_stride#{p}"
            result.append(_Size(1, (f"st{k}_{p}",)))
        (x, constant) = exprs[p]  # type: ignore[misc]
        if not kind.is_dynamic_dim(p):
            inner = inner * _Size(kind.get_dim_size(p))
        elif constant == 0 and list(x.values()) == [1]:
            inner = inner * counts[next(iter(x))]
        else:
            definitions[f"sz{k}_{p}"] = f"%o{k}_size#{p}"
            inner = inner * _Size(1, (f"sz{k}_{p}",))
    return result[::-1]


class _Writer:
    """Writes the text of one nest."""

    def __init__(self, nest: _Nest) -> None:
        self.nest = nest
        self.lines: list[str] = []
        self.fresh = 0

    def value(self, operation: str) -> str:
        self.fresh += 1
        self.lines.append(f"%v{self.fresh} = {operation}")
        return f"%v{self.fresh}"

    def binary(self, name: str, a: str, b: str) -> str:
        return self.value(f"arith.{name} {a}, {b} : index")

    def number(self, n: int) -> str:
        return self.value(f"arith.constant {n} : index")

    def size(self, size: _Size) -> str:
        result = self.number(size.number) if size.number != 1 or not size.names else ""
        for name in size.names:
            result = self.binary("muli", result, f"%{name}") if result else f"%{name}"
        return result

    def text(self) -> str:
        nest = self.nest
        sizes = [s for loop in (*nest.parallel, *nest.reductions) for s in (loop.count, *loop.strides)]
        names = sorted({name for s in sizes for name in s.names})
        slots = [
            *(f"o{k}" for k in range(len(nest.types))),
            *(f"x{n}" for n in range(len(nest.captured))),
            *names,
            "grain",
        ]
        self._region(names, slots)
        region, self.lines = self.lines, []
        self._task(names, slots)
        arguments = [f"%o{k}: {t}" for k, t in enumerate(nest.types)]
        arguments += [f"%x{n}: {v.type}" for n, v in enumerate(nest.captured)]
        given = [_element(t) for t in nest.types] + [str(v.type) for v in nest.captured] + ["index"] * len(nest.indices)
        made = ", ".join(_element(t) for t in nest.types[nest.inputs :])

        def joined(lines: list[str]) -> str:
            return "\n".join("  " + line for line in lines)

        return f"""
func.func private @{_BODY}({", ".join(given)}) -> ({made})
llvm.func @numc_parallel(!llvm.ptr, !llvm.ptr, i64, i64)
func.func private @loops({", ".join(arguments)}) attributes {{llvm.no_inline}} {{
{joined(region)}
  return
}}
llvm.func @loops_task(%context: !llvm.ptr, %begin: i64, %end: i64) attributes {{no_inline}} {{
{joined(self.lines)}
  llvm.return
}}"""

    @property
    def outer(self) -> list[_Loop]:
        """The loops whose iterations are shared out; the last parallel one is inside, unless it is the only one."""
        return self.nest.parallel[:-1] or self.nest.parallel

    @property
    def flat(self) -> bool:
        return len(self.nest.parallel) == 1

    def _region(self, names: list[str], slots: list[str]) -> None:
        nest, types = self.nest, self.nest.types
        stored = {}
        for k, t in enumerate(types):
            if not isinstance(t, ir.MemRefType):
                stored[f"o{k}"] = self._as_i64(f"%o{k}", str(t))
                continue
            made = f", %o{k}_size:{t.rank}, %o{k}_stride:{t.rank}" if t.rank else ""
            kinds = "".join([", index"] * 2 * t.rank)
            self.lines.append(
                f"%o{k}_base, %o{k}_offset{made} = memref.extract_strided_metadata %o{k} : {t} -> memref<{t.element_type}>, index{kinds}"
            )
            place = f"%o{k}_offset"
            for stride, factor in nest.starts[k]:
                place = self.binary("addi", place, self.binary("muli", stride, self.number(factor)))
            pointer = self.value(f"memref.extract_aligned_pointer_as_index %o{k} : {t} -> index")
            place = self.binary("muli", place, self.number(_WIDTHS[_element(t)]))
            stored[f"o{k}"] = self._as_i64(self.binary("addi", pointer, place), "index")
        for n, value in enumerate(nest.captured):
            stored[f"x{n}"] = self._as_i64(f"%x{n}", str(value.type))
        for name in names:
            self.lines.append(f"%{name} = arith.addi {nest.definitions[name]}, {self.number(0)} : index")
            stored[name] = self._as_i64(f"%{name}", "index")
        outer = prod((loop.count for loop in self.outer), start=_ONE)
        inside = [*nest.parallel[len(self.outer) :], *nest.reductions]
        inner = prod((loop.count for loop in inside), start=_ONE)
        work = inner * _Size(nest.cost)
        total = self.size(outer)
        one = self.number(1)
        grain = self.binary(
            "maxui", self.binary("divui", self.number(_TASK_WORK), self.binary("maxui", self.size(work), one)), one
        )
        stored["grain"] = self._as_i64(grain, "index")
        self.lines.append(f"%context = memref.alloca() : memref<{len(slots)}xi64>")
        for n, slot in enumerate(slots):
            self.lines.append(f"memref.store {stored[slot]}, %context[{self.number(n)}] : memref<{len(slots)}xi64>")
        address = self.value(f"memref.extract_aligned_pointer_as_index %context : memref<{len(slots)}xi64> -> index")
        address = self.value(f"arith.index_cast {address} : index to i64")
        address = self.value(f"llvm.inttoptr {address} : i64 to !llvm.ptr")
        if not outer.names and not work.names and outer.number <= max(1, _TASK_WORK // max(1, work.number)):
            zero, first = (
                self.value("llvm.mlir.constant(0 : i64) : i64"),
                self.value("llvm.mlir.constant(1 : i64) : i64"),
            )
            self.lines.append(f"llvm.call @loops_task({address}, {zero}, {first}) : (!llvm.ptr, i64, i64) -> ()")
            return
        task = self.value("llvm.mlir.addressof @loops_task : !llvm.ptr")
        tasks = self.value(f"arith.index_cast {self.binary('ceildivui', total, grain)} : index to i64")
        unwatched = self.value("llvm.mlir.constant(-1 : i64) : i64")
        self.lines.append(
            f"llvm.call @numc_parallel({task}, {address}, {tasks}, {unwatched}) : (!llvm.ptr, !llvm.ptr, i64, i64) -> ()"
        )

    def _as_i64(self, value: str, kind: str) -> str:
        if kind == "i64":
            return value
        if kind == "index":
            return self.value(f"arith.index_cast {value} : index to i64")
        if kind in ("f32", "f64"):
            integer = f"i{8 * _WIDTHS[kind]}"
            return self._as_i64(self.value(f"arith.bitcast {value} : {kind} to {integer}"), integer)
        return self.value(f"arith.extui {value} : {kind} to i64")

    def _task(self, names: list[str], slots: list[str]) -> None:
        nest = self.nest
        kinds = {f"o{k}": t for k, t in enumerate(nest.types)} | {f"x{n}": v.type for n, v in enumerate(nest.captured)}
        for n, slot in enumerate(slots):
            place = self.value(f"llvm.getelementptr %context[{n}] : (!llvm.ptr) -> !llvm.ptr, i64")
            if slot in kinds:
                kind = "!llvm.ptr" if isinstance(kinds[slot], ir.MemRefType) else str(kinds[slot])
                self.lines.append(f"%{slot} = llvm.load {place} : !llvm.ptr -> {kind}")
            else:
                loaded = self.value(f"llvm.load {place} : !llvm.ptr -> i64")
                self.lines.append(f"%{slot} = arith.index_cast {loaded} : i64 to index")
        self.lines += ["%c0 = arith.constant 0 : index", "%c1 = arith.constant 1 : index"]
        total = self.size(prod((loop.count for loop in self.outer), start=_ONE))
        edges = [
            self.binary("muli", self.value(f"arith.index_cast {e} : i64 to index"), "%grain")
            for e in ("%begin", "%end")
        ]
        low, high = edges[0], self.binary("minui", edges[1], total)
        zeros = ["%c0"] * len(nest.types)
        if self.flat:
            self._inner(nest.parallel[0], low, high, zeros, {})
            return
        self.lines.append(f"scf.for %o = {low} to {high} step %c1 {{")
        rest, indices = "%o", {}
        offsets = zeros
        for loop in reversed(self.outer):
            if loop is self.outer[0]:
                here = rest
            else:
                count = self.size(loop.count)
                here = self.binary("remui", rest, count)
                rest = self.binary("divui", rest, count)
            if loop.dim is not None:
                indices[loop.dim] = here
            offsets = self._moved(offsets, loop, here)
        self._inner(nest.parallel[-1], "%c0", self.size(nest.parallel[-1].count), offsets, indices)
        self.lines.append("}")

    def _moved(self, offsets: list[str], loop: _Loop, by: str) -> list[str]:
        """The offsets of the operands after `by` steps of `loop`."""
        moved = []
        for offset, stride in zip(offsets, loop.strides, strict=True):
            if stride != _ZERO:
                step = by if stride == _ONE else self.binary("muli", by, self.size(stride))
                offset = step if offset == "%c0" else self.binary("addi", offset, step)
            moved.append(offset)
        return moved

    def _inner(self, last: _Loop, low: str, high: str, offsets: list[str], indices: dict[int, str]) -> None:
        """The last parallel loop from `low` to `high`, and the reductions around it or inside."""
        nest = self.nest
        if not nest.reductions:
            self._vector(last, low, high, offsets, indices)
            return
        near = all(s in (_ZERO, _ONE, _Size(2)) for s in last.strides[: nest.inputs])
        if near and all(s == _ONE for s in last.strides[nest.inputs :]):
            indices = dict(indices)
            for n, loop in enumerate(nest.reductions):
                self.lines.append(f"scf.for %r{n} = %c0 to {self.size(loop.count)} step %c1 {{")
                offsets = self._moved(offsets, loop, f"%r{n}")
                if loop.dim is not None:
                    indices[loop.dim] = f"%r{n}"
            self._vector(last, low, high, offsets, indices)
            self.lines += ["}"] * len(nest.reductions)
            return
        rows = _ROWS if last.count.names else min(_ROWS, last.count.number)
        if rows > 1:
            step = self.number(rows)
            whole = self.binary("muli", self.binary("divui", self.binary("subi", high, low), step), step)
            middle = self.binary("addi", low, whole)
            self._rows(last, low, middle, rows, offsets, indices)
            low = middle
        self._rows(last, low, high, 1, offsets, indices)

    def _vector(self, last: _Loop, low: str, high: str, offsets: list[str], indices: dict[int, str]) -> None:
        nest = self.nest
        self.fresh += 1
        i = f"%i{self.fresh}"
        self.lines.append(f"scf.for {i} = {low} to {high} step %c1 {{")
        places = self._moved(offsets, last, i)
        here = indices if last.dim is None else {**indices, last.dim: i}
        values = [self._load(k, places[k]) for k in range(len(nest.types))]
        for n, result in enumerate(self._call(values, here)):
            self._store(nest.inputs + n, places[nest.inputs + n], result)
        self.lines.append("}")

    def _rows(self, last: _Loop, low: str, high: str, rows: int, offsets: list[str], indices: dict[int, str]) -> None:
        """`rows` sums at a time, in registers."""
        nest = self.nest
        self.fresh += 1
        i = f"%i{self.fresh}"
        self.lines.append(f"scf.for {i} = {low} to {high} step {self.number(rows)} {{")
        row = [i, *(self.binary("addi", i, self.number(n)) for n in range(1, rows))]
        places = [self._moved(offsets, last, r) for r in row]
        outs = range(nest.inputs, len(nest.types))
        sums = [self._load(k, place[k]) for place in places for k in outs]
        kinds = [_element(nest.types[k]) for _ in places for k in outs]
        heads: list[str] = []
        inner, here = places, [{**indices, **({last.dim: r} if last.dim is not None else {})} for r in row]
        carried = sums
        for loop in nest.reductions:
            self.fresh += 1
            head, r = f"%s{self.fresh}", f"%r{self.fresh}"
            names = [f"{head}_{m}" for m in range(len(carried))]
            pairs = ", ".join(f"{a} = {b}" for a, b in zip(names, carried, strict=True))
            self.lines.append(
                f"{head}:{len(names)} = scf.for {r} = %c0 to {self.size(loop.count)} step %c1 iter_args({pairs}) -> ({', '.join(kinds)}) {{"
            )
            heads.append(head)
            carried = names
            inner = [self._moved(place, loop, r) for place in inner]
            if loop.dim is not None:
                here = [{**h, loop.dim: r} for h in here]
        results: list[str] = []
        for n, place in enumerate(inner):
            values = [self._load(k, place[k]) for k in range(nest.inputs)]
            mine = carried[n * len(outs) : (n + 1) * len(outs)]
            results += self._call([*values, *mine], here[n])
        for head in reversed(heads):
            self.lines += [f"scf.yield {', '.join(results)} : {', '.join(kinds)}", "}"]
            results = [f"{head}#{m}" for m in range(len(results))]
        for n, place in enumerate(places):
            for m, k in enumerate(outs):
                self._store(k, place[k], results[n * len(outs) + m])
        self.lines.append("}")

    def _address(self, k: int, place: str) -> str:
        at = self.value(f"arith.index_cast {place} : index to i64")
        return self.value(
            f"llvm.getelementptr %o{k}[{at}] : (!llvm.ptr, i64) -> !llvm.ptr, {_element(self.nest.types[k])}"
        )

    def _load(self, k: int, place: str) -> str:
        kind = self.nest.types[k]
        if not isinstance(kind, ir.MemRefType):
            return f"%o{k}"
        return self.value(f"llvm.load {self._address(k, place)} : !llvm.ptr -> {kind.element_type}")

    def _store(self, k: int, place: str, value: str) -> None:
        self.lines.append(f"llvm.store {value}, {self._address(k, place)} : {_element(self.nest.types[k])}, !llvm.ptr")

    def _call(self, values: list[str], indices: dict[int, str]) -> list[str]:
        nest = self.nest
        given = [
            *values,
            *(f"%x{n}" for n in range(len(nest.captured))),
            *(indices.get(d, "%c0") for d in nest.indices),
        ]
        kinds = [_element(t) for t in nest.types] + [str(v.type) for v in nest.captured] + ["index"] * len(nest.indices)
        made = [_element(t) for t in nest.types[nest.inputs :]]
        name = self.value("x")[2:]
        self.lines[-1] = (
            f"%{name}:{len(made)} = func.call @{_BODY}({', '.join(given)}) : ({', '.join(kinds)}) -> ({', '.join(made)})"
        )
        return [f"%{name}#{n}" for n in range(len(made))]
