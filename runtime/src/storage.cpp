#include "storage.hpp"

#include <xmmintrin.h>

#include <algorithm>
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

// Fields of whole bits, each from its least significant bit up.
class Fields {
 public:
  Fields(const uint8_t *bytes, uint64_t size) : bytes_(bytes), size_(size) {}

  // The `width` bits, at most 32, from `bit` on.
  uint32_t operator()(uint64_t bit, int width) const {
    const uint64_t byte = bit / 8;
    uint64_t word = 0;
    std::memcpy(&word, bytes_ + byte, size_ - byte >= 8 ? 8 : size_ - byte);
    return static_cast<uint32_t>(word >> bit % 8 & ((uint64_t{1} << width) - 1));
  }

 private:
  const uint8_t *bytes_;
  uint64_t size_;
};

constexpr uint32_t kInf = 0x7f800000, kNan = 0x7fc00000;

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

int32_t two_s_complement(uint32_t code, int width) {
  return static_cast<int32_t>(code) - static_cast<int32_t>(code >> (width - 1) << width);
}

constexpr int kChunk = 2, kScaleBits = 8, kScaleBias = 127;  // as in compiler/grouped.py

int chunks(const Storage &s) { return (s.significand_bits + kChunk - 1) / kChunk; }

int element_bits(const Storage &s) { return 1 + (s.exponent_bits > 1 ? s.exponent_bits : 1) + s.significand_bits; }

uint64_t group_bits(const Storage &s, uint64_t size) {
  if (s.kind == Storage::kMx) return kScaleBits + size * static_cast<uint64_t>(element_bits(s));
  return static_cast<uint64_t>(chunks(s)) * (static_cast<uint64_t>(s.exponent_bits) + size * (1 + kChunk));
}

// Cuts a value of `magnitude` times 2^exponent into parts of two magnitude bits each, the most significant first; the
// signs of zeros come out as subtractions leave them.
void cut(const Storage &s, float value, uint32_t magnitude, int exponent, uint32_t *parts) {
  float rest = value;
  for (int n = 1; n < s.parts; ++n) {
    const int dropped = s.significand_bits - n * kChunk;
    const double leading = std::ldexp(magnitude >> dropped << dropped, exponent);
    const float part = std::copysign(static_cast<float>(leading), value) - (value - rest);
    parts[n - 1] = as_bits(part);
    rest -= part;
  }
  parts[s.parts - 1] = as_bits(rest);
}

// Block floating point: chunks of two magnitude bits, each with the exponent and all signs.
void read_bfp(const Storage &s, const Fields &fields, uint64_t bit, uint64_t size, uint32_t *words, uint32_t *values) {
  const uint32_t window = (1u << s.exponent_bits) - 1, code = fields(bit, s.exponent_bits);
  uint32_t any = 0;
  for (int chunk = 0; chunk < chunks(s); ++chunk) {
    bit += static_cast<uint64_t>(s.exponent_bits);
    for (uint64_t i = 0; i < size; ++i, bit += 1 + kChunk) {
      const uint32_t field = fields(bit, 1 + kChunk), magnitude = field & ((1u << kChunk) - 1);
      const uint32_t before = chunk == 0 ? 0 : values[i] << kChunk & 0x7fffffff;
      values[i] = field >> kChunk << 31 | before | magnitude;
      any |= magnitude;
    }
  }
  const int spare = chunks(s) * kChunk - s.significand_bits;
  const int exponent = static_cast<int>(code) + s.top - static_cast<int>(window) - (s.significand_bits - 1);
  for (uint64_t i = 0; i < size; ++i) {
    const uint32_t magnitude = (values[i] & 0x7fffffff) >> spare;
    const uint32_t bits = as_bits(static_cast<float>(std::ldexp(magnitude, exponent)));
    values[i] = code == window && any == 0 ? kNan : (values[i] & 0x80000000) | bits;
    if (s.parts > 1)
      cut(s, as_float(values[i]), magnitude, exponent, words + i * static_cast<uint64_t>(s.parts));
    else
      words[i] = values[i];
  }
}

// Microscaling: a power of two, then elements, which have neither infinities nor NaN where numc.pack wrote them.
void read_mx(const Storage &s, const Fields &fields, uint64_t bit, uint64_t size, uint32_t *words, uint32_t *values) {
  const uint32_t code = fields(bit, kScaleBits);
  bit += kScaleBits;
  const int width = element_bits(s), scale = static_cast<int>(code) - kScaleBias - s.significand_bits;
  const int bias = s.exponent_bits > 0 ? (1 << (s.exponent_bits - 1)) - 1 : 0;
  for (uint64_t i = 0; i < size; ++i, bit += static_cast<uint64_t>(width)) {
    const uint32_t element = fields(bit, width);
    double value;
    if (s.exponent_bits == 0) {
      value = std::ldexp(two_s_complement(element, width), scale);
    } else {
      const uint32_t field = element >> s.significand_bits & ((1u << s.exponent_bits) - 1);
      const uint32_t fraction = element & ((1u << s.significand_bits) - 1);
      const uint32_t units = fraction + (field != 0 ? 1u << s.significand_bits : 0);
      value = std::ldexp(units, static_cast<int>(field != 0 ? field : 1) - bias + scale);
      if (element >> (width - 1) != 0) value = -value;
    }
    values[i] = words[i] = code == (1u << kScaleBits) - 1 ? kNan : as_bits(static_cast<float>(value));
  }
}

