// The thread pool of numc_parallel and numc_side_by_side. All runs of the process share the workers. The thread that
// has a job works on it too and can finish it alone, so a run never waits for a worker that is busy or could not be
// started.
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
  Run *run;
  uint32_t mxcsr;                  // the caller's floating-point environment, in which workers compute
  int ranges;
  Range range[kRanges];
  std::atomic<int64_t> untaken;    // tasks that no thread has taken yet
  std::atomic<int> active{0};      // workers that may still access this job
  std::atomic<int32_t> failure{0};  // the first code given to numc_fail
  std::atomic<uint32_t> flags{0};  // exception flags that workers raised
  std::atomic<int> helping{0};     // workers that work on this job, or on one inside of its tasks
  bool has_chains = false;         // its tasks may have jobs of their own
  Job *outer = nullptr;            // the job in whose chain this one began, or null
  Job *previous = nullptr;         // Pool::mutex guards the two links
  Job *following = nullptr;
};

struct Pool {
  // Starts workers until there are so many, if the system allows it.
  void grow(int wanted);
  // Runs all tasks of a job on this thread and on workers, and returns when no thread accesses it any more.
  void run(Job &job);

 private:
  void keep_off_this_processor();
  Job *join(const Job *outer);
  void serve(int number);
  void wait(Job &job);

  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<uint64_t> published{0};  // how many jobs there were: idle workers watch it while they spin
  Job *first = nullptr;
  std::vector<pthread_t> workers;
  int avoided = -1;  // the processor of the caller, which workers stay away from
};

Pool &pool();

// The job of numc_side_by_side of which this thread runs a task, or null.
extern thread_local Job *current_chains;

}  // namespace numc
