// numc_parallel, which shares the tasks of one loop out among threads, and numc_side_by_side, which does so with chains
// of parts that do not depend on each other.
#include "execution/check.hpp"
#include "execution/pool.hpp"
#include "execution/run.hpp"
#include "execution/thread_exit.hpp"
#include "machine/environment.hpp"

namespace numc {
namespace {

// What an observer does is no part of the run: the run does not own what it allocates.
void observe(Run *run, int64_t id, void *context, int32_t phase) {
  const uint32_t outside = machine::environment();
  Escape *const escape = current_escape;
  machine::set_environment(machine::kDefault);
  current_run = nullptr;
  current_escape = nullptr;
  struct Call {
    Run *run;
    int64_t id;
    void *context;
    int32_t phase;
  } call{run, id, context, phase};
  call_to_the_end(
      [](void *given) {
        const Call &now = *static_cast<const Call *>(given);
        now.run->observer(now.run->observer_user, now.id, now.context, now.phase);
      },
      &call);
  current_run = run;
  current_escape = escape;
  machine::set_environment(outside);
}

// Runs a job on so many threads, more than one. Returns the code of its first failure, or 0.
int32_t run_job(Job &job, void (*task)(void *, int64_t, int64_t), void *context, int64_t n, int64_t threads) {
  Pool &workers = pool();
  workers.grow(static_cast<int>(threads) - 1);
  for (int64_t r = 0; r < job.ranges; ++r) {
    job.range[r].next.store(n * r / job.ranges, std::memory_order_relaxed);
    job.range[r].end = n * (r + 1) / job.ranges;
  }
  job.left.store(UINT64_MAX >> (kRanges - job.ranges), std::memory_order_relaxed);
  job.task = task;
  job.context = context;
  job.max_helpers = static_cast<int>(threads) - 1;
  job.run = current_run;
  job.environment = machine::environment();
  workers.run(job);
  machine::set_environment(machine::environment() | job.flags.load(std::memory_order_relaxed));
  return job.failure.load();
}

int32_t run_parallel(void (*task)(void *, int64_t, int64_t), void *context, int64_t n, int64_t threads) {
  if (threads > n) threads = n;
  if (threads <= 1) {
    ++parallel_depth;  // if the task fails, whoever catches the failure restores it
    task(context, 0, n);
    --parallel_depth;
    return 0;
  }
  Job job;
  job.ranges = static_cast<int>(threads < kRanges ? threads : kRanges);
  job.chunk = n / (threads * 16) > 1 ? n / (threads * 16) : 1;
  job.outer = current_chains;
  return run_job(job, task, context, n, threads);
}

// Chains of parts, as generated code describes them.
struct Chains {
  void (*const *functions)(void *);
  void *context;
  Job *job;
};

// The task of numc_side_by_side: chains, in which numc_parallel may use more threads.
void run_chains(void *context, int64_t begin, int64_t end) {
  const Chains &chains = *static_cast<const Chains *>(context);
  const int depth = parallel_depth;
  parallel_depth = 0;
  current_chains = chains.job;
  for (int64_t n = begin; n < end; ++n) chains.functions[n](chains.context);
  current_chains = nullptr;
  parallel_depth = depth;
}

}  // namespace

int64_t parallel_threads() {
  if (parallel_depth > 0) return 1;
  return current_run != nullptr ? threads_of(*current_run) : numc_default_threads();
}

void parallel(void (*task)(void *, int64_t, int64_t), void *context, int64_t n, int64_t id, int64_t threads) {
  // A chain ends here if another one has failed.
  if (current_chains != nullptr && parallel_depth == 0)
    if (const int32_t failure = current_chains->failure.load(std::memory_order_relaxed)) numc_fail(failure);
  const bool watched = id >= 0 && parallel_depth == 0 && current_run != nullptr && current_run->observer != nullptr;
  if (watched) observe(current_run, id, context, 0);
  if (n > 0) {
    const int32_t failure = run_parallel(task, context, n, threads);
    if (failure != 0) numc_fail(failure);
  }
  if (watched) observe(current_run, id, context, 1);
}

}  // namespace numc

using namespace numc;

extern "C" {

void numc_parallel(void (*task)(void *, int64_t, int64_t), void *context, int64_t n, int64_t id) {
  parallel(task, context, n, id, n > 1 ? parallel_threads() : 1);
}

void numc_side_by_side(void (*const *functions)(void *), void *context, int64_t n) {
  const int64_t threads = n > 1 ? parallel_threads() : 1;
  // Observers and profiles see one part after the other, and a checked run names the first fault of the program.
  const bool watched = current_run == nullptr || current_run->observer != nullptr || current_run->profile != nullptr;
  if (threads <= 1 || watched || checking()) {
    for (int64_t i = 0; i < n; ++i) functions[i](context);
    return;
  }
  Job job;
  job.ranges = 1;  // the longest chains come first
  job.chunk = 1;
  job.has_chains = true;
  Chains chains{functions, context, &job};
  const int32_t failure = run_job(job, run_chains, &chains, n, threads);
  if (failure != 0) numc_fail(failure);
}
}