// The values of one row: words of all parts as kernels take them, and what they sum up to.
void read_row(const Storage &s, const Fields &fields, const Decoder &decode, uint64_t row, uint32_t *words,
              uint32_t *values) {
  uint64_t bit = row * s.row_bits;
  const auto parts = static_cast<uint64_t>(s.parts);
  if (s.kind == Storage::kBfp || s.kind == Storage::kMx) {
    for (uint64_t k = 0; k < s.depth; k += s.group) {
      const uint64_t size = s.depth - k < s.group ? s.depth - k : s.group;
      (s.kind == Storage::kBfp ? read_bfp : read_mx)(s, fields, bit, size, words + k * parts, values + k);
      bit += group_bits(s, size);
    }
    return;
  }
  if (s.kind == Storage::kInt) {
    for (uint64_t i = 0; i < s.depth; ++i, bit += static_cast<uint64_t>(s.significand_bits)) {
      const int32_t q = two_s_complement(fields(bit, s.significand_bits), s.significand_bits);
      values[i] = words[i] = as_bits(static_cast<float>(q));
    }
    return;
  }
  const int width = 1 + s.exponent_bits + s.significand_bits;
  const auto step = static_cast<uint64_t>(width);
  if (parts == 1) {
    for (uint64_t i = 0; i < s.depth; ++i, bit += step) values[i] = words[i] = decode(fields(bit, width));
    return;
  }
  for (uint64_t i = 0; i < s.depth; ++i) {
    uint32_t *const word = words + i * parts;
    double sum = 0;
    for (uint64_t p = 0; p < parts; ++p, bit += step) sum += as_float(word[p] = decode(fields(bit, width)));
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
    uint32_t *row = panel + (inside * parts + part) * width;
    for (uint64_t k = 0; k < s.depth; row += p.step_words) {
      const uint64_t some = s.depth - k < width ? s.depth - k : width;
      for (uint64_t i = 0; i < some; ++i, ++k) row[i] = words[k * parts + part];
    }
  }
}

// The bits of a row, or 0 where no format has such sizes.
Size bits_of_row(const Storage &s) {
  const int e = s.exponent_bits, m = s.significand_bits;
  const bool is_bf16 = e == 8 && m == 7 && s.subnormals && !s.finite;
  const bool grouped = s.kind == Storage::kBfp || s.kind == Storage::kMx;
  const int most = s.kind == Storage::kBfp ? chunks(s) : s.kind == Storage::kFloat && is_bf16 ? 3 : 1;
  if (s.parts < 1 || s.parts > most) return {0};
  if ((s.group != 0) != grouped) return {0};
  if (s.kind == Storage::kFloat) {
    if (e < 2 || e > (s.finite ? 7 : 8) || m > 23) return {0};
    return Size{s.depth} * Size{static_cast<uint64_t>(s.parts * (1 + e + m))};
  }
  if (s.kind == Storage::kInt) return Size{m < 2 || m > 16 ? 0 : s.depth} * Size{static_cast<uint64_t>(m)};
  if (s.kind == Storage::kMx && (e > 8 || m > 15)) return {0};
  if (s.kind == Storage::kBfp && (e < 1 || e > 8 || m < 1 || m > 23 || s.top < -1023 || s.top > 1023)) return {0};
  const uint64_t rest = s.depth % s.group;  // both factors are small: no overflow in group_bits
  return Size{s.depth / s.group} * Size{group_bits(s, s.group)} + Size{rest == 0 ? 0 : group_bits(s, rest)};
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
  if (batches == 0 || size == 0 || depth == 0) return "is packed without values";
  const Size row = bits_of_row(*this);
  if (row.good && row.value == 0) return "is packed in no format";
  const Size values = Size{batches} * Size{size} * Size{depth};
  const Size bits = Size{batches} * Size{size} * row;
  Size in_memory = values;
  if (side != kDense) {
    constexpr uint32_t kMost = 64;  // a small file shall not become a huge weight
    if (width == 0 || count == 0 || k_block == 0 || width > kMost || count > kMost) return "is packed in no panels";
    const Panels p(*this);
    in_memory = Size{batches} * (p.batch_words + p.ranges()) + Size{last.size()};
  }
  in_memory = in_memory * Size{4};
  if (!bits.good || !in_memory.good) return "is packed with impossible sizes";
  row_bits = row.value;
  stored_bytes = ceil_div(bits.value, 8);
  words = in_memory.value / 4;
  return nullptr;
}

void expand(const Storage &s, const uint8_t *stored, float *out) {
  const Environment environment;
  const Fields fields(stored, s.stored_bytes);
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
  // The guards' data: the smallest non-zero magnitude less one and the largest one of every panel and block of k. They
  // are magnitudes of values, but of parts where these are cut from a magnitude.
  const bool cut_up = s.kind == Storage::kBfp && s.parts > 1;
  const uint64_t step = cut_up ? static_cast<uint64_t>(s.parts) : 1;
  const uint32_t *const guarded = cut_up ? words.data() : values.data();
  for (uint64_t i = 0; i < s.batches * p.panels * p.blocks; ++i) ranges[2 * i] = 0xffffffff;
  std::copy(s.last.begin(), s.last.end(), target + s.words - s.last.size());
  for (uint64_t row = 0; row < s.batches * s.size; ++row) {
    const uint64_t batch = row / s.size, index = row % s.size;
    read_row(s, fields, decode, row, words.data(), values.data());
    place(s, p, words.data(), index, target + batch * p.batch_words.value);
    uint32_t *range = ranges + 2 * (batch * p.panels + index / p.extent) * p.blocks;
    for (uint64_t k = 0; k < s.depth; range += 2) {
      const uint64_t end = s.depth - k < s.k_block ? s.depth : k + s.k_block;
      for (k *= step; k < end * step; ++k) {
        const uint32_t magnitude = guarded[k] & 0x7fffffff;
        if (magnitude - 1 < range[0]) range[0] = magnitude - 1;
        if (magnitude > range[1]) range[1] = magnitude;
      }
      k = end;
    }
  }
}

}  // namespace numc
