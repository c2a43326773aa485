#include "execution/profile.hpp"

#include <chrono>
#include <new>

#include "execution/run.hpp"
#include "machine/environment.hpp"

namespace numc {

std::atomic<int> profiled_runs{0};

namespace {

// The clock that Python's time.perf_counter_ns reads, too.
int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The profile of the run whose entry is running on this thread, or null.
numc_profile *profile_here() {
  if (__builtin_expect(profiled_runs.load(std::memory_order_relaxed) == 0, 1)) return nullptr;
  return current_run != nullptr && parallel_depth == 0 ? current_run->profile : nullptr;
}

}  // namespace
}  // namespace numc

using namespace numc;

void numc_profile::begin(int threads) {
  profiled_runs.fetch_add(1, std::memory_order_relaxed);
  first_ = spans_.size();
  lost_ = false;
  nanoseconds_ = now();
  ticks_ = machine::ticks();
  open_ = {};
  open_.begin = ticks_, open_.part = -1;
  numc_span run{};
  run.begin = ticks_, run.part = NUMC_WHOLE_RUN, run.thread = threads;
  keep(run);
}

void numc_profile::end() {
  enter(-1, 0);
  const int64_t last = open_.begin, length = now() - nanoseconds_;
  profiled_runs.fetch_sub(1, std::memory_order_relaxed);
  if (lost_) {
    spans_.erase(spans_.begin() + static_cast<std::ptrdiff_t>(first_), spans_.end());
    return;
  }
  spans_[first_].end = last;
  const double scale = last > ticks_ ? static_cast<double>(length) / static_cast<double>(last - ticks_) : 0;
  const auto duration = [scale](int64_t time) { return static_cast<int64_t>(static_cast<double>(time) * scale + 0.5); };
  for (size_t i = first_; i < spans_.size(); ++i) {
    numc_span &span = spans_[i];
    span.begin = nanoseconds_ + duration(span.begin - ticks_);
    span.end = nanoseconds_ + duration(span.end - ticks_);
    span.waited = duration(span.waited);
  }
}

void numc_profile::enter(int32_t part, int64_t bytes) {
  open_.end = machine::ticks();
  keep(open_);
  const int64_t begin = open_.end;
  open_ = {};
  open_.begin = begin, open_.bytes = bytes, open_.part = part;
}

void numc_profile::helped(int32_t thread, int64_t begin, int64_t end) {
  numc_span span{};
  span.begin = begin, span.end = end, span.part = open_.part, span.thread = thread;
  keep(span);
}

void numc_profile::keep(const numc_span &span) {
  const numc::Lock lock(mutex_);
  try {
    spans_.push_back(span);
  } catch (const std::bad_alloc &) {
    lost_ = true;
  }
}

extern "C" {

numc_profile *numc_profile_new(void) { return new (std::nothrow) numc_profile; }

const numc_span *numc_profile_spans(const numc_profile *profile, size_t *count) {
  if (count != nullptr) *count = profile != nullptr ? profile->spans().size() : 0;
  return profile != nullptr ? profile->spans().data() : nullptr;
}

void numc_profile_free(numc_profile *profile) { delete profile; }

void numc_mark(int64_t part, int64_t bytes) {
  numc_profile *const profile = profile_here();
  if (profile == nullptr) return;
  profile->enter(static_cast<int32_t>(part), bytes);
}
}
