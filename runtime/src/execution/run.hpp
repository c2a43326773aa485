// The state of one run of generated code, and how the run ends when generated code calls numc_fail.
#pragma once

#include <atomic>
#include <csetjmp>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "numc.h"
#include "numc/generated.h"
#include "numc/host.h"
#include "execution/check.hpp"
#include "execution/mutex.hpp"
#include "execution/rows.hpp"

namespace numc {

struct Block;
struct WidthRange;

// The weights of a program that runs have converted to open widths: of each the latest copy. Any thread may use it.
class ConvertedWeights {
 public:
  using Copy = std::shared_ptr<float>;
  // The copy of a weight, or null if it has other widths or there is none.
  Copy find(const float *weight, int64_t widths);
  void keep(const float *weight, int64_t widths, Copy copy);

 private:
  struct Entry {
    int64_t widths = 0;
    Copy copy;
  };
  Mutex mutex_;
  std::unordered_map<const float *, Entry> entries_;
};

struct Run {
  std::atomic<int> threads{1};  // 0: the processors, which threads_of counts
  uint64_t memory = UINT64_MAX;  // the most bytes that the large buffers of all runs may take while this one allocates
  numc_observer observer = nullptr;
  void *observer_user = nullptr;
  Block *blocks = nullptr, *small = nullptr;  // the large and the small blocks that it owns (alloc.hpp)
  uint64_t seed = 0, step = 0;                        // they determine its random bits
  std::vector<int64_t> widths;  // of operands in formats with open widths: exponent << 32 | significand
  std::vector<numc_choice> choices;  // of operands, as the options have them, or none
  const WidthRange *ranges = nullptr;
  ConvertedWeights *converted = nullptr;
  std::vector<ConvertedWeights::Copy> used;  // by this run
  numc_profile *profile = nullptr;  // where the run records what it does, or null
  Layout layout = Layout::kEndsAtGuard;               // of the buffers of a checked run (check.hpp)
  std::unordered_map<int64_t, uint32_t> occurrences;  // how often each operation has asked for its stream
};

// Where numc_fail jumps to on this thread. It lies on the stack of the function that catches the failure; `outer` is
// the one of the next function that does.
struct Escape {
  std::jmp_buf buffer;
  int32_t code = 0;
  Escape *outer = nullptr;
  Block *small = nullptr;  // what was allocated since, on this thread (alloc.hpp)
  Rows rows;               // the chain that it computes by rows, if one is open
};

extern thread_local Run *current_run;
extern thread_local Escape *current_escape;
extern thread_local int parallel_depth;

// Calls function(args) as part of `run`, in the default floating-point environment: rounding to nearest even,
// subnormals kept, exceptions masked. The environment of the caller is restored. Returns 0, or the code given to
// numc_fail.
int32_t call_protected(void (*function)(void **), void **args, Run &run);

// The number of threads that a run is told: `threads` if it is positive, else NUMC_NUM_THREADS if that is set, else 0 for
// the processors that this process may use. Throws Error if it is too large or NUMC_NUM_THREADS is no number.
int told_threads(int32_t threads);

// The same with the number of these processors instead of 0.
int resolve_threads(int32_t threads);

// The number of threads of a run. Counting processors takes as long as a small program, so that this is done when a part
// first asks.
int threads_of(Run &run);

// The bytes that large buffers may take: NUMC_MEMORY, in GiB, if it is set, else the memory of the machine. Throws Error
// if NUMC_MEMORY is no number above 0.
uint64_t resolve_memory();

// How many threads numc_parallel would use for many tasks if it were called now on this thread.
int64_t parallel_threads();

// numc_parallel on at most so many threads.
void parallel(void (*task)(void *, int64_t, int64_t), void *context, int64_t n, int64_t id, int64_t threads);

}  // namespace numc
