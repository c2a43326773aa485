// numc_contract: turns the description of one contraction into what its kernel reads, the TaskContext, chooses how much
// one task computes, and runs the tasks.
#include <new>

#include "execution/profile.hpp"
#include "execution/rows.hpp"
#include "execution/run.hpp"
#include "kernels/channel_magnitudes.hpp"
#include "kernels/generated_abi.hpp"
#include "kernels/offset_tables.hpp"
#include "kernels/task_sizes.hpp"
#include "kernels/widths.hpp"
#include "numc.h"
#include "numc/generated.h"
#include "numc/host.h"

namespace numc {
namespace {

// Where rows are packed already, a task takes at most this many.
constexpr int64_t kRows = 1024;
// The cost of packing a vector, of packing one of rows that are transposed, and of reading one that was packed before, in
// operations on a vector register.
constexpr int64_t kPacking = 6, kTurning = 12, kReading = 2;
// How many panels of lanes a task takes: of packed ones, of others beside rows that are transposed, which each task does
// anew, and of others, of which it keeps all in a cache.
constexpr int64_t kPackedLanes = 64, kLanesOfTurned = 32, kLanes = 8;
// Rows that are packed for all tasks are at most so many float32 numbers, half of a cache of the second level.
constexpr int64_t kSharedWords = 1 << 18;
// As many are packed before another thread has woken up.
constexpr int64_t kSharedAlone = 1 << 13;

// The four groups of dimensions of a contraction.
struct Shape {
  Dimensions batch, row, lane, k;
  int64_t rank;  // the number of all dimensions
};

Shape shape_of(const Descriptor &d) {
  Shape s{};
  Dimensions *const groups[4] = {&s.batch, &s.row, &s.lane, &s.k};
  for (int g = 0; g < 4; ++g) {
    Dimensions &group = *groups[g];
    group = {d.words + s.rank, d.dims[g], s.rank, 1};
    for (int64_t n = 0; n < group.rank; ++n) group.count *= group.sizes[n];
    s.rank += group.rank;
  }
  return s;
}

// How many panels of rows there are in all blocks of k.
int64_t row_panels(const Descriptor &d, const TaskContext &c) {
  const int64_t blocks = ceil_div(c.depth, d.k_block);
  return c.batches * ceil_div(c.rows, d.tile_rows) * (blocks > 0 ? blocks : 1);
}

// The size of rows that are packed for all tasks; 0 if tasks pack their own. What does not stay in a cache is packed
// part by part.
int64_t shared_words(const Descriptor &d, const TaskContext &c) {
  const int64_t words = d.pack_rows != 0 ? row_panels(d, c) * (d.row_words + 2) : 0;
  return words <= kSharedWords ? words : 0;
}

// Packs the rows for all tasks if several would pack the same ones. Returns the memory, or null.
float *share_rows(const Descriptor &d, TaskContext &c, int64_t threads) {
  const int64_t words = c.lanes > c.lane_block ? shared_words(d, c) : 0;
  if (words == 0) return nullptr;
  c.shared_rows = static_cast<float *>(numc_alloc(static_cast<size_t>(words) * sizeof(float)));
  if (c.shared_rows == nullptr) numc_fail(NUMC_OUT_OF_MEMORY);
  const auto function = reinterpret_cast<void (*)(void *, int64_t, int64_t)>(d.pack_rows);
  parallel(function, &c, row_panels(d, c), -1, words < kSharedAlone ? 1 : threads);
  return c.shared_rows;
}

// Chooses the sizes of the block of output that one task computes. They cannot change a result, because an accumulator
// belongs to one task.
//
// More tasks can be shared out more evenly among threads that are slow or start late. But every task packs its own
// operands, and reads those that are packed already from memory further away. The estimate counts vector operations for
// each step of k: one for each vector of accumulators, kPacking or kTurning for each vector that is packed, kReading for
// each that was packed before, and an eighth of a task for the time that threads wait at the end.
void choose_blocks(const Descriptor &d, TaskContext &c, int64_t threads) {
  const bool expands = d.flags & kExpands;
  const bool rows_packed = d.flags & kRowsPacked && !expands, lanes_packed = d.flags & kLanesPacked && !expands;
  const bool rows_read = rows_packed || shared_words(d, c) > 0, turns = d.flags & kTurns;
  const int64_t packing = rows_read ? kReading : turns ? kTurning : kPacking;
  const int64_t most_panels = lanes_packed ? kPackedLanes : turns ? kLanesOfTurned : kLanes;
  const int64_t all_rows = ceil_div(c.rows, d.tile_rows), all_lanes = ceil_div(c.lanes, d.tile_lanes);
  const int64_t vectors = d.tile_lanes / d.width;
  const int64_t most_rows = ceil_div(all_rows, ceil_div(all_rows, (rows_packed ? kRows : kPackedRows) / d.tile_rows));
  const auto most_lanes = [&](int64_t rows) {
    const int64_t fit = kTileWords / (rows * d.tile_rows * d.tile_lanes);
    const int64_t lanes = fit < 1 ? 1 : fit < most_panels ? fit : most_panels;
    return lanes < all_lanes ? lanes : all_lanes;
  };
  int64_t best = INT64_MAX, best_rows = most_rows, best_lanes = most_lanes(most_rows);
  for (int64_t rows = most_rows; threads > 1; rows = ceil_div(rows, 2)) {
    for (int64_t lanes = most_lanes(rows);; lanes = ceil_div(lanes, 2)) {
      const int64_t tasks = c.batches * ceil_div(all_rows, rows) * ceil_div(all_lanes, lanes);
      const int64_t compute = rows * d.tile_rows * lanes * vectors;
      const int64_t read = packing * rows * d.tile_rows / d.width;
      const int64_t task = compute + read + (lanes_packed ? kReading : kPacking) * lanes * vectors;
      const int64_t time = ceil_div(tasks, threads) * task + task / 8;
      if (time < best) best = time, best_rows = rows, best_lanes = lanes;
      if (lanes == 1) break;
    }
    if (rows == 1) break;
  }
  c.row_block = best_rows * d.tile_rows;
  c.lane_block = (d.flags & kWholeLanes ? all_lanes : best_lanes) * d.tile_lanes;
}

// How many words the context and all its tables take at most.
int64_t context_words(const Descriptor &d, const Shape &s) {
  const int64_t streams = d.streams - 2, batches = s.batch.count, rows = s.row.count, lanes = s.lane.count;
  const int64_t head = static_cast<int64_t>(sizeof(TaskContext) + sizeof(Stream) * streams) / 8;
  const int64_t offsets = (2 + streams) * batches + (1 + streams) * rows + (4 + streams) * lanes + 4 * s.k.count;
  const int64_t panels = ceil_div(lanes, d.tile_lanes);
  const int64_t first_segments = ceil_div(s.k.count, d.width) + panels * (d.tile_lanes / d.width) + 2;
  const int64_t elements = (d.flags & kDraws) != 0 ? 2 * (batches + rows + lanes) + d.tile_rows + d.tile_lanes : 0;
  return head + offsets + first_segments + elements;
}

// Reads the operands of a descriptor one after the other: each is a pointer, a first offset and a stride for each
// dimension.
struct OperandReader {
  const int64_t *words;
  int64_t rank;

