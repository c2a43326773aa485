// The thread pool of numc_parallel and numc_side_by_side. All runs of the process share the workers. The thread that
// has a job works on it too and can finish it alone, so a run never waits for a worker that is busy or could not be
// started.
//
// With many threads, what they all write costs the most: joining a job, taking tasks and leaving it take no lock, a
// thread takes tasks from a range of its own, and what is written often shares no cache line with what is read often.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace numc {

struct Run;

// A job is cut into one range of tasks for each thread, and a thread begins with its own range: what it wrote in one
// loop is then still in the cache of its core when the next loop reads it.
constexpr int kRanges = 64;

struct alignas(64) Range {
  std::atomic<int64_t> next;
  int64_t end;
};

struct Job {
  void (*task)(void *, int64_t, int64_t);
  void *context;
  int64_t chunk;
  int max_helpers;
  int ranges;
  Run *run;
  uint32_t environment;     // the caller's floating-point environment, in which workers compute
  bool has_chains = false;  // its tasks may have jobs of their own
  Job *outer = nullptr;     // the job in whose chain this one began, or null
  std::atomic<int32_t> failure{0};  // the first code given to numc_fail

  alignas(64) std::atomic<uint64_t> left{0};  // the ranges that may have tasks that no thread has taken yet
  std::atomic<uint32_t> flags{0};             // exception flags that workers raised
  std::atomic<int> helping{0};                // workers in the chains of this job and in the jobs of these
  Range range[kRanges];
};

// Where a job is published. A worker counts itself in before it looks at the job, and out afterwards; a job ends when its
// slot is closed and nobody is inside.
struct alignas(64) Slot {
  static constexpr uint32_t kOpen = uint32_t{1} << 31;  // tasks may be left
  std::atomic<uint32_t> gate{0};                        // kOpen, and how many workers are inside
  std::atomic<const Job *> outer{nullptr};              // of the job
  Job *job = nullptr;                                   // only for who is inside

  bool is_open() const { return gate.load(std::memory_order_relaxed) & kOpen; }
  bool is_empty() const { return (gate.load(std::memory_order_acquire) & ~kOpen) == 0; }
  void close() { gate.fetch_and(~kOpen, std::memory_order_release); }
  void leave() { gate.fetch_sub(1, std::memory_order_release); }
};

class Pool {
 public:
  // Starts workers until there are so many, if the system allows it.
  void grow(int wanted);
  // Runs all tasks of a job on this thread and on workers, and returns when no thread accesses it any more.
  void run(Job &job);

 private:
  static constexpr int kSlots = 64;

  Slot *publish(Job &job);
  Slot *join(const Job *outer);
  void leave(Slot &slot);
  void serve(int number);
  void sleep(uint64_t seen);
  void wait(Job &job, Slot &slot);
  void keep_off_this_processor();

  // Written for each job, and watched by idle workers while they spin: the slots in use, and how many jobs there were.
  alignas(64) std::atomic<uint64_t> used{0};
  std::atomic<uint64_t> published{0};
  Slot slots[kSlots];

  alignas(64) std::atomic<int> count{0};  // workers
  std::atomic<int> asleep{0};             // workers that wait for `wake`, or are about to
  std::atomic<int> avoided{-1};           // the processor of the caller, which workers stay away from
  std::mutex mutex;                       // guards `workers` and the sleep
  std::condition_variable wake;
  std::vector<pthread_t> workers;
};

Pool &pool();

// The job of numc_side_by_side of which this thread runs a task, or null.
extern thread_local Job *current_chains;

}  // namespace numc
