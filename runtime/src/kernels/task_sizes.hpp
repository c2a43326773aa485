// How much one task of a contraction computes.
#pragma once

#include <cstdint>

namespace numc {

// A task keeps its accumulators in this many float32 numbers, and packs at most this many rows at a time.
constexpr int64_t kTileWords = 1 << 16, kPackedRows = 256;
// What has fewer multiplications than this is done before another thread has woken up.
constexpr int64_t kSmall = 1 << 17;

}  // namespace numc
