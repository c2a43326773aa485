"""The structures, flags and numbers that generated code and the C++ runtime share. This is their only definition.

``python tools/write_abi.py`` writes the C++ header runtime/src/kernels/generated_abi.hpp from it, and a test compares
the two.
Every field of a structure is a word of 8 bytes: a number or a pointer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Field:
    """One field of a structure: one word, or an array of `count` words.

    c_type: ``int64_t`` or a pointer type of C++. about: what the field holds, as it stands in the header.
    """

    name: str
    c_type: str
    about: str
    count: int = 1

    @property
    def mlir_type(self) -> str:
        """The type of the field in generated code."""
        return "i64" if self.c_type == "int64_t" else "!llvm.ptr"


@dataclass(frozen=True)
class Structure:
    """A C structure: fixed fields, and behind them an array of unknown length if there is a `tail`.

    The type of the tail's elements is ``int64_t`` or the name of another structure.
    """

    name: str
    about: str
    fields: tuple[Field, ...]
    tail: Field | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fixed fields, in their order in memory."""
        return tuple(field.name for field in self.fields)

    @property
    def words(self) -> int:
        """The size of the fixed fields in words of 8 bytes, which is where the tail begins."""
        return sum(field.count for field in self.fields)

    def field(self, name: str) -> Field:
        """The field called `name`. Raises KeyError if there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)

    def word(self, name: str) -> int:
        """The number of words before the field called `name`. Raises KeyError if there is none."""
        return sum(field.count for field in self.fields[: self.fields.index(self.field(name))])

    def in_order(self, values: Mapping[str, T | list[T]]) -> list[T]:
        """The words of the fixed fields in memory order, given the value or the list of values of every field.

        Raises ValueError for a field without a value, for a value without a field, and for a list of the wrong length.
        """
        if set(values) != set(self.names):
            raise ValueError(f"{self.name}: got values of {sorted(values)}, want {sorted(self.names)}")
        words: list[T] = []
        for field in self.fields:
            value = values[field.name]
            some: list[T] = value if isinstance(value, list) else [value]
            if len(some) != field.count:
                raise ValueError(f"{self.name}.{field.name}: got {len(some)} words, want {field.count}")
            words += some
        return words


class Constant(int):
    """A flag, a special value or a size, with a sentence about it."""

    about: str

    def __new__(cls, value: int, about: str) -> Constant:
        made = super().__new__(cls, value)
        made.about = about
        return made


# The flags of a contraction. Descriptor.flags is their sum.
ROWS_PACKED = Constant(1, "Flag: the operand that supplies the rows is packed already.")
LANES_PACKED = Constant(2, "Flag: the operand that supplies the lanes is packed already.")
WHOLE_LANES = Constant(
    4,
    "Flag: a task takes all lanes of a batch, because it first copies them into a padded plane "
    "(passes/plan/padding.py).",
)
DRAWS = Constant(8, "Flag: the contraction rounds stochastically, so its tasks need the indices of output elements.")
PACKS = Constant(
    16,
    "Flag: no products, the lanes are packed for the contractions that follow. The operand of the rows is where.",
)
EXPANDS = Constant(32, "Flag: what is packed already is codes, and every task expands those that it needs.")
TRANSPOSED_TILES = Constant(
    64, "Flag: tiles are transposed on their way in and out, so that rows are adjacent in streams, not lanes."
)
TURNS = Constant(128, "Flag: rows are adjacent in memory, so that packing transposes squares of them.")

CHANNELS = Constant(
    -1,
    "In Descriptor.largest instead of a magnitude: the operand is scaled by channel, and the runtime finds the largest "
    "magnitude of every row or lane.",
)
SCATTERED = Constant(
    -(2**63), "In TaskContext.lane_dense instead of an offset: the lanes of this panel are not adjacent in memory."
)

# How the runtime cuts vectors into segments of adjacent elements (passes/kernels/packing/segments.py).
EVERY_OTHER = Constant(
    1 << 62,
    "Flag in the mask of a segment where lanes may be two elements apart: they are, and the mask has a bit for every "
    "element of that range, those between the lanes included. So have the masks of lanes that are farther apart.",
)
MOST_STRIDED_SEGMENTS = Constant(
    3, "A vector has masks of every other element only if it has at most this many segments."
)

# How additions are counted (passes/kernels/datapaths/counting.py).
COUNTED_BITS = Constant(
    32, "Counters of additions: one for each difference of the exponents of the summands, the last one for 31 or more."
)
LOW_PLANES = Constant(4, "Bit planes of counters that a kernel keeps in registers.")
HIGH_PLANES = Constant(40, "Bit planes of counters in memory, which take the carries of the low planes.")

LEAST_EXPONENT = Constant(-149, "The exponent of the smallest subnormal number of binary32.")

CONSTANTS = {name: value for name, value in list(globals().items()) if isinstance(value, Constant)}

STREAM = Structure(
    "Stream",
    "An operand of the prologue or the epilogue, or the output. The element of (batch, row, lane) is "
    "data[batch[b] + row[r] + lane[l]].",
    (
        Field("data", "const float *", "The address that offsets count from."),
        Field("batch", "const int64_t *", "The offset of every batch, in elements."),
        Field("row", "const int64_t *", "The offset of every row."),
        Field("lane", "const int64_t *", "The offset of every lane."),
    ),
)

TASK_CONTEXT = Structure(
    "TaskContext",
    "What the tasks of one contraction read: sizes, operands and tables of offsets. The runtime fills it in "
    "(runtime/src/kernels/contraction.cpp); generated tasks read it (passes/kernels/tasks), and so do observers.",
    (
        Field("a", "const float *", "The operand that supplies the rows: the address that its offsets count from."),
        Field("b", "const float *", "The operand that supplies the lanes."),
        Field("batches", "int64_t", "The number of batches."),
        Field("rows", "int64_t", "The number of rows of a batch."),
        Field("lanes", "int64_t", "The number of lanes of a batch."),
        Field("depth", "int64_t", "The number of products in each sum: the steps of k."),
        Field("row_block", "int64_t", "How many rows one task takes, a multiple of the tile's rows."),
        Field("lane_block", "int64_t", "How many lanes one task takes, a multiple of the tile's lanes."),
        Field("ranges", "int64_t", "Where the guard's data begins in the packed weight, in float32 numbers."),
        Field(
            "a_run",
            "int64_t",
            "In the operand of the rows, this many steps of k, counted from any multiple of this number, are adjacent "
            "in memory; 0 if it was packed at compile time.",
        ),
        Field("b_run", "int64_t", "The same for the operand of the lanes; 0 also if it is read as a plane."),
        Field(
            "b_step",
            "int64_t",
            "In the operand of the lanes, how far successive steps of k are apart, in elements, if all of them are "
            "equally far; else 0.",
        ),
        Field(
            "lane_run",
            "int64_t",
            "In every stream, this many lanes, counted from any multiple of this number, are adjacent in memory or all "
            "the same element; with TRANSPOSED_TILES, this many rows.",
        ),
        Field(
            "a_largest",
            "int64_t",
            "The largest magnitude of the operand of the rows, as the bits of a float32, if its conversion depends on "
            "it; if that is scaled by channel, the address of the magnitudes of all rows of all batches.",
        ),
        Field("b_largest", "int64_t", "The same for the operand of the lanes."),
        Field(
            "a_width",
            "int64_t",
            "If a run chooses the widths of the rows: their exponent bits times 2^32 plus their significand bits.",
        ),
        Field("b_width", "int64_t", "The same for the lanes."),
        Field("product_width", "int64_t", "The same for products."),
        Field(
            "sums",
            "double *",
            "Where a function that measures an operand stores its sums, two for every panel "
            "(passes/kernels/tasks/measure.py); else null.",
        ),
        Field(
            "shared_rows",
            "float *",
            "Rows that are packed for all tasks (passes/kernels/tasks/shared_rows.py), or null: tasks pack their own.",
        ),
        Field(
            "probe",
            "float *",
            "Where an observer wants the accumulators, or null: an array [2][batch][row][lane] of the initial values "
            "and of the results before the epilogue.",
        ),
        Field(
            "counts",
            "int64_t *",
            "Null, or an array of COUNTED_BITS numbers: an observer wants additions counted there.",
        ),
        Field("stride", "int64_t", "Additions are counted in one of this many steps of k."),
        Field("offset", "int64_t", "In which of them (passes/kernels/datapaths/counting.py)."),
        Field("a_batch", "const int64_t *", "Offsets in the operand of the rows: of every batch, in elements."),
        Field("a_row", "const int64_t *", "Of every row; null if the operand was packed at compile time."),
        Field("a_k", "const int64_t *", "Of every step of k; null if the operand was packed at compile time."),
        Field("b_batch", "const int64_t *", "Offsets in the operand of the lanes: of every batch, in elements."),
        Field("b_lane", "const int64_t *", "Of every lane; null if the operand was packed, or is read as a plane."),
        Field("b_k", "const int64_t *", "Of every step of k; null in the same cases."),
        Field("k_first", "const int64_t *", "The first segment of every vector along k of the operand of the rows."),
        Field("k_segment", "const int64_t *", "The offset of every such segment, where lane 0 of the vector would be."),
        Field("k_mask", "const int64_t *", "Which lanes of the vector every such segment supplies."),
        Field("lane_first", "const int64_t *", "The first segment of every vector of lanes."),
        Field("lane_segment", "const int64_t *", "The offset of every such segment."),
        Field("lane_mask", "const int64_t *", "Which lanes every such segment supplies."),
        Field(
            "lane_dense",
            "const int64_t *",
            "The offset of the first lane of every panel whose lanes are all adjacent, else SCATTERED.",
        ),
        Field("random", "int64_t", "The stream of random bits that this execution draws from (numc_stream)."),
        Field(
            "e_batch",
            "const int64_t *",
            "The index of an output element is e_batch[b] + e_row[r] + e_lane[l], the same for every tiling; random "
            "bits are drawn by it. Null if nothing is drawn.",
        ),
        Field("e_row", "const int64_t *", "The part of the rows, zeros up to a whole panel."),
        Field("e_lane", "const int64_t *", "The part of the lanes, zeros up to a whole panel."),
    ),
    Field("streams", STREAM.name, "The operands of the prologue, those of the epilogue, the output."),
)

DESCRIPTOR = Structure(
    "Descriptor",
    "What a program tells the runtime of one contraction (passes/plan/descriptor.py): numc_contract makes a "
    "TaskContext from it and runs the tasks.",
    (
        Field("width", "int64_t", "Lanes of a vector register."),
        Field("tile_rows", "int64_t", "Rows of a micro-tile of accumulators."),
        Field("tile_lanes", "int64_t", "Lanes of a micro-tile, a multiple of the width."),
        Field(
            "flags",
            "int64_t",
            "ROWS_PACKED, LANES_PACKED, WHOLE_LANES, DRAWS, PACKS, EXPANDS, TRANSPOSED_TILES and TURNS, added up.",
        ),
        Field("ranges", "int64_t", "See TaskContext.ranges."),
        Field("streams", "int64_t", "How many operands there are: rows, lanes, those of the streams, the output."),
        Field("splats", "int64_t", "The streams with one element for a run of lanes (interface.Stream), a bit each."),
        Field(
            "strides",
            "int64_t",
            "For the operands of the rows and of the lanes: how many elements apart those of a segment may be, other "
            "than one (passes/kernels/packing/segments.py).",
            2,
        ),
        Field(
            "largest",
            "int64_t",
            "For the operands of the rows and of the lanes: the largest magnitude as the bits of a float32 if the "
            "conversion depends on it, the address of the magnitudes of all channels, or CHANNELS.",
            2,
        ),
        Field("widths", "int64_t", "Of rows, lanes and products: see TaskContext.a_width.", 3),
        Field("slots", "int64_t", "By what number a run knows the widths of rows and lanes; -1 if they are fixed.", 2),
        Field("measures", "int64_t", "Functions that measure rows and lanes for a choice of widths, or null.", 2),
        Field("pack_rows", "int64_t", "The function that packs rows for all tasks, or null if tasks pack their own."),
        Field("k_block", "int64_t", "Steps of k of one block, if there is that function."),
        Field("row_words", "int64_t", "What it packs of one panel for one block, in float32 numbers."),
        Field("random", "int64_t", "See TaskContext.random."),
        Field("dims", "int64_t", "How many dimensions are batches, rows, lanes and k.", 4),
    ),
    Field(
        "words",
        "int64_t",
        "The sizes of all these dimensions; then for every operand its pointer, its first offset, and a stride for "
        "each dimension; then, with DRAWS, the strides of the indices of the output's elements.",
    ),
)

VALUE_COUNTS = Structure(
    "ValueCounts",
    "What numc_count_values finds in a tensor (runtime/src/kernels/value_counts.cpp): how many elements of each "
    "kind there are.",
    (
        Field(
            "exponents",
            "int64_t",
            "Finite numbers x other than zero by floor(log2(abs(x))), from LEAST_EXPONENT to 127.",
            277,
        ),
        Field("zeros", "int64_t", "Zeros of either sign."),
        Field("infinities", "int64_t", "Infinities of either sign."),
        Field("nans", "int64_t", "NaNs."),
        Field("overflows", "int64_t", "Finite numbers larger in magnitude than the largest one of a format."),
        Field("subnormals", "int64_t", "Numbers that a conversion makes subnormal in its format."),
        Field("flushed", "int64_t", "Numbers other than zero that a conversion makes zero."),
    ),
)

VALUE_LIMITS = Structure(
    "ValueLimits",
    "What numc_count_values has to know of a conversion: magnitudes, as the bits of a float32. Pairs are for positive "
    "and for negative numbers.",
    (
        Field("largest", "int64_t", "The largest number of the format."),
        Field("nonzero", "int64_t", "The least number that is not converted to zero.", 2),
        Field("normal", "int64_t", "The least number that is converted neither to zero nor to a subnormal.", 2),
    ),
)

STRUCTURES = (STREAM, TASK_CONTEXT, DESCRIPTOR, VALUE_COUNTS, VALUE_LIMITS)
