// What the processor can do, beside numc_cpu_features of numc.h.
#pragma once

namespace numc::machine {

// Whether this process may use the feature of this bit of numc_cpu_features: the operating system is asked where it wants
// to be.
bool may_use(int bit);

}  // namespace numc::machine
