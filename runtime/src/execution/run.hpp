// One run of generated code: its thread count, its observer, and the way out of it when it calls numc_fail.
#pragma once

#include <csetjmp>
#include <cstdint>
#include <unordered_map>

#include "numc.h"

namespace numc {

struct Block;

struct Run {
  int threads = 1;
  numc_observer observer = nullptr;
  void *observer_user = nullptr;
  Block *blocks = nullptr;  // large buffers it owns (alloc.hpp)
  uint64_t seed = 0, step = 0;                       // of its random bits
  std::unordered_map<int64_t, uint32_t> occurrences;  // how often an operation has asked for its stream
};

// Where numc_fail on this thread goes. Innermost first; lives on the stack of the function that set it.
struct Escape {
  std::jmp_buf buffer;
  int32_t code = 0;
  Escape *outer = nullptr;
};

extern thread_local Run *current_run;
extern thread_local Escape *current_escape;
extern thread_local int parallel_depth;

// Runs function(args) under `run`, with the default floating-point environment (round to nearest, no FTZ/DAZ, exceptions
// masked) whatever the caller's is. Returns 0, or the code given to numc_fail.
int32_t call_protected(void (*function)(void **), void **args, Run &run);

// Thread count of a run: `threads`, or NUMC_NUM_THREADS, or the CPUs of the affinity mask. Throws Error.
int resolve_threads(int32_t threads);

// How many threads numc_parallel would use here for a large number of tasks.
int64_t parallel_threads();

constexpr uint32_t kDefaultMxcsr = 0x1f80;

}  // namespace numc
