#include "execution/run.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "error.hpp"
#include "execution/alloc.hpp"
#include "machine/environment.hpp"

namespace numc {

thread_local Run *current_run = nullptr;
thread_local Escape *current_escape = nullptr;
thread_local int parallel_depth = 0;

int32_t call_protected(void (*function)(void **), void **args, Run &run) {
  // An observer may start a run inside of another one: the state of the outer run is restored at the end.
  Run *const outer_run = current_run;
  const int outer_depth = parallel_depth;
  const uint32_t outside = machine::environment();
  if (checking()) catch_faults();
  Escape escape;
  escape.outer = current_escape;
  current_escape = &escape;
  current_run = &run;
  parallel_depth = 0;
  if (setjmp(escape.buffer) == 0) {
    machine::set_environment(machine::kDefault);
    function(args);
  }
  machine::set_environment(outside);
  move_small(escape.small, run.small);
  current_escape = escape.outer;
  current_run = outer_run;
  parallel_depth = outer_depth;
  return escape.code;
}

int affinity_count() {
  for (int cpus = 1024; cpus <= 1 << 16; cpus *= 4) {
    cpu_set_t *set = CPU_ALLOC(static_cast<size_t>(cpus));
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpus));
    const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return 1;
}

int told_threads(int32_t threads) {
  if (threads > NUMC_MAX_THREADS)
    throw Error("threads: got " + std::to_string(threads) + ", at most " + std::to_string(NUMC_MAX_THREADS) +
                " are allowed");
  if (threads > 0) return threads;
  const char *text = std::getenv("NUMC_NUM_THREADS");
  if (text == nullptr || *text == '\0') return 0;
  char *end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end != '\0' || value < 1 || value > NUMC_MAX_THREADS)
    throw Error("NUMC_NUM_THREADS: got '" + std::string(text) + "', want a whole number from 1 to " +
                std::to_string(NUMC_MAX_THREADS));
  return static_cast<int>(value);
}

int resolve_threads(int32_t threads) {
  const int told = told_threads(threads);
  return told > 0 ? told : std::min(affinity_count(), NUMC_MAX_THREADS);
}

int threads_of(Run &run) {
  if (run.threads == 0) run.threads = std::min(affinity_count(), NUMC_MAX_THREADS);
  return run.threads;
}

namespace {

// Counted when the library is loaded: what a function counts at its first call, a fork may leave half done.
const double all_memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));

}  // namespace

uint64_t resolve_memory() {
  const char *text = std::getenv("NUMC_MEMORY");
  if (text == nullptr || *text == '\0') return static_cast<uint64_t>(all_memory);
  char *end = nullptr;
  const double value = std::strtod(text, &end);
  if (*end != '\0' || !(value > 0) || value > 1 << 20)
    throw Error("NUMC_MEMORY: got '" + std::string(text) + "', want a number of GiB above 0");
  return static_cast<uint64_t>(value * (1 << 30));
}

}  // namespace numc

extern "C" {

void numc_fail(int32_t code) {
  numc::Escape *const escape = numc::current_escape;
  if (escape == nullptr) {  // somebody called generated code without numc_run or numc_object_call
    std::fprintf(stderr, "numc: the program stopped with code %d outside of a run\n", code);
    std::abort();
  }
  escape->code = code == 0 ? -1 : code;
  std::longjmp(escape->buffer, 1);
}

int32_t numc_default_threads(void) {
  try {
    return numc::resolve_threads(0);
  } catch (const numc::Error &) {
    return 1;
  }
}
}

extern "C" int32_t numc_watched(void) {
  return numc::current_run != nullptr && numc::current_run->observer != nullptr ? 1 : 0;
}
