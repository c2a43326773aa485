// Weights that a program file holds in the bytes of their number format (numc.pack, docs/arithmetic.md) and that become
// float32 when the program is loaded: the values in C order, or in the panels that kernels read (passes/packing.py).
#pragma once

#include <cstddef>
#include <cstdint>

namespace numc {

// What is behind the name of such a weight in the abi section; runtime/storage.py writes it.
//
//   u8 encoding: 0, codes of a float format or of its parts, then
//     u8 exponent bits, u8 significand bits, u8 1 if there are subnormals, u8 1 if there are no infinities, u8 parts
//   u8 side: 0 values in C order, 1 panels of rows, 2 panels of lanes; u64 batches, u64 rows or lanes, u64 k
//   of panels: u32 width, u32 rows or vectors of a panel, u32 block of k
struct Storage {
  enum Side : uint8_t { kDense, kRows, kLanes };

  int exponent_bits = 0, significand_bits = 0, parts = 0;
  bool subnormals = false, finite = false;
  Side side = kDense;
  uint64_t batches = 0, size = 0, depth = 0;
  uint32_t width = 0, count = 0, k_block = 0;

  // Checks what was read, and computes the two sizes. Returns what is wrong, or NULL.
  const char *check();

  uint64_t stored_bytes = 0, words = 0;  // in the file; float32 numbers in memory
};

// Writes `words` float32 numbers to `out` from `stored_bytes` at `stored`.
void expand(const Storage &storage, const uint8_t *stored, float *out);

}  // namespace numc
