// What generated code and the runtime share. Written by tools/write_abi.py from passes/kernels/abi.py: change the table
// there, then run the tool.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numc {

// Flag: the operand that supplies the rows is packed already.
constexpr int64_t kRowsPacked = 1;
// Flag: the operand that supplies the lanes is packed already.
constexpr int64_t kLanesPacked = 2;
// Flag: a task takes all lanes of a batch, because it first copies them into a padded plane (passes/plan/padding.py).
constexpr int64_t kWholeLanes = 4;
// Flag: the contraction rounds stochastically, so its tasks need the indices of output elements.
constexpr int64_t kDraws = 8;
// Flag: no products, the lanes are packed for the contractions that follow. The operand of the rows is where.
constexpr int64_t kPacks = 16;
// Flag: what is packed already is codes, and every task expands those that it needs.
constexpr int64_t kExpands = 32;
// Flag: tiles are transposed on their way in and out, so that rows are adjacent in streams, not lanes.
constexpr int64_t kTransposedTiles = 64;
// Flag: rows are adjacent in memory, so that packing transposes squares of them.
constexpr int64_t kTurns = 128;
// In Descriptor.largest instead of a magnitude: the operand is scaled by channel, and the runtime finds the largest
// magnitude of every row or lane.
constexpr int64_t kChannels = -1;
// In TaskContext.lane_dense instead of an offset: the lanes of this panel are not adjacent in memory.
constexpr int64_t kScattered = INT64_MIN;
// Flag in the mask of a segment where lanes may be two elements apart: they are, and the mask has a bit for every
// element of that range, those between the lanes included. So have the masks of lanes that are farther apart.
constexpr int64_t kEveryOther = 0x4000000000000000;
// A vector has masks of every other element only if it has at most this many segments.
constexpr int64_t kMostStridedSegments = 3;
// Counters of additions: one for each difference of the exponents of the summands, the last one for 31 or more.
constexpr int64_t kCountedBits = 32;
// Bit planes of counters that a kernel keeps in registers.
constexpr int64_t kLowPlanes = 4;
// Bit planes of counters in memory, which take the carries of the low planes.
constexpr int64_t kHighPlanes = 40;
// The exponent of the smallest subnormal number of binary32.
constexpr int64_t kLeastExponent = -149;

// An operand of the prologue or the epilogue, or the output. The element of (batch, row, lane) is data[batch[b] +
// row[r] + lane[l]].
struct Stream {
  // The address that offsets count from.
  const float *data;
  // The offset of every batch, in elements.
  const int64_t *batch;
  // The offset of every row.
  const int64_t *row;
  // The offset of every lane.
  const int64_t *lane;
};
static_assert(sizeof(Stream) == 32, "generated code counts words of 8 bytes");

// What the tasks of one contraction read: sizes, operands and tables of offsets. The runtime fills it in
// (runtime/src/kernels/contraction.cpp); generated tasks read it (passes/kernels/tasks), and so do observers.
struct TaskContext {
  // The operand that supplies the rows: the address that its offsets count from.
  const float *a;
  // The operand that supplies the lanes.
  const float *b;
  // The number of batches.
  int64_t batches;
  // The number of rows of a batch.
  int64_t rows;
  // The number of lanes of a batch.
  int64_t lanes;
  // The number of products in each sum: the steps of k.
  int64_t depth;
  // How many rows one task takes, a multiple of the tile's rows.
  int64_t row_block;
  // How many lanes one task takes, a multiple of the tile's lanes.
  int64_t lane_block;
  // Where the guard's data begins in the packed weight, in float32 numbers.
  int64_t ranges;
  // In the operand of the rows, this many steps of k, counted from any multiple of this number, are adjacent in memory;
  // 0 if it was packed at compile time.
  int64_t a_run;
  // The same for the operand of the lanes; 0 also if it is read as a plane.
  int64_t b_run;
  // In the operand of the lanes, how far successive steps of k are apart, in elements, if all of them are equally far;
  // else 0.
  int64_t b_step;
  // In every stream, this many lanes, counted from any multiple of this number, are adjacent in memory or all the same
  // element; with kTransposedTiles, this many rows.
  int64_t lane_run;
  // The largest magnitude of the operand of the rows, as the bits of a float32, if its conversion depends on it; if
  // that is scaled by channel, the address of the magnitudes of all rows of all batches.
  int64_t a_largest;
  // The same for the operand of the lanes.
  int64_t b_largest;
  // If a run chooses the widths of the rows: their exponent bits times 2^32 plus their significand bits.
  int64_t a_width;
  // The same for the lanes.
  int64_t b_width;
  // The same for products.
  int64_t product_width;
  // Where a function that measures an operand stores its sums, two for every panel (passes/kernels/tasks/measure.py);
  // else null.
  double *sums;
  // Rows that are packed for all tasks (passes/kernels/tasks/shared_rows.py), or null: tasks pack their own.
  float *shared_rows;
  // Where an observer wants the accumulators, or null: an array [2][batch][row][lane] of the initial values and of the
  // results before the epilogue.
  float *probe;
  // Null, or an array of kCountedBits numbers: an observer wants additions counted there.
  int64_t *counts;
  // Additions are counted in one of this many steps of k.
  int64_t stride;
  // In which of them (passes/kernels/datapaths/counting.py).
  int64_t offset;
  // Offsets in the operand of the rows: of every batch, in elements.
  const int64_t *a_batch;
  // Of every row; null if the operand was packed at compile time.
  const int64_t *a_row;
  // Of every step of k; null if the operand was packed at compile time.
  const int64_t *a_k;
  // Offsets in the operand of the lanes: of every batch, in elements.
  const int64_t *b_batch;
  // Of every lane; null if the operand was packed, or is read as a plane.
  const int64_t *b_lane;
  // Of every step of k; null in the same cases.
  const int64_t *b_k;
  // The first segment of every vector along k of the operand of the rows.
  const int64_t *k_first;
  // The offset of every such segment, where lane 0 of the vector would be.
  const int64_t *k_segment;
  // Which lanes of the vector every such segment supplies.
  const int64_t *k_mask;
  // The first segment of every vector of lanes.
  const int64_t *lane_first;
  // The offset of every such segment.
  const int64_t *lane_segment;
  // Which lanes every such segment supplies.
  const int64_t *lane_mask;
  // The offset of the first lane of every panel whose lanes are all adjacent, else kScattered.
  const int64_t *lane_dense;
  // The stream of random bits that this execution draws from (numc_stream).
  int64_t random;
  // The index of an output element is e_batch[b] + e_row[r] + e_lane[l], the same for every tiling; random bits are
  // drawn by it. Null if nothing is drawn.
  const int64_t *e_batch;
  // The part of the rows, zeros up to a whole panel.
  const int64_t *e_row;
  // The part of the lanes, zeros up to a whole panel.
  const int64_t *e_lane;
  // The operands of the prologue, those of the epilogue, the output.
  Stream streams[];
};
static_assert(sizeof(TaskContext) == 328, "generated code counts words of 8 bytes");

