// The thread pool of numc_parallel. All runs of the process share the workers. The thread that calls numc_parallel
// works on its job too and can finish it alone, so a run never waits for a worker that is busy or could not be started.
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "execution/alloc.hpp"
#include "execution/profile.hpp"
#include "execution/run.hpp"

namespace numc {
namespace {

// How often an idle worker looks for a new job before it sleeps. Some ten microseconds pass between two loops of a
// network, and waking a sleeping thread takes longer.
constexpr int kSpins = 4000;

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
  int64_t n;
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
  int joined = 0;                  // workers that have begun. Pool::mutex guards this and the two links
  Job *previous = nullptr;
  Job *following = nullptr;
};

// Takes chunks of tasks and runs them until none is left, beginning with range `own`. A task that fails stops the job;
// numc_parallel then ends the run on the calling thread.
void work(Job &job, int own) {
  Escape escape;
  escape.outer = current_escape;
  current_escape = &escape;
  if (setjmp(escape.buffer) == 0) {
    for (int r = 0; r < job.ranges; ++r) {
      Range &range = job.range[(own + r) % job.ranges];
      while (job.failure.load(std::memory_order_relaxed) == 0) {
        const int64_t begin = range.next.fetch_add(job.chunk, std::memory_order_relaxed);
        if (begin >= range.end) break;
        const int64_t end = range.end - begin < job.chunk ? range.end : begin + job.chunk;
        job.untaken.fetch_sub(end - begin, std::memory_order_relaxed);
        job.task(job.context, begin, end);
      }
    }
  } else {
    int32_t none = 0;
    job.failure.compare_exchange_strong(none, escape.code);
  }
  free_small(escape.small);  // of tasks that failed
  current_escape = escape.outer;
}

struct Pool {
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<uint64_t> published{0};  // how many jobs there were: idle workers watch it while they spin
  Job *first = nullptr;
  std::vector<pthread_t> workers;
  int avoided = -1;  // the processor of the caller, which workers stay away from

  void grow(int wanted) {
    for (std::lock_guard<std::mutex> lock(mutex); static_cast<int>(workers.size()) < wanted;) {
      // Workers block all signals, so that they are handled by the threads of the host program: all but those of
      // faults, which the kernel sends to the thread at fault, and which end the process without a word if it cannot.
      sigset_t all, old;
      sigfillset(&all);
      for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&all, signal);
      pthread_sigmask(SIG_SETMASK, &all, &old);
      bool started = true;
      try {
        std::thread worker([this, number = static_cast<int>(workers.size()) + 1] { serve(number); });
        workers.push_back(worker.native_handle());
        worker.detach();
        avoided = -1;
      } catch (const std::system_error &) {
        started = false;  // the system allows no more threads: go on with those that exist
      }
      pthread_sigmask(SIG_SETMASK, &old, nullptr);
      if (!started) break;
    }
  }

  // Restricts workers to the processors that their caller may use, without the one it is running on. Schedulers that
  // save power wake a worker on the processor of the thread that woke it, and one of the two then waits for a time
  // slice while other processors are idle. The caller holds the mutex.
  void keep_off_this_processor() {
    const int here = sched_getcpu();
    if (here == avoided || here < 0 || here >= CPU_SETSIZE) return;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    CPU_CLR(here, &allowed);
    avoided = here;
    if (CPU_COUNT(&allowed) == 0) return;
    for (const pthread_t worker : workers) pthread_setaffinity_np(worker, sizeof allowed, &allowed);
  }

  // A job that can use one more worker, or null. The caller holds the mutex.
  Job *join() {
    for (Job *job = first; job != nullptr; job = job->following)
      if (job->joined < job->max_helpers && job->untaken.load(std::memory_order_relaxed) > 0) {
        ++job->joined;
        job->active.fetch_add(1, std::memory_order_relaxed);
        return job;
      }
    return nullptr;
  }

