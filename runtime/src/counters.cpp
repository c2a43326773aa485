// Adds up what kernels counted in planes (passes/counters.py): 32 counters in each lane, of which plane n has bit n.
#include "numc.h"

namespace {

constexpr int64_t kBits = 32;

}  // namespace

extern "C" void numc_count(int64_t *counts, const uint32_t *planes, int64_t levels, int64_t width) {
  int64_t found[kBits] = {};
  for (int64_t level = 0; level < levels; ++level) {
    const uint32_t *const plane = planes + level * width;
    uint32_t any = 0;
    for (int64_t lane = 0; lane < width; ++lane) any |= plane[lane];
    if (any == 0) continue;
    uint32_t sums[kBits] = {};
    for (int64_t lane = 0; lane < width; ++lane)
      for (int64_t bit = 0; bit < kBits; ++bit) sums[bit] += plane[lane] >> bit & 1;
    for (int64_t bit = 0; bit < kBits; ++bit) found[bit] += static_cast<int64_t>(sums[bit]) << level;
  }
  // Sums of integers: in whatever order tasks come, the counts are the same.
  for (int64_t bit = 0; bit < kBits; ++bit)
    if (found[bit] != 0) __atomic_fetch_add(counts + bit, found[bit], __ATOMIC_RELAXED);
}
