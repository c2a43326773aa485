#include "execution/rows.hpp"

#include <cstring>
#include <new>
#include <utility>

#include "execution/profile.hpp"
#include "execution/run.hpp"
#include "kernels/generated_abi.hpp"
#include "kernels/offset_tables.hpp"
#include "kernels/task_sizes.hpp"
#include "numc.h"
#include "numc/generated.h"
#include "numc/host.h"

namespace numc {
namespace {

// No processor has memory at these addresses: a wrong access ends the run instead of changing something.
constexpr int64_t kNowhere = int64_t{1} << 60, kEnd = int64_t{1} << 61;
// The bytes of all buffers that a block of rows may take, so that they stay in the second-level cache, and the rows
// that it has nevertheless: every block of a product reads, and packs, all lanes.
constexpr int64_t kBlockBytes = 512 << 10, kLeastRows = 64;
// Where there are loops only, rows may be whole planes, and nothing is packed: the bytes of a block's buffers, which stay
// in the first-level cache unless a row has more, and the rows that each thread has at least.
constexpr int64_t kPlaneBytes = 32 << 10, kLeastRowsOfThread = 4;
// Elements of lanes that may be packed for a block that is a part of a batch, for each element of its buffers.
constexpr int64_t kMostPacked = 4;

const TaskContext &contraction(const Rows::Step &step) { return *reinterpret_cast<const TaskContext *>(step.context); }

// Appends to a list of the chain.
template <typename List>
void append(List &list, typename List::value_type value) {
  bool appended = true;
  try {
    list.push_back(std::move(value));
  } catch (const std::bad_alloc &) {
    appended = false;  // numc_fail must not jump out of a handler
  }
  if (!appended) numc_fail(NUMC_OUT_OF_MEMORY);
}

int64_t least_common_multiple(int64_t a, int64_t b) {
  int64_t x = a, y = b;
  while (y != 0) {
    const int64_t rest = x % y;
    x = y, y = rest;
  }
  return a / x * b;
}

// A chain that runs: its rows in blocks, which are whole batches of the contractions or parts of one.
struct Plan {
  Rows *rows;
  int64_t batches, of_batch;  // rows are numbered through all batches, of_batch in each of them: 1 if it is a row
  int64_t whole, part;        // the batches of a block, or if that is 0 its rows
  int64_t scratch;            // the bytes of all buffers of a block
};

int64_t all_rows(const Plan &p) { return p.batches * p.of_batch; }
int64_t row_bytes(const Plan &p, const Rows::Buffer &buffer) { return buffer.bytes / all_rows(p); }
int64_t fmas_of(const TaskContext &c) { return c.batches * c.rows * c.lanes * c.depth; }

// Places the buffers in the memory of a block, given the bytes that each needs. Those that are needed at different
// times share it.
template <typename Bytes>
void place_buffers(Plan &p, Bytes bytes) {
  const auto end = [&](const Rows::Buffer &b) { return b.place + ceil_div(bytes(b), 64) * 64; };
  auto &buffers = p.rows->buffers;
  p.scratch = 0;
  for (size_t n = 0; n < buffers.size(); ++n) {
    Rows::Buffer &own = buffers[n];
    own.place = 0;
    for (size_t m = 0; m < n;) {
      const Rows::Buffer &other = buffers[m];
      const bool apart = other.last < own.first || own.last < other.first || end(other) <= own.place ||
                         end(own) <= other.place;
      if (!apart) own.place = end(other);
      m = apart ? m + 1 : 0;
    }
    if (end(own) > p.scratch) p.scratch = end(own);
  }
}

// Memory for the buffers of a block, and behind them for a copy of a context.
char *alloc_block(const Plan &p) {
  int64_t words = 0;
  for (const Rows::Step &step : p.rows->steps) words = step.words > words ? step.words : words;
  void *const memory = numc_alloc(static_cast<size_t>(p.scratch + 8 * words));
  if (memory == nullptr) numc_fail(NUMC_OUT_OF_MEMORY);
  return static_cast<char *>(memory);
}

// Copies the context of a step into a block's memory; the addresses of buffers become those of their places, less
// `first` rows.
int64_t *in_block(const Plan &p, const Rows::Step &step, int64_t first, char *memory) {
  auto *const context = reinterpret_cast<int64_t *>(memory + p.scratch);
  std::memcpy(context, step.context, static_cast<size_t>(step.words) * 8);
  for (const Rows::Place &place : step.places) {
    const Rows::Buffer &buffer = p.rows->buffers[place.buffer];
    const int64_t here = reinterpret_cast<int64_t>(memory) + buffer.place;
    context[place.word] += here - (first == 0 ? 0 : first * row_bytes(p, buffer)) - buffer.begin;
  }
  return context;
}

// Runs one step on the rows from `first` to `last`: those of a block.
void run_rows(const Plan &p, const Rows::Step &step, int64_t first, int64_t last, int64_t *context) {
  if (step.tile_rows == 0) {
    const int64_t each = step.iterations / all_rows(p);
    context[step.words - 1] = 1;
    step.task(context, first * each, last * each);
    return;
  }
  const TaskContext &c = *reinterpret_cast<TaskContext *>(context);
  const int64_t row_blocks = ceil_div(c.rows, c.row_block), lane_blocks = ceil_div(c.lanes, c.lane_block);
  const int64_t of_batch = row_blocks * lane_blocks, batch = first / p.of_batch;
  if (p.whole > 0) {
    step.task(context, batch * of_batch, last / p.of_batch * of_batch);
    return;
  }
  const int64_t begin = first % p.of_batch / c.row_block, end = ceil_div(last - batch * p.of_batch, c.row_block);
  for (int64_t lane = 0; lane < lane_blocks; ++lane) {
    const int64_t start = batch * of_batch + lane * row_blocks;
    step.task(context, start + begin, start + end);
  }
}

int64_t blocks_of(const Plan &p) {
  return p.whole > 0 ? ceil_div(p.batches, p.whole) : p.batches * ceil_div(p.of_batch, p.part);
}

// The task of numc_parallel: the blocks from `begin` to `end`.
void run_blocks(void *context, int64_t begin, int64_t end) {
  const Plan &p = *static_cast<const Plan *>(context);
  char *const memory = alloc_block(p);
  for (int64_t block = begin; block < end; ++block) {
    int64_t first = block * p.whole * p.of_batch, last = first + p.whole * p.of_batch, most = all_rows(p);
    if (p.whole == 0) {
      const int64_t parts = ceil_div(p.of_batch, p.part), batch = block / parts;
      first = batch * p.of_batch + block % parts * p.part, last = first + p.part, most = (batch + 1) * p.of_batch;
    }
    if (last > most) last = most;
    for (const Rows::Step &step : p.rows->steps) run_rows(p, step, first, last, in_block(p, step, first, memory));
  }
  numc_free(memory);
}

// Runs every step on all rows before the next step.
void run_at_once(Plan &p) {
  place_buffers(p, [](const Rows::Buffer &buffer) { return buffer.bytes; });
  char *const memory = alloc_block(p);
  for (const Rows::Step &step : p.rows->steps) {
    int64_t *const context = in_block(p, step, 0, memory);
    int64_t tasks = 0, threads = 1;
    if (step.tile_rows == 0) {
      tasks = ceil_div(step.iterations, context[step.words - 1]);
      threads = parallel_threads();
    } else {
      const TaskContext &c = *reinterpret_cast<TaskContext *>(context);
      if (c.rows > 0 && c.lanes > 0)
        tasks = c.batches * ceil_div(c.rows, c.row_block) * ceil_div(c.lanes, c.lane_block);
      threads = threads_for(fmas_of(c));
    }
    parallel(step.task, context, tasks, -1, threads);
  }
  numc_free(memory);
}

// Chooses the blocks: as many rows as fit, but enough blocks for all threads. Returns false if whole batches are too
// large for a block and too many lanes would have to be packed for each part of one.
bool choose_blocks(Plan &p, int64_t threads) {
  place_buffers(p, [&](const Rows::Buffer &buffer) { return row_bytes(p, buffer); });
  const int64_t of_row = p.scratch > 64 ? p.scratch : 64, wanted = threads > 1 ? 4 * threads : 1;
  int64_t tiles = 1, packed = 0;
  bool loops_only = true;
  for (const Rows::Step &step : p.rows->steps) {
    if (step.tile_rows == 0) continue;
    loops_only = false;
    tiles = least_common_multiple(tiles, step.tile_rows);
    packed += contraction(step).lanes * contraction(step).depth;
  }
  int64_t most = (loops_only ? kPlaneBytes : kBlockBytes) / of_row;
  if (most > ceil_div(all_rows(p), wanted)) most = ceil_div(all_rows(p), wanted);
  if (const int64_t least = loops_only || p.rows->batches ? 1 : kLeastRows; most < least) most = least;
  p.whole = most / p.of_batch;
  if (p.whole == 0) {  // parts of equal size
    const int64_t parts = ceil_div(p.of_batch, most);
    p.part = ceil_div(ceil_div(p.of_batch, parts), tiles) * tiles;
    if (packed > kMostPacked * p.part * of_row / 4) return false;
  }
  const int64_t rows = p.whole > 0 ? p.whole * p.of_batch : p.part;
  place_buffers(p, [&](const Rows::Buffer &buffer) { return rows * row_bytes(p, buffer); });
  return true;
}

// Sets what one task of each contraction computes.
void choose_tasks(const Plan &p) {
  for (const Rows::Step &step : p.rows->steps) {
    if (step.tile_rows == 0) continue;
    auto &c = *reinterpret_cast<TaskContext *>(step.context);
    const int64_t tiles = ceil_div(p.whole > 0 ? c.rows : p.part, step.tile_rows);
    const int64_t blocks = p.whole > 0 ? ceil_div(c.rows, kPackedRows) : 1;
    c.row_block = ceil_div(tiles, blocks) * step.tile_rows;
    const int64_t fit = kTileWords / (c.row_block * step.tile_lanes), most = ceil_div(c.lanes, step.tile_lanes);
    const int64_t lanes = fit < most ? fit : most;
    c.lane_block = (lanes < 1 ? 1 : lanes) * step.tile_lanes;
  }
}

// Whether all contractions have the same batches, and the same rows if these are those of the chain, and everything else
// has as many.
bool has_rows(const Plan &p) {
  const int64_t all = all_rows(p);
  if (all == 0) return false;
  for (const Rows::Step &step : p.rows->steps) {
    if (step.tile_rows == 0) {
      if (step.rows != all) return false;
      continue;
    }
    const TaskContext &c = contraction(step);
    if (c.batches != p.batches || (p.rows->batches ? c.rows == 0 || c.lanes == 0 : c.rows != p.of_batch)) return false;
  }
  for (const Rows::Buffer &buffer : p.rows->buffers)
    if (buffer.bytes % all != 0) return false;
  return true;
}

// Opens a chain. An observer looks at whole operands and results: for it every step runs at once.
void begin_rows(bool batches) {
  Run *const run = current_run;
  if (run == nullptr || parallel_depth > 0 || run->observer != nullptr) return;
  Rows &rows = current_escape->rows;
  rows.buffers.clear();
  rows.steps.clear();
  rows.kept.clear();
  rows.next = kNowhere;
  rows.open = true;
  rows.batches = batches;
}

}  // namespace

Rows *open_rows() {
  if (current_escape == nullptr || parallel_depth > 0) return nullptr;
  return current_escape->rows.open ? &current_escape->rows : nullptr;
}

bool is_in_rows(const void *address) {
  const auto number = reinterpret_cast<int64_t>(address);
  return number >= kNowhere && number < kEnd;
}

void *Rows::reserve(size_t bytes) {
  if (bytes > size_t{1} << 46) numc_fail(NUMC_OUT_OF_MEMORY);  // as numc_alloc has it
  const int64_t begin = next, size = static_cast<int64_t>(bytes);
  next += ceil_div(size + 1, 64) * 64;
  append(buffers, {begin, size, static_cast<int64_t>(steps.size()), 0, 0});
  return reinterpret_cast<void *>(begin);
}

void Rows::keep(void *memory) {
  if (memory != nullptr) append(kept, memory);
}

void Rows::may_point(int64_t word) {
  Step &step = steps.back();
  const int64_t address = step.context[word];
  for (size_t n = 0; n < buffers.size(); ++n)
    if (address >= buffers[n].begin && address < buffers[n].begin + buffers[n].bytes) {
      append(step.places, {word, n});
      buffers[n].last = static_cast<int64_t>(steps.size()) - 1;
    }
}

void add_contraction(Rows &rows, void (*task)(void *, int64_t, int64_t), TaskContext &c, int64_t streams,
                     int64_t tile_rows, int64_t tile_lanes) {
  const auto words = static_cast<int64_t>(sizeof(TaskContext) + sizeof(Stream) * static_cast<size_t>(streams)) / 8;
  auto *const context = reinterpret_cast<int64_t *>(&c);
  append(rows.steps, {task, context, words, 0, 0, tile_rows, tile_lanes, {}});
  const auto points = [&](const void *field) { rows.may_point(static_cast<const int64_t *>(field) - context); };
  points(&c.a), points(&c.b);
  for (int64_t n = 0; n < streams; ++n) points(&c.streams[n].data);
}

}  // namespace numc

