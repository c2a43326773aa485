// numc_largest: the largest magnitude of a tensor, which gives block floating point and integer formats their scale.
#include <atomic>

#include "numc.h"
#include "numc/generated.h"
#include "execution/run.hpp"
#include "machine/vectors.hpp"

namespace {

constexpr int64_t kPiece = 1 << 15;  // elements that one task looks at
constexpr int32_t kInfinity = 0x7f800000;

struct Scan {
  const float *data;
  int64_t outer;                          // how many dimensions there are outside of the runs
  int64_t sizes[NUMC_MAX_RANK], strides[NUMC_MAX_RANK];
  int64_t length, stride, pieces;         // of a run: its elements, the distance between them, its tasks
  bool finite;
  std::atomic<int32_t> largest{0};
};

int32_t magnitude(const float *x, bool finite) {
  int32_t bits;
  __builtin_memcpy(&bits, x, 4);
  bits &= 0x7fffffff;
  return finite && bits >= kInfinity ? 0 : bits;
}

int32_t strided(const float *x, int64_t stride, int64_t count, bool finite) {
  int32_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t m = magnitude(x + i * stride, finite);
    if (m > most) most = m;
  }
  return most;
}

// For numbers that need not be finite, the limit excludes only the NaN with the largest encoding; any other NaN gives the
// same scale.
int32_t adjacent(const float *x, int64_t count, bool finite) {
  return numc::machine::vectorised([&]() NUMC_INLINED {
    const int32_t limit = finite ? kInfinity : 0x7fffffff;
    int32_t most = 0;
    for (int64_t i = 0; i < count; ++i) {
      int32_t bits;
      __builtin_memcpy(&bits, x + i, 4);
      bits &= 0x7fffffff;
      bits = bits < limit ? bits : 0;
      most = most > bits ? most : bits;
    }
    return most;
  });
}

void search(void *context, int64_t begin, int64_t end) {
  Scan &scan = *static_cast<Scan *>(context);
  int32_t most = 0;
  for (int64_t task = begin; task < end; ++task) {
    const float *x = scan.data;
    int64_t rest = task / scan.pieces;
    for (int64_t d = scan.outer - 1; d >= 0; --d) {
      x += rest % scan.sizes[d] * scan.strides[d];
      rest /= scan.sizes[d];
    }
    const int64_t start = task % scan.pieces * kPiece;
    const int64_t count = scan.length - start < kPiece ? scan.length - start : kPiece;
    x += start * scan.stride;
    const int32_t found =
        scan.stride == 1 ? adjacent(x, count, scan.finite) : strided(x, scan.stride, count, scan.finite);
    if (found > most) most = found;
  }
  int32_t before = scan.largest.load(std::memory_order_relaxed);
  while (before < most && !scan.largest.compare_exchange_weak(before, most, std::memory_order_relaxed)) {
  }
}

}  // namespace

extern "C" int32_t numc_largest(const float *data, int64_t rank, const int64_t *sizes, int32_t finite) {
  const int64_t *const strides = sizes + rank;
  Scan scan{};
  scan.data = data, scan.finite = finite != 0, scan.length = 1, scan.stride = 1, scan.pieces = 1;
  int64_t total = 1;
  for (int64_t d = 0; d < rank; ++d) {
    if (sizes[d] == 0) return 0;
    if (sizes[d] == 1 || strides[d] == 0) continue;
    int64_t stride = strides[d];
    if (stride < 0) scan.data += (sizes[d] - 1) * stride, stride = -stride;
    // Sort the dimensions by descending stride, so that adjacent elements come last in any layout.
    int64_t at = scan.outer++;
    for (; at > 0 && scan.strides[at - 1] < stride; --at)
      scan.sizes[at] = scan.sizes[at - 1], scan.strides[at] = scan.strides[at - 1];
    scan.sizes[at] = sizes[d], scan.strides[at] = stride;
    total *= sizes[d];
  }
  if (scan.outer > 0) {
    scan.length = scan.sizes[--scan.outer], scan.stride = scan.strides[scan.outer];
    while (scan.outer > 0 && scan.strides[scan.outer - 1] == scan.length * scan.stride)
      scan.length *= scan.sizes[--scan.outer];
  }
  scan.pieces = (scan.length + kPiece - 1) / kPiece;
  const int64_t tasks = total / scan.length * scan.pieces;
  if (total < 2 * kPiece)
    search(&scan, 0, tasks);
  else
    numc_parallel(search, &scan, tasks, -1);
  return scan.largest.load();
}
