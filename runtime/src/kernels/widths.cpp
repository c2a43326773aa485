// The widths that a run chose for operands whose formats have open ones, and the weights that are converted to them.
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "execution/run.hpp"
#include "numc.h"

namespace numc {

ConvertedWeights::Copy ConvertedWeights::find(const float *weight, int64_t widths) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(weight);
  return found != entries_.end() && found->second.widths == widths ? found->second.copy : nullptr;
}

void ConvertedWeights::keep(const float *weight, int64_t widths, Copy copy) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_[weight] = {widths, std::move(copy)};
}

namespace {

constexpr size_t kAlignment = 64;

// The converted weight, which the run keeps from now on; null if memory is short.
const float *converted(Run &run, const float *weight, int64_t words, int64_t panels, int64_t widths,
                       void (*convert)(void *, int64_t, int64_t)) try {
  ConvertedWeights::Copy copy = run.converted->find(weight, widths);
  if (copy == nullptr) {
    const size_t bytes = (static_cast<size_t>(words) * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
    copy.reset(static_cast<float *>(std::aligned_alloc(kAlignment, bytes)), std::free);
    if (copy == nullptr) return nullptr;
    std::memcpy(copy.get(), weight, static_cast<size_t>(words) * sizeof(float));
    int64_t context[] = {reinterpret_cast<int64_t>(copy.get()), widths};
    numc_parallel(convert, context, panels, -1);
    run.converted->keep(weight, widths, copy);
  }
  run.used.push_back(copy);
  return copy.get();
} catch (const std::bad_alloc &) {
  return nullptr;
}

}  // namespace
}  // namespace numc

extern "C" int64_t numc_width_of(int64_t slot) {
  const numc::Run *const run = numc::current_run;
  if (run == nullptr || static_cast<size_t>(slot) >= run->widths.size()) numc_fail(-1);  // not a run of a program
  return run->widths[static_cast<size_t>(slot)];
}

extern "C" int64_t numc_converted(const float *weight, int64_t words, int64_t panels, int64_t widths,
                                  void (*convert)(void *context, int64_t begin, int64_t end)) {
  const float *const found = numc::converted(*numc::current_run, weight, words, panels, widths, convert);
  if (found == nullptr) numc_fail(NUMC_OUT_OF_MEMORY);
  return reinterpret_cast<int64_t>(found);
}