  // Stores the address of the first element and returns the strides.
  const int64_t *next(const float *&data) {
    data = reinterpret_cast<const float *>(words[0]) + words[1];
    const int64_t *const strides = words + 2;
    words = strides + rank;
    return strides;
  }
};

// How many elements from the first one on are adjacent in memory.
// At least one, as where there is nothing: kernels divide by it.
int64_t adjacent(const Runs &run) { return run.stride == 1 && run.length > 1 ? run.length : 1; }

// How many of them are the same one.
int64_t same(const Runs &run) { return run.stride == 0 ? run.length : 1; }

// Fills the tables of the prologue's and epilogue's operands, and finds how many lanes are adjacent in all of them, or
// rows, of transposed tiles.
void fill_streams(const Descriptor &d, TaskContext &c, Arena &arena, const Shape &s, OperandReader &operands) {
  const Dimensions &along = d.flags & kTransposedTiles ? s.row : s.lane;
  c.lane_run = along.count;
  for (int64_t n = 0; n < d.streams - 2; ++n) {
    Stream &stream = c.streams[n];
    const int64_t *const strides = operands.next(stream.data);
    stream.batch = table(arena, s.batch, strides);
    stream.row = table(arena, s.row, strides);
    stream.lane = table(arena, s.lane, strides);
    bool differs = false;  // from one to the next
    for (int64_t m = 0; m < along.rank; ++m) differs = differs || strides[along.offset + m] != 0;
    if (!differs) continue;
    // The lengths of runs are products of trailing sizes, so the shortest one divides the others.
    const Runs run = runs(along, strides);
    const int64_t length = d.splats >> n & 1 ? same(run) : adjacent(run);
    if (length < c.lane_run) c.lane_run = length;
  }
}

// Fills the tables of an operand of the lanes that tasks pack themselves.
void fill_lanes(const Descriptor &d, TaskContext &c, Arena &arena, const Shape &s, const int64_t *strides) {
  const Runs run = runs(s.lane, strides);
  c.b_lane = table(arena, s.lane, strides);
  c.b_k = table(arena, s.k, strides);
  const Runs steps = runs(s.k, strides);
  c.b_run = adjacent(steps);
  c.b_step = steps.length == s.k.count ? steps.stride : 0;
  const Segments cut = segments(arena, c.b_lane, s.lane.count, run, d.strides[1], d.width, d.tile_lanes / d.width);
  c.lane_first = cut.first, c.lane_segment = cut.offset, c.lane_mask = cut.mask;
  int64_t *dense = arena.take(ceil_div(s.lane.count, d.tile_lanes));
  c.lane_dense = dense;
  // A panel is dense if one run holds it; lane i is number `place` of its run.
  const bool fits = run.stride == 1 && run.length >= d.tile_lanes;
  for (int64_t i = 0, place = 0; i < s.lane.count; i += d.tile_lanes) {
    *dense++ = fits && place + d.tile_lanes <= run.length ? c.b_lane[i] : kScattered;
    place += d.tile_lanes;
    if (place >= run.length) place -= run.length;
  }
}

void fill(const Descriptor &d, TaskContext &c, Arena &arena, const Shape &s, bool watched) {
  c.batches = s.batch.count, c.rows = s.row.count, c.lanes = s.lane.count, c.depth = s.k.count, c.ranges = d.ranges;
  OperandReader operands{d.words + s.rank, s.rank};
  const int64_t *const of_a = operands.next(c.a);
  c.a_batch = table(arena, s.batch, of_a);
  if (!(d.flags & kRowsPacked)) {
    c.a_row = table(arena, s.row, of_a);
    c.a_k = table(arena, s.k, of_a);
    const Runs run = runs(s.k, of_a);
    c.a_run = adjacent(run);
    const Segments cut = segments(arena, c.a_k, s.k.count, run, d.strides[0], d.width, 1);
    c.k_first = cut.first, c.k_segment = cut.offset, c.k_mask = cut.mask;
  }
  const int64_t *const of_b = operands.next(c.b);
  c.b_batch = table(arena, s.batch, of_b);
  fill_streams(d, c, arena, s, operands);
  // The kernel knows the layout of its padded plane and reads whole ones without tables; an observer looks lanes up.
  const bool whole_planes = d.flags & kWholeLanes && c.lane_run >= s.lane.count && !watched;
  if (!(d.flags & kLanesPacked) && !whole_planes) fill_lanes(d, c, arena, s, of_b);
  if ((d.flags & kDraws) == 0) return;
  c.random = d.random;
  c.e_batch = padded_table(arena, s.batch, operands.words, 1);
  c.e_row = padded_table(arena, s.row, operands.words, d.tile_rows);
  c.e_lane = padded_table(arena, s.lane, operands.words, d.tile_lanes);
}

// Runs the tasks on the threads of the current run, or on this thread alone if they are too little work to share.
void run_tasks(void (*task)(void *, int64_t, int64_t), const Descriptor &d, TaskContext &c, int64_t id) {
  Run *const run = parallel_depth == 0 ? current_run : nullptr;
  const int64_t fmas = c.batches * c.rows * c.lanes * c.depth;
  if (run != nullptr && run->profile != nullptr && !(d.flags & kPacks)) run->profile->multiplied(fmas);
  const int64_t threads = threads_for(fmas);
  int64_t tasks = 0;
  float *shared = nullptr;
  if (c.rows > 0 && c.lanes > 0) {
    choose_blocks(d, c, threads);
    tasks = c.batches * ceil_div(c.rows, c.row_block) * ceil_div(c.lanes, c.lane_block);
    shared = share_rows(d, c, threads);
  }
  parallel(task, &c, tasks, id, threads);
  numc_free(shared);
}

// Lets the run choose the widths of operands that it was told to (numc_choice).
void measure(const Descriptor &d, TaskContext &c) {
  const int64_t panels[] = {ceil_div(c.rows, d.tile_rows), ceil_div(c.lanes, d.tile_lanes)};
  int64_t *const widths[] = {&c.a_width, &c.b_width};
  for (int side = 0; side < 2; ++side) {
    const int64_t slot = d.slots[side], count = c.batches * panels[side];
    if (slot < 0 || !wants_choice(slot)) continue;
    const auto function = reinterpret_cast<void (*)(void *, int64_t, int64_t)>(d.measures[side]);
    if (function == nullptr) continue;
    c.sums = static_cast<double *>(numc_alloc(static_cast<size_t>(2 * count + 1) * sizeof(double)));
    if (c.sums == nullptr) numc_fail(NUMC_OUT_OF_MEMORY);
    numc_parallel(function, &c, count, -1);
    double kept = 0, lost = 0;
    for (int64_t n = 0; n < count; ++n) kept += c.sums[2 * n], lost += c.sums[2 * n + 1];
    numc_free(c.sums);
    c.sums = nullptr;
    choose(slot, kept, lost);
  }
  for (int side = 0; side < 2; ++side)
    if (d.slots[side] >= 0) *widths[side] = numc_width_of(d.slots[side]);
}

}  // namespace
}  // namespace numc

