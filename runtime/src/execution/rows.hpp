// A chain of contractions and loops that is computed by rows: every step of it computes some rows before any step
// computes the next ones, so that what lies between two steps stays in the cache of a core, and only as much of it
// exists as those rows. Generated code calls numc_rows_begin, then the functions of the steps, which are noted down
// instead of being run, then numc_rows_end, which runs them (passes/rows/by_rows.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace numc {

struct TaskContext;

// What the steps of the open chain are, if there is one, and the buffers between them.
struct Rows {
  // A buffer that is never there as a whole. It has an address that nothing can be at.
  struct Buffer {
    int64_t begin, bytes;
    int64_t first, last;  // the steps between which its rows are needed
    int64_t place;        // where they are in the memory of a block of rows
  };
  // A word of a context that is the address of such a buffer, or of a part of it.
  struct Place {
    int64_t word;
    size_t buffer;
  };
  // Loops have `iterations`, which their `rows` share evenly; the last word of their context is how many a task has. A
  // contraction has tiles; its context is a TaskContext.
  struct Step {
    void (*task)(void *, int64_t, int64_t);
    int64_t *context;
    int64_t words, iterations, rows, tile_rows, tile_lanes;
    std::vector<Place> places;
  };

  bool open = false;
  bool batches = false;  // whether a row of the chain is a batch of its contractions
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<void *> kept;  // what contexts point to, freed at the end
  int64_t next = 0;  // the address of the next buffer

  // Adds a buffer, and returns its address.
  void *reserve(size_t bytes);
  // Looks whether a word of the last step's context is the address of a buffer.
  void may_point(int64_t word);
  // Frees `memory` when the chain has been computed.
  void keep(void *memory);
};

// The chain that is open on this thread, or null.
Rows *open_rows();

// Whether an address is that of a buffer of a chain, open or over.
bool is_in_rows(const void *address);

// Adds a contraction, whose context the chain owns from now on.
void add_contraction(Rows &rows, void (*task)(void *, int64_t, int64_t), TaskContext &c, int64_t streams,
                     int64_t tile_rows, int64_t tile_lanes);

}  // namespace numc
