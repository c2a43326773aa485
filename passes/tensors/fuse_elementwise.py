"""fuse-elementwise: chains of elementwise operations become one loop; permuting copies become indexing of their reader.

A reshape between two of them moves behind the second (collapse_loops.py).

Tensors that hold one number everywhere (the bounds of a Clip) become that number, in the bodies that read them.

All arithmetic is explicit by now (roundings are operations of the bodies), so joining bodies changes no bit. Nothing
that computes goes into a contraction, which has kernels of its own; nothing costly is computed twice; and nothing
costly goes into a reduction, whose order may keep its loop scalar. What draws random bits by its element goes only into
loops over the same elements.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.dialect import draws
from numc.passes.tensors.collapse_loops import collapsed

# An operation that is cheaper to repeat than to load, and that a scalar loop does not slow down much.
_CHEAP = {
    f"arith.{name}"
    for name in ("addf", "subf", "mulf", "negf", "extf", "maximumf", "minimumf", "maxnumf", "minnumf", "cmpf", "select")
}
# So many of them take less time than to write their result and to read it again. The result of a contraction is written
# anyway: its kernel does what a single reader computes of it.
_MOST_CHEAP_OPS, _MOST_OF_CONTRACTION = 6, 2
# Cheap operations that a reduction may compute besides.
_MOST_IN_REDUCTION = 8
# A longer body saves nothing, and each join copies it: without a bound, a chain would take the square of its length.
_MOST_OPS = 128


def fuse_elementwise(module: ir.Operation) -> None:
    """Make chains of elementwise operations one loop, and let readers of permuting copies read the original."""
    with module.context, ir.Location.unknown():
        for generic in list(linalg.operations(module, "linalg.generic")):
            _fuse_all(_with_numbers(generic))
        # Only what has a loop of its own still: an operation would leave the one that it shares with others.
        for generic in list(linalg.operations(module, "linalg.generic")):
            reshape = _reshape_before(generic)
            if reshape is not None and (consumer := collapsed(generic, reshape)) is not None:
                if linalg.is_unused(reshape.results[0]):
                    reshape.erase()
                _fuse_all(consumer)


def _fuse_all(consumer: ir.Operation) -> None:
    """Join producers into `consumer` as long as there are any."""
    while fused := _fuse_one(consumer):
        consumer = fused


def _reshape_before(consumer: ir.Operation) -> ir.Operation | None:
    """The reshape between an elementwise operation and one whose result only it reads, element by element."""
    if linalg.reduces(consumer) or len(consumer.results) != 1:
        return None
    maps = linalg.indexing_maps(consumer)
    for number in range(linalg.input_count(consumer)):
        reshape = linalg.maker(consumer.operands[number]) if maps[number] == maps[-1] else None
        if reshape is None or reshape.name != "tensor.expand_shape" or not _is_read_by(reshape, consumer):
            continue
        producer = _producer(reshape.operands[0])
        if producer is not None and _is_read_by(producer, reshape) and _cost(producer) > 0:
            return reshape
    return None


def _is_read_by(op: ir.Operation, reader: ir.Operation) -> bool:
    """Whether nothing else reads the result of `op`."""
    return all(use.owner.operation == reader for use in op.results[0].uses)


def _with_numbers(generic: ir.Operation) -> ir.Operation:
    """Move the constant tensors that `generic` reads into its body, if each is one number; returns what replaces it."""
    if linalg.contracts(generic):  # its kernel wants two operands
        return generic
    numbers = [linalg.splat(value) for value in list(generic.operands)[: linalg.input_count(generic)]]
    maps, block = linalg.indexing_maps(generic), linalg.body(generic)
    kept = [n for n in range(len(maps)) if n >= len(numbers) or numbers[n] is None]
    if len(kept) == len(maps) or not linalg.names_all_loops([maps[n] for n in kept]):
        return generic
    arguments = [block.arguments[n] for n in kept]
    new, body = linalg.generic_like(
        generic,
        [generic.operands[n] for n in kept],
        [maps[n] for n in kept],
        [a.type for a in arguments],
        [r.type for r in generic.results],
    )
    values = dict(zip(arguments, body.arguments, strict=True))
    with ir.InsertionPoint(body), generic.location:
        for n, number in enumerate(numbers):
            if number is not None:
                constant = ir.Operation.create("arith.constant", results=[number.type], attributes={"value": number})
                values[block.arguments[n]] = constant.results[0]
        yielded = linalg.copy_body(block, ir.InsertionPoint(body), values)
        ir.Operation.create("linalg.yield", operands=yielded)
    linalg.replace(generic, new.results)
    return new


def _fuse_one(consumer: ir.Operation) -> ir.Operation | None:
    """Join one producer into `consumer`; returns what takes the consumer's place, or None if nothing can be joined."""
    for number in range(linalg.input_count(consumer)):
        producer = _producer(consumer.operands[number])
        if producer is None or _length(producer) + _length(consumer) > _MOST_OPS:
            continue
        if not _wanted(producer) or not _keeps_elements(producer, consumer, number):
            continue
        if _accumulates(producer) and _contractions(consumer):
            continue
        joined = _join(producer, consumer, number)
        if joined is not None:
            if linalg.is_unused(producer.results[0]):
                producer.erase()
            return joined
    return None


