// Adds up the additions that the kernels of a task counted (passes/kernels/datapaths/counting.py). Every bit position
// of every lane is a counter, and its binary digits are spread over planes: plane n holds the digits of weight 2^n.
#include "kernels/generated_abi.hpp"
#include "numc/generated.h"

namespace {

using numc::kCountedBits;

void add(int64_t *counts, const uint32_t *plane, int64_t width, int64_t weight) {
  uint32_t any = 0;
  for (int64_t lane = 0; lane < width; ++lane) any |= plane[lane];
  if (any == 0) return;
  uint32_t sums[kCountedBits] = {};
  for (int64_t lane = 0; lane < width; ++lane)
    for (int64_t bit = 0; bit < kCountedBits; ++bit) sums[bit] += plane[lane] >> bit & 1;
  for (int64_t bit = 0; bit < kCountedBits; ++bit) counts[bit] += int64_t{sums[bit]} << weight;
}

}  // namespace

extern "C" void numc_count(int64_t *counts, const uint32_t *words, int64_t width) {
  int64_t found[kCountedBits] = {};
  for (int64_t n = 0; n < numc::kLowPlanes + numc::kHighPlanes; ++n) add(found, words + n * width, width, n);
  // These are sums of integers, so they do not depend on the order in which tasks end.
  for (int64_t bit = 0; bit < kCountedBits; ++bit)
    if (found[bit] != 0) __atomic_fetch_add(counts + bit, found[bit], __ATOMIC_RELAXED);
}
