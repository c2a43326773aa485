// One contraction: from the sizes and strides of its operands to the offset tables its kernel reads, its blocks, and the
// run over its tasks. The order of the words of both structs is that of passes/kernels/tasks/edges.py.
#include <new>

#include "kernels/generated_abi.hpp"
#include "numc.h"
#include "execution/run.hpp"

namespace {

using namespace numc;

// A task keeps its accumulators in this many f32 numbers, and packs at most this many rows at a time.
constexpr int64_t kTileWords = 1 << 16, kPackedRows = 256, kRows = 1024;
constexpr int64_t kPacking = 6, kReading = 2, kSmall = 1 << 17, kIdentity = 16384;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Arena {
  int64_t *next;
  int64_t *take(int64_t count) { return (next += count) - count; }
};

struct Group {
  const int64_t *sizes;
  int64_t dims, offset, count;
};

// A group is a sequence of runs of `length` elements, `stride` apart from one to the next.
struct Runs {
  int64_t length, stride;
};

Runs runs(const Group &group, const int64_t *strides) {
  strides += group.offset;
  Runs found{1, 1};
  for (int64_t d = group.dims - 1; d >= 0; --d) {
    if (group.sizes[d] == 1) continue;
    if (found.length == 1) found.stride = strides[d];
    if (strides[d] != found.length * found.stride) break;
    found.length *= group.sizes[d];
  }
  return found;
}

// The table of a group whose elements are adjacent.
struct Identity {
  int64_t offsets[kIdentity];
  constexpr Identity() : offsets() {
    for (int64_t i = 0; i < kIdentity; ++i) offsets[i] = i;
  }
};
constexpr Identity identity;

// The offset of every index combination of a group, the last dimension fastest.
const int64_t *table(Arena &arena, const Group &group, const int64_t *strides) {
  const Runs run = runs(group, strides);
  if (run.stride == 1 && run.length == group.count && group.count <= kIdentity) return identity.offsets;
  int64_t *const out = arena.take(group.count);
  if (group.count == 0) return out;
  strides += group.offset;
  out[0] = 0;
  int64_t filled = 1, d = group.dims - 1;
  if (d >= 0) {
    const int64_t size = group.sizes[d];
    for (; filled < size; filled *= 2) {
      const int64_t more = filled < size - filled ? filled : size - filled, step = filled * strides[d];
      for (int64_t i = 0; i < more; ++i) out[filled + i] = out[i] + step;
    }
    filled = size, --d;
  }
  for (; d >= 0; --d) {
    int64_t *to = out + filled;
    for (int64_t i = 1; i < group.sizes[d]; ++i)
      for (int64_t j = 0; j < filled; ++j) *to++ = out[j] + i * strides[d];
    filled *= group.sizes[d];
  }
  return out;
}

// The same in memory of its own, filled up with zeros to a multiple of `round`: kernels read whole panels.
const int64_t *whole_table(Arena &arena, const Group &group, const int64_t *strides, int64_t round) {
  const int64_t *const from = table(arena, group, strides);
  const int64_t size = ceil_div(group.count, round) * round;
  int64_t *const out = arena.take(size);
  for (int64_t i = 0; i < size; ++i) out[i] = i < group.count ? from[i] : 0;
  return out;
}

// Cuts every vector of a table into segments of adjacent elements; a segment starts where its lane 0 would be. Where
// elements are two apart (a convolution of stride 2), the mask has a bit for each element passed, and a flag.
void segments(Arena &arena, const int64_t *offsets, int64_t count, const Runs &run, int64_t width, int64_t round,
              const int64_t *&first, const int64_t *&start, const int64_t *&mask) {
  const int64_t vectors = ceil_div(ceil_div(count, width), round) * round;
  int64_t *const firsts = arena.take(vectors + 1), *const starts = arena.take(count), *const masks = arena.take(count);
  first = firsts, start = starts, mask = masks;
  int64_t n = 0;
  for (int64_t v = 0; v < vectors; ++v) {
    firsts[v] = n;
    const int64_t begin = v * width, end = begin + width < count ? begin + width : count;
    if (begin >= end) continue;
    const int64_t pieces = (end - 1) / run.length - begin / run.length + 1;
    const int64_t stride = run.stride == 2 && pieces <= kMostStridedSegments ? 2 : 1;
    const int64_t length = run.stride == stride ? run.length : 1;
    for (int64_t i = begin, j; i < end; i = j) {
      j = i + length - i % length;
      if (j > end) j = end;
      starts[n] = offsets[i] - (i - begin) * stride;
      int64_t bits = ((int64_t{1} << (j - i)) - 1) << (i - begin);
      if (stride == 2) {
        bits = kEveryOther;
        for (int64_t lane = i - begin; lane < j - begin; ++lane) bits |= int64_t{1} << lane * 2;
      }
      masks[n++] = bits;
    }
  }
  firsts[vectors] = n;
}

// Sizes of what one task does. They cannot change a result: a tile of accumulators belongs to one task.
//
// More tasks share out better, and threads that are slower or late do fewer of them, but every task packs its own operands
// and reads packed ones from further away. The estimate counts vector operations per step of k: one for each vector of
// accumulators, kPacking for each vector that is packed, kReading for one that was, a quarter of a task for the wait.
void choose_blocks(const Descriptor &d, TaskContext &c, int64_t threads) {
  const bool rows_packed = d.flags & kRowsPacked, lanes_packed = d.flags & kLanesPacked;
  const int64_t all_rows = ceil_div(c.rows, d.tile_rows), all_lanes = ceil_div(c.lanes, d.tile_lanes);
  const int64_t vectors = d.tile_lanes / d.width;
  const int64_t most_rows = ceil_div(all_rows, ceil_div(all_rows, (rows_packed ? kRows : kPackedRows) / d.tile_rows));
  const auto most_lanes = [&](int64_t rows) {
    const int64_t fit = kTileWords / (rows * d.tile_rows * d.tile_lanes), most = lanes_packed ? 64 : 8;
    const int64_t lanes = fit < 1 ? 1 : fit < most ? fit : most;
    return lanes < all_lanes ? lanes : all_lanes;
  };
  int64_t best = INT64_MAX, best_rows = most_rows, best_lanes = most_lanes(most_rows);
  for (int64_t rows = most_rows; threads > 1; rows = ceil_div(rows, 2)) {
    for (int64_t lanes = most_lanes(rows);; lanes = ceil_div(lanes, 2)) {
      const int64_t tasks = c.batches * ceil_div(all_rows, rows) * ceil_div(all_lanes, lanes);
      const int64_t compute = rows * d.tile_rows * lanes * vectors;
      const int64_t read = (rows_packed ? kReading : kPacking) * rows * d.tile_rows / d.width;
      const int64_t task = compute + read + (lanes_packed ? kReading : kPacking) * lanes * vectors;
      const int64_t time = ceil_div(tasks, threads) * task + task / 4;
      if (time < best) best = time, best_rows = rows, best_lanes = lanes;
      if (lanes == 1) break;
    }
    if (rows == 1) break;
  }
  c.row_block = best_rows * d.tile_rows;
  c.lane_block = (d.flags & kWholeLanes ? all_lanes : best_lanes) * d.tile_lanes;
}

void fill(const Descriptor &d, TaskContext &c, Arena &arena, const Group (&groups)[4], int64_t dims, bool watched) {
  const int64_t *stream = d.words + dims;
  const Group &batch = groups[0], &row = groups[1], &lane = groups[2], &k = groups[3];
  const auto next = [&](const float *&data) {
    data = reinterpret_cast<const float *>(stream[0]) + stream[1];
    const int64_t *const strides = stream + 2;
    stream = strides + dims;
    return strides;
  };
  const int64_t *strides = next(c.a);
  c.a_batch = table(arena, batch, strides);
  if (!(d.flags & kRowsPacked)) {
    c.a_row = table(arena, row, strides);
    c.a_k = table(arena, k, strides);
    segments(arena, c.a_k, k.count, runs(k, strides), d.width, 1, c.k_first, c.k_segment, c.k_mask);
  }
  const int64_t *const of_b = next(c.b);
  c.b_batch = table(arena, batch, of_b);
  int64_t length = lane.count;
  for (int64_t s = 0; s < d.streams - 2; ++s) {
    Stream &x = c.streams[s];
    strides = next(x.data);
    x.batch = table(arena, batch, strides);
    x.row = table(arena, row, strides);
    x.lane = table(arena, lane, strides);
    bool used = false;
    for (int64_t n = 0; n < lane.dims; ++n) used = used || strides[lane.offset + n] != 0;
    if (!used) continue;
    // Run lengths are products of trailing sizes: the shortest divides the others.
    const Runs run = runs(lane, strides);
    const int64_t adjacent = run.stride == 1 ? run.length : 1;
    if (adjacent < length) length = adjacent;
  }
  c.lane_run = length;
  // Whole planes are read by what the kernel knows of them; an observer looks lanes up.
  const bool known = d.flags & kWholeLanes && length >= lane.count && !watched;
  if (!(d.flags & kLanesPacked) && !known) {
    const Runs run = runs(lane, of_b);
    c.b_lane = table(arena, lane, of_b);
    c.b_k = table(arena, k, of_b);
    segments(arena, c.b_lane, lane.count, run, d.width, d.tile_lanes / d.width, c.lane_first, c.lane_segment,
             c.lane_mask);
    int64_t *const dense = arena.take(ceil_div(lane.count, d.tile_lanes));
    c.lane_dense = dense;
    for (int64_t p = 0, i = 0; i < lane.count; ++p, i += d.tile_lanes) {
      const bool whole = run.stride == 1 && i % run.length + d.tile_lanes <= run.length;
      dense[p] = whole ? c.b_lane[i] : kScattered;
    }
  }
  if ((d.flags & kDraws) == 0) return;
  c.random = d.random;
  c.e_batch = whole_table(arena, batch, stream, 1);
  c.e_row = whole_table(arena, row, stream, d.tile_rows);
  c.e_lane = whole_table(arena, lane, stream, d.tile_lanes);
}

// The largest magnitude of every row or lane over k, in whole panels for each batch; zeros behind the last one.
struct Channels {
  const float *data;
  const int64_t *batch, *place, *k;
  int64_t count, depth, padded, pieces;
  int32_t *out;
};

constexpr int64_t kPiece = 16;

void find_channels(void *context, int64_t begin, int64_t end) {
  const Channels &c = *static_cast<Channels *>(context);
  for (int64_t task = begin; task < end; ++task) {
    const int64_t batch = task / c.pieces, first = task % c.pieces * kPiece;
    const int64_t last = c.count - first < kPiece ? c.count : first + kPiece;
    int32_t most[kPiece] = {};
    for (int64_t k = 0; k < c.depth; ++k) {
      const float *const x = c.data + c.batch[batch] + c.k[k];
      for (int64_t p = first; p < last; ++p) {
        int32_t bits;
        __builtin_memcpy(&bits, x + c.place[p], 4);
        bits &= 0x7fffffff;
        if (bits > most[p - first]) most[p - first] = bits;
      }
    }
    for (int64_t p = first; p < last; ++p) c.out[batch * c.padded + p] = most[p - first];
  }
}

int32_t *channels(const float *data, const int64_t *batch, const int64_t *place, const int64_t *k, int64_t batches,
                  int64_t count, int64_t depth, int64_t extent) {
  Channels c{data, batch, place, k, count, depth, ceil_div(count, extent) * extent, ceil_div(count, kPiece), nullptr};
  const size_t size = static_cast<size_t>(batches * c.padded + 1) * 4;
  c.out = static_cast<int32_t *>(numc_alloc(size));
  if (c.out == nullptr) numc_fail(NUMC_OUT_OF_MEMORY);
  __builtin_memset(c.out, 0, size);
  numc_parallel(find_channels, &c, batches * c.pieces, -1);
  return c.out;
}

}  // namespace

