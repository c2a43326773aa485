// Weights that a program file holds in the bytes of their number format (numc.pack, docs/arithmetic.md). Loading the
// program expands them to float32, in C order or in the panels that kernels read (passes/kernels/packing/layout.py).
#pragma once

#include <cstddef>
#include <cstdint>

namespace numc {

// How one such weight is stored. The record follows its name in the abi section; runtime/storage.py writes it.
//
//   u8 kind, u8 exponent bits, u8 significand bits, u8 1 if there are subnormals, u8 1 if there are no infinities,
//   u8 parts, u32 group, i32 top, u8 side, u64 batches, u64 rows or lanes, u64 k
//   of panels: u32 width, u32 rows or vectors of a panel, u32 block of k, u8 dot, u32 tail
//
// Groups are along k. Fields that a kind does not need are 0. `tail` numbers of 32 bits, which lie behind the panels in
// memory (the data of guards), follow the values unchanged.
struct Storage {
  // kFloat: codes of a floating-point format, or of its parts. kBfp: block floating point; the significand bits are
  // those of a magnitude, `top` is the largest exponent of the tensor, and `parts` says into how many a magnitude is
  // cut in memory. kMx: microscaling; without exponent bits its elements are integers in two's complement. kInt:
  // integers of `significand_bits` bits in two's complement. kListed: codes of `significand_bits` bits, places in a list
  // of float32 numbers that follows the values; groups begin with 32 `exponent_bits`, a number that theirs are multiplied
  // by.
  enum Kind : uint8_t { kFloat, kBfp, kMx, kInt, kListed };
  enum Side : uint8_t { kDense, kRows, kLanes };

  Kind kind = kFloat;
  int exponent_bits = 0, significand_bits = 0, parts = 0;
  bool subnormals = false, finite = false;
  uint32_t group = 0;
  int32_t top = 0;
  Side side = kDense;
  uint64_t batches = 0, size = 0, depth = 0;
  uint32_t width = 0, count = 0, k_block = 0, tail = 0;
  // Panels hold words of so many integers (2 or 4) with the units of groups, or of 2 bfloat16 codes; 0: float32 numbers.
  uint8_t dot = 0;

  // Checks the record and computes the sizes below. Returns what is wrong, or null.
  const char *check();

  uint64_t row_bits = 0, stored_bytes = 0;  // in the file: of one row or lane, of the whole weight
  uint64_t listed = 0;                      // numbers in the list of values
  uint64_t words = 0;                       // in memory: how many float32 numbers
};

// Expands the `stored_bytes` bytes at `stored` to `words` float32 numbers at `out`.
void expand(const Storage &storage, const uint8_t *stored, float *out);

}  // namespace numc
