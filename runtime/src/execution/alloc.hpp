// A run owns the blocks that it allocates. Those that it does not return are freed when it ends, also if it ends by
// numc_fail.
#pragma once

namespace numc {

struct Block;
struct Run;

// Ends the ownership of `allocated`, a pointer from numc_alloc, so that the block outlives the run. Returns false if
// the run does not own it.
bool release_from_run(Run &run, void *allocated);

// Ends the ownership of all blocks of `run`: its caller has their addresses and frees them.
void release_all(Run &run);

// Frees every block that `run` still owns.
void free_run(Run &run);

// Small blocks are in lists: of the Escape they were allocated under, then of the run. Frees those of a list.
void free_small(Block *list);
void move_small(Block *&from, Block *&to);

}  // namespace numc
