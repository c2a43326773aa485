// The widths that a run chose for operands whose formats have open ones, and the weights that are converted to them.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "execution/run.hpp"
#include "kernels/widths.hpp"
#include "numc.h"
#include "numc/generated.h"
#include "program/container.hpp"

namespace numc {

ConvertedWeights::Copy ConvertedWeights::find(const float *weight, int64_t widths) {
  const Lock lock(mutex_);
  const auto found = entries_.find(weight);
  return found != entries_.end() && found->second.widths == widths ? found->second.copy : nullptr;
}

void ConvertedWeights::keep(const float *weight, int64_t widths, Copy copy) {
  const Lock lock(mutex_);
  entries_[weight] = {widths, std::move(copy)};
}

namespace {

constexpr size_t kAlignment = 64, kHugePage = size_t{2} << 20;

// Memory that ends with its owner; in huge pages, where these help.
ConvertedWeights::Copy allocated(size_t bytes) {
  const size_t alignment = bytes < kHugePage ? kAlignment : kHugePage;
  bytes = (bytes + alignment - 1) / alignment * alignment;
  void *const memory = std::aligned_alloc(alignment, bytes);
  if (memory != nullptr && alignment == kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);
  return {static_cast<float *>(memory), std::free};
}

// The converted weight, which the run keeps from now on; null if memory is short.
const float *converted(Run &run, const float *weight, int64_t words, int64_t panels, int64_t widths,
                       void (*convert)(void *, int64_t, int64_t)) try {
  ConvertedWeights::Copy copy = run.converted->find(weight, widths);
  if (copy == nullptr) {
    copy = allocated(static_cast<size_t>(words) * sizeof(float));
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

bool wants_choice(int64_t slot) {
  const Run *const run = current_run;
  if (run == nullptr || static_cast<size_t>(slot) >= run->choices.size()) return false;
  const numc_choice &choice = run->choices[static_cast<size_t>(slot)];
  return choice.tensor >= 0 && choice.decided == 0;
}

void choose(int64_t slot, double kept, double lost) {
  Run &run = *current_run;
  const numc_choice chosen = run.choices[static_cast<size_t>(slot)];
  const double ratio = kept > 0 ? lost / kept : lost > 0 ? std::numeric_limits<double>::infinity() : 0;
  const int end = ratio < chosen.epsilon ? 0 : 1;
  for (size_t n = 0; n < run.choices.size(); ++n) {
    numc_choice &each = run.choices[n];
    if (each.tensor != chosen.tensor) continue;
    each.decided = 1;
    each.ratio = ratio;
    each.width = {run.ranges[n].exponent[end], run.ranges[n].significand[end]};
    run.widths[n] = packed(each.width);
  }
}

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
