// x86-64: the same code compiled for AVX-512, for AVX2, and for every processor.
#pragma once

namespace numc::machine {

template <typename F>
__attribute__((target("avx512f,avx512vl,avx512dq"))) auto in_512_bits(F loops) {
  return loops();
}

template <typename F>
__attribute__((target("avx2"))) auto in_256_bits(F loops) {
  return loops();
}

// Returns loops(), whose code, and all that it calls, is inlined: NUMC_INLINED.
template <typename F>
auto vectorised(F loops) {
  static const bool has512 = __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  static const bool has256 = __builtin_cpu_supports("avx2");
  return has512 ? in_512_bits(loops) : has256 ? in_256_bits(loops) : loops();
}

}  // namespace numc::machine
