#include "execution/pool.hpp"

#include <sched.h>
#include <signal.h>

#include <system_error>
#include <thread>

#include "execution/alloc.hpp"
#include "execution/profile.hpp"
#include "execution/run.hpp"
#include "machine/environment.hpp"

namespace numc {

thread_local Job *current_chains = nullptr;

namespace {

// How often an idle worker looks for a new job before it sleeps. Some ten microseconds pass between two loops of a
// network, and waking a sleeping thread takes longer.
constexpr int kSpins = 4000;

// Takes chunks of tasks and runs them until none is left, beginning with range `own`. Who takes the last one closes the
// slot, if there is one. A task that fails stops the job; numc_parallel then ends the run on the calling thread.
void work(Job &job, int own, Slot *slot) {
  const int depth = parallel_depth;
  Job *const chains = current_chains;
  Escape escape;
  escape.outer = current_escape;
  current_escape = &escape;
  if (setjmp(escape.buffer) == 0) {
    for (uint64_t r = static_cast<uint64_t>(own); job.failure.load(std::memory_order_relaxed) == 0;) {
      Range &range = job.range[r];
      while (job.failure.load(std::memory_order_relaxed) == 0) {
        const int64_t begin = range.next.fetch_add(job.chunk, std::memory_order_relaxed);
        if (begin >= range.end) break;
        const int64_t end = range.end - begin < job.chunk ? range.end : begin + job.chunk;
        job.task(job.context, begin, end);
      }
      const uint64_t bit = uint64_t{1} << r;
      uint64_t left = job.left.load(std::memory_order_relaxed);
      if (left & bit) left = job.left.fetch_and(~bit, std::memory_order_relaxed) & ~bit;
      if (left == 0) break;
      // The next range with tasks, behind this one, else from the first on.
      const uint64_t behind = left & ~(2 * bit - 1);
      r = static_cast<uint64_t>(__builtin_ctzll(behind != 0 ? behind : left));
    }
  } else {
    int32_t none = 0;
    job.failure.compare_exchange_strong(none, escape.code);
    parallel_depth = depth;
    current_chains = chains;
  }
  if (slot != nullptr && slot->is_open()) slot->close();
  free_small(escape.small);  // of tasks that failed
  current_escape = escape.outer;
}

// Works on a job that another thread has.
void help(Slot &slot, int number) {
  Job &job = *slot.job;
  current_run = job.run;
  machine::set_environment(job.environment);
  work(job, number % job.ranges, &slot);
  job.flags.fetch_or(machine::environment() & machine::kFlags, std::memory_order_relaxed);
}

}  // namespace

void Pool::grow(int wanted) {
  if (count.load(std::memory_order_relaxed) >= wanted) return;
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
      avoided.store(-1, std::memory_order_relaxed);
    } catch (const std::system_error &) {
      started = false;  // the system allows no more threads: go on with those that exist
    }
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    if (!started) break;
    count.store(static_cast<int>(workers.size()), std::memory_order_relaxed);
  }
}

// Restricts workers to the processors that their caller may use, without the one it is running on. Schedulers that
// save power wake a worker on the processor of the thread that woke it, and one of the two then waits for a time
// slice while other processors are idle.
void Pool::keep_off_this_processor() {
  const int here = sched_getcpu();
  if (here == avoided.load(std::memory_order_relaxed) || here < 0 || here >= CPU_SETSIZE) return;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  CPU_CLR(here, &allowed);
  const std::lock_guard<std::mutex> lock(mutex);
  avoided.store(here, std::memory_order_relaxed);
  if (CPU_COUNT(&allowed) == 0) return;
  for (const pthread_t worker : workers) pthread_setaffinity_np(worker, sizeof allowed, &allowed);
}

// Opens a slot for a job and wakes workers. Returns null if all slots are taken: the caller then works alone.
Slot *Pool::publish(Job &job) {
  uint64_t taken = used.load(std::memory_order_relaxed), bit;
  do {
    if (taken == UINT64_MAX) return nullptr;
    bit = ~taken & (taken + 1);
  } while (!used.compare_exchange_weak(taken, taken | bit, std::memory_order_acquire, std::memory_order_relaxed));
  if (taken == 0) keep_off_this_processor();
  Slot &slot = slots[__builtin_ctzll(bit)];
  slot.job = &job;
  slot.outer.store(job.outer, std::memory_order_relaxed);
  slot.gate.fetch_or(Slot::kOpen, std::memory_order_release);
  published.fetch_add(1);
  // A worker counts itself as asleep before it looks at `published` for the last time.
  if (asleep.load() != 0) {
    { const std::lock_guard<std::mutex> lock(mutex); }
    if (job.max_helpers == 1)
      wake.notify_one();
    else
      wake.notify_all();
  }
  return &slot;
}

