#include "storage.hpp"

#include <xmmintrin.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "run.hpp"

namespace numc {
namespace {

// Products of sizes out of a damaged file; a flag instead of a wrapped number.
struct Size {
  uint64_t value;
  bool good = true;
  Size operator*(Size other) const {
    Size out{0, good && other.good};
    out.good &= !__builtin_mul_overflow(value, other.value, &out.value);
    return out;
  }
  Size operator+(Size other) const {
    Size out{0, good && other.good};
    out.good &= !__builtin_add_overflow(value, other.value, &out.value);
    return out;
  }
};

uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

// Where the values of one operand go: the same as passes/packing.py's Layout.
struct Panels {
  uint64_t extent, step_words, panels, blocks;
  Size panel_words, batch_words;

  explicit Panels(const Storage &s)
      : extent(s.side == Storage::kRows ? s.count : uint64_t{s.count} * s.width),
        step_words(uint64_t{s.count} * s.width * static_cast<uint64_t>(s.parts)),
        panels(ceil_div(s.size, extent)),
        blocks(ceil_div(s.depth, s.k_block)),
        panel_words(Size{s.side == Storage::kRows ? ceil_div(s.depth, s.width) : s.depth + s.depth % 2} *
                    Size{step_words}),
        batch_words(Size{panels} * panel_words) {}

  Size ranges() const { return Size{panels} * Size{blocks} * Size{2}; }
};

// Fields of `width` bits, one after the other, each from its least significant bit up.
class Fields {
 public:
  Fields(const uint8_t *bytes, uint64_t size, int width)
      : bytes_(bytes), size_(size), width_(static_cast<unsigned>(width)), mask_((uint64_t{1} << width) - 1) {}

  uint32_t operator[](uint64_t index) const {
    const uint64_t bit = index * width_, byte = bit / 8;
    uint64_t word = 0;
    std::memcpy(&word, bytes_ + byte, size_ - byte >= 8 ? 8 : size_ - byte);
    return static_cast<uint32_t>(word >> bit % 8 & mask_);
  }

 private:
  const uint8_t *bytes_;
  uint64_t size_;
  unsigned width_;
  uint64_t mask_;
};

// The bits of the float32 that a code of a format means, as Format.decode in compiler/formats.py.
class Decoder {
 public:
  explicit Decoder(const Storage &s)
      : m_(s.significand_bits),
        sign_(s.exponent_bits + s.significand_bits),
        bias_((1 << (s.exponent_bits - 1)) - 1),
        top_((1u << s.exponent_bits) - 1),
        widen_(23 - s.significand_bits),
        is_wide_(s.exponent_bits == 8 && s.subnormals),
        subnormals_(s.subnormals),
        finite_(s.finite) {}

  uint32_t operator()(uint32_t code) const {
    if (is_wide_) return code << widen_;  // a float32 with fewer significand bits
    const uint32_t sign = code >> sign_ << 31, magnitude = code & ((1u << sign_) - 1);
    const uint32_t field = magnitude >> m_, fraction = magnitude & ((1u << m_) - 1);
    if (field == 0) return sign | (subnormals_ ? subnormal(fraction) : 0);
    if (finite_ ? magnitude == (1u << sign_) - 1 : field == top_) return fraction != 0 || finite_ ? kNan : sign | kInf;
    return sign | (static_cast<uint32_t>(static_cast<int>(field) - bias_ + 127) << 23) | fraction << widen_;
  }

 private:
  static constexpr uint32_t kInf = 0x7f800000, kNan = 0x7fc00000;

  // fraction * 2^(1 - bias - m): with fewer than 8 exponent bits a normal float32.
  uint32_t subnormal(uint32_t fraction) const {
    if (fraction == 0) return 0;
    const int high = 31 - __builtin_clz(fraction), exponent = 1 - bias_ - m_ + high;
    return (static_cast<uint32_t>(exponent + 127) << 23) | (fraction << (23 - high) & 0x7fffff);
  }

