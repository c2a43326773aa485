// numc_width_of: the widths that a run chose for an operand whose format has open ones.
#include "execution/run.hpp"
#include "numc.h"

extern "C" int64_t numc_width_of(int64_t slot) {
  const numc::Run *const run = numc::current_run;
  if (run == nullptr || static_cast<size_t>(slot) >= run->widths.size()) numc_fail(-1);  // not a run of a program
  return run->widths[static_cast<size_t>(slot)];
}