extern "C" void numc_contract(void (*task)(void *, int64_t, int64_t), const int64_t *words, int64_t id) {
  const Descriptor &d = *reinterpret_cast<const Descriptor *>(words);
  Group groups[4];
  int64_t dims = 0;
  for (int g = 0; g < 4; ++g) {
    groups[g] = {d.words + dims, d.dims[g], dims, 1};
    for (int64_t n = 0; n < d.dims[g]; ++n) groups[g].count *= groups[g].sizes[n];
    dims += d.dims[g];
  }
  const int64_t batches = groups[0].count, rows = groups[1].count, lanes = groups[2].count, depth = groups[3].count;
  const int64_t others = d.streams - 2, head = static_cast<int64_t>(sizeof(TaskContext) / 8) + 4 * others;
  const int64_t firsts = ceil_div(depth, d.width) + ceil_div(lanes, d.tile_lanes) * (d.tile_lanes / d.width) + 2;
  const int64_t elements = (d.flags & kDraws) != 0 ? 2 * (batches + rows + lanes) + d.tile_rows + d.tile_lanes : 0;
  const int64_t size =
      head + (2 + others) * batches + (1 + others) * rows + (4 + others) * lanes + 4 * depth + firsts + elements;
  auto *const memory = static_cast<int64_t *>(numc_alloc(static_cast<size_t>(size) * 8));
  if (memory == nullptr) numc_fail(NUMC_OUT_OF_MEMORY);
  TaskContext &c = *new (memory) TaskContext{};
  Arena arena{memory + head};
  numc::Run *const here = numc::current_run;
  fill(d, c, arena, groups, dims, here != nullptr && here->observer != nullptr);
  c.a_largest = d.largest[0], c.b_largest = d.largest[1];
  int32_t *a_channels = nullptr, *b_channels = nullptr;
  if (c.a_largest == kChannels) {
    a_channels = channels(c.a, c.a_batch, c.a_row, c.a_k, batches, rows, depth, d.tile_rows);
    c.a_largest = reinterpret_cast<int64_t>(a_channels);
  }
  if (c.b_largest == kChannels) {
    b_channels = channels(c.b, c.b_batch, c.b_lane, c.b_k, batches, lanes, depth, d.tile_lanes);
    c.b_largest = reinterpret_cast<int64_t>(b_channels);
  }
  c.batches = batches, c.rows = rows, c.lanes = lanes, c.depth = depth, c.ranges = d.ranges;
  // A product this small is done before another thread has woken up.
  numc::Run *const run = numc::parallel_depth == 0 ? here : nullptr;
  const int threads = run == nullptr ? 0 : run->threads;
  if (run != nullptr && batches * rows * lanes * depth < kSmall) run->threads = 1;
  int64_t tasks = 0;
  if (c.rows > 0 && c.lanes > 0) {
    choose_blocks(d, c, numc::parallel_threads());
    tasks = c.batches * ceil_div(c.rows, c.row_block) * ceil_div(c.lanes, c.lane_block);
  }
  numc_parallel(task, memory, tasks, id);
  if (run != nullptr) run->threads = threads;
  numc_free(a_channels);
  numc_free(b_channels);
  numc_free(memory);
}