def _accumulates(producer: ir.Operation) -> bool:
    """Whether `producer` adds the result of a contraction to another tensor, or the like.

    It runs in the kernel of that contraction. A sum of many products in one operation would run in the kernel of the
    last of them: all the others would have to be in memory until then.
    """
    return bool(_contractions(producer)) and _full_inputs(producer) > 1


def _contractions(generic: ir.Operation) -> list[ir.Value]:
    """The results of contractions that only this elementwise operation reads."""
    inputs = list(generic.operands)[: linalg.input_count(generic)]
    contractions = [
        v
        for v in inputs
        if (maker := linalg.maker(v)) is not None
        and maker.name == "linalg.generic"
        and linalg.contracts(maker)
        and linalg.uses(v) == 1
    ]
    return [] if linalg.reduces(generic) else contractions


def _length(generic: ir.Operation) -> int:
    """The number of operations of a body."""
    return len(linalg.body(generic).operations)


def _keeps_elements(producer: ir.Operation, consumer: ir.Operation, number: int) -> bool:
    """Whether `producer` draws nothing, or draws the same as a part of `consumer`."""
    if not any(map(draws, linalg.operations(producer))):
        return True
    maps = (
        *linalg.indexing_maps(producer)[-1:],
        linalg.indexing_maps(consumer)[number],
        linalg.indexing_maps(consumer)[-1],
    )
    loops = len(linalg.iterator_types(producer))
    return all(m == ir.AffineMap.get_identity(loops) for m in maps) and len(consumer.results) == 1