  void serve(int number) {
    parallel_depth = 1;  // numc_parallel inside of a task runs on the same thread
    while (true) {
      Job *job = nullptr;
      {
        std::unique_lock<std::mutex> lock(mutex);
        job = join();
        if (job == nullptr) {
          const uint64_t seen = published.load(std::memory_order_relaxed);
          lock.unlock();
          for (int spin = 0; spin < kSpins && published.load(std::memory_order_relaxed) == seen; ++spin) _mm_pause();
          lock.lock();
          while ((job = join()) == nullptr) wake.wait(lock);
        }
      }
      current_run = job->run;
      _mm_setcsr(job->mxcsr);
      numc_profile *const profile = current_run != nullptr ? current_run->profile : nullptr;
      const int64_t begin = profile != nullptr ? ticks() : 0;
      work(*job, number % job->ranges);
      if (profile != nullptr) profile->helped(number, begin, ticks());
      job->flags.fetch_or(_mm_getcsr() & 0x3f, std::memory_order_relaxed);
      current_run = nullptr;
      job->active.fetch_sub(1, std::memory_order_release);
    }
  }

  void run(Job &job) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (first == nullptr) keep_off_this_processor();
      job.following = first;
      if (first != nullptr) first->previous = &job;
      first = &job;
      published.fetch_add(1, std::memory_order_relaxed);
    }
    if (job.max_helpers == 1)
      wake.notify_one();
    else
      wake.notify_all();
    ++parallel_depth;
    work(job, 0);
    --parallel_depth;
    numc_profile *const profile = job.run != nullptr ? job.run->profile : nullptr;
    const int64_t done = profile != nullptr ? ticks() : 0;
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (job.previous != nullptr) job.previous->following = job.following;
      if (job.following != nullptr) job.following->previous = job.previous;
      if (first == &job) first = job.following;
    }
    for (int spin = 0; job.active.load(std::memory_order_acquire) != 0; ++spin)
      if (spin < kSpins)
        _mm_pause();
      else
        std::this_thread::yield();
    if (profile != nullptr) profile->waited(ticks() - done);
  }
};

// The pool is never destroyed, because workers outlive static destructors. A child of fork has no workers and starts a
// new pool.
std::atomic<Pool *> the_pool{nullptr};

Pool &pool() {
  static const bool registered = [] {
    the_pool.store(new Pool);
    pthread_atfork(nullptr, nullptr, [] { the_pool.store(new Pool); });
    return true;
  }();
  (void)registered;
  return *the_pool.load();
}

// What an observer does is no part of the run: the run does not own what it allocates.
void observe(Run *run, int64_t id, void *context, int32_t phase) {
  const uint32_t mxcsr = _mm_getcsr();
  Escape *const escape = current_escape;
  _mm_setcsr(kDefaultMxcsr);
  current_run = nullptr;
  current_escape = nullptr;
  run->observer(run->observer_user, id, context, phase);
  current_run = run;
  current_escape = escape;
  _mm_setcsr(mxcsr);
}

int32_t run_parallel(void (*task)(void *, int64_t, int64_t), void *context, int64_t n) {
  int64_t threads = parallel_threads();
  if (threads > n) threads = n;
  if (threads <= 1) {
    ++parallel_depth;  // if the task fails, call_protected restores it
    task(context, 0, n);
    --parallel_depth;
    return 0;
  }
  Pool &workers = pool();
  workers.grow(static_cast<int>(threads) - 1);
  Job job;
  job.ranges = static_cast<int>(threads < kRanges ? threads : kRanges);
  for (int64_t r = 0; r < job.ranges; ++r) {
    job.range[r].next.store(n * r / job.ranges, std::memory_order_relaxed);
    job.range[r].end = n * (r + 1) / job.ranges;
  }
  job.untaken.store(n, std::memory_order_relaxed);
  job.task = task;
  job.context = context;
  job.n = n;
  job.chunk = n / (threads * 16) > 1 ? n / (threads * 16) : 1;
  job.max_helpers = static_cast<int>(threads) - 1;
  job.run = current_run;
  job.mxcsr = _mm_getcsr();
  workers.run(job);
  _mm_setcsr(_mm_getcsr() | job.flags.load(std::memory_order_relaxed));
  return job.failure.load();
}

}  // namespace

int64_t parallel_threads() {
  if (parallel_depth > 0) return 1;
  return current_run != nullptr ? current_run->threads : numc_default_threads();
}

}  // namespace numc

extern "C" void numc_parallel(void (*task)(void *, int64_t, int64_t), void *context, int64_t n, int64_t id) {
  using namespace numc;
  const bool watched = id >= 0 && parallel_depth == 0 && current_run != nullptr && current_run->observer != nullptr;
  if (watched) observe(current_run, id, context, 0);
  if (n > 0) {
    const int32_t failure = run_parallel(task, context, n);
    if (failure != 0) numc_fail(failure);
  }
  if (watched) observe(current_run, id, context, 1);
}
