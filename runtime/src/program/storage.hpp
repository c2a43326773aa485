// Weights that a program file holds in the bytes of their number format (numc.pack, docs/arithmetic.md) and that become
// float32 when the program is loaded: the values in C order, or in the panels that kernels read (passes/kernels/packing/layout.py).
#pragma once

#include <cstddef>
#include <cstdint>

namespace numc {

// What is behind the name of such a weight in the abi section; runtime/storage.py writes it.
//
//   u8 kind, u8 exponent bits, u8 significand bits, u8 1 if there are subnormals, u8 1 if there are no infinities,
//   u8 parts, u32 group, i32 top, u8 side, u64 batches, u64 rows or lanes, u64 k
//   of panels: u32 width, u32 rows or vectors of a panel, u32 block of k, u8 1 if they hold pairs, u32 tail
//
// Groups run along k. What a kind does not need is 0. `tail` numbers of 32 bits, which are behind the panels in memory
// (the guards' data), follow the values as they are.
struct Storage {
  // Codes of a float format, or of its parts; bfp (significand: of the magnitude; top: the largest exponent of the
  // tensor; parts: into how many a magnitude is cut in memory); mx (no exponent bits: two's complement); two's complement integers of `significand_bits` bits.
  enum Kind : uint8_t { kFloat, kBfp, kMx, kInt };
  enum Side : uint8_t { kDense, kRows, kLanes };

  Kind kind = kFloat;
  int exponent_bits = 0, significand_bits = 0, parts = 0;
  bool subnormals = false, finite = false;
  uint32_t group = 0;
  int32_t top = 0;
  Side side = kDense;
  uint64_t batches = 0, size = 0, depth = 0;
  uint32_t width = 0, count = 0, k_block = 0, tail = 0;
  bool pairs = false;  // 16-bit integers, and the units of groups

  // Checks what was read, and computes the sizes. Returns what is wrong, or NULL.
  const char *check();

  uint64_t row_bits = 0, stored_bytes = 0;  // in the file: one row or lane, all of them
  uint64_t words = 0;                       // float32 numbers in memory
};

// Writes `words` float32 numbers to `out` from `stored_bytes` at `stored`.
void expand(const Storage &storage, const uint8_t *stored, float *out);

}  // namespace numc
