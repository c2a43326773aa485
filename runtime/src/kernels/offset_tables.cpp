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

constexpr int64_t kShared = 16384;  // elements of the tables below

// The table of adjacent elements, which most operands share.
struct Identity {
  int64_t offsets[kShared];
  constexpr Identity() : offsets() {
    for (int64_t i = 0; i < kShared; ++i) offsets[i] = i;
  }
};
constexpr Identity identity;

// The table of one element for all, such as a bias along pixels. Nobody writes to it.
int64_t zeros[kShared];

// The table of another operand with the same offsets, or null.
const int64_t *find(const Arena &arena, const Dimensions &dimensions, const int64_t *strides) {
  for (int n = 0; n < arena.tables; ++n) {
    const auto &[other, of_other, offsets] = arena.made[n];
    bool same = other.offset == dimensions.offset && other.rank == dimensions.rank;
    for (int64_t d = dimensions.offset; same && d < dimensions.offset + dimensions.rank; ++d)
      same = strides[d] == of_other[d] || dimensions.sizes[d - dimensions.offset] == 1;
    if (same) return offsets;
  }
  return nullptr;
}

void shift(const int64_t *__restrict from, int64_t *__restrict to, int64_t count, int64_t by) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] + by;
}

}  // namespace

const int64_t *table(Arena &arena, const Dimensions &dimensions, const int64_t *strides) {
  const Runs run = runs(dimensions, strides);
  if (run.length == dimensions.count && dimensions.count <= kShared) {
    if (run.stride == 1) return identity.offsets;
    if (run.stride == 0) return zeros;
  }
  if (const int64_t *const found = find(arena, dimensions, strides)) return found;
  int64_t *const out = arena.take(dimensions.count);
  if (dimensions.count == 0) return out;
  if (arena.tables < Arena::kMost) arena.made[arena.tables++] = {dimensions, strides, out};
  out[0] = 0;
  int64_t inner = 1;
  for (int64_t d = dimensions.rank - 1; d >= 0; --d) {
    const int64_t size = dimensions.sizes[d], stride = strides[dimensions.offset + d];
    for (int64_t filled = 1; filled < size; filled *= 2) {
      const int64_t more = filled < size - filled ? filled : size - filled;
      shift(out, out + filled * inner, more * inner, filled * stride);
    }
    inner *= size;
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

Segments segments(Arena &arena, const int64_t *offsets, int64_t count, const Runs &run, int64_t apart, int64_t width,
                  int64_t round) {
  const int64_t vectors = ceil_div(ceil_div(count, width), round) * round;
  int64_t *const firsts = arena.take(vectors + 1), *const starts = arena.take(count), *const masks = arena.take(count);
  int64_t n = 0, left = run.length;  // elements of the run, from i on; divisions would take most of the time
  for (int64_t v = 0; v < vectors; ++v) {
    firsts[v] = n;
    const int64_t begin = v * width, end = begin + width < count ? begin + width : count;
    const bool few = begin + left + (kMostStridedSegments - 1) * run.length >= end;
    const int64_t stride = run.stride == apart && (apart > 2 || few) ? apart : 1;
    for (int64_t i = begin, j; i < end; i = j) {
      j = run.stride != stride ? i + 1 : i + left < end ? i + left : end;
      left = j - i < left ? left - (j - i) : run.length;
      starts[n] = offsets[i] - (i - begin) * (apart > 2 ? apart : stride);
      int64_t bits = ((int64_t{1} << (j - i)) - 1) << (i - begin);
      if (apart > 2 || stride == 2) {
        bits = apart == 2 ? kEveryOther : 0;
        for (int64_t lane = i - begin; lane < j - begin; ++lane) bits |= int64_t{1} << lane * apart;
      }
      masks[n++] = bits;
    }
  }
  firsts[vectors] = n;
  return {firsts, starts, masks};
}

}  // namespace numc