def _producer(value: ir.Value) -> ir.Operation | None:
    """The elementwise generic that makes `value`: all parallel, one result of a permutation of the loops, no start."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "linalg.generic":
        return None
    op: ir.Operation = value.owner.operation
    if len(op.results) != 1 or linalg.reduces(op):
        return None
    inputs = linalg.input_count(op)
    if not linalg.is_unused(linalg.body(op).arguments[inputs]) or not linalg.indexing_maps(op)[inputs].is_permutation:
        return None
    return op if _counts_for_elements(op) else None


def _counts_for_elements(op: ir.Operation) -> bool:
    """Whether the numbers of steps that a body asks for do nothing but choose elements, which vectors can do, too."""
    ops = [inner.operation for inner in linalg.body(op).operations]
    counts = [inner for inner in ops if inner.name == "linalg.index"]
    choosing = all(use.owner.operation.name == "tensor.extract" for inner in counts for use in inner.results[0].uses)
    return choosing and not (counts and any(inner.name == "cf.assert" for inner in ops))


def _wanted(producer: ir.Operation) -> bool:
    """Whether `producer` should be joined into all of its users, so that it goes away."""
    computes = _cost(producer) > 0
    readers: dict[ir.Operation, set[ir.AffineMap]] = {}
    for use in producer.results[0].uses:
        user = use.owner.operation
        if user.name != "linalg.generic" or use.operand_number >= linalg.input_count(user):
            return False
        if linalg.contracts(user) and (computes or not _permutes(producer)):
            return False
        if linalg.reduces(user) and not _is_cheap(producer):
            return False
        readers.setdefault(user, set()).add(linalg.indexing_maps(user)[use.operand_number])
    if not computes:
        return True
    once = all(_reads_once(user, m) for user, maps in readers.items() for m in maps)
    if once and len(readers) == 1 and len(next(iter(readers.values()))) == 1:
        return True
    most = _MOST_OF_CONTRACTION if _reads_contraction(producer) else _MOST_CHEAP_OPS
    return once and _cost(producer) <= most and _full_inputs(producer) <= 1


def _reads_contraction(producer: ir.Operation) -> bool:
    makers = map(linalg.maker, producer.operands)
    return any(op is not None and op.name == "linalg.generic" and linalg.contracts(op) for op in makers)


def _permutes(producer: ir.Operation) -> bool:
    """Whether a body without operations copies the whole of its one tensor (a fill has none)."""
    if len(producer.operands) != 2 or not isinstance(producer.operands[0].type, ir.RankedTensorType):
        return False
    # What it leaves out could be the largest value, which a conversion of the whole operand would then see.
    sizes = ir.RankedTensorType(producer.operands[0].type).shape
    reads = linalg.indexing_maps(producer)[0].results
    return all(isinstance(e, ir.AffineDimExpr) or size == 1 for e, size in zip(reads, sizes, strict=True))


def _cost(producer: ir.Operation) -> int:
    """The number of operations of a body; any that is not cheap counts as many."""
    ops = [op.operation.name for op in linalg.body(producer).operations][:-1]
    return sum(1 if name in _CHEAP else 1 + _MOST_CHEAP_OPS for name in ops if name != "arith.constant")


def _is_cheap(producer: ir.Operation) -> bool:
    """Whether all operations of a body are cheap, and there are few of them."""
    names = {op.operation.name for op in linalg.body(producer).operations}
    return names <= {*_CHEAP, "arith.constant", "linalg.yield"} and _cost(producer) <= _MOST_IN_REDUCTION


def _full_inputs(producer: ir.Operation) -> int:
    """The number of inputs with as many dimensions in use as the loops: those that cost memory traffic."""
    maps = linalg.indexing_maps(producer)[: linalg.input_count(producer)]
    return sum(len({str(e) for e in m.results if isinstance(e, ir.AffineDimExpr)}) == m.n_dims for m in maps)


def _reads_once(consumer: ir.Operation, reads: ir.AffineMap) -> bool:
    """Whether `consumer` reads every element through `reads` at most once."""
    used = [e.position for e in reads.results if isinstance(e, ir.AffineDimExpr)]
    if len(set(used)) != len(used) or any(
        not isinstance(e, (ir.AffineDimExpr, ir.AffineConstantExpr)) for e in reads.results
    ):
        return False
    sizes = linalg.loop_sizes(consumer)
    return all(d in used or size == 1 for d, size in enumerate(sizes))


def _join(producer: ir.Operation, consumer: ir.Operation, number: int) -> ir.Operation | None:
    """One generic that does both, with the producer's inputs in place of all uses of its result that read alike.

    None if no map would name one of the loops any more: their trip counts come from the maps.
    """
    maps, made = linalg.indexing_maps(consumer), linalg.indexing_maps(producer)
    reads, inputs = maps[number], linalg.input_count(consumer)
    replaced = [n for n in range(inputs) if consumer.operands[n] == producer.results[0] and maps[n] == reads]
    producer_inputs = linalg.input_count(producer)
    # The producer's loops in terms of the consumer's.
    places = {e.position: reads.results[n] for n, e in enumerate(made[producer_inputs].results)}
    loops = ir.AffineMap.get(reads.n_dims, 0, [places[d] for d in range(made[producer_inputs].n_dims)])
    new_maps = [
        ir.AffineMap.get(reads.n_dims, 0, [e.compose(loops) for e in m.results]) for m in made[:producer_inputs]
    ]
    # (map, operand, argument of a body) in order: what the producer reads takes the place of its result.
    old, first = linalg.body(consumer), linalg.body(producer)
    taken = [(m, producer.operands[n], first.arguments[n]) for n, m in enumerate(new_maps)]
    kept = [(m, consumer.operands[n], old.arguments[n]) for n, m in enumerate(maps) if n not in replaced]
    parts = [*kept[:number], *taken, *kept[number:]]
    all_maps = [m for m, _, _ in parts]
    counts = [ir.IntegerAttr(op.attributes["dim"]).value for op in linalg.operations(producer, "linalg.index")]
    if not linalg.names_all_loops(all_maps) or not all(isinstance(places[d], ir.AffineDimExpr) for d in counts):
        return None
    arguments = [a for _, _, a in parts]
    joined, block = linalg.generic_like(
        consumer, [o for _, o, _ in parts], all_maps, [a.type for a in arguments], [r.type for r in consumer.results]
    )
    values = dict(zip(arguments, block.arguments, strict=True))
    made_value = linalg.copy_body(first, ir.InsertionPoint(block), values)[0]
    for op in linalg.operations(producer, "linalg.index"):
        expr = places[ir.IntegerAttr(op.attributes["dim"]).value]
        count = values[op.results[0]].owner
        count.attributes["dim"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), expr.position)
    values.update({old.arguments[n]: made_value for n in replaced})
    yielded = linalg.copy_body(old, ir.InsertionPoint(block), values)
    with ir.InsertionPoint(block), consumer.location:
        ir.Operation.create("linalg.yield", operands=yielded)
    linalg.replace(consumer, joined.results)
    return joined
