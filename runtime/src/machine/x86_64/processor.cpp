// x86-64: the features of the processor.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "machine/processor.hpp"
#include "numc.h"
#include "numc/host.h"

namespace {

// Where CPUID reports a feature. The number of a row is the feature's bit in numc_cpu_features, which program files
// store: append rows only.
struct Feature {
  const char *name;
  unsigned leaf, subleaf;
  char output;     // the register: 'a', 'b', 'c' or 'd' for EAX to EDX
  unsigned bit;
  unsigned state;  // the registers that the operating system must save: 0 none, 1 AVX, 2 AVX-512, 3 AMX
};

constexpr Feature kFeatures[] = {
    {"sse4.1", 1, 0, 'c', 19, 0},      {"sse4.2", 1, 0, 'c', 20, 0},     {"popcnt", 1, 0, 'c', 23, 0},
    {"avx", 1, 0, 'c', 28, 1},         {"avx2", 7, 0, 'b', 5, 1},        {"fma", 1, 0, 'c', 12, 1},
    {"f16c", 1, 0, 'c', 29, 1},        {"bmi", 7, 0, 'b', 3, 0},         {"bmi2", 7, 0, 'b', 8, 0},
    {"lzcnt", 0x80000001, 0, 'c', 5, 0}, {"movbe", 1, 0, 'c', 22, 0},
    {"avx512f", 7, 0, 'b', 16, 2},     {"avx512bw", 7, 0, 'b', 30, 2},   {"avx512dq", 7, 0, 'b', 17, 2},
    {"avx512vl", 7, 0, 'b', 31, 2},    {"avx512cd", 7, 0, 'b', 28, 2},   {"avx512_vnni", 7, 0, 'c', 11, 2},
    {"avx512_bf16", 7, 1, 'a', 5, 2},  {"avx512_fp16", 7, 0, 'd', 23, 2}, {"avx512_vbmi", 7, 0, 'c', 1, 2},
    {"avx512_vbmi2", 7, 0, 'c', 6, 2}, {"avx512_ifma", 7, 0, 'b', 21, 2}, {"avx512_bitalg", 7, 0, 'c', 12, 2},
    {"avx512_vpopcntdq", 7, 0, 'c', 14, 2}, {"gfni", 7, 0, 'c', 8, 0},   {"vaes", 7, 0, 'c', 9, 1},
    {"avx_vnni", 7, 1, 'a', 4, 1},     {"amx_tile", 7, 0, 'd', 24, 3},   {"amx_bf16", 7, 0, 'd', 22, 3},
    {"amx_int8", 7, 0, 'd', 25, 3},    {"sse4a", 0x80000001, 0, 'c', 6, 0},
};
constexpr int kFeatureCount = sizeof kFeatures / sizeof *kFeatures;
static_assert(kFeatureCount <= 64, "the set is one 64-bit word");

uint64_t read_xcr0() {
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

uint64_t detect() {
  unsigned a, b, c, d;
  uint64_t xcr0 = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE)) xcr0 = read_xcr0();
  const uint64_t wanted[] = {0, 0x6, 0xe6, 0x60000};
  uint64_t found = 0;
  for (int i = 0; i < kFeatureCount; ++i) {
    const Feature &f = kFeatures[i];
    if (!__get_cpuid_count(f.leaf, f.subleaf, &a, &b, &c, &d)) continue;
    const unsigned word = f.output == 'a' ? a : f.output == 'b' ? b : f.output == 'c' ? c : d;
    if (((word >> f.bit) & 1) != 0 && (xcr0 & wanted[f.state]) == wanted[f.state]) found |= uint64_t{1} << i;
  }
  return found;
}

}  // namespace

bool numc::machine::may_use(int bit) {
  const bool there = ((numc_cpu_features() >> bit) & 1) != 0;
  return there && (kFeatures[bit].state != 3 || numc_request_amx());
}

extern "C" {

uint64_t numc_cpu_features(void) {
  static const uint64_t features = detect();
  return features;
}

const char *numc_feature_name(int32_t bit) {
  return bit >= 0 && bit < kFeatureCount ? kFeatures[bit].name : nullptr;
}

int32_t numc_request_amx(void) {
  static const bool granted = [] {
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    for (int i = 0; i < kFeatureCount; ++i)
      if (kFeatures[i].state == 3 && kFeatures[i].bit == 24 && !((numc_cpu_features() >> i) & 1)) return false;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return granted;
}
}
