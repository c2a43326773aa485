"""write-out-scales: contractions by scales that no kernel applies become operations that kernels and loops compute.

Each operand becomes a matrix whose rows are along the reduction. It may be multiplied by a Hadamard matrix; then its
tiles are converted, and what is left is a contraction of values, of elements, or of words of elements and scales, by an
operator that kernels have (arithmetic.md, "Scales outside of a sum").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch_mlir import ir
from torch_mlir.dialects import arith

from numc.numerics.formats import Conversion
from numc.numerics.groups import GroupConversion
from numc.numerics.kinds.scaled_groups import in_words, with_scales
from numc.numerics.operators import Fma
from numc.numerics.reference.hadamard import hadamard_matrix
from numc.passes import linalg
from numc.passes.dialect import Contracted, FmaOp, contracted, fma_of, number_of
from numc.passes.explicit.scales.kinds.tile_conversion import Converted, converted, rounded
from numc.passes.explicit.scales.matrices import (
    PARALLEL,
    REDUCTION,
    filled,
    filled_up,
    operand_matrix,
    reduced,
    shaped,
)
from numc.passes.explicit.scales.run_sizes import Size, ceil_div, equal, loop_trips, product, sizes
from numc.passes.explicit.stored_bits import integer
from numc.support.errors import NumcError, quoted

_A, _B = 3, 2  # how far the numbers of the conversions are before that of the accumulator


def write_out_scales(module: ir.Operation) -> None:
    """Write contractions by scales of tiles, by units or with rotated operands as simpler operations."""
    with module.context:
        for generic in linalg.operations(module, "linalg.generic"):
            if not linalg.reduces(generic):
                continue
            steps = [op.operation for op in linalg.body(generic).operations if op.operation.name == "numc.fma"]
            if not steps or not any(fma_of(step).written_out for step in steps):
                continue
            of = contracted(generic)
            if of is None:
                raise NumcError(
                    f"reduction {quoted(linalg.name_of(generic))}: '{fma_of(steps[0])}' needs one multiply-add, and "
                    "this one does more: give it another operator"
                )
            with ir.InsertionPoint(generic), generic.location:
                linalg.replace(generic, [_Contraction.of(generic, of).result()])


@dataclass
class _Contraction:
    """A contraction that is written out: its operator, and its operands as matrices with the loops that rows are.

    parallel: the loops that are no reductions, which the result has; trips: the trip counts of all loops.
    """

    generic: ir.Operation
    step: ir.Operation
    fma: Fma
    trips: list[Size]
    parallel: list[int]
    init: ir.Value
    init_map: ir.AffineMap
    matrices: list[ir.Value]
    across: list[list[int]]

    @staticmethod
    def of(generic: ir.Operation, contraction: Contracted) -> _Contraction:
        """Read a contraction."""
        trips, (a, b, c) = loop_trips(generic), contraction.numbers
        parallel = [d for d, loop in enumerate(linalg.iterator_types(generic)) if loop == PARALLEL]
        both = [operand_matrix(generic, n, trips) for n in (a, b)]
        return _Contraction(
            generic=generic,
            step=contraction.step,
            fma=contraction.fma,
            trips=trips,
            parallel=parallel,
            init=generic.operands[c],
            init_map=linalg.indexing_maps(generic)[c],
            matrices=[matrix for matrix, _ in both],
            across=[across for _, across in both],
        )

    def result(self) -> ir.Value:
        """The result of the contraction."""
        if self.fma.hadamard:
            self.matrices = [_rotated(each, self.fma) for each in self.matrices]
            self.fma = self.fma.unrotated
        if not self.fma.written_out:
            return self._product(self.fma, self.matrices, self.init)
        if self.fma.groups is None:
            sides = zip(self.matrices, self.fma.grouped, (_A, _B), strict=True)
            values = [each if to is None else self._converted(each, to, n).values() for each, to, n in sides]
            return self._product(self.fma.without_groups, values, self.init)
        a, b = (
            self._converted(each, to, n) for each, to, n in zip(self.matrices, self.fma.groups, (_A, _B), strict=True)
        )
        return self._of_blocks(a, b) if self.fma.multiplies == "elements" else self._of_sums(a, b)

    def _converted(self, matrix: ir.Value, to: GroupConversion, before: int) -> Converted:
        return converted(matrix, with_scales(to), number_of(self.step) - before)

    def _product(self, fma: Fma, matrices: list[ir.Value], init: ir.Value) -> ir.Value:
        """The contraction of the rows of two matrices (rows, steps), from `init`, in one reduction."""
        steps = sizes(matrices[0])[1]
        inputs = []
        for matrix, across in zip(matrices, self.across, strict=True):
            whole = shaped(matrix, [*(self.trips[d] for d in across), steps])
            inputs.append((whole, [*(self.parallel.index(d) for d in across), len(self.parallel)]))
        return self._reduction(fma, inputs, [*self._sizes, steps], init, self._places(len(self.parallel) + 1))

    @property
    def _sizes(self) -> list[Size]:
        return [self.trips[d] for d in self.parallel]

    def _places(self, count: int) -> ir.AffineMap:
        """Where the result has an element, by the parallel loops, which are the first ones of `count`."""
        where: list[ir.AffineExpr] = [ir.AffineConstantExpr.get(0)] * len(self.trips)
        for n, d in enumerate(self.parallel):
            where[d] = ir.AffineDimExpr.get(n)
        exprs = [expr.compose(ir.AffineMap.get(count, 0, where)) for expr in self.init_map.results]
        return ir.AffineMap.get(count, 0, exprs)

    def _reduction(
        self,
        fma: Fma,
        inputs: list[tuple[ir.Value, list[int]]],
        loops: list[Size],
        init: ir.Value,
        places: ir.AffineMap,
    ) -> ir.Value:
        """A contraction whose last loop is the reduction, in the layer of this one."""
        maps = [ir.AffineMap.get(len(loops), 0, [ir.AffineDimExpr.get(d) for d in dims]) for _, dims in inputs]
        kinds = [PARALLEL] * (len(loops) - 1) + [REDUCTION]

        def body(a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
            a, b = (_taken(x, to) for x, to in zip((a, b), (fma.a, fma.b), strict=True))
            op = FmaOp(ir.F32Type.get(), a, b, c, fma=ir.StringAttr.get(str(fma)))
            if fma.draws:
                op.operation.attributes["number"] = ir.IntegerAttr.get(integer(64), number_of(self.step))
            result: ir.Value = op.result
            return result

        result = linalg.generic([value for value, _ in inputs], init, [*maps, places], kinds, body)
        if "numc.layer" in self.generic.attributes:
            result.owner.operation.attributes["numc.layer"] = self.generic.attributes["numc.layer"]
        return result

    def _of_blocks(self, a: Converted, b: Converted) -> ir.Value:
        """Blocks of words, whose sum the scales of tensors multiply."""
        to_a, to_b = (in_words(each.to) for each in (a, b))
        fma = replace(self.fma, name="", a=to_a, b=to_b)
        if a.tensor is None and b.tensor is None:
            return self._product(fma, [a.words(), b.words()], self.init)
        zeros = filled(sizes(self.init), ir.F32Type.get(), 0.0)
        total = self._product(fma, [a.words(), b.words()], zeros)
        scales = [each.tensor for each in (a, b) if each.tensor is not None]
        return self._scaled(total, [(scale, ()) for scale in scales])

    def _of_sums(self, a: Converted, b: Converted) -> ir.Value:
        """Sums of elements by the unit, a group at a time, times the scales of their groups."""
        unit, count = self.fma.summed_by, len(self.parallel)
        groups, width = a.tiling.counts[1], a.tiling.width
        operands = []
        for each, across in zip((a, b), self.across, strict=True):
            rows = [self.trips[d] for d in across]
            dims = [1 + self.parallel.index(d) for d in across]
            operands.append((shaped(each.groups(), [*rows, groups, width]), [*dims, 0, 1 + count]))
        shape = [groups, *self._sizes]
        zeros = filled(shape, ir.F32Type.get(), 0.0)
        identity = ir.AffineMap.get(count + 2, 0, [ir.AffineDimExpr.get(d) for d in range(count + 1)])
        sums = self._reduction(unit, operands, [*shape, width], zeros, identity)
        factors = []
        for each, across in zip((a, b), self.across, strict=True):
            of_rows = each.per_row(each.factors())
            where = [*(self.parallel.index(d) for d in across), count]
            factors.append((shaped(of_rows, [*(self.trips[d] for d in across), groups]), where))
        if equal(groups, 1):
            flat = shaped(sums, self._sizes)
            own = [(shaped(value, [*sizes(value)[:-1]]), dims[:-1]) for value, dims in factors]
            return self._scaled(flat, own, of_loops=True)
        return self._added(sums, factors)

    def _scaled(
        self, total: ir.Value, factors: Sequence[tuple[ir.Value, Sequence[int]]], *, of_loops: bool = False
    ) -> ir.Value:
        """The start of the contraction plus a sum times the product of scales: one binary32 FMA for each element.

        of_loops: the sum is [parallel loops], and not in the layout of the result.
        """
        count = len(self.parallel)
        places = self._places(count)
        own = ir.AffineMap.get_identity(count) if of_loops else places
        maps = [ir.AffineMap.get(count, 0, [ir.AffineDimExpr.get(d) for d in dims]) for _, dims in factors]

        def body(s: ir.Value, *rest: ir.Value) -> ir.Value:
            *scales, c = rest
            return _fma(s, _product_of(scales), c)

        inputs = [total, *(value for value, _ in factors)]
        return linalg.generic(inputs, self.init, [own, *maps, places], [PARALLEL] * count, body)

    def _added(self, sums: ir.Value, factors: list[tuple[ir.Value, list[int]]]) -> ir.Value:
        """The sums of groups times the products of their scales, added one after the other."""
        count = len(self.parallel)
        maps = [ir.AffineMap.get(count + 1, 0, [ir.AffineDimExpr.get(d) for d in dims]) for _, dims in factors]
        own = ir.AffineMap.get(count + 1, 0, [ir.AffineDimExpr.get(d) for d in (count, *range(count))])

        def body(s: ir.Value, x: ir.Value, y: ir.Value, c: ir.Value) -> ir.Value:
            return _fma(s, arith.MulFOp(x, y).result, c)

        inputs = [sums, *(value for value, _ in factors)]
        kinds = [PARALLEL] * count + [REDUCTION]
        return linalg.generic(inputs, self.init, [own, *maps, self._places(count + 1)], kinds, body)


def _rotated(matrix: ir.Value, fma: Fma) -> ir.Value:
    """The rows of a matrix, filled up to whole blocks, times a Hadamard matrix block by block."""
    size, (rows, steps) = fma.hadamard, sizes(matrix)
    blocks = ceil_div(steps, size)
    whole = product([blocks, size])
    cut = shaped(filled_up(matrix, rows, whole), [rows, blocks, size])
    entries = hadamard_matrix(size, fma.signs)
    square = ir.RankedTensorType.get([size, size], ir.F32Type.get())
    each = [ir.FloatAttr.get(ir.F32Type.get(), x) for row in entries for x in row]
    constant = arith.ConstantOp(square, ir.DenseElementsAttr.get(each, square)).result
    start = filled([rows, blocks, size], ir.F32Type.get(), 0.0)
    inputs = [(cut, (0, 1, 3)), (constant, (3, 2))]
    turned = reduced(inputs, (3,), start, (0, 1, 2), _fma)
    return shaped(turned, [rows, whole])


def _taken(x: ir.Value, to: Conversion | GroupConversion) -> ir.Value:
    """An operand in the format that an operator takes; groups are converted by kernels."""
    if isinstance(to, GroupConversion) or str(to) == "fp32":
        return x
    return rounded(x, to.settled, 0)


def _fma(a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    result: ir.Value = FmaOp(ir.F32Type.get(), a, b, c, fma=ir.StringAttr.get("fp32")).result
    return result


def _product_of(scales: list[ir.Value]) -> ir.Value:
    """The product of two scales, or the only one."""
    return scales[0] if len(scales) == 1 else arith.MulFOp(*scales).result
