// AArch64: multiply-adds in vectors of 128 bits.
#include "machine/vectors.hpp"

#include <arm_neon.h>

namespace numc::machine {

int64_t multiply_adds(float *out) {
  constexpr int64_t kSteps = 100'000;  // of every accumulator
  constexpr int kSums = 20;            // independent accumulators, more than an FMA takes cycles times units
  float32x4_t sums[kSums];
  const float32x4_t factor = vdupq_n_f32(*out);
#pragma GCC unroll 20
  for (int i = 0; i < kSums; ++i) sums[i] = vdupq_n_f32(static_cast<float>(i));
  for (int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 20
    for (int i = 0; i < kSums; ++i) sums[i] = vfmaq_f32(factor, sums[i], factor);
  }
#pragma GCC unroll 20
  for (int i = 1; i < kSums; ++i) sums[0] = vaddq_f32(sums[0], sums[i]);
  *out = vgetq_lane_f32(sums[0], 0);
  return kSteps * kSums * 4;
}

}  // namespace numc::machine
