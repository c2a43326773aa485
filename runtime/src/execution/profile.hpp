// What a run spends its time on: the spans of numc_profile in numc.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "execution/mutex.hpp"
#include "numc.h"

namespace numc {

// How many runs are profiled now. While it is 0, the calls of generated code return at once.
extern std::atomic<int> profiled_runs;

}  // namespace numc

struct numc_profile {
  // A run on `threads` threads begins, and ends. Between them all spans count ticks; end() makes nanoseconds of them.
  // If memory was short, it drops all spans of the run.
  void begin(int threads);
  void end();

  // The thread of the run, inside of the run: the next part begins; work of the part that is open; waiting for others.
  void enter(int32_t part, int64_t bytes);
  void multiplied(int64_t fmas) { open_.fmas += fmas; }
  void waited(int64_t time) { open_.waited += time; }
  // Any other thread: it has worked on the part that is open.
  void helped(int32_t thread, int64_t begin, int64_t end);

  const std::vector<numc_span> &spans() const { return spans_; }

 private:
  void keep(const numc_span &span);

  numc::Mutex mutex_;  // guards spans_ and lost_ while threads help
  std::vector<numc_span> spans_;
  numc_span open_{};
  size_t first_ = 0;                     // the span of the run that is recorded
  int64_t ticks_ = 0, nanoseconds_ = 0;  // when it began
  bool lost_ = false;
};
