// Ownership of what a run allocates: what it does not return is taken back when it ends, also when it ends by numc_fail.
#pragma once

namespace numc {

struct Block;
struct Run;

// Lets go of `allocated` (a pointer numc_alloc gave): it outlives the run. False if this run does not own such a block.
bool release_from_run(Run &run, void *allocated);

// Lets go of every block of `run`: their addresses went to somebody else.
void release_all(Run &run);

// Frees every large block that `run` still owns.
void free_run(Run &run);

}  // namespace numc
