#include "program/storage.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "execution/run.hpp"
#include "machine/environment.hpp"

namespace numc {
namespace {

// A product or sum of sizes from a file that may be damaged. `good` is false if it overflowed.
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

// The layout of a packed operand in memory, as class Layout in passes/kernels/packing/layout.py defines it.
struct Panels {
  uint64_t extent, step_words, panels;
  Size panel_words, batch_words;

  explicit Panels(const Storage &s)
      : extent(s.side == Storage::kRows ? s.count : uint64_t{s.count} * s.width),
        step_words(uint64_t{s.count} * s.width * static_cast<uint64_t>(s.parts)),
        panels(ceil_div(s.size, extent)),
        panel_words(steps(s) * Size{step_words}),
        batch_words(Size{panels} * panel_words) {}

  // Vectors along k in one block of an operand of the lanes. The units of groups follow the words of integers, then, of
  // 8-bit integers, what sums of products with them begin with.
  static uint64_t block_steps(const Storage &s, uint64_t depth) {
    const uint64_t groups = ceil_div(depth, s.group != 0 ? s.group : s.k_block);
    return word_steps(s, depth) + (s.dot != 0 && s.group != 0 ? groups : 0) + (s.dot == 4 ? groups : 0);
  }

  // The steps of such a block: of words, or of numbers with padding.
  static uint64_t word_steps(const Storage &s, uint64_t depth) {
    return s.dot != 0 ? ceil_div(depth, s.dot) : ceil_div(depth, 2) * 2;
  }

 private:
  static Size steps(const Storage &s) {
    if (s.side == Storage::kRows) return {ceil_div(s.depth, s.width)};
    return Size{s.depth / s.k_block} * Size{block_steps(s, s.k_block)} + Size{block_steps(s, s.depth % s.k_block)};
  }
};

// Reads fields of any number of bits from bytes. Fields begin with their least significant bit.
class Fields {
 public:
  Fields(const uint8_t *bytes, uint64_t size) : bytes_(bytes), size_(size) {}

  // The field of `width` bits, at most 32, that begins at bit number `bit`.
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

// Decodes one code of a floating-point format to the bits of a float32, as Format.decode in
// numerics/formats.py does.
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
    if (is_wide_) return code << widen_;  // the format is float32 with fewer significand bits
    const uint32_t sign = code >> sign_ << 31, magnitude = code & ((1u << sign_) - 1);
    const uint32_t field = magnitude >> m_, fraction = magnitude & ((1u << m_) - 1);
    if (field == 0) return sign | (subnormals_ ? subnormal(fraction) : 0);
    if (finite_ ? magnitude == (1u << sign_) - 1 : field == top_) return fraction != 0 || finite_ ? kNan : sign | kInf;
    return sign | (static_cast<uint32_t>(static_cast<int>(field) - bias_ + 127) << 23) | fraction << widen_;
  }