// What a program tells the runtime of one contraction (passes/plan/descriptor.py): numc_contract makes a TaskContext
// from it and runs the tasks.
struct Descriptor {
  // Lanes of a vector register.
  int64_t width;
  // Rows of a micro-tile of accumulators.
  int64_t tile_rows;
  // Lanes of a micro-tile, a multiple of the width.
  int64_t tile_lanes;
  // kRowsPacked, kLanesPacked, kWholeLanes, kDraws, kPacks, kExpands, kTransposedTiles and kTurns, added up.
  int64_t flags;
  // See TaskContext.ranges.
  int64_t ranges;
  // How many operands there are: rows, lanes, those of the streams, the output.
  int64_t streams;
  // The streams with one element for a run of lanes (interface.Stream), a bit each.
  int64_t splats;
  // For the operands of the rows and of the lanes: how many elements apart those of a segment may be, other than one
  // (passes/kernels/packing/segments.py).
  int64_t strides[2];
  // For the operands of the rows and of the lanes: the largest magnitude as the bits of a float32 if the conversion
  // depends on it, the address of the magnitudes of all channels, or kChannels.
  int64_t largest[2];
  // Of rows, lanes and products: see TaskContext.a_width.
  int64_t widths[3];
  // By what number a run knows the widths of rows and lanes; -1 if they are fixed.
  int64_t slots[2];
  // Functions that measure rows and lanes for a choice of widths, or null.
  int64_t measures[2];
  // The function that packs rows for all tasks, or null if tasks pack their own.
  int64_t pack_rows;
  // Steps of k of one block, if there is that function.
  int64_t k_block;
  // What it packs of one panel for one block, in float32 numbers.
  int64_t row_words;
  // See TaskContext.random.
  int64_t random;
  // How many dimensions are batches, rows, lanes and k.
  int64_t dims[4];
  // The sizes of all these dimensions; then for every operand its pointer, its first offset, and a stride for each
  // dimension; then, with kDraws, the strides of the indices of the output's elements.
  int64_t words[];
};
static_assert(sizeof(Descriptor) == 208, "generated code counts words of 8 bytes");

// What numc_count_values finds in a tensor (runtime/src/kernels/value_counts.cpp): how many elements of each kind there
// are.
struct ValueCounts {
  // Finite numbers x other than zero by floor(log2(abs(x))), from kLeastExponent to 127.
  int64_t exponents[277];
  // Zeros of either sign.
  int64_t zeros;
  // Infinities of either sign.
  int64_t infinities;
  // NaNs.
  int64_t nans;
  // Finite numbers larger in magnitude than the largest one of a format.
  int64_t overflows;
  // Numbers that a conversion makes subnormal in its format.
  int64_t subnormals;
  // Numbers other than zero that a conversion makes zero.
  int64_t flushed;
};
static_assert(sizeof(ValueCounts) == 2264, "generated code counts words of 8 bytes");

// What numc_count_values has to know of a conversion: magnitudes, as the bits of a float32. Pairs are for positive and
// for negative numbers.
struct ValueLimits {
  // The largest number of the format.
  int64_t largest;
  // The least number that is not converted to zero.
  int64_t nonzero[2];
  // The least number that is converted neither to zero nor to a subnormal.
  int64_t normal[2];
};
static_assert(sizeof(ValueLimits) == 40, "generated code counts words of 8 bytes");

}  // namespace numc
