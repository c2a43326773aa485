#include "program/container.hpp"

#include <array>
#include <cstring>

#include "error.hpp"
#include "numc.h"

namespace numc {
namespace {

constexpr char kMagic[8] = {'N', 'U', 'M', 'C', '\r', '\n', '\x1a', '\n'};
constexpr uint32_t kVersion = 7, kAbiVersion = 5, kMaxSections = 64;
constexpr size_t kPage = 4096, kHeader = 64, kEntry = 48, kName = 24, kChecksumAt = 24;
static_assert(kHeader + kMaxSections * kEntry <= kMaxHead);

struct DtypeRow {
  const char *name;
  size_t size;
};
constexpr DtypeRow kDtypes[] = {{"float32", 4},       {"float64", 8},      {"bool", 1},
                                {"int8", 1},          {"int16", 2},        {"int32", 4},
                                {"int64", 8},         {"uint8", 1},        {"bfloat16", 2},
                                {"float16", 2},       {"float8_e4m3fn", 1}, {"float8_e5m2", 1},
                                {"uint16", 2},        {"uint32", 4},       {"uint64", 8},
                                {"int4", 1},          {"uint4", 1},        {"int2", 1},
                                {"uint2", 1},         {"float8_e4m3fnuz", 1}, {"float8_e5m2fnuz", 1},
                                {"float8_e8m0fnu", 1}, {"float4_e2m1fn", 1}};
constexpr int32_t kDtypeCount = sizeof kDtypes / sizeof *kDtypes;

[[noreturn]] void damaged(const std::string &what) { throw Error("damaged program file (" + what + ")"); }

// Reads numbers and strings from a span one after the other. Throws Error instead of reading beyond its end.
class Cursor {
 public:
  Cursor(Span span, const char *what) : span_(span), what_(what) {}

  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }

  std::string text() {
    const auto size = number<uint32_t>();
    return {reinterpret_cast<const char *>(take(size)), size};
  }

  bool at_end() const { return span_.size == 0; }

 private:
  const uint8_t *take(size_t size) {
    if (size > span_.size) damaged(std::string(what_) + " ends early");
    const uint8_t *at = span_.data;
    span_.data += size;
    span_.size -= size;
    return at;
  }

  Span span_;
  const char *what_;
};

const std::array<std::array<uint32_t, 256>, 8> &crc_tables() {
  static const auto tables = [] {
    std::array<std::array<uint32_t, 256>, 8> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = (c >> 1) ^ ((c & 1) != 0 ? 0xedb88320u : 0u);
      t[0][i] = c;
    }
    for (size_t k = 1; k < 8; ++k)
      for (size_t i = 0; i < 256; ++i) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xff];
    return t;
  }();
  return tables;
}

// Returns what is wrong with the record, or null.
const char *read_storage(Cursor &cursor, Storage &s) {
  s.kind = static_cast<Storage::Kind>(cursor.number<uint8_t>());
  if (s.kind > Storage::kListed) return "is packed in an encoding that this runtime does not know";
  s.exponent_bits = cursor.number<uint8_t>();
  s.significand_bits = cursor.number<uint8_t>();
  s.subnormals = cursor.number<uint8_t>() != 0;
  s.finite = cursor.number<uint8_t>() != 0;
  s.parts = cursor.number<uint8_t>();
  s.group = cursor.number<uint32_t>();
  s.top = cursor.number<int32_t>();
  s.side = static_cast<Storage::Side>(cursor.number<uint8_t>());
  if (s.side > Storage::kLanes) return "is packed in no order";
  s.batches = cursor.number<uint64_t>();
  s.size = cursor.number<uint64_t>();
  s.depth = cursor.number<uint64_t>();
  if (s.side != Storage::kDense) {
    s.width = cursor.number<uint32_t>();
    s.count = cursor.number<uint32_t>();
    s.k_block = cursor.number<uint32_t>();
    s.dot = cursor.number<uint8_t>();
    s.tail = cursor.number<uint32_t>();
  }
  return s.check();
}

