#include "execution/pool.hpp"

#include <immintrin.h>
#include <sched.h>
#include <signal.h>

#include <system_error>
#include <thread>

#include "execution/alloc.hpp"
#include "execution/profile.hpp"
#include "execution/run.hpp"

namespace numc {

thread_local Job *current_chains = nullptr;

namespace {

// How often an idle worker looks for a new job before it sleeps. Some ten microseconds pass between two loops of a
// network, and waking a sleeping thread takes longer.
constexpr int kSpins = 4000;

// Takes chunks of tasks and runs them until none is left, beginning with range `own`. A task that fails stops the job;
// numc_parallel then ends the run on the calling thread.
void work(Job &job, int own) {
  const int depth = parallel_depth;
  Job *const chains = current_chains;
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
    parallel_depth = depth;
    current_chains = chains;
  }
  free_small(escape.small);  // of tasks that failed
  current_escape = escape.outer;
}

// Works on a job that another thread has.
void help(Job &job, int number) {
  current_run = job.run;
  _mm_setcsr(job.mxcsr);
  work(job, number % job.ranges);
  job.flags.fetch_or(_mm_getcsr() & 0x3f, std::memory_order_relaxed);
}

}  // namespace

void Pool::grow(int wanted) {
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
void Pool::keep_off_this_processor() {
  const int here = sched_getcpu();
  if (here == avoided || here < 0 || here >= CPU_SETSIZE) return;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  CPU_CLR(here, &allowed);
  avoided = here;
  if (CPU_COUNT(&allowed) == 0) return;
  for (const pthread_t worker : workers) pthread_setaffinity_np(worker, sizeof allowed, &allowed);
}

// A job that can use one more worker, or null; if `outer` is given, one inside of its tasks for the thread that has
// `outer`. The caller holds the mutex.
Job *Pool::join(const Job *outer) {
  for (Job *job = first; job != nullptr; job = job->following) {
    if (job->untaken.load(std::memory_order_relaxed) == 0) continue;
    if (job->failure.load(std::memory_order_relaxed) != 0) continue;
    if (outer != nullptr && job->outer != outer) continue;
    Job &whole = job->outer != nullptr ? *job->outer : *job;
    if (outer == nullptr) {
      if (whole.helping.load(std::memory_order_relaxed) >= whole.max_helpers) continue;
      whole.helping.fetch_add(1, std::memory_order_relaxed);
    }
    job->active.fetch_add(1, std::memory_order_relaxed);
    return job;
  }
  return nullptr;
}

void Pool::serve(int number) {
  parallel_depth = 1;  // numc_parallel inside of a task runs on the same thread
  while (true) {
    Job *job = nullptr;
    {
      std::unique_lock<std::mutex> lock(mutex);
      job = join(nullptr);
      if (job == nullptr) {
        const uint64_t seen = published.load(std::memory_order_relaxed);
        lock.unlock();
        for (int spin = 0; spin < kSpins && published.load(std::memory_order_relaxed) == seen; ++spin) _mm_pause();
        lock.lock();
        while ((job = join(nullptr)) == nullptr) wake.wait(lock);
      }
    }
    numc_profile *const profile = job->run != nullptr ? job->run->profile : nullptr;
    const int64_t begin = profile != nullptr ? ticks() : 0;
    help(*job, number);
    if (profile != nullptr) profile->helped(number, begin, ticks());
    current_run = nullptr;
    (job->outer != nullptr ? *job->outer : *job).helping.fetch_sub(1, std::memory_order_relaxed);
    job->active.fetch_sub(1, std::memory_order_release);
  }
}

// The thread that has `job` has no task left, but others have: until they end, it helps with jobs inside of these.
void Pool::wait(Job &job) {
  uint64_t seen = 0;
  for (int spin = 0; job.active.load(std::memory_order_acquire) != 0; ++spin) {
    const uint64_t now = published.load(std::memory_order_relaxed);
    if (job.has_chains && now != seen) {
      Job *inner = nullptr;
      {
        std::lock_guard<std::mutex> lock(mutex);
        inner = join(&job);
      }
      seen = inner == nullptr ? now : 0;
      if (inner != nullptr) {
        const uint32_t mxcsr = _mm_getcsr();
        ++parallel_depth;
        help(*inner, 1);
        --parallel_depth;
        _mm_setcsr(mxcsr);
        inner->active.fetch_sub(1, std::memory_order_release);
        continue;
      }
    }
    if (spin < kSpins)
      _mm_pause();
    else
      std::this_thread::yield();
  }
}

void Pool::run(Job &job) {
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
  wait(job);
  if (profile != nullptr) profile->waited(ticks() - done);
}

namespace {

// The pool is never destroyed, because workers outlive static destructors. A child of fork has no workers and starts a
// new pool.
std::atomic<Pool *> the_pool{nullptr};

}  // namespace

Pool &pool() {
  static const bool registered = [] {
    the_pool.store(new Pool);
    pthread_atfork(nullptr, nullptr, [] { the_pool.store(new Pool); });
    return true;
  }();
  (void)registered;
  return *the_pool.load();
}

}  // namespace numc
