// Statistics of the operands of contractions: numc_count_values counts elements by exponent and by kind, and
// numc_fp32_chains computes sums in binary32 to compare with. The elements of an operand are at all sums of one offset
// from each of three tables; an element that several sums reach counts once.
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "kernels/generated_abi.hpp"
#include "numc/generated.h"

namespace {

using numc::ValueCounts;
using numc::ValueLimits;

struct Table {
  const int64_t *offsets;  // null stands for 0, 1, 2, ...
  int64_t count, least, range;

  Table(const int64_t *from, int64_t size) : offsets(from), count(size), least(0), range(size - 1) {
    if (from == nullptr || size == 0) return;
    least = from[0];
    int64_t most = from[0];
    for (int64_t i = 1; i < size; ++i) {
      if (from[i] < least) least = from[i];
      if (from[i] > most) most = from[i];
    }
    range = most - least;
  }
  int64_t at(int64_t i) const { return offsets == nullptr ? i : offsets[i] - least; }
};

class Counter {
 public:
  explicit Counter(const ValueLimits &limits)
      : largest_(static_cast<int32_t>(limits.largest)),
        nonzero_{static_cast<int32_t>(limits.nonzero[0]), static_cast<int32_t>(limits.nonzero[1])},
        normal_{static_cast<int32_t>(limits.normal[0]), static_cast<int32_t>(limits.normal[1])} {}

  // Counts `count` elements, at most 64. The first loop has vector instructions and no branch, because nobody can
  // predict the zeros behind a ReLU. Elements that follow each other have different bins in the second one, because the
  // processor would wait for a bin that was written just before.
  void add(const float *data, int64_t count) {
    int32_t magnitudes[64], zeros = 0, infinities = 0, overflows = 0, subnormals = 0, flushed = 0;
    for (int64_t i = 0; i < count; ++i) {
      int32_t bits;
      std::memcpy(&bits, data + i, 4);
      const int32_t magnitude = bits & 0x7fffffff, nonzero = bits < 0 ? nonzero_[1] : nonzero_[0],
                    normal = bits < 0 ? normal_[1] : normal_[0];
      magnitudes[i] = magnitude;
      zeros += magnitude == 0;
      infinities += magnitude == kInfinity;
      overflows += (magnitude > largest_) & (magnitude < kInfinity);
      flushed += (magnitude < nonzero) & (magnitude != 0);
      subnormals += (magnitude >= nonzero) & (magnitude < normal);
    }
    for (int64_t i = 0; i < count; ++i) ++fields_[i & (kLanes - 1)][magnitudes[i] >> 23];
    zeros_ += zeros;
    infinities_ += infinities;
    overflows_ += overflows;
    flushed_ += flushed;
    subnormals_ += subnormals;
    // Subnormal float32 numbers are rare: they are looked for where bin 0 has more than zeros.
    if (fields_[0][0] + fields_[1][0] + fields_[2][0] + fields_[3][0] == zeros_ + tiny_count_) return;
    for (int64_t i = 0; i < count; ++i) {
      if (magnitudes[i] >> 23 != 0 || magnitudes[i] == 0) continue;
      ++tiny_[31 - __builtin_clz(static_cast<uint32_t>(magnitudes[i]))];
      ++tiny_count_;
    }
  }

  void add_to(ValueCounts &out) const {
    for (int64_t e = 0; e < 23; ++e) out.exponents[e] += tiny_[e];
    for (const auto &fields : fields_) {
      for (int64_t field = 1; field < 255; ++field) out.exponents[field - 127 - numc::kLeastExponent] += fields[field];
      out.nans += fields[255];
    }
    out.zeros += zeros_;
    out.infinities += infinities_;
    out.nans -= infinities_;
    out.overflows += overflows_;
    out.subnormals += subnormals_;
    out.flushed += flushed_;
  }

 private:
  static constexpr int64_t kLanes = 4;
  static constexpr int32_t kInfinity = 0x7f800000;

  const int32_t largest_, nonzero_[2], normal_[2];
  int64_t fields_[kLanes][256] = {}, tiny_[23] = {}, tiny_count_ = 0;
  int64_t zeros_ = 0, infinities_ = 0, overflows_ = 0, subnormals_ = 0, flushed_ = 0;
};

void or_shifted(uint64_t *to, const uint64_t *from, int64_t words, int64_t by) {
  to += by >> 6;
  const int64_t shift = by & 63;
  if (shift == 0) {
    for (int64_t i = 0; i < words; ++i) to[i] |= from[i];
    return;
  }
  for (int64_t i = 0; i < words; ++i) {
    to[i] |= from[i] << shift;
    to[i + 1] |= from[i] >> (64 - shift);
  }
}

}  // namespace

extern "C" int32_t numc_count_values(const float *data, const int64_t *const *tables, const int64_t *counts,
                                     const int64_t *limits, int64_t *out) {
  Table t[3] = {{tables[0], counts[0]}, {tables[1], counts[1]}, {tables[2], counts[2]}};
  for (const Table &table : t)
    if (table.count == 0) return 0;
  data += t[0].least + t[1].least + t[2].least;
  // The set of reached elements is a bit map that grows table by table. Ascending ranges keep it small for longest.
  if (t[0].range > t[1].range) std::swap(t[0], t[1]);
  if (t[1].range > t[2].range) std::swap(t[1], t[2]);
  if (t[0].range > t[1].range) std::swap(t[0], t[1]);
  std::unique_ptr<uint64_t[]> set;
  int64_t words = 0, range = 0;
  for (const Table &table : t) {
    range += table.range;
    const int64_t more = (range >> 6) + 1;
    std::unique_ptr<uint64_t[]> sums(new (std::nothrow) uint64_t[static_cast<size_t>(more) + 2]());
    if (sums == nullptr) return -1;
    for (int64_t i = 0; i < table.count; ++i) {
      const int64_t by = table.at(i);
      if (set == nullptr)
        sums[by >> 6] |= uint64_t{1} << (by & 63);
      else
        or_shifted(sums.get(), set.get(), words, by);
    }
    set = std::move(sums);
    words = more;
  }
  Counter counter(*reinterpret_cast<const ValueLimits *>(limits));
  for (int64_t w = 0; w < words; ++w, data += 64) {
    if (set[w] == ~uint64_t{0}) {
      counter.add(data, 64);
      continue;
    }
    float some[64];
    int64_t count = 0;
    for (uint64_t left = set[w]; left != 0; left &= left - 1) some[count++] = data[__builtin_ctzll(left)];
    counter.add(some, count);
  }
  counter.add_to(*reinterpret_cast<ValueCounts *>(out));
  return 0;
}

extern "C" void numc_fp32_chains(const float *a, const float *b, const float *start, int64_t chains, int64_t depth,
                                 float *out) {
  for (int64_t n = 0; n < chains; ++n) {
    float sum = start[n];
    for (int64_t k = 0; k < depth; ++k) sum = std::fma(a[n * depth + k], b[n * depth + k], sum);
    out[n] = sum;
  }
}
