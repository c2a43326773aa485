// The choices of widths that the current run makes itself.
#pragma once

#include <cstdint>

namespace numc {

// Whether the run has yet to choose the widths of the operand with this number.
bool wants_choice(int64_t slot);
// Chooses them, and those of all operands that are the same tensor, by the sums of the magnitudes of the narrowest values
// and of what the widest ones have beyond them.
void choose(int64_t slot, double kept, double lost);

}  // namespace numc