Value read_value(Cursor &cursor, bool argument) {
  Value value;
  const auto kind = cursor.number<uint8_t>();
  value.dtype = cursor.number<uint8_t>();
  const auto rank = cursor.number<uint8_t>();
  cursor.number<uint8_t>();
  if (kind > (argument ? 2 : 0)) damaged("argument kind " + std::to_string(kind));
  value.weight = kind != 0;
  if (value.dtype >= kDtypeCount) damaged("dtype " + std::to_string(value.dtype));
  if (rank > NUMC_MAX_RANK) damaged("rank " + std::to_string(rank));
  uint64_t bytes = item_size(value.dtype);
  bool overflow = false;
  for (unsigned d = 0; d < rank; ++d) {
    const auto dim = cursor.number<int64_t>();
    if (dim < (value.weight ? 0 : -1)) damaged("dimension " + std::to_string(dim));
    if (dim >= 0) overflow |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes);
    value.dims.push_back(dim);
  }
  if (argument) {
    value.offset = cursor.number<uint64_t>();
    value.bytes = cursor.number<uint64_t>();
    if (value.weight && (overflow || (kind == 1 && value.bytes != bytes)))
      damaged("a weight's size is not its shape's");
  }
  value.name = cursor.text();
  if (kind == 2) {
    value.storage.emplace();
    const char *const wrong = read_storage(cursor, *value.storage);
    const std::string who = "weight '" + value.name + "' ";
    if (wrong != nullptr) damaged(who + wrong);
    if (value.dtype != NUMC_F32 || value.storage->words * 4 != bytes || value.storage->stored_bytes != value.bytes)
      damaged(who + "is not packed in the bytes that its shape takes");
  }
  return value;
}

SizeSymbol read_symbol(Cursor &cursor, const std::vector<const Value *> &inputs) {
  SizeSymbol symbol;
  symbol.name = cursor.text();
  symbol.least = cursor.number<int64_t>();
  symbol.most = cursor.number<int64_t>();
  for (auto places = cursor.number<uint32_t>(); places > 0; --places) {
    const auto input = cursor.number<uint32_t>(), dimension = cursor.number<uint32_t>();
    if (input >= inputs.size() || dimension >= inputs[input]->dims.size())
      damaged("size '" + symbol.name + "' is of no input");
    symbol.places.push_back({input, dimension});
  }
  return symbol;
}

WidthRange read_width(Cursor &cursor) {
  WidthRange width;
  width.layer = cursor.text();
  width.operand = cursor.text();
  for (int32_t *const range : {width.exponent, width.significand}) {
    for (int n = 0; n < 2; ++n) range[n] = static_cast<int32_t>(cursor.number<uint32_t>());
    if (range[0] < 1 || range[0] > range[1] || range[1] > 23) damaged("widths of layer '" + width.layer + "'");
  }
  return width;
}

}  // namespace

size_t item_size(int32_t dtype) { return kDtypes[dtype].size; }

size_t bytes_of(const numc_tensor &tensor) {
  size_t bytes = item_size(tensor.dtype);
  for (int32_t d = 0; d < tensor.rank; ++d) bytes *= static_cast<size_t>(tensor.dims[d]);
  return bytes;
}

const char *dtype_name(int32_t dtype) { return dtype >= 0 && dtype < kDtypeCount ? kDtypes[dtype].name : "unknown"; }

uint32_t crc32(uint32_t seed, const uint8_t *bytes, size_t size) {
  const auto &t = crc_tables();
  uint32_t c = ~seed;
  for (; size >= 8; size -= 8, bytes += 8) {
    uint32_t low, high;
    std::memcpy(&low, bytes, 4);
    std::memcpy(&high, bytes + 4, 4);
    low ^= c;
    c = t[7][low & 0xff] ^ t[6][(low >> 8) & 0xff] ^ t[5][(low >> 16) & 0xff] ^ t[4][low >> 24] ^
        t[3][high & 0xff] ^ t[2][(high >> 8) & 0xff] ^ t[1][(high >> 16) & 0xff] ^ t[0][high >> 24];
  }
  for (; size > 0; --size, ++bytes) c = (c >> 8) ^ t[0][(c ^ *bytes) & 0xff];
  return ~c;
}

size_t weights_begin(Span head, size_t size) {
  constexpr char kWeights[kName] = "weights";
  for (size_t at = kHeader; at + kEntry <= head.size; at += kEntry) {
    if (std::memcmp(head.data + at, kWeights, kName) != 0) continue;
    uint64_t offset;
    std::memcpy(&offset, head.data + at + kName, sizeof offset);
    if (offset <= size && offset % kPage == 0) return offset;
  }
  return size;
}

