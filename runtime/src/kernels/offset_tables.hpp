// Tables of offsets: where the elements of an operand are in memory, for the kernels that read them.
#pragma once

#include <cstdint>

namespace numc {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Dimensions of a contraction that are counted together: all batches, all rows, all lanes or all steps of k. They are
// numbered in row-major order.
struct Dimensions {
  const int64_t *sizes;
  int64_t rank;    // how many dimensions there are
  int64_t offset;  // the number of the first among all dimensions of the contraction
  int64_t count;   // the product of the sizes
};

// Hands out parts of one allocation, which its owner has made large enough.
struct Arena {
  explicit Arena(int64_t *memory) : next(memory) {}
  int64_t *take(int64_t words) { return (next += words) - words; }

  int64_t *next;

  // The first tables in it. Operands with the same offsets share one: to write one for a thousand lanes takes half a
  // microsecond, in which only one thread works.
  struct Made {
    Dimensions dimensions;
    const int64_t *strides, *offsets;
  };
  static constexpr int kMost = 16;
  Made made[kMost];
  int tables = 0;
};

// The elements that these dimensions reach lie in runs of `length`, and in a run they are `stride` apart.
struct Runs {
  int64_t length, stride;
};
Runs runs(const Dimensions &dimensions, const int64_t *strides);

// The offset of every element that the dimensions reach, given the strides of all dimensions of the contraction.
const int64_t *table(Arena &arena, const Dimensions &dimensions, const int64_t *strides);

// The same in memory of its own, with zeros behind it up to a multiple of `round`: kernels read whole panels.
const int64_t *padded_table(Arena &arena, const Dimensions &dimensions, const int64_t *strides, int64_t round);

// How kernels read vectors whose elements are not adjacent (passes/kernels/packing/segments.py).
struct Segments {
  const int64_t *first;   // the number of the first segment of every vector, and behind the last vector of the end
  const int64_t *offset;  // of lane 0 of the vector, if that were part of the segment
  const int64_t *mask;    // the lanes that the segment supplies
};

// Cuts the vectors of a table into segments of adjacent elements. Where elements are two apart (a convolution of stride
// 2) and there are few segments, the mask has a bit for every element of the range, and the flag kEveryOther. If lanes
// are to be 3 or 4 `apart`, every mask is such a one, without a flag. Vectors are counted up to a multiple of `round`;
// those behind the last element have no segments.
Segments segments(Arena &arena, const int64_t *offsets, int64_t count, const Runs &runs, int64_t apart, int64_t width,
                  int64_t round);

}  // namespace numc
