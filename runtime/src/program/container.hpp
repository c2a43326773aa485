// The program file: a table of named sections. The same layout is written by runtime/container.py.
//
//   header (64 bytes): magic "NUMC\r\n\x1a\n", u32 version, u32 section count, u64 file size,
//                      u32 crc32 of header (this field 0) and table, zeros
//   table (48 bytes each): name[24], u64 offset, u64 size, u32 crc32, u32 1 if the crc32 is checked (weights: 0)
//   sections: abi (what this file describes), code (ELF object), weights (page-aligned, each weight 64-byte aligned),
//             manifest (JSON), ir (zlib), signature (optional: ed25519 of all bytes before it): only Python reads these
//
// abi: u32 3, u64 CPU features, str entry, str target, u32 arguments, u32 results, then
//   argument: u8 kind (0 input, 1 weight, 2 weight in the bytes of its format), u8 dtype, u8 rank, u8 0, i64 dims[rank],
//             u64 offset, u64 bytes, str name, and for kind 2 how it is stored (storage.hpp)
//   result: u8 0, u8 dtype, u8 rank, u8 0, i64 dims[rank], str name
//   u32 updates, then of each result that may take the memory of an input: u32 result, u32 input
//   u32 symbols, then of each: str name, i64 least, i64 most, u32 places, then u32 input, u32 dimension of each
//   u32 widths, then of each that a run chooses: str layer, str operand, u32 least and u32 most exponent bits, the same
//   of significand bits
// where str is u32 length and UTF-8 bytes. All numbers are little endian and unaligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "numc.h"
#include "program/storage.hpp"

namespace numc {

struct Value {
  bool weight = false;
  int32_t dtype = 0;
  std::vector<int64_t> dims;  // -1: the caller chooses the size
  std::string name;
  uint64_t offset = 0, bytes = 0;  // of a weight: where it lies in the weights section
  std::optional<Storage> storage;  // of a weight in the bytes of its number format
};

// A size that inputs have in common, with its limits.
struct SizeSymbol {
  struct Place {
    uint32_t input, dimension;
  };
  std::string name;
  int64_t least = 0, most = 0;
  std::vector<Place> places;
};

// The widths of the format of an operand, which every run chooses.
struct WidthRange {
  std::string layer, operand;
  int32_t exponent[2], significand[2];  // the least and the most
};

// Widths as generated code takes them.
inline int64_t packed(numc_width width) { return int64_t{width.exponent} << 32 | width.significand; }

struct Abi {
  uint64_t features = 0;
  std::string entry, target;
  std::vector<Value> arguments, results;
  std::vector<int64_t> updated;  // of each result: the number of the input that it may overwrite, or -1
  std::vector<SizeSymbol> symbols;
  std::vector<WidthRange> widths;
};

struct Span {
  const uint8_t *data = nullptr;
  size_t size = 0;
};

struct Container {
  Span abi, code, weights, signature;  // the last one is empty in a file that is not signed
};

// The longest header and table that there can be.
constexpr size_t kMaxHead = 4096;
// Where the weights begin, given the first kMaxHead bytes of a file of `size` bytes, or fewer if it is shorter. It is
// `size` for weights that cannot be mapped, and for a damaged file, which read_container finds.
size_t weights_begin(Span head, size_t size);

// All of these throw Error if the bytes are damaged or incomplete. The spans point into `bytes`.
Container read_container(Span bytes);
Abi read_abi(Span bytes);
Storage read_storage(Span bytes);

size_t item_size(int32_t dtype);
size_t bytes_of(const numc_tensor &tensor);
const char *dtype_name(int32_t dtype);
uint32_t crc32(uint32_t seed, const uint8_t *bytes, size_t size);

}  // namespace numc
