#include "kernels/offset_tables.hpp"

#include "kernels/generated_abi.hpp"

namespace numc {

Runs runs(const Dimensions &dimensions, const int64_t *strides) {
  strides += dimensions.offset;
  Runs found{1, 1};
  for (int64_t d = dimensions.rank - 1; d >= 0; --d) {
    if (dimensions.sizes[d] == 1) continue;
    if (found.length == 1) found.stride = strides[d];
    if (strides[d] != found.length * found.stride) break;
    found.length *= dimensions.sizes[d];
  }
  return found;
}

namespace {

constexpr int64_t kIdentity = 16384;  // elements of the table below

// The table of adjacent elements, which most operands share.
struct Identity {
  int64_t offsets[kIdentity];
  constexpr Identity() : offsets() {
    for (int64_t i = 0; i < kIdentity; ++i) offsets[i] = i;
  }
};
constexpr Identity identity;

}  // namespace

const int64_t *table(Arena &arena, const Dimensions &dimensions, const int64_t *strides) {
  const Runs run = runs(dimensions, strides);
  if (run.stride == 1 && run.length == dimensions.count && dimensions.count <= kIdentity) return identity.offsets;
  int64_t *const out = arena.take(dimensions.count);
  if (dimensions.count == 0) return out;
  strides += dimensions.offset;
  out[0] = 0;
  int64_t filled = 1, d = dimensions.rank - 1;
  if (d >= 0) {
    const int64_t size = dimensions.sizes[d];
    for (; filled < size; filled *= 2) {
      const int64_t more = filled < size - filled ? filled : size - filled, step = filled * strides[d];
      for (int64_t i = 0; i < more; ++i) out[filled + i] = out[i] + step;
    }
    filled = size, --d;
  }
  for (; d >= 0; --d) {
    int64_t *to = out + filled;
    for (int64_t i = 1; i < dimensions.sizes[d]; ++i)
      for (int64_t j = 0; j < filled; ++j) *to++ = out[j] + i * strides[d];
    filled *= dimensions.sizes[d];
  }
  return out;
}

const int64_t *padded_table(Arena &arena, const Dimensions &dimensions, const int64_t *strides, int64_t round) {
  const int64_t *const from = table(arena, dimensions, strides);
  const int64_t size = ceil_div(dimensions.count, round) * round;
  int64_t *const out = arena.take(size);
  for (int64_t i = 0; i < size; ++i) out[i] = i < dimensions.count ? from[i] : 0;
  return out;
}

Segments segments(Arena &arena, const int64_t *offsets, int64_t count, const Runs &run, int64_t width, int64_t round) {
  const int64_t vectors = ceil_div(ceil_div(count, width), round) * round;
  int64_t *const firsts = arena.take(vectors + 1), *const starts = arena.take(count), *const masks = arena.take(count);
  int64_t n = 0;
  for (int64_t v = 0; v < vectors; ++v) {
    firsts[v] = n;
    const int64_t begin = v * width, end = begin + width < count ? begin + width : count;
    if (begin >= end) continue;
    const int64_t pieces = (end - 1) / run.length - begin / run.length + 1;
    const int64_t stride = run.stride == 2 && pieces <= kMostStridedSegments ? 2 : 1;
    const int64_t length = run.stride == stride ? run.length : 1;
    for (int64_t i = begin, j; i < end; i = j) {
      j = i + length - i % length;
      if (j > end) j = end;
      starts[n] = offsets[i] - (i - begin) * stride;
      int64_t bits = ((int64_t{1} << (j - i)) - 1) << (i - begin);
      if (stride == 2) {
        bits = kEveryOther;
        for (int64_t lane = i - begin; lane < j - begin; ++lane) bits |= int64_t{1} << lane * 2;
      }
      masks[n++] = bits;
    }
  }
  firsts[vectors] = n;
  return {firsts, starts, masks};
}

}  // namespace numc
