// Bernoulli masks that are the ones of torch on processors other than Intel's: an element is 1 if the low 53 bits of two
// outputs of MT19937 (Matsumoto and Nishimura 1998), the first above the second, are below p 2^53.
#include <cmath>
#include <cstdint>
#include <cstring>

#include "machine/vectors.hpp"
#include "numc.h"
#include "numc/host.h"

namespace {

constexpr int kWords = 624, kMiddle = 397;

// The first bytes of what torch.get_rng_state() returns.
struct State {
  uint64_t seed;
  int32_t left, seeded;
  uint64_t next;
  uint64_t words[kWords];
};

struct Draws {
  uint32_t words[kWords];
  uint32_t outputs[kWords + 1];  // behind the last one of the words before
};

NUMC_INLINE uint32_t twisted(uint32_t u, uint32_t v) {
  return (((u & 0x80000000u) | (v & 0x7fffffffu)) >> 1) ^ (-(v & 1u) & 0x9908b0dfu);
}

NUMC_INLINE void twist(uint32_t *words) {
  for (int i = 0; i < kWords - kMiddle; ++i) words[i] = words[i + kMiddle] ^ twisted(words[i], words[i + 1]);
  for (int i = kWords - kMiddle; i < kWords - 1; ++i)
    words[i] = words[i + kMiddle - kWords] ^ twisted(words[i], words[i + 1]);
  words[kWords - 1] = words[kMiddle - 1] ^ twisted(words[kWords - 1], words[0]);
}

NUMC_INLINE void temper(const uint32_t *words, uint32_t *outputs) {
  for (int i = 0; i < kWords; ++i) {
    uint32_t y = words[i];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    outputs[i] = y ^ (y >> 18);
  }
}

template <typename T>
NUMC_INLINE void compare(const uint32_t *outputs, int64_t limit, T *out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t pair;
    std::memcpy(&pair, outputs + 2 * i, 8);
    const auto turned = static_cast<uint64_t>(pair) << 32 | static_cast<uint64_t>(pair) >> 32;
    out[i] = static_cast<int64_t>(turned & ((uint64_t{1} << 53) - 1)) < limit ? T{1} : T{0};
  }
}

// Draws `n` elements; `next` is the place of the next output among those of `draws.words`. Returns that behind the last.
template <typename T>
NUMC_INLINE int64_t draw(Draws &draws, int64_t next, int64_t limit, T *out, int64_t n) {
  uint32_t *const outputs = draws.outputs + 1;
  temper(draws.words, outputs);
  while (n > 0) {
    const int64_t whole = (kWords - next) / 2, count = whole < n ? whole : n;
    compare(outputs + next, limit, out, count);
    next += 2 * count;
    out += count;
    n -= count;
    if (n == 0) break;
    draws.outputs[0] = outputs[kWords - 1];  // the first half of a pair, if one is left
    next -= kWords;
    twist(draws.words);
    temper(draws.words, outputs);
  }
  return next;
}

template <typename T>
int64_t draw_fast(Draws &draws, int64_t next, int64_t limit, T *out, int64_t n) {
  return numc::machine::vectorised([&]() NUMC_INLINED { return draw(draws, next, limit, out, n); });
}

}  // namespace

extern "C" int32_t numc_bernoulli(void *state, double p, int32_t dtype, void *out, int64_t n) {
  if (state == nullptr || (out == nullptr && n > 0)) return NUMC_BAD_INPUT;
  State s;
  std::memcpy(&s, state, sizeof s);
  // The state before the first output is that behind the last output of words that nobody needs.
  const bool fresh = s.left == 1 && s.next == 0;
  const int64_t next = fresh ? kWords : static_cast<int64_t>(s.next);
  const bool valid = fresh || (next >= 0 && next <= kWords && s.left == kWords + 1 - next);
  if (!(p >= 0 && p <= 1) || n < 0 || (dtype != NUMC_F32 && dtype != NUMC_I1) || s.seeded != 1 || !valid)
    return NUMC_BAD_INPUT;
  if (n == 0) return NUMC_OK;
  Draws draws;
  for (int i = 0; i < kWords; ++i) draws.words[i] = static_cast<uint32_t>(s.words[i]);
  // Below p is the same as below it 2^53 times: the product is exact.
  const auto limit = static_cast<int64_t>(std::ceil(std::ldexp(p, 53)));
  const int64_t end = dtype == NUMC_F32 ? draw_fast(draws, next, limit, static_cast<float *>(out), n)
                                        : draw_fast(draws, next, limit, static_cast<uint8_t *>(out), n);
  s.left = static_cast<int32_t>(kWords + 1 - end);
  s.next = static_cast<uint64_t>(end);
  for (int i = 0; i < kWords; ++i) s.words[i] = draws.words[i];
  std::memcpy(state, &s, sizeof s);
  return NUMC_OK;
}
