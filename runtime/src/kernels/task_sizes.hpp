// How much one task of a contraction computes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "execution/run.hpp"

namespace numc {

// A task keeps its accumulators in this many float32 numbers, and packs at most this many rows at a time.
constexpr int64_t kTileWords = 1 << 16, kPackedRows = 256;
// A thread joins in for so many multiplications: it does fewer of them in less time than it takes to join and to leave.
constexpr int64_t kSmall = 1 << 17;

// How many threads are worth their while for so many multiplications.
inline int64_t threads_for(int64_t fmas) {
  return fmas < kSmall ? 1 : std::min(1 + fmas / kSmall, parallel_threads());
}

}  // namespace numc
