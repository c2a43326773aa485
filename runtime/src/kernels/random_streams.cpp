// numc_stream: the random streams of stochastic rounding, which numerics/reference/random.py defines.
// Generated code asks for a stream once for every execution of an operation, and computes the random bits from it.
#include <new>

#include "numc.h"
#include "numc/generated.h"
#include "execution/run.hpp"

namespace numc {
namespace {

struct Words {
  uint32_t x[4];
};

// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
Words philox(Words counter, uint64_t key) {
  auto low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32);
  uint32_t *const x = counter.x;
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * x[0], second = uint64_t{0xCD9E8D57} * x[2];
    counter = {{static_cast<uint32_t>(second >> 32) ^ x[1] ^ low, static_cast<uint32_t>(second),
                static_cast<uint32_t>(first >> 32) ^ x[3] ^ high, static_cast<uint32_t>(first)}};
    low += 0x9E3779B9, high += 0xBB67AE85;
  }
  return counter;
}

}  // namespace
}  // namespace numc

extern "C" int64_t numc_stream(int64_t operation) {
  numc::Run *const run = numc::current_run;
  if (run == nullptr) numc_fail(-1);  // outside of a run there is no seed
  uint32_t occurrence = 0;
  bool counted = true;
  try {
    occurrence = run->occurrences[operation]++;
  } catch (const std::bad_alloc &) {
    counted = false;  // numc_fail must not jump out of a handler
  }
  if (!counted) numc_fail(NUMC_OUT_OF_MEMORY);
  const numc::Words words =
      numc::philox({{static_cast<uint32_t>(operation), occurrence, static_cast<uint32_t>(run->step),
                     static_cast<uint32_t>(run->step >> 32)}},
                   run->seed);
  return static_cast<int64_t>(uint64_t{words.x[0]} | uint64_t{words.x[1]} << 32);
}