 private:
  // fraction * 2^(1 - bias - m), which is a normal number of float32 if the format has fewer than 8 exponent bits.
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

constexpr int kChunk = 2, kScaleBits = 8, kScaleBias = 127;  // as in numerics/groups.py

int chunks(const Storage &s) { return (s.significand_bits + kChunk - 1) / kChunk; }

int element_bits(const Storage &s) { return 1 + (s.exponent_bits > 1 ? s.exponent_bits : 1) + s.significand_bits; }

uint64_t group_bits(const Storage &s, uint64_t size) {
  if (s.kind == Storage::kListed)
    return static_cast<uint64_t>(s.exponent_bits) + size * static_cast<uint64_t>(s.significand_bits);
  if (s.kind == Storage::kMx) return kScaleBits + size * static_cast<uint64_t>(element_bits(s));
  return static_cast<uint64_t>(chunks(s)) * (static_cast<uint64_t>(s.exponent_bits) + size * (1 + kChunk));
}

// Cuts a value, whose magnitude is `magnitude` times 2^exponent, into parts of two bits of the magnitude each, the most
// significant part first. A part that is zero has the sign that the subtractions give it.
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

// The unit of a group: all of its values are integer multiples of this.
float unit_of(int exponent, bool is_nan) {
  return is_nan ? as_float(kNan) : static_cast<float>(std::ldexp(1.0, exponent < -149 ? -149 : exponent));
}

// Reads one group of block floating point. Its magnitudes are stored in chunks of two bits, each chunk with the
// exponent and all signs.
void read_bfp(const Storage &s, const Fields &fields, uint64_t bit, uint64_t size, uint32_t *words, float &unit) {
  const uint32_t window = (1u << s.exponent_bits) - 1, code = fields(bit, s.exponent_bits);
  const auto parts = static_cast<uint64_t>(s.parts);
  uint32_t any = 0;
  for (int chunk = 0; chunk < chunks(s); ++chunk) {
    bit += static_cast<uint64_t>(s.exponent_bits);
    for (uint64_t i = 0; i < size; ++i, bit += 1 + kChunk) {
      const uint32_t field = fields(bit, 1 + kChunk), magnitude = field & ((1u << kChunk) - 1);
      uint32_t &word = words[i * parts];
      word = field >> kChunk << 31 | (chunk == 0 ? 0 : word << kChunk & 0x7fffffff) | magnitude;
      any |= magnitude;
    }
  }
  const int spare = chunks(s) * kChunk - s.significand_bits;
  const int exponent = static_cast<int>(code) + s.top - static_cast<int>(window) - (s.significand_bits - 1);
  const bool is_nan = code == window && any == 0;
  unit = unit_of(exponent, is_nan);
  for (uint64_t i = 0; i < size; ++i) {
    uint32_t *const word = words + i * parts;
    const uint32_t magnitude = (*word & 0x7fffffff) >> spare;
    const uint32_t bits = as_bits(static_cast<float>(std::ldexp(magnitude, exponent)));
    *word = is_nan ? kNan : (*word & 0x80000000) | bits;
    if (parts > 1) cut(s, as_float(*word), magnitude, exponent, word);
  }
}

// Reads one microscaling group: a scale, which is a power of two, then the elements. numc.pack writes no infinities and
// no NaNs as elements.
void read_mx(const Storage &s, const Fields &fields, uint64_t bit, uint64_t size, uint32_t *words, float &unit) {
  const uint32_t code = fields(bit, kScaleBits);
  bit += kScaleBits;
  const int width = element_bits(s), scale = static_cast<int>(code) - kScaleBias - s.significand_bits;
  const int bias = s.exponent_bits > 0 ? (1 << (s.exponent_bits - 1)) - 1 : 1;
  const bool is_nan = code == (1u << kScaleBits) - 1;
  unit = unit_of(scale + 1 - bias, is_nan);
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
    words[i] = is_nan ? kNan : as_bits(static_cast<float>(value));
  }
}

// Reads codes that are places in a list of values; groups begin with the float32 number that theirs are multiplied by.
void read_listed(const Storage &s, const Fields &fields, const float *list, uint64_t bit, uint32_t *words) {
  const auto width = static_cast<uint64_t>(s.significand_bits);
  float factor = 1;
  for (uint64_t k = 0; k < s.depth; ++k, bit += width) {
    if (s.group != 0 && k % s.group == 0) {
      factor = as_float(fields(bit, 32));
      bit += 32;
    }
    const float value = list[fields(bit, s.significand_bits)];
    words[k] = as_bits(s.group != 0 ? value * factor : value);
  }
}

// Reads one row or lane: its values, in parts as kernels use them, and the units of its groups.
void read_row(const Storage &s, const Fields &fields, const Decoder &decode, const float *list, uint64_t row,
              uint32_t *words, float *units) {
  uint64_t bit = row * s.row_bits;
  const auto parts = static_cast<uint64_t>(s.parts);
  if (s.kind == Storage::kListed) {
    read_listed(s, fields, list, bit, words);
    return;
  }
  if (s.kind == Storage::kBfp || s.kind == Storage::kMx) {
    for (uint64_t k = 0; k < s.depth; k += s.group) {
      const uint64_t size = s.depth - k < s.group ? s.depth - k : s.group;
      (s.kind == Storage::kBfp ? read_bfp : read_mx)(s, fields, bit, size, words + k * parts, *units++);
      bit += group_bits(s, size);
    }
    return;
  }
  if (s.kind == Storage::kInt) {
    for (uint64_t i = 0; i < s.depth; ++i, bit += static_cast<uint64_t>(s.significand_bits)) {
      const int32_t q = two_s_complement(fields(bit, s.significand_bits), s.significand_bits);
      words[i] = as_bits(static_cast<float>(q));
    }
    return;
  }
  const int width = 1 + s.exponent_bits + s.significand_bits;
  const auto step = static_cast<uint64_t>(width);
  for (uint64_t i = 0; i < s.depth * parts; ++i, bit += step) words[i] = decode(fields(bit, width));
  if (parts == 1) return;
  for (uint32_t *word = words; word != words + s.depth * parts; word += parts)
    if (!is_finite(word[0])) std::fill(word + 1, word + parts, word[0]);  // every part of an infinity or a NaN is that
}

// The value of a number in parts (bf16xN): their sum.
uint32_t sum(const uint32_t *parts, uint64_t count) {
  if (count == 1 || !is_finite(parts[0]) || parts[0] << 1 == 0) return parts[0];
  double total = 0;
  for (uint64_t p = 0; p < count; ++p) total += as_float(parts[p]);
  return as_bits(static_cast<float>(total));
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

// The bits that one row or lane takes in the file, or 0 if no format has such sizes.
Size bits_of_row(const Storage &s) {
  const int e = s.exponent_bits, m = s.significand_bits;
  // Each part has subnormals and infinities, and all of them but the last have fewer bits than float32.
  const bool adds = m > 0 && s.subnormals && !s.finite && (s.parts - 1) * (m + 1) < 24;
  if (s.kind == Storage::kListed && (m < 1 || m > 8 || e != (s.group != 0 ? 32 : 0))) return {0};
  const bool grouped =
      s.kind == Storage::kBfp || s.kind == Storage::kMx || (s.kind == Storage::kListed && s.group != 0);
  const int most = s.kind == Storage::kBfp ? chunks(s) : s.kind == Storage::kFloat && adds ? 3 : 1;
  if (s.parts < 1 || s.parts > most) return {0};
  if ((s.group != 0) != grouped) return {0};
  if (s.kind == Storage::kFloat) {
    if (e < 2 || e > (s.finite ? 7 : 8) || m > 23) return {0};
    return Size{s.depth} * Size{static_cast<uint64_t>(s.parts * (1 + e + m))};
  }
  if (s.kind == Storage::kListed && s.group == 0) return Size{s.depth} * Size{static_cast<uint64_t>(m)};
  if (s.kind == Storage::kInt) return Size{m < 2 || m > 16 ? 0 : s.depth} * Size{static_cast<uint64_t>(m)};
  if (s.kind == Storage::kMx && (e > 8 || m > 15)) return {0};
  if (s.kind == Storage::kBfp && (e < 1 || e > 8 || m < 1 || m > 23 || s.top < -1023 || s.top > 1023)) return {0};
  const uint64_t rest = s.depth % s.group;  // smaller than a group, so group_bits does not overflow
  return Size{s.depth / s.group} * Size{group_bits(s, s.group)} + Size{rest == 0 ? 0 : group_bits(s, rest)};
}

// Places one row or lane in a panel of words of two or four integers, with the units of groups if there are any, or of
// two bfloat16 codes.
void place_words(const Storage &s, const Panels &p, const uint32_t *words, const float *units, uint64_t index,
                 uint32_t *batch) {
  constexpr int32_t kOffset = 128;  // of the 8-bit integers of rows, which are unsigned
  const uint64_t width = s.width, inside = index % p.extent, dot = s.dot;
  const int bits = static_cast<int>(32 / dot);
  uint32_t *const panel = batch + index / p.extent * p.panel_words.value;
  const auto integer = [&](uint64_t k) {
    if (s.kind == Storage::kFloat) return static_cast<int32_t>(words[k] >> 16);
    const double units_there = as_float(words[k]) / (s.group != 0 ? units[k / s.group] : 1);
    return std::abs(units_there) < 1 << (bits - 1) ? static_cast<int32_t>(units_there) : 0;
  };
  const auto put = [&](uint32_t &word, uint64_t place, int32_t value) {
    const uint32_t mask = (1u << bits) - 1, shift = static_cast<uint32_t>(place) * static_cast<uint32_t>(bits);
    word = (word & ~(mask << shift)) | (static_cast<uint32_t>(value) & mask) << shift;
  };
  if (s.side == Storage::kRows) {
    for (uint64_t k = 0; k < s.depth; ++k) {
      uint32_t *const slot = panel + k / width * p.step_words + inside * width;
      put(slot[k % width / dot], k % dot, integer(k) + (dot == 4 ? kOffset : 0));
      if (s.group != 0 && k % s.group == 0) slot[width / 2 + k % width / s.group] = as_bits(units[k / s.group]);
    }
    return;
  }
  uint32_t *block = panel + inside;
  for (uint64_t start = 0; start < s.depth; start += s.k_block) {
    const uint64_t depth = s.depth - start < s.k_block ? s.depth - start : s.k_block;
    for (uint64_t k = 0; k < depth; ++k) put(block[k / dot * p.step_words], k % dot, integer(start + k));
    block += Panels::word_steps(s, depth) * p.step_words;
    for (uint64_t k = 0; s.group != 0 && k < depth; k += s.group, block += p.step_words)
      *block = as_bits(units[(start + k) / s.group]);
    const uint64_t group = s.group != 0 ? s.group : s.k_block;
    for (uint64_t first = 0; dot == 4 && first < depth; first += group, block += p.step_words) {
      int32_t sum = 0;
      for (uint64_t k = first; k < depth && k < first + group; ++k) sum += integer(start + k);
      *block = static_cast<uint32_t>(-kOffset * sum);
    }
  }
}

}  // namespace

const char *Storage::check() {
  if (batches == 0 || size == 0 || depth == 0) return "is packed without values";
  const Size row = bits_of_row(*this);
  if (row.good && row.value == 0) return "is packed in no format";
  const Size values = Size{batches} * Size{size} * Size{depth};
  const Size bits = Size{batches} * Size{size} * row;
  Size in_memory = values;
  if (side != kDense) {
    constexpr uint32_t kMost = 64;  // bounds the padding: a small file must not become a huge weight
    if (width == 0 || count == 0 || k_block == 0 || width > kMost || count > kMost) return "is packed in no panels";
    // Half of a vector of words has room for units of two steps each, and a block of lanes holds whole groups. With
    // more steps, the sums of groups would leave 32 bits.
    const bool is_bf16 = dot == 2 && exponent_bits == 8 && significand_bits == 7;
    const bool fits = (dot == 2 || dot == 4) && kind != kListed && (kind != kFloat || is_bf16) && parts == 1 && width % dot == 0 &&
                      k_block % dot == 0 && k_block <= 1u << 16 &&
                      (group == 0 || (k_block % group == 0 && (group > 1 || side == kLanes)));
    if (dot != 0 && !fits) return "is packed in no panels";
    in_memory = Size{batches} * Panels(*this).batch_words + Size{tail};
  }
  in_memory = in_memory * Size{4};
  if (!bits.good || !in_memory.good) return "is packed with impossible sizes";
  row_bits = row.value;
  listed = kind == kListed ? uint64_t{1} << significand_bits : 0;
  stored_bytes = ceil_div(bits.value, 8) + (listed + tail) * 4;
  words = in_memory.value / 4;
  return nullptr;
}

void expand(const Storage &s, const uint8_t *stored, float *out) {
  const machine::DefaultEnvironment environment;  // sums of parts may be subnormal
  const uint64_t tail = uint64_t{s.tail} * 4;
  const uint64_t list_at = s.stored_bytes - tail - s.listed * 4;
  const Fields fields(stored, list_at);
  std::vector<float> list(s.listed);
  if (!list.empty()) std::memcpy(list.data(), stored + list_at, s.listed * 4);
  const Decoder decode(s);
  const auto parts = static_cast<uint64_t>(s.parts);
  std::vector<uint32_t> words(s.depth * parts);
  std::vector<float> units(s.group == 0 ? 0 : ceil_div(s.depth, s.group));
  auto *const target = reinterpret_cast<uint32_t *>(out);
  if (s.side == Storage::kDense) {
    for (uint64_t row = 0; row < s.batches * s.size; ++row) {
      read_row(s, fields, decode, list.data(), row, words.data(), units.data());
      for (uint64_t i = 0; i < s.depth; ++i) target[row * s.depth + i] = sum(words.data() + i * parts, parts);
    }
    return;
  }
  const Panels p(s);
  std::memset(target, 0, s.words * 4);
  for (uint64_t row = 0; row < s.batches * s.size; ++row) {
    uint32_t *const batch = target + row / s.size * p.batch_words.value;
    read_row(s, fields, decode, list.data(), row, words.data(), units.data());
    if (s.dot != 0)
      place_words(s, p, words.data(), units.data(), row % s.size, batch);
    else
      place(s, p, words.data(), row % s.size, batch);
  }
  std::memcpy(target + s.words - s.tail, stored + s.stored_bytes - tail, tail);
}

}  // namespace numc
