// AArch64: every processor has vectors of 128 bits, which the compiler makes of loops.
#pragma once

namespace numc::machine {

// Returns loops(), whose code, and all that it calls, is inlined: NUMC_INLINED.
template <typename F>
auto vectorised(F loops) {
  return loops();
}

}  // namespace numc::machine
