// x86-64: multiply-adds in vectors of 512, 256 and 128 bits.
#include "machine/vectors.hpp"

#include <immintrin.h>

namespace numc::machine {
namespace {

constexpr int64_t kSteps = 100'000;   // of every accumulator
constexpr int kSums = 12;             // independent accumulators, more than an FMA takes cycles times units

// Each of these computes kSteps multiply-adds in every lane of kSums vectors, and returns how many these are.
__attribute__((target("avx512f"))) int64_t compute512(float *out) {
  __m512 sums[kSums], factor = _mm512_set1_ps(*out);
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_fmadd_ps(sums[i], factor, factor);
  }
#pragma GCC unroll 12
  for (int i = 1; i < kSums; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  *out = _mm512_cvtss_f32(sums[0]);
  return kSteps * kSums * 16;
}

__attribute__((target("avx2,fma"))) int64_t compute256(float *out) {
  __m256 sums[kSums], factor = _mm256_set1_ps(*out);
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  for (int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = _mm256_fmadd_ps(sums[i], factor, factor);
  }
#pragma GCC unroll 12
  for (int i = 1; i < kSums; ++i) sums[0] = _mm256_add_ps(sums[0], sums[i]);
  *out = _mm256_cvtss_f32(sums[0]);
  return kSteps * kSums * 8;
}

// Without FMA instructions: a product and a sum.
int64_t compute128(float *out) {
  __m128 sums[kSums], factor = _mm_set1_ps(*out);
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sums[i] = _mm_set1_ps(static_cast<float>(i));
  for (int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = _mm_add_ps(_mm_mul_ps(sums[i], factor), factor);
  }
#pragma GCC unroll 12
  for (int i = 1; i < kSums; ++i) sums[0] = _mm_add_ps(sums[0], sums[i]);
  *out = _mm_cvtss_f32(sums[0]);
  return kSteps * kSums * 4;
}

}  // namespace

int64_t multiply_adds(float *out) {
  if (__builtin_cpu_supports("avx512f")) return compute512(out);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return compute256(out);
  return compute128(out);
}

}  // namespace numc::machine
