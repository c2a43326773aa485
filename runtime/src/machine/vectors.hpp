// Loops that the compiler makes vectors of, as wide as the processor has them: the bits are the same.
#pragma once

#include <cstdint>

#define NUMC_INLINED __attribute__((always_inline))
#define NUMC_INLINE inline NUMC_INLINED

#if defined(__x86_64__)
#include "machine/x86_64/vectors.hpp"
#elif defined(__aarch64__)
#include "machine/aarch64/vectors.hpp"
#endif

namespace numc::machine {

// Computes multiply-adds on all lanes of as many vectors as keep the processor busy, from and into *out, and returns
// how many: for the roofline of profiles.
int64_t multiply_adds(float *out);

}  // namespace numc::machine
