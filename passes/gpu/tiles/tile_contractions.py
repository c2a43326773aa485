"""contractions: every planned contraction becomes a call whose kernels are written beside it, as text.

All its kernels are Gluon's. Two pack the operands (tile_packing.py). One reads tiles of both into shared memory, and
every thread takes its accumulators through one step of k after the other, in registers. A cheap sequence runs where its
guard holds for the operands of a tile, whose extremes packing has found, and for all of k at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch_mlir import ir

from numc.numerics.operators import Fma
from numc.passes import facts, linalg
from numc.passes.gpu.kernel_text import layer_of, no_kernel
from numc.passes.gpu.loop_kernels import Size, sizes_of
from numc.passes.gpu.tile_operations import UnknownError
from numc.passes.gpu.tiles.group_planes import asks_tensor, group_steps, planes_of
from numc.passes.gpu.tiles.tile_packing import Packing
from numc.passes.gpu.tiles.tile_product import Tiles
from numc.passes.gpu.tiles.tile_step import base_of, block_length, guard_of, is_steps, on_tiles, sums_of
from numc.passes.parsed import parsed
from numc.passes.plan import records
from numc.passes.plan.contraction import Contraction, Found, find
from numc.passes.plan.contraction_rows import CONTRACTIONS, ContractionRow
from numc.passes.plan.plan import CALIBRATION
from numc.passes.plan.plan import CONTRACTION as PLANNED

CONTRACTION = "numc.tiles"
"""On the call of a contraction: its kernels, and what they are given."""
_NAME = "numc_contraction"


def contractions(module: ir.Operation) -> None:
    """Replace planned contractions by calls that carry their kernels.

    Raises NumcError, which names all layers whose operator has no kernel and is no sequence of single steps either.
    """
    unknown: dict[str, None] = {}
    rows: list[ContractionRow] = []
    tables: dict[str, str] = {}
    with module.context, ir.Location.unknown():
        products = [f for g in linalg.operations(module, "linalg.generic") if (f := find(g)) is not None]
        for number, each in enumerate(products):
            rows += _rows(each)
            try:
                record, more = _record(each)
            except UnknownError as reason:
                if not is_steps(each.fma):
                    unknown[f"{layer_of(each.generic)}: {reason}"] = None
                continue  # its loops are ordinary ones
            _call(module, each, record, number)
            tables |= more
        _define(module, tables)
    if unknown:
        raise no_kernel(unknown)
    facts.put(module, CONTRACTIONS, records.data_of(tuple(sorted(rows, key=lambda row: row.id))))


def _define(module: ir.Operation, tables: Mapping[str, str]) -> None:
    """Add the tables that kernels read and the module lacks."""
    block = module.regions[0].blocks[0]
    known = {ir.StringAttr(op.attributes["sym_name"]).value for op in block.operations}
    for symbol in tables.keys() - known:
        made = parsed(tables[symbol]).body.operations[0]
        block.append(ir.Operation.parse(str(made)))


def _rows(product: Found) -> list[ContractionRow]:
    """The row of a planned contraction, as the program's manifest has it."""
    region = product.generic.parent
    if region is None or PLANNED not in region.attributes:
        return []
    about = records.get(Contraction, region, PLANNED, "")
    return [
        ContractionRow(
            id=about.id,
            fma=about.operator,
            passes=product.fma.passes,
            name=about.layer,
            swap=about.swap,
            packed="",
            layout=None,
            plane=None,
        )
    ]


def _call(module: ir.Operation, product: Found, record: dict[str, object], number: int) -> None:
    generic = product.generic
    operands = [product.rows.value, product.lanes.value, product.out.value]
    name = f"{_NAME}_{number}"
    block = module.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block):
        signature = ir.FunctionType.get([v.type for v in operands], [])
        attributes = {
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(signature),
            "sym_visibility": ir.StringAttr.get("private"),
        }
        ir.Operation.create("func.func", attributes=attributes, regions=1)
    with ir.InsertionPoint(generic), generic.location:
        callee = {"callee": ir.FlatSymbolRefAttr.get(name), CONTRACTION: facts.attribute(record)}
        ir.Operation.create("func.call", operands=operands, attributes=callee)
    generic.erase()