extern "C" void numc_contract(void (*task)(void *, int64_t, int64_t), const int64_t *words, int64_t id) {
  using namespace numc;
  const Descriptor &d = *reinterpret_cast<const Descriptor *>(words);
  const Shape s = shape_of(d);
  auto *const memory = numc_alloc(static_cast<size_t>(context_words(d, s)) * 8);
  if (memory == nullptr) numc_fail(NUMC_OUT_OF_MEMORY);
  TaskContext &c = *new (memory) TaskContext{};
  Arena arena(reinterpret_cast<int64_t *>(c.streams + d.streams - 2));
  fill(d, c, arena, s, current_run != nullptr && current_run->observer != nullptr);
  c.a_largest = d.largest[0], c.b_largest = d.largest[1];
  c.a_width = d.widths[0], c.b_width = d.widths[1], c.product_width = d.widths[2];
  int32_t *of_rows = nullptr, *of_lanes = nullptr;
  if (c.a_largest == kChannels) {
    of_rows = channel_magnitudes({c.a, c.a_batch, c.a_row, c.a_k, c.batches, c.rows, c.depth}, d.tile_rows);
    c.a_largest = reinterpret_cast<int64_t>(of_rows);
  }
  if (c.b_largest == kChannels) {
    of_lanes = channel_magnitudes({c.b, c.b_batch, c.b_lane, c.b_k, c.batches, c.lanes, c.depth}, d.tile_lanes);
    c.b_largest = reinterpret_cast<int64_t>(of_lanes);
  }
  measure(d, c);
  if (Rows *const rows = open_rows()) {
    if (c.rows > 0 && c.lanes > 0) choose_blocks(d, c, parallel_threads());
    add_contraction(*rows, task, c, d.streams - 2, d.tile_rows, d.tile_lanes);
    rows->keep(of_rows);
    rows->keep(of_lanes);
    return;
  }
  run_tasks(task, d, c, id);
  numc_free(of_rows);
  numc_free(of_lanes);
  numc_free(memory);
}