// Counts this thread in at a job that can use one more worker; returns its slot, or null. If `outer` is given, a job
// inside of its tasks, for a thread that works on these already.
Slot *Pool::join(const Job *outer) {
  for (uint64_t taken = used.load(std::memory_order_acquire); taken != 0; taken &= taken - 1) {
    Slot &slot = slots[__builtin_ctzll(taken)];
    if (!slot.is_open() || (outer != nullptr && slot.outer.load(std::memory_order_relaxed) != outer)) continue;
    const uint32_t before = slot.gate.fetch_add(1, std::memory_order_acquire);
    if (before & Slot::kOpen) {
      Job &job = *slot.job, &whole = job.outer != nullptr ? *job.outer : job;
      if (outer != nullptr) {
        if (job.outer == outer) return &slot;
      } else if (!whole.has_chains) {
        if (static_cast<int>(before & ~Slot::kOpen) < job.max_helpers) return &slot;
      } else {
        if (whole.helping.fetch_add(1, std::memory_order_relaxed) < whole.max_helpers) return &slot;
        whole.helping.fetch_sub(1, std::memory_order_relaxed);
      }
    }
    slot.leave();
  }
  return nullptr;
}

// A worker has no more to do for the job that it joined.
void Pool::leave(Slot &slot) {
  Job &job = *slot.job, &whole = job.outer != nullptr ? *job.outer : job;
  if (whole.has_chains) whole.helping.fetch_sub(1, std::memory_order_relaxed);
  slot.leave();
}

void Pool::serve(int number) {
  parallel_depth = 1;  // numc_parallel inside of a task runs on the same thread
  while (true) {
    const uint64_t seen = published.load(std::memory_order_acquire);
    Slot *const slot = join(nullptr);
    if (slot == nullptr) {
      for (int spin = 0; spin < kSpins && published.load(std::memory_order_relaxed) == seen; ++spin) machine::pause();
      if (published.load(std::memory_order_relaxed) == seen) sleep(seen);
      continue;
    }
    Run *const run = slot->job->run;
    numc_profile *const profile = run != nullptr ? run->profile : nullptr;
    const int64_t begin = profile != nullptr ? machine::ticks() : 0;
    help(*slot, number);
    if (profile != nullptr) profile->helped(number, begin, machine::ticks());
    current_run = nullptr;
    leave(*slot);
  }
}

// Waits until there is another job than the first `seen`.
void Pool::sleep(uint64_t seen) {
  std::unique_lock<std::mutex> lock(mutex);
  asleep.fetch_add(1);
  while (published.load() == seen) wake.wait(lock);
  asleep.fetch_sub(1);
}

// The thread that has `job` has no task left, but others have: until they end, it helps with jobs inside of these.
void Pool::wait(Job &job, Slot &slot) {
  uint64_t seen = 0;
  for (int spin = 0; !slot.is_empty(); ++spin) {
    const uint64_t now = published.load(std::memory_order_acquire);
    if (job.has_chains && now != seen) {
      Slot *const inner = join(&job);
      seen = inner == nullptr ? now : 0;
      if (inner != nullptr) {
        const uint32_t outside = machine::environment();
        ++parallel_depth;
        help(*inner, 1);
        --parallel_depth;
        machine::set_environment(outside);
        inner->leave();
        continue;
      }
    }
    if (spin < kSpins)
      machine::pause();
    else
      std::this_thread::yield();
  }
}

void Pool::run(Job &job) {
  Slot *const slot = publish(job);
  ++parallel_depth;
  work(job, 0, slot);
  --parallel_depth;
  if (slot == nullptr) return;
  numc_profile *const profile = job.run != nullptr ? job.run->profile : nullptr;
  const int64_t done = profile != nullptr ? machine::ticks() : 0;
  wait(job, *slot);
  used.fetch_and(~(uint64_t{1} << (slot - slots)), std::memory_order_release);
  if (profile != nullptr) profile->waited(machine::ticks() - done);
}

namespace {

// The pool is never destroyed, because workers outlive static destructors. A child of fork has no workers and starts a
// new pool.
std::atomic<Pool *> the_pool{new Pool};

// When the library is loaded: a fork while another thread did it would leave it half done.
[[maybe_unused]] const int at_fork = pthread_atfork(nullptr, nullptr, [] { the_pool.store(new Pool); });

}  // namespace

Pool &pool() { return *the_pool.load(); }

}  // namespace numc