  int m_, sign_, bias_;
  uint32_t top_;
  int widen_;
  bool is_wide_, subnormals_, finite_;
};

float as_float(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

uint32_t as_bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}

bool is_finite(uint32_t bits) { return (bits & 0x7f800000) != 0x7f800000; }

// The values of one row: words of all parts as kernels take them, and what they sum up to.
void read_row(const Storage &s, const Fields &fields, const Decoder &decode, uint64_t row, uint32_t *words,
              uint32_t *values) {
  const auto parts = static_cast<uint64_t>(s.parts);
  const uint64_t first = row * s.depth * parts;
  if (parts == 1) {
    for (uint64_t i = 0; i < s.depth; ++i) values[i] = words[i] = decode(fields[first + i]);
    return;
  }
  for (uint64_t i = 0; i < s.depth; ++i) {
    uint32_t *const word = words + i * parts;
    double sum = 0;
    for (uint64_t p = 0; p < parts; ++p) sum += as_float(word[p] = decode(fields[first + i * parts + p]));
    const bool finite = is_finite(word[0]);
    values[i] = finite && word[0] << 1 != 0 ? as_bits(static_cast<float>(sum)) : word[0];
    for (uint64_t p = 1; p < parts && !finite; ++p) word[p] = word[0];  // an infinity is in every part
  }
}

void place(const Storage &s, const Panels &p, const uint32_t *words, uint64_t index, uint32_t *batch) {
  const auto parts = static_cast<uint64_t>(s.parts);
  const uint64_t width = s.width, inside = index % p.extent;
  uint32_t *const panel = batch + index / p.extent * p.panel_words.value;
  if (s.side == Storage::kLanes) {
    uint32_t *const lane = panel + inside / width * parts * width + inside % width;
    for (uint64_t k = 0; k < s.depth; ++k)
      for (uint64_t part = 0; part < parts; ++part)
        lane[k * p.step_words + part * width] = words[k * parts + part];
    return;
  }
  for (uint64_t part = 0; part < parts; ++part) {
    uint32_t *const row = panel + (inside * parts + part) * width;
    for (uint64_t k = 0; k < s.depth; ++k) row[k / width * p.step_words + k % width] = words[k * parts + part];
  }
}

// The default floating-point environment, whatever the caller's is: sums of parts may be subnormal.
class Environment {
 public:
  Environment() : saved_(_mm_getcsr()) { _mm_setcsr(kDefaultMxcsr); }
  ~Environment() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
};

}  // namespace

const char *Storage::check() {
  const bool is_bf16 = exponent_bits == 8 && significand_bits == 7 && subnormals && !finite;
  if (exponent_bits < 2 || exponent_bits > (finite ? 7 : 8) || significand_bits > 23 || parts < 1 ||
      parts > (is_bf16 ? 3 : 1))
    return "is packed in no format";
  if (side > kLanes) return "is packed in no order";
  if (batches == 0 || size == 0 || depth == 0) return "is packed without values";
  const Size values = Size{batches} * Size{size} * Size{depth};
  const Size bits = values * Size{static_cast<uint64_t>(parts * (1 + exponent_bits + significand_bits))};
  Size in_memory = values;
  if (side != kDense) {
    constexpr uint32_t kMost = 64;  // a small file shall not become a huge weight
    if (width == 0 || count == 0 || k_block == 0 || width > kMost || count > kMost) return "is packed in no panels";
    const Panels p(*this);
    in_memory = Size{batches} * (p.batch_words + p.ranges());
  }
  in_memory = in_memory * Size{4};
  if (!bits.good || !in_memory.good) return "is packed with impossible sizes";
  stored_bytes = ceil_div(bits.value, 8);
  words = in_memory.value / 4;
  return nullptr;
}

void expand(const Storage &s, const uint8_t *stored, float *out) {
  const Environment environment;
  const Fields fields(stored, s.stored_bytes, 1 + s.exponent_bits + s.significand_bits);
  const Decoder decode(s);
  std::vector<uint32_t> words(s.depth * static_cast<uint64_t>(s.parts)), values(s.depth);
  if (s.side == Storage::kDense) {
    for (uint64_t row = 0; row < s.batches * s.size; ++row) {
      read_row(s, fields, decode, row, words.data(), values.data());
      std::memcpy(out + row * s.depth, values.data(), s.depth * 4);
    }
    return;
  }
  const Panels p(s);
  auto *const target = reinterpret_cast<uint32_t *>(out);
  uint32_t *const ranges = target + s.batches * p.batch_words.value;
  std::memset(target, 0, s.words * 4);
  // The guards' data: the smallest non-zero magnitude less one and the largest one of every panel and block of k.
  for (uint64_t i = 0; i < s.batches * p.panels * p.blocks; ++i) ranges[2 * i] = 0xffffffff;
  for (uint64_t row = 0; row < s.batches * s.size; ++row) {
    const uint64_t batch = row / s.size, index = row % s.size;
    read_row(s, fields, decode, row, words.data(), values.data());
    place(s, p, words.data(), index, target + batch * p.batch_words.value);
    uint32_t *range = ranges + 2 * (batch * p.panels + index / p.extent) * p.blocks;
    for (uint64_t k = 0; k < s.depth; range += 2) {
      const uint64_t end = s.depth - k < s.k_block ? s.depth : k + s.k_block;
      for (; k < end; ++k) {
        const uint32_t magnitude = values[k] & 0x7fffffff;
        if (magnitude - 1 < range[0]) range[0] = magnitude - 1;
        if (magnitude > range[1]) range[1] = magnitude;
      }
    }
  }
}

}  // namespace numc