Container read_container(Span bytes) {
  if (bytes.size < kHeader || std::memcmp(bytes.data, kMagic, sizeof kMagic) != 0) {
    if (bytes.size >= 4 && std::memcmp(bytes.data, kMagic, 4) == 0)
      damaged("header; was it transferred as text, or cut off?");
    throw Error("not a numc program file");
  }
  Cursor header({bytes.data + 8, kHeader - 8}, "header");
  const auto version = header.number<uint32_t>();
  if (version != kVersion)
    throw Error("program file of version " + std::to_string(version) + ", this runtime reads version " +
                std::to_string(kVersion) + ": compile it again");
  const auto count = header.number<uint32_t>();
  const auto file_size = header.number<uint64_t>();
  const auto checksum = header.number<uint32_t>();
  if (file_size != bytes.size)
    damaged("got " + std::to_string(bytes.size) + " bytes of " + std::to_string(file_size));
  if (count > kMaxSections || kHeader + count * kEntry > bytes.size) damaged("section table");
  uint8_t first[kHeader];
  std::memcpy(first, bytes.data, kHeader);
  std::memset(first + kChecksumAt, 0, 4);
  if (crc32(crc32(0, first, kHeader), bytes.data + kHeader, count * kEntry) != checksum)
    damaged("checksum of the header");
  Container container;
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t *entry = bytes.data + kHeader + i * kEntry;
    const std::string name(reinterpret_cast<const char *>(entry),
                           strnlen(reinterpret_cast<const char *>(entry), kName));
    Cursor cursor({entry + kName, kEntry - kName}, "section table");
    const auto offset = cursor.number<uint64_t>(), size = cursor.number<uint64_t>();
    const auto sum = cursor.number<uint32_t>(), summed = cursor.number<uint32_t>();
    if (offset > bytes.size || size > bytes.size - offset) damaged("section " + name);
    const Span span{bytes.data + offset, size};
    Span *const place = name == "abi"         ? &container.abi
                        : name == "code"      ? &container.code
                        : name == "weights"   ? &container.weights
                        : name == "signature" ? &container.signature
                                              : nullptr;
    if (place == nullptr) continue;
    if (summed != 0 && crc32(0, span.data, span.size) != sum) damaged("checksum of section " + name);
    *place = span;
  }
  if (container.abi.data == nullptr || container.code.data == nullptr) damaged("no abi or code section");
  return container;
}

Storage read_storage(Span bytes) {
  Cursor cursor(bytes, "storage");
  Storage storage;
  const char *const wrong = read_storage(cursor, storage);
  if (wrong != nullptr) throw Error(std::string("a weight ") + wrong);
  return storage;
}

Abi read_abi(Span bytes) {
  Cursor cursor(bytes, "abi section");
  Abi abi;
  const auto version = cursor.number<uint32_t>();
  if (version != kAbiVersion)
    throw Error("abi section of version " + std::to_string(version) + ", this runtime reads version " +
                std::to_string(kAbiVersion) + ": compile it again");
  abi.features = cursor.number<uint64_t>();
  abi.entry = cursor.text();
  abi.target = cursor.text();
  const auto arguments = cursor.number<uint32_t>(), results = cursor.number<uint32_t>();
  for (uint32_t i = 0; i < arguments; ++i) abi.arguments.push_back(read_value(cursor, true));
  for (uint32_t i = 0; i < results; ++i) abi.results.push_back(read_value(cursor, false));
  abi.updated.assign(results, -1);
  std::vector<const Value *> inputs;
  for (const auto &argument : abi.arguments)
    if (!argument.weight) inputs.push_back(&argument);
  for (auto updates = cursor.number<uint32_t>(); updates > 0; --updates) {
    const auto result = cursor.number<uint32_t>(), input = cursor.number<uint32_t>();
    if (result >= results || input >= inputs.size() || abi.results[result].dtype != inputs[input]->dtype ||
        abi.results[result].dims != inputs[input]->dims)
      damaged("a result cannot take the memory of an input");
    abi.updated[result] = input;
  }
  for (auto symbols = cursor.number<uint32_t>(); symbols > 0; --symbols)
    abi.symbols.push_back(read_symbol(cursor, inputs));
  for (auto widths = cursor.number<uint32_t>(); widths > 0; --widths) abi.widths.push_back(read_width(cursor));
  if (!cursor.at_end()) damaged("abi section is too long");
  return abi;
}

}  // namespace numc
