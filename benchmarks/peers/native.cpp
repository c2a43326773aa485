// Loops that a user would write without numc, which round after every multiply-add, and the peak rate of the machine.
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

inline uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// Rounds to nearest even, to `mantissa` fraction bits and normal exponents from `emin` on, with subnormals, as
// emulation libraries do for any format inside binary32. Overflow gives infinity.
inline float round_to(float x, int mantissa, int emin, float largest) {
  const uint32_t bits = bits_of(x), sign = bits & 0x80000000u, magnitude = bits ^ sign;
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  if (exponent == 128) return x;
  float r;
  if (exponent < emin) {
    const float quantum = std::ldexp(1.0f, emin - mantissa);
    r = std::nearbyint(float_of(magnitude) / quantum) * quantum;
  } else {
    const int drop = 23 - mantissa;
    const uint32_t half = (1u << (drop - 1)) - 1 + (magnitude >> drop & 1);
    r = float_of((magnitude + half) >> drop << drop);
  }
  if (r > largest) r = INFINITY;
  return float_of(bits_of(r) | sign);
}

}  // namespace

// c (m x n) = a (m x k) @ b (k x n) with operands and accumulator in one format, in ascending order of k as in numc.
// Every output is a dot product, as in emulation libraries for CPUs.
extern "C" void naive_matmul(const float *a, const float *b, float *c, long m, long n, long k, int mantissa, int emin,
                             float largest) {
  for (long i = 0; i < m; ++i)
    for (long j = 0; j < n; ++j) {
      float sum = 0;
      for (long t = 0; t < k; ++t) sum = round_to(std::fma(a[i * k + t], b[t * n + j], sum), mantissa, emin, largest);
      c[i * n + j] = sum;
    }
}

// The same for bf16 without NaNs, with a loop order and a rounding without branches that a compiler can vectorise.
extern "C" void vectorised_matmul_bf16(const float *a, const float *b, float *c, long m, long n, long k) {
  for (long i = 0; i < m; ++i) {
    float *__restrict row = c + i * n;
    for (long j = 0; j < n; ++j) row[j] = 0;
    for (long t = 0; t < k; ++t) {
      const float x = a[i * k + t];
      for (long j = 0; j < n; ++j) {
        const uint32_t bits = bits_of(std::fma(x, b[t * n + j], row[j]));
        row[j] = float_of((bits + 0x7FFFu + (bits >> 16 & 1)) & 0xFFFF0000u);
      }
    }
  }
}

// The widest vector of the processor that this is compiled for.
#if defined(__AVX512F__)
typedef float vec __attribute__((vector_size(64)));
#else
typedef float vec __attribute__((vector_size(32)));
#endif

// Runs `steps` vector multiply-adds in each of 24 independent chains; returns the number of floating-point operations.
extern "C" double fma_peak(long steps) {
  vec acc[24] = {};
  vec a = {}, b = {};
  asm volatile("" : "+v"(a), "+v"(b));
  for (long i = 0; i < steps; ++i) {
#pragma GCC unroll 24
    for (int j = 0; j < 24; ++j) acc[j] += a * b;
#pragma GCC unroll 24
    for (int j = 0; j < 24; ++j) asm volatile("" : "+v"(acc[j]));
  }
  return static_cast<double>(steps) * 24 * 2 * (sizeof(vec) / sizeof(float));
}