using namespace numc;

extern "C" {

void numc_rows_begin(void) { begin_rows(false); }

void numc_batches_begin(void) { begin_rows(true); }

void numc_rows_loops(void (*task)(void *, int64_t, int64_t), const int64_t *context, int64_t words, int64_t pointers,
                     int64_t iterations, int64_t rows_of_all) {
  Rows *const rows = open_rows();
  if (rows == nullptr) {
    numc_parallel(task, const_cast<int64_t *>(context), ceil_div(iterations, context[words - 1]), -1);
    return;
  }
  auto *const copy = static_cast<int64_t *>(numc_alloc(static_cast<size_t>(words) * 8));
  if (copy == nullptr) numc_fail(NUMC_OUT_OF_MEMORY);
  std::memcpy(copy, context, static_cast<size_t>(words) * 8);
  append(rows->steps, {task, copy, words, iterations, rows_of_all, 0, 0, {}});
  for (int64_t n = 0; n < words && n < 64; ++n)
    if (pointers >> n & 1) rows->may_point(n);
}

void numc_rows_end(void) {
  Rows *const rows = open_rows();
  if (rows == nullptr) return;
  rows->open = false;
  const TaskContext *first = nullptr;
  int64_t fmas = 0;
  for (const Rows::Step &step : rows->steps) {
    if (step.tile_rows == 0) continue;
    const TaskContext &c = contraction(step);
    if (first == nullptr) first = &c;
    fmas += fmas_of(c);
  }
  if (current_run->profile != nullptr) current_run->profile->multiplied(fmas);
  Plan p{rows, 0, 1, 0, 0, 0};
  if (first != nullptr)
    p.batches = first->batches, p.of_batch = rows->batches ? 1 : first->rows;
  else if (!rows->steps.empty())
    p.batches = rows->steps.front().rows;
  const int64_t threads = first != nullptr ? threads_for(fmas) : parallel_threads();
  // Too few batches, or without a contraction too few rows, would leave threads idle.
  const int64_t least = first == nullptr ? kLeastRowsOfThread : rows->batches ? 1 : 0;
  const bool enough = threads == 1 || all_rows(p) >= least * threads;
  if (enough && has_rows(p) && choose_blocks(p, threads)) {
    choose_tasks(p);
    parallel(run_blocks, &p, blocks_of(p), -1, threads);
  } else {
    run_at_once(p);
  }
  for (const Rows::Step &step : rows->steps) numc_free(step.context);
  for (void *memory : rows->kept) numc_free(memory);
}
}
