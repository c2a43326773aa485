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

// Gives a large block that numc_alloc returned a second owner, so that it is freed when both have called numc_free.
// Returns false if there is no such block, or a second owner already.
bool share(void *allocated);

// Makes `run` one of the owners of a block: it frees the block when it ends, if it has not done so before.
void adopt(Run &run, void *allocated);

// Small blocks are in lists: of the Escape they were allocated under, then of the run. Frees those of a list.
void free_small(Block *list);
void move_small(Block *&from, Block *&to);

}  // namespace numc