def _record(product: Found) -> tuple[dict[str, object], dict[str, str]]:
    """The kernels of a contraction, as a record that is an attribute, and the tables that they read.

    Raises UnknownError where there are none.
    """
    fma = on_tiles(product.fma)
    base_of(fma)
    if product.narrow:
        raise UnknownError(f"operator '{product.operator}' on stored codes")
    if product.slots and not any(fma.grouped):
        raise UnknownError(f"open widths of operator '{product.operator}'")
    values = [product.rows.value, product.lanes.value, product.out.value]
    sizes = sizes_of(product.generic)
    guarded = guard_of(fma) is not None
    shape = product.shape
    sides = [Packing(product, fma, side, sizes, guarded) for side in ("rows", "lanes")]
    kernels = {each.side: each.values() for each in sides}
    kernels |= {f"{each.side}_scales": each.scaling() for each in sides if each.to is not None}
    tiles = Tiles(product, fma, sizes)
    kernels["product"] = tiles.kernel()
    tables = {symbol: text for each in kernels.values() for symbol, text in each.tables.items()}
    record = {
        "kernels": {name: written.text for name, written in kernels.items()},
        "arguments": {
            name: [
                [a.what, a.value if isinstance(a.value, str) else values.index(a.value), a.dimension]
                for a in written.arguments
            ]
            for name, written in kernels.items()
        },
        "sizes": {
            name: [_known(sizes[d], values) for d in dims]
            for name, dims in (("batch", shape.batch), ("rows", shape.rows), ("lanes", shape.lanes), ("k", shape.k))
        },
        "operands": [_operand(each, values, number) for number, each in enumerate(sides)],
        "block": block_length(fma),
        "run": _run(fma),
        "operator": str(product.operator),
        "deep": tiles.deep,
        "tile": tiles.most,
        "random": product.number if fma.draws else None,
        "draws": fma.steps_draw,
    }
    return record, tables


def _operand(packing: Packing, values: Sequence[ir.Value], number: int) -> dict[str, object]:
    """The facts of an operand: its parts, whether batches share it, and how its groups are converted.

    largest: the number of the operand whose largest magnitude is asked for, or that magnitude, if it is calibrated.
    """
    fma, to, operand = packing.fma, packing.to, packing.operand
    about: dict[str, object] = {
        "shared": not (operand.dims() & set(packing.product.shape.batch)) and (to is None or to.noise is None),
        "parts": fma.parts[packing.number],
    }
    if to is None:
        return about
    about |= {"group": group_steps(to) or 0, "planes": planes_of(fma, packing.number).count}
    about["draws"] = to.noise is not None
    if asks_tensor(to):
        calibrated = _calibrated(packing.product)
        about |= {"largest": number if calibrated is None else calibrated[number], "known": calibrated is not None}
        about |= {"finite": to.format.finite_only}
    if to.open is not None:
        about["width"] = packing.slot
    return about


def _calibrated(product: Found) -> list[int] | None:
    """The largest magnitudes of rows and lanes, where they are given and not found in every run."""
    region = product.generic.parent
    if region is None or CALIBRATION not in region.attributes:
        return None
    words: list[int] = facts.get(region, CALIBRATION)
    return words


def _run(fma: Fma) -> object:
    """The steps that are summed apart: a number, 0 for all, or the most runs there are, and what divides them."""
    path = fma.datapath
    if sums_of(fma) in ("groups", "scaled groups"):
        return fma.group_length or 0
    return [path.splits, path.least_run] if path.splits is not None else path.chunk or 0


def _known(size: Size, values: Sequence[ir.Value]) -> object:
    return size if isinstance(size, int) else [values.index(size[0]), size[1]]
