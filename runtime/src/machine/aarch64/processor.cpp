// AArch64: the features of the processor, as the kernel tells them.
#include "machine/processor.hpp"

#include <sys/auxv.h>

#include "numc.h"
#include "numc/host.h"

namespace {

// Where Linux reports a feature (Documentation/arch/arm64/elf_hwcaps.rst). The number of a row is the feature's bit in
// numc_cpu_features, which program files store: append rows only.
struct Feature {
  const char *name;
  unsigned long entry;
  int bit;
};

constexpr Feature kFeatures[] = {
    {"asimd", AT_HWCAP, 1},    {"atomics", AT_HWCAP, 8}, {"fphp", AT_HWCAP, 9},   {"asimdhp", AT_HWCAP, 10},
    {"asimddp", AT_HWCAP, 20}, {"sve", AT_HWCAP, 22},    {"asimdfhm", AT_HWCAP, 23}, {"sve2", AT_HWCAP2, 1},
    {"i8mm", AT_HWCAP2, 13},   {"bf16", AT_HWCAP2, 14},  {"afp", AT_HWCAP2, 20},
};
constexpr int kFeatureCount = sizeof kFeatures / sizeof *kFeatures;
static_assert(kFeatureCount <= 64, "the set is one 64-bit word");

uint64_t detect() {
  uint64_t found = 0;
  for (int i = 0; i < kFeatureCount; ++i)
    if ((getauxval(kFeatures[i].entry) >> kFeatures[i].bit) & 1) found |= uint64_t{1} << i;
  return found;
}

}  // namespace

bool numc::machine::may_use(int bit) { return ((numc_cpu_features() >> bit) & 1) != 0; }

extern "C" {

uint64_t numc_cpu_features(void) {
  static const uint64_t features = detect();
  return features;
}

const char *numc_feature_name(int32_t bit) {
  return bit >= 0 && bit < kFeatureCount ? kFeatures[bit].name : nullptr;
}

int32_t numc_request_amx(void) { return 0; }
}
